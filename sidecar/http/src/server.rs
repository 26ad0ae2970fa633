//! One listener and what answers there.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::activity::Activity;
use crate::io::WatchedIo;
use crate::places::{Caps, Place, Places};

/// Longest header of a request.
const HEADER_BYTES_MAX: usize = 16 << 10;
/// Pause after an accept error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// How long each step of a connection may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// From the first byte of a request to the end of its header; of the first request, from the connection on.
    pub(crate) header: Duration,
    /// From the end of a header to the answer, with the body of the request.
    pub(crate) request: Duration,
    /// Between two requests.
    pub(crate) idle: Duration,
    /// Without the client reading any of what there is for it.
    pub(crate) stalled: Duration,
}

impl Timeouts {
    /// For probes and metrics.
    pub(crate) const MANAGEMENT: Self = Self {
        header: Duration::from_secs(5),
        request: Duration::from_secs(10),
        idle: Duration::from_secs(75),
        stalled: Duration::from_secs(10),
    };
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Server {
    places: Arc<Places>,
    timeouts: Timeouts,
}

impl Server {
    /// With the bounds for probes and metrics.
    #[must_use]
    pub fn management() -> Self {
        Self { places: Places::new(Caps::MANAGEMENT), timeouts: Timeouts::MANAGEMENT }
    }

    /// Answers at `listener` from `router` until `stop`, and then what was being answered.
    pub async fn serve(&self, listener: TcpListener, router: &Router, stop: CancellationToken) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                // Whatever is over makes room.
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(place) = self.places.admit(peer.ip()) else {
                tracing::debug!(%peer, "one connection too many");
                continue;
            };
            let connection =
                Connection { place, timeouts: self.timeouts, router: router.clone(), stop: stop.clone() };
            // Small messages both ways: waiting to fill packets only adds latency.
            let _ = stream.set_nodelay(true);
            connections.spawn(connection.answer(stream));
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }
}

struct Connection {
    place: Place,
    timeouts: Timeouts,
    router: Router,
    stop: CancellationToken,
}

impl Connection {
    async fn answer(self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let activity = Arc::new(Activity::new(self.timeouts));
        let io = TokioIo::new(WatchedIo::new(io, Arc::clone(&activity)));
        let service = service_fn(|request| self.respond(request, Arc::clone(&activity)));
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEADER_BYTES_MAX).header_read_timeout(None);
        let mut connection = pin!(builder.serve_connection(io, service));
        let mut stopping = false;
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection failed");
                    }
                    return;
                }
                () = activity.overdue() => return tracing::debug!("connection took too long"),
                () = self.place.evicted() => return tracing::debug!("connection gave its place to another"),
                () = self.stop.cancelled(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        activity: Arc<Activity>,
    ) -> Result<Response<Body>, Infallible> {
        activity.request_begun();
        let answer = self.router.clone().oneshot(request.map(Body::new));
        let response = match timeout(self.timeouts.request, answer).await {
            Ok(answered) => answered?,
            Err(_) => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::REQUEST_TIMEOUT;
                response
            }
        };
        activity.request_over();
        Ok(response)
    }
}

#[cfg(test)]
mod tests;
