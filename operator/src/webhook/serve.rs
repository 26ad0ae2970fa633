//! HTTPS for the API server: bounded connections, bodies and concurrency, an answer in time or none.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Pod;
use kube::core::admission::{
    AdmissionRequest, AdmissionResponse, AdmissionReview, ConvertAdmissionReviewError,
};
use kube::core::{DynamicObject, Resource};
use sealane_http::{Secure, Server};
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::mutate::Mutator;
use super::resources::Validator;
use super::review::{ReviewMemory, ReviewRefused};
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
    pods: Share,
    resources: Share,
}

/// What reviews of one kind have.
#[derive(Debug)]
struct Share {
    running: Semaphore,
    memory: ReviewMemory,
}

impl Share {
    fn new(reviews: usize) -> Self {
        Self { running: Semaphore::new(reviews), memory: ReviewMemory::new() }
    }
}

/// What is answered in place of a review.
type Refusal = (StatusCode, String);

impl Webhooks {
    #[must_use]
    pub fn new(mutator: Mutator, validator: Validator) -> Self {
        Self {
            mutator,
            validator,
            pods: Share::new(POD_REVIEWS_MAX),
            resources: Share::new(RESOURCE_REVIEWS_MAX),
        }
    }

    /// Decodes one review and runs it within the bounds.
    async fn bounded<T: Resource + DeserializeOwned>(
        &self,
        webhook: Webhook,
        body: &[u8],
        review: impl AsyncFnOnce(&AdmissionRequest<T>) -> AdmissionResponse,
    ) -> Result<Json<AdmissionReview<DynamicObject>>, Refusal> {
        let metrics = self.mutator.metrics();
        let share = match webhook {
            Webhook::Pod => &self.pods,
            Webhook::Resource => &self.resources,
        };
        let overloaded = |status: StatusCode, why: String| {
            metrics.reviewed(webhook, Verdict::Overloaded);
            tracing::warn!(?webhook, %why, "a review was refused");
            (status, why)
        };
        let _room = share.memory.admit(body).await.map_err(|refused| match refused {
            ReviewRefused::TooLarge { .. } => overloaded(StatusCode::PAYLOAD_TOO_LARGE, refused.to_string()),
            ReviewRefused::Busy => overloaded(StatusCode::TOO_MANY_REQUESTS, refused.to_string()),
        })?;
        let decoded: Json<AdmissionReview<T>> =
            Json::from_bytes(body).map_err(|error| (error.status(), error.body_text()))?;
        let request: AdmissionRequest<T> = decoded
            .0
            .try_into()
            .map_err(|error: ConvertAdmissionReviewError| (StatusCode::BAD_REQUEST, error.to_string()))?;
        let Ok(_permit) = share.running.try_acquire() else {
            return Err(overloaded(StatusCode::TOO_MANY_REQUESTS, ReviewRefused::Busy.to_string()));
        };
        let Ok(response) = tokio::time::timeout(REVIEW_TIME, review(&request)).await else {
            metrics.reviewed(webhook, Verdict::TimedOut);
            return Err((StatusCode::GATEWAY_TIMEOUT, "the review took too long".to_owned()));
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
    body: Bytes,
) -> Result<Json<AdmissionReview<DynamicObject>>, Refusal> {
    let review = async |request: &AdmissionRequest<Pod>| webhooks.mutator.review(request).await;
    // In a box, for it holds the pod.
    Box::pin(webhooks.bounded(Webhook::Pod, &body, review)).await
}

async fn review_resource(
    State(webhooks): State<Arc<Webhooks>>,
    body: Bytes,
) -> Result<Json<AdmissionReview<DynamicObject>>, Refusal> {
    let review = async |request: &AdmissionRequest<DynamicObject>| webhooks.validator.review(request).await;
    Box::pin(webhooks.bounded(Webhook::Resource, &body, review)).await
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
