//! `/startupz`, `/healthz`, `/readyz` and `/metrics`, on a thread of their own: an overloaded data plane must not
//! look dead.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

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

type Shared = (Arc<Health>, Arc<Gauges>);

/// Serves from a thread with its own runtime until the process ends. Returns the bound address.
///
/// # Errors
/// [`AdminError`].
pub(crate) fn serve(
    address: SocketAddr,
    health: Arc<Health>,
    gauges: Arc<Gauges>,
) -> Result<SocketAddr, AdminError> {
    let listener =
        crate::link::listen::bind(address).map_err(|source| AdminError::Listen { address, source })?;
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
                .route("/metrics", get(render))
                .with_state((health, gauges));
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "probes and metrics are no longer served");
            }
        });
    };
    std::thread::Builder::new().name("admin".to_owned()).spawn(serve).map_err(AdminError::Thread)?;
    Ok(bound)
}

async fn startup(State((health, _)): State<Shared>) -> impl IntoResponse {
    if health.started.load(Ordering::Acquire) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting\n")
    }
}

/// Readiness never depends on operator, policy or peers: a pod that serves others must not leave its Services because
/// of a stream. Only draining ends it.
async fn readiness(State((health, _)): State<Shared>) -> impl IntoResponse {
    if health.started.load(Ordering::Acquire) && !health.draining.load(Ordering::Acquire) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}

async fn render(State((_, gauges)): State<Shared>) -> impl IntoResponse {
    match gauges.render() {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "metrics cannot be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
