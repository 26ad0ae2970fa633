//! HTTPS for the API server: bounded connections, bodies and concurrency, an answer in time or none.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Pod;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};
use sealane_http::{Secure, Server};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::mutate::Mutator;
use super::resources::Validator;
use crate::limits::{POD_REVIEWS_MAX, RESOURCE_REVIEWS_MAX, REVIEW_BYTES_MAX, REVIEW_TIME, WEBHOOK_BOUNDS};
use crate::metrics::{Verdict, Webhook};

/// A replica that ends is asked until every proxy on the way has heard of it, and a webhook that fails closed has to
/// answer.
const LINGER: Duration = Duration::from_secs(5);

/// What the webhook endpoints share.
#[derive(Debug)]
pub struct Webhooks {
    mutator: Mutator,
    validator: Validator,
    pods: Semaphore,
    resources: Semaphore,
}

impl Webhooks {
    #[must_use]
    pub const fn new(mutator: Mutator, validator: Validator) -> Self {
        Self {
            mutator,
            validator,
            pods: Semaphore::const_new(POD_REVIEWS_MAX),
            resources: Semaphore::const_new(RESOURCE_REVIEWS_MAX),
        }
    }

    /// Runs one review within the bounds.
    async fn bounded(
        &self,
        webhook: Webhook,
        review: impl Future<Output = AdmissionResponse>,
    ) -> Result<Json<AdmissionReview<DynamicObject>>, StatusCode> {
        let metrics = self.mutator.metrics();
        let running = match webhook {
            Webhook::Pod => &self.pods,
            Webhook::Resource => &self.resources,
        };
        let Ok(_permit) = running.try_acquire() else {
            metrics.reviewed(webhook, Verdict::Overloaded);
            return Err(StatusCode::TOO_MANY_REQUESTS);
        };
        let Ok(response) = tokio::time::timeout(REVIEW_TIME, review).await else {
            metrics.reviewed(webhook, Verdict::TimedOut);
            return Err(StatusCode::GATEWAY_TIMEOUT);
        };
        metrics.reviewed(webhook, verdict(&response));
        Ok(Json(response.into_review()))
    }
}

/// Serves `sources`, or everybody if there are none, until [`LINGER`] after `stop`; then lets reviews in progress finish.
pub async fn serve(
    listener: TcpListener,
    secure: impl Secure,
    sources: Vec<IpNet>,
    webhooks: Arc<Webhooks>,
    stop: CancellationToken,
) {
    let (server, router, ended) =
        (Server::new(WEBHOOK_BOUNDS).only(sources), router(webhooks), CancellationToken::new());
    let lingering = async {
        stop.cancelled().await;
        tokio::time::sleep(LINGER).await;
        ended.cancel();
    };
    tokio::join!(server.serve_secured(listener, &secure, &router, ended.clone()), lingering);
}

fn router(webhooks: Arc<Webhooks>) -> Router {
    Router::new()
        .route("/mutate-pod", post(mutate))
        .route("/validate", post(review_resource))
        .layer(DefaultBodyLimit::max(REVIEW_BYTES_MAX))
        .with_state(webhooks)
}

async fn mutate(
    State(webhooks): State<Arc<Webhooks>>,
    Json(review): Json<AdmissionReview<Pod>>,
) -> Result<Json<AdmissionReview<DynamicObject>>, StatusCode> {
    let request: AdmissionRequest<Pod> = review.try_into().map_err(|_| StatusCode::BAD_REQUEST)?;
    webhooks.bounded(Webhook::Pod, webhooks.mutator.review(&request)).await
}

async fn review_resource(
    State(webhooks): State<Arc<Webhooks>>,
    Json(review): Json<AdmissionReview<DynamicObject>>,
) -> Result<Json<AdmissionReview<DynamicObject>>, StatusCode> {
    let request: AdmissionRequest<DynamicObject> = review.try_into().map_err(|_| StatusCode::BAD_REQUEST)?;
    webhooks.bounded(Webhook::Resource, webhooks.validator.review(&request)).await
}

fn verdict(response: &AdmissionResponse) -> Verdict {
    match (response.allowed, &response.warnings) {
        (false, _) => Verdict::Denied,
        (true, Some(warnings)) if !warnings.is_empty() => Verdict::Warned,
        (true, _) => Verdict::Allowed,
    }
}

#[cfg(test)]
mod tests;
