//! `/startupz`, `/healthz`, `/readyz` and `/metrics`, on a thread of their own: an overloaded data plane must not
//! look dead.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use sealane_http::{Bounds, MetricsPages, Server};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::gauges::Gauges;

/// What the probes answer from.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Configuration parsed, door and data port listening.
    pub(crate) started: AtomicBool,
    /// Draining: no new work, please.
    pub(crate) draining: AtomicBool,
}

/// The admin port cannot be opened, or its thread not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminError {
    #[error("cannot listen on {address} for probes and metrics; set SEALANE_ADMIN_PORT to a free port")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("the thread for probes and metrics cannot be started")]
    Thread(#[source] std::io::Error),
}

type Shared = (Arc<Health>, Arc<Gauges>, Arc<MetricsPages>);

/// Serves from a thread with its own runtime until the process ends, at `preferred` if that port is free. Returns the bound
/// address.
///
/// # Errors
/// [`AdminError`].
pub(crate) fn serve(
    address: SocketAddr,
    preferred: Option<u16>,
    health: Arc<Health>,
    gauges: Arc<Gauges>,
) -> Result<SocketAddr, AdminError> {
    let listener = listen(address, preferred).map_err(|source| AdminError::Listen { address, source })?;
    let bound = listener.local_addr().map_err(|source| AdminError::Listen { address, source })?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(AdminError::Thread)?;
    let serve = move || {
        runtime.block_on(async move {
            let listener = match TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => return tracing::error!(%error, "probes and metrics are not served"),
            };
            let router = Router::new()
                .route("/startupz", get(startup))
                .route("/healthz", get(|| async { "ok\n" }))
                .route("/readyz", get(readiness))
                .route("/metrics", get(metrics))
                .with_state((health, gauges, Arc::default()));
            // As long as the process lives.
            Server::new(Bounds::MANAGEMENT).serve(listener, &router, CancellationToken::new()).await;
        });
    };
    std::thread::Builder::new().name("admin".to_owned()).spawn(serve).map_err(AdminError::Thread)?;
    Ok(bound)
}

/// On the host's network the preferred port may be another process's; metrics at one that Prometheus does not know are better
/// than a pod that does not start.
fn listen(address: SocketAddr, preferred: Option<u16>) -> std::io::Result<std::net::TcpListener> {
    if let Some(port) = preferred {
        match crate::link::listen::bind(SocketAddr::new(address.ip(), port)) {
            Ok(listener) => return Ok(listener),
            Err(error) => {
                tracing::warn!(port, %error, "metrics are served at another port, where Prometheus does not find them");
            }
        }
    }
    crate::link::listen::bind(address)
}

async fn startup(State((health, ..)): State<Shared>) -> impl IntoResponse {
    if health.started.load(Ordering::Acquire) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting\n")
    }
}

/// Readiness never depends on operator, policy or peers: a pod that serves others must not leave its Services because
/// of a stream. Only draining ends it.
async fn readiness(State((health, ..)): State<Shared>) -> impl IntoResponse {
    if health.started.load(Ordering::Acquire) && !health.draining.load(Ordering::Acquire) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}

async fn metrics(State((_, gauges, pages)): State<Shared>) -> impl IntoResponse {
    pages.answer(|| gauges.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preferred_port_is_taken_where_it_is_free_and_left_where_it_is_not() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let holder = std::net::TcpListener::bind(any).unwrap();
        let port = holder.local_addr().unwrap().port();
        let other = listen(any, Some(port)).unwrap().local_addr().unwrap().port();
        assert!(other != port && other != 0);
        drop(holder);
        assert_eq!(listen(any, Some(port)).unwrap().local_addr().unwrap().port(), port);
        assert_ne!(listen(any, None).unwrap().local_addr().unwrap().port(), 0);
    }
}
