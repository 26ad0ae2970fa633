//! One listener and what answers there.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::activity::Activity;
use crate::bounds::Bounds;
use crate::io::WatchedIo;
use crate::places::{Place, Places};

/// Longest header of a request.
const HEADER_BYTES_MAX: usize = 16 << 10;
/// In such blocks a body is kept until it is whole.
const BLOCK_BYTES: usize = 16 << 10;
/// A notice that anybody can bring about is given this often at most.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);
/// Pause after an accept error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// What a connection goes through before HTTP is spoken.
pub trait Secure: Clone + Send + Sync + 'static {
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The connection as HTTP is spoken on it.
    fn secure(&self, stream: TcpStream) -> impl Future<Output = io::Result<Self::Io>> + Send;
}

/// HTTP without TLS.
#[derive(Debug, Clone, Copy)]
struct Plain;

impl Secure for Plain {
    type Io = TcpStream;

    async fn secure(&self, stream: TcpStream) -> io::Result<TcpStream> {
        Ok(stream)
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Server {
    bounds: Bounds,
    connections: Arc<Places>,
    bodies: Arc<Places>,
    sources: Vec<IpNet>,
}

impl Server {
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let (connections, bodies) = (Places::new(bounds.connections), Places::new(bounds.bodies));
        Self { bounds, connections, bodies, sources: Vec::new() }
    }

    /// Only `sources` may connect; without any, everybody may.
    #[must_use]
    pub fn only(mut self, sources: Vec<IpNet>) -> Self {
        self.sources = sources;
        self
    }

    /// Answers HTTP at `listener` from `router` until `stop`, and then what was being answered.
    pub async fn serve(&self, listener: TcpListener, router: &Router, stop: CancellationToken) {
        self.serve_secured(listener, &Plain, router, stop).await;
    }

    /// The same, with `secure` before HTTP is spoken.
    pub async fn serve_secured(
        &self,
        listener: TcpListener,
        secure: &impl Secure,
        router: &Router,
        stop: CancellationToken,
    ) {
        let mut connections = JoinSet::new();
        let mut strangers = Notices::default();
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
            let source = peer.ip().to_canonical();
            if !self.sources.is_empty() && !self.sources.iter().any(|range| range.contains(&source)) {
                // Whoever forgot an address of their API servers has to find it, and whoever floods must not fill the log.
                if strangers.next() {
                    tracing::warn!(%peer, "a connection was refused: no source that may connect");
                }
                continue;
            }
            let place = match self.connections.admit(source, 1) {
                Ok(place) => place,
                Err(refused) => {
                    tracing::debug!(%peer, ?refused, "one connection too many");
                    continue;
                }
            };
            // Small messages both ways: waiting to fill packets only adds latency.
            let _ = stream.set_nodelay(true);
            let connection = Connection {
                place,
                bounds: self.bounds,
                bodies: Arc::clone(&self.bodies),
                router: router.clone(),
                stop: stop.clone(),
            };
            connections.spawn(connection.secured(secure.clone(), stream));
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }
}

/// Notices of one kind, of which few are given.
#[derive(Debug, Default)]
struct Notices(Option<Instant>);

impl Notices {
    /// Whether the next one may be given.
    fn next(&mut self) -> bool {
        let now = Instant::now();
        if self.0.is_some_and(|last| now.duration_since(last) < NOTICE_INTERVAL) {
            return false;
        }
        self.0 = Some(now);
        true
    }
}

struct Connection {
    place: Place,
    bounds: Bounds,
    bodies: Arc<Places>,
    router: Router,
    stop: CancellationToken,
}

impl Connection {
    async fn secured(self, secure: impl Secure, stream: TcpStream) {
        let activity = Arc::new(Activity::new(self.bounds.timeouts));
        let io = tokio::select! {
            io = secure.secure(stream) => io,
            () = activity.overdue() => return tracing::debug!("handshake took too long"),
            () = self.place.evicted() => return tracing::debug!("connection gave its place to another"),
            () = self.stop.cancelled() => return,
        };
        match io {
            Ok(io) => self.answer(io, activity).await,
            Err(error) => tracing::debug!(source = %self.place.source(), %error, "handshake failed"),
        }
    }

    async fn answer(self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, activity: Arc<Activity>) {
        activity.established();
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
        let answer = timeout(self.bounds.timeouts.request, self.bounded(request));
        let response = answer.await.unwrap_or_else(|_| Err(StatusCode::REQUEST_TIMEOUT));
        activity.request_over();
        Ok(response.unwrap_or_else(|status| {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = status;
            // What there is of the body stays where it is.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            response
        }))
    }

    /// Has the router answer once there is room for the body.
    async fn bounded(&self, request: Request<Incoming>) -> Result<Response<Body>, StatusCode> {
        let Some(kib) = self.body_kib(request.body()) else { return Err(StatusCode::PAYLOAD_TOO_LARGE) };
        if kib == 0 {
            return self.answered(request.map(|_| Body::empty())).await;
        }
        let room = self.bodies.admitted(self.place.source(), kib).await;
        let answer = async {
            let (head, body) = request.into_parts();
            let body = collected(body, kib << 10).await?;
            self.answered(Request::from_parts(head, Body::from(body))).await
        };
        tokio::select! {
            answered = answer => answered,
            () = room.evicted() => Err(StatusCode::SERVICE_UNAVAILABLE),
        }
    }

    async fn answered(&self, request: Request<Body>) -> Result<Response<Body>, StatusCode> {
        self.router.clone().oneshot(request).await.map_err(|never| match never {})
    }

    /// What the body of a request may come to; `None` where that is more than one source may have.
    fn body_kib(&self, body: &Incoming) -> Option<usize> {
        let most = self.bounds.bodies.per_source;
        if body.is_end_stream() {
            return Some(0);
        }
        let Some(bytes) = body.size_hint().exact() else { return (most > 0).then_some(most) };
        usize::try_from(bytes.div_ceil(1 << 10)).ok().filter(|kib| *kib <= most)
    }
}

/// A body of at most `most` bytes in one piece: pieces as a client cuts them may cost many times what they hold. It is put
/// together once it is there, lest those that never are leave large holes in the heap.
async fn collected(mut body: Incoming, most: usize) -> Result<Vec<u8>, StatusCode> {
    let (mut blocks, mut taken) = (Vec::<Vec<u8>>::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| StatusCode::BAD_REQUEST)?;
        let Some(mut data) = frame.data_ref().map(|data| data.as_ref()) else { continue };
        taken = taken.saturating_add(data.len());
        if taken > most {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        while !data.is_empty() {
            match blocks.last_mut().filter(|block| block.len() < BLOCK_BYTES) {
                Some(block) => {
                    let (now, later) = data.split_at(data.len().min(BLOCK_BYTES.saturating_sub(block.len())));
                    block.extend_from_slice(now);
                    data = later;
                }
                None => blocks.push(Vec::with_capacity(BLOCK_BYTES)),
            }
        }
    }
    Ok(blocks.concat())
}

#[cfg(test)]
mod tests;
