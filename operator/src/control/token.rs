//! From a token review to the pod that holds the token. Pure.

use k8s_openapi::api::authentication::v1::TokenReviewStatus;
use sealane_operator_api::well_known::CONTROL_AUDIENCE;
use sealane_types::{InvalidName, PodIdentity};

/// Keys that the API server adds for tokens bound to a pod.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// Why a token does not say which pod is calling.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the token is not valid")]
    NotAuthenticated,
    #[error("the token is not for the audience {CONTROL_AUDIENCE}")]
    Audience,
    #[error("the token does not belong to a service account")]
    NotAServiceAccount,
    #[error("the token is not bound to a pod")]
    NotBound,
    #[error(transparent)]
    Name(#[from] InvalidName),
}

/// The pod that a reviewed token is bound to.
///
/// # Errors
/// [`TokenError`] says what the review lacks.
pub fn identify(status: &TokenReviewStatus) -> Result<PodIdentity, TokenError> {
    if status.authenticated != Some(true) {
        return Err(TokenError::NotAuthenticated);
    }
    // An API server that does not know audiences returns none: that is not ours.
    let audiences = status.audiences.as_deref().unwrap_or_default();
    if !audiences.iter().any(|audience| audience == CONTROL_AUDIENCE) {
        return Err(TokenError::Audience);
    }
    let user = status.user.as_ref().ok_or(TokenError::NotAuthenticated)?;
    let namespace = user
        .username
        .as_deref()
        .and_then(|name| name.strip_prefix("system:serviceaccount:"))
        .and_then(|name| name.split(':').next())
        .ok_or(TokenError::NotAServiceAccount)?;
    let extra = |key: &str| {
        let values = user.extra.as_ref()?.get(key)?;
        let [value] = values.as_slice() else { return None };
        Some(value.as_str())
    };
    let (pod, uid) = extra(POD_NAME).zip(extra(POD_UID)).ok_or(TokenError::NotBound)?;
    Ok(PodIdentity::new(namespace, pod, uid)?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn review(change: impl FnOnce(&mut Value)) -> Result<PodIdentity, TokenError> {
        let mut status = json!({
            "authenticated": true,
            "audiences": [CONTROL_AUDIENCE],
            "user": {
                "username": "system:serviceaccount:demo:default",
                "extra": {POD_NAME: ["embedder-0"], POD_UID: ["6b5e"]},
            },
        });
        change(&mut status);
        identify(&serde_json::from_value(status).unwrap())
    }

    #[test]
    fn a_bound_token_of_our_audience_names_its_pod() {
        assert_eq!(review(|_| ()).unwrap().as_str(), "demo/embedder-0/6b5e");
    }

    #[test]
    fn everything_less_is_refused() {
        let refused = |change: fn(&mut Value)| review(change).unwrap_err();
        assert_eq!(refused(|status| status["authenticated"] = json!(false)), TokenError::NotAuthenticated);
        assert_eq!(refused(|status| status["authenticated"] = json!(null)), TokenError::NotAuthenticated);
        assert_eq!(
            refused(|status| status["audiences"] = json!(["https://kubernetes"])),
            TokenError::Audience
        );
        assert_eq!(refused(|status| status["audiences"] = json!(null)), TokenError::Audience);
        assert_eq!(
            refused(|status| status["user"]["username"] = json!("alice")),
            TokenError::NotAServiceAccount
        );
        assert_eq!(refused(|status| status["user"]["extra"] = json!({})), TokenError::NotBound);
        assert_eq!(
            refused(|status| status["user"]["extra"][POD_UID] = json!(["6b5e", "other"])),
            TokenError::NotBound
        );
        assert!(matches!(
            refused(|status| status["user"]["extra"][POD_NAME] = json!(["a/b"])),
            TokenError::Name(_)
        ));
    }
}
