//! Asks the webhooks something, so that certificate, endpoint and answer are all tried. Nothing is stored.

use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use sealane_operator_api::{Peer, well_known};
use serde_json::json;

use crate::cluster::words;

/// How a webhook answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// As it should.
    Right,
    /// The API server did not reach it, in the API server's words.
    NotReached(String),
    /// It was not asked, or let pass what it should not.
    Bypassed(String),
    /// Whether it works cannot be told.
    Untried(String),
}

/// Tells apart why a request for a webhook came to nothing.
fn failed(error: &kube::Error) -> Answer {
    let words = words(error);
    if words.contains("failed calling webhook") { Answer::NotReached(words) } else { Answer::Untried(words) }
}

const fn dry_run() -> PostParams {
    PostParams { dry_run: true, field_manager: None }
}

/// Asks for a Peer that only the webhook can refuse.
pub(super) async fn validation(client: &Client, namespace: &str) -> Answer {
    let spec =
        json!({"selector": {"matchLabels": {"app": "no label value"}}, "trustPolicyRef": {"name": "check"}});
    let Ok(spec) = serde_json::from_value(spec) else {
        return Answer::Untried("the question cannot be put".to_owned());
    };
    let peers: Api<Peer> = Api::namespaced(client.clone(), namespace);
    match peers.create(&dry_run(), &Peer::new("sealane-check", spec)).await {
        Ok(_) => Answer::Bypassed("a Peer with an impossible selector was admitted".to_owned()),
        Err(error) if words(&error).contains("denied the request: sealane: ") => Answer::Right,
        Err(error) => failed(&error),
    }
}

/// Asks for a pod that should come back with a sidecar. It satisfies the restricted pod security standard.
pub(super) async fn injection(client: &Client, namespace: &str) -> Answer {
    let pod = json!({
        "metadata": {"name": "sealane-check", "labels": {(well_known::INJECT_LABEL): "true"}},
        "spec": {
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "check", "image": "check",
                // A quota of the namespace may ask for them.
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "10m", "memory": "16Mi"}},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    });
    let Ok(pod) = serde_json::from_value::<Pod>(pod) else {
        return Answer::Untried("the question cannot be put".to_owned());
    };
    match Api::<Pod>::namespaced(client.clone(), namespace).create(&dry_run(), &pod).await {
        Ok(pod) if super::workloads::has_sidecar(&pod) => Answer::Right,
        Ok(_) => Answer::Bypassed(format!("a pod of namespace {namespace} came back without a sidecar")),
        Err(error) if refused_by_room(&words(&error)) => Answer::Right,
        Err(error) => failed(&error),
    }
}

/// Whether a pod was refused for want of room: by the webhook, or by the quota, which is asked last of all.
fn refused_by_room(words: &str) -> bool {
    words.contains("denied the request: sealane: ") || words.contains("exceeded quota")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_without_room_says_nothing_against_the_webhook() {
        let webhook =
            "admission webhook \"inject.sealane.dev\" denied the request: sealane: ResourceQuota `q` has 0";
        assert!(refused_by_room(webhook));
        assert!(refused_by_room(
            "pods \"sealane-check\" is forbidden: exceeded quota: q, requested: cpu=60m"
        ));
        assert!(!refused_by_room("failed calling webhook \"inject.sealane.dev\": connection refused"));
        assert!(!refused_by_room("pods is forbidden: User \"u\" cannot create resource \"pods\""));
    }
}
