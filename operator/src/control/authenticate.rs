//! Who is calling: a token review, then a look at the pod.

use std::future::Future;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use sealane_operator_api::well_known::CONTROL_AUDIENCE;
use sealane_types::PodIdentity;
use tokio::sync::Semaphore;

use super::token::{TokenError, identify};
use crate::limits::TOKEN_REVIEWS_MAX;

/// Longest bearer token that is sent for review.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Why a caller is turned away.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticationError {
    /// The caller's fault.
    #[error("no bearer token")]
    NoToken,
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("pod {0} does not exist any more")]
    PodGone(PodIdentity),
    /// The environment's fault: worth another try.
    #[error("the API server cannot be asked")]
    Unavailable(#[source] Box<kube::Error>),
}

/// What authentication asks the cluster. A trait, so that the rules can be tested without one.
pub trait Cluster: Send + Sync + 'static {
    /// Reviews a token for our audience.
    fn review(&self, token: &str) -> impl Future<Output = Result<TokenReviewStatus, kube::Error>> + Send;
    /// The pod as the API server has it now.
    fn pod(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<Pod>, kube::Error>> + Send;
}

impl Cluster for Client {
    async fn review(&self, token: &str) -> Result<TokenReviewStatus, kube::Error> {
        let review = TokenReview {
            metadata: ObjectMeta::default(),
            spec: TokenReviewSpec {
                audiences: Some(vec![CONTROL_AUDIENCE.to_owned()]),
                token: token.to_owned(),
            },
            status: None,
        };
        let reviewed = Api::<TokenReview>::all(self.clone()).create(&PostParams::default(), &review).await?;
        Ok(reviewed.status.unwrap_or_default())
    }

    async fn pod(&self, namespace: &str, name: &str) -> Result<Option<Pod>, kube::Error> {
        Api::<Pod>::namespaced(self.clone(), namespace).get_opt(name).await
    }
}

/// Turns bearer tokens into pods, a bounded number at a time.
#[derive(Debug)]
pub struct Authenticator<C> {
    cluster: C,
    running: Semaphore,
}

impl<C: Cluster> Authenticator<C> {
    #[must_use]
    pub const fn new(cluster: C) -> Self {
        Self { cluster, running: Semaphore::const_new(TOKEN_REVIEWS_MAX) }
    }

    /// The live pod that holds the token in an `authorization` header.
    ///
    /// # Errors
    /// [`AuthenticationError`].
    pub async fn authenticate(&self, header: Option<&str>) -> Result<PodIdentity, AuthenticationError> {
        let token = header
            .and_then(|header| header.strip_prefix("Bearer "))
            .filter(|token| !token.is_empty() && token.len() <= TOKEN_BYTES_MAX)
            .ok_or(AuthenticationError::NoToken)?;
        // The semaphore is never closed; if it were, going on unbounded would still be right.
        let _permit = self.running.acquire().await.ok();
        let unavailable = |error| AuthenticationError::Unavailable(Box::new(error));
        let identity = identify(&self.cluster.review(token).await.map_err(unavailable)?)?;
        let pod = self.cluster.pod(identity.namespace(), identity.pod()).await.map_err(unavailable)?;
        if pod.is_some_and(|pod| is_alive(&pod, &identity)) {
            Ok(identity)
        } else {
            Err(AuthenticationError::PodGone(identity))
        }
    }
}

/// The very pod of the token, not a successor of the same name, and not finished.
fn is_alive(pod: &Pod, identity: &PodIdentity) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.uid.as_deref() == Some(identity.uid()) && !matches!(phase, Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Fake {
        pod: Option<serde_json::Value>,
    }

    impl Cluster for Fake {
        async fn review(&self, token: &str) -> Result<TokenReviewStatus, kube::Error> {
            Ok(serde_json::from_value(json!({
                "authenticated": token == "good", "audiences": [CONTROL_AUDIENCE],
                "user": {"username": "system:serviceaccount:demo:default", "extra": {
                    "authentication.kubernetes.io/pod-name": ["embedder-0"],
                    "authentication.kubernetes.io/pod-uid": ["6b5e"],
                }},
            }))
            .unwrap())
        }

        async fn pod(&self, namespace: &str, name: &str) -> Result<Option<Pod>, kube::Error> {
            assert_eq!((namespace, name), ("demo", "embedder-0"));
            Ok(self.pod.clone().map(|pod| serde_json::from_value(pod).unwrap()))
        }
    }

    async fn ask(
        header: Option<&str>,
        pod: Option<serde_json::Value>,
    ) -> Result<PodIdentity, AuthenticationError> {
        Authenticator::new(Fake { pod }).authenticate(header).await
    }

    fn live() -> Option<serde_json::Value> {
        Some(json!({"metadata": {"uid": "6b5e"}, "status": {"phase": "Running"}}))
    }

    #[tokio::test]
    async fn a_live_pod_with_a_good_token_is_let_in() {
        assert_eq!(ask(Some("Bearer good"), live()).await.unwrap().pod(), "embedder-0");
    }

    #[tokio::test]
    async fn bad_tokens_are_turned_away() {
        for header in [None, Some("good"), Some("Basic good"), Some("Bearer ")] {
            assert!(matches!(ask(header, live()).await, Err(AuthenticationError::NoToken)), "{header:?}");
        }
        let long = format!("Bearer {}", "x".repeat(TOKEN_BYTES_MAX + 1));
        assert!(matches!(ask(Some(&long), live()).await, Err(AuthenticationError::NoToken)));
        assert!(matches!(ask(Some("Bearer bad"), live()).await, Err(AuthenticationError::Token(_))));
    }

    #[tokio::test]
    async fn a_token_outlives_its_pod_but_opens_nothing() {
        let gone = [
            None,
            Some(json!({"metadata": {"uid": "other"}})),
            Some(json!({"metadata": {"uid": "6b5e"}, "status": {"phase": "Succeeded"}})),
            Some(json!({"metadata": {"uid": "6b5e"}, "status": {"phase": "Failed"}})),
        ];
        for pod in gone {
            assert!(matches!(ask(Some("Bearer good"), pod).await, Err(AuthenticationError::PodGone(_))));
        }
    }
}
