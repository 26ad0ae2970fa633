//! Health and metrics over plain HTTP, for kubelet and Prometheus.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use sealane_http::{Bounds, MetricsPages, Server};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::certificates::Resolver;
use crate::metrics::Metrics;

/// What the answers depend on.
#[derive(Debug, Clone)]
pub struct Admin {
    pub resolver: Arc<Resolver>,
    /// Empty until the webhook configurations hold the authorities.
    pub authorities: watch::Receiver<Arc<str>>,
    pub metrics: Arc<Metrics>,
}

impl Admin {
    /// Whether pods can be admitted through this replica.
    fn is_ready(&self) -> bool {
        self.resolver.is_loaded() && !self.authorities.borrow().is_empty()
    }
}

/// Serves until `stop`.
pub async fn serve(listener: TcpListener, admin: Admin, stop: CancellationToken) {
    Server::new(Bounds::MANAGEMENT).serve(listener, &router(admin), stop).await;
}

fn router(admin: Admin) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state((admin, Arc::default()))
}

type Shared = (Admin, Arc<MetricsPages>);

async fn ready(State((admin, _)): State<Shared>) -> (StatusCode, &'static str) {
    if admin.is_ready() {
        (StatusCode::OK, "ok")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the webhook configurations do not hold this operator's authorities yet",
        )
    }
}

async fn metrics(State((admin, pages)): State<Shared>) -> Response {
    admin.metrics.certificate(admin.resolver.expires());
    pages.answer(|| admin.metrics.expose())
}
