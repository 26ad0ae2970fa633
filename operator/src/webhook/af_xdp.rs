//! Whether a sidecar takes hold of its node's network device, for sessions with carrier AfXdp. Pure.
//!
//! A container's added capabilities are effective for uid 0 alone, so such a sidecar begins as uid 0; it gives all of
//! them up before it does anything else.

use k8s_openapi::api::core::v1::PodSpec;
use sealane_injection::{CAPABILITIES, has_sidecar, on_host_network};
use sealane_operator_api::{CarrierChoice, TransferSession};
use sealane_types::PeerName;

/// How strictly the API server judges the pods of a namespace (Pod Security Admission); absent is the cluster's own default.
pub(super) const POD_SECURITY_LABEL: &str = "pod-security.kubernetes.io/enforce";
/// The level that forbids nothing.
const PERMISSIVE: &str = "privileged";

/// The namespace does not admit such a sidecar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "TransferSession `{session}` has carrier AfXdp, for which the sidecar of a pod on the host's network begins as uid 0 with the capabilities {}; namespace `{namespace}` forbids them ({POD_SECURITY_LABEL}: {level}). Either label the namespace `privileged`, or set the session's spec.carrier to Udp",
    CAPABILITIES.join(", ")
)]
pub struct Forbidden {
    session: String,
    namespace: String,
    level: String,
}

/// Whether it is a question at all: only where the pod has the node's devices, and has no sidecar yet.
#[must_use]
pub fn is_open(spec: &PodSpec) -> bool {
    on_host_network(spec) && !has_sidecar(spec)
}

/// The first of `sessions` that asks for AF_XDP at the replicas of `peer`.
#[must_use]
pub fn asked_by<'a>(peer: &PeerName, sessions: &'a [TransferSession]) -> Option<&'a str> {
    let asking = sessions.iter().find(|session| {
        let mut ends = std::iter::once(&session.spec.from).chain(&session.spec.to);
        session.spec.carrier == CarrierChoice::AfXdp && ends.any(|end| end.peer == peer.as_str())
    });
    asking.map(|session| session.metadata.name.as_deref().unwrap_or_default())
}

/// Whether a namespace that enforces `level` admits the sidecar. The API server takes a level that it does not know for
/// the strictest.
///
/// # Errors
/// [`Forbidden`], which says it before the API server refuses the pod with other words.
pub fn admits(session: &str, namespace: &str, level: Option<&str>) -> Result<(), Forbidden> {
    match level.filter(|level| *level != PERMISSIVE) {
        None => Ok(()),
        Some(level) => Err(Forbidden {
            session: session.to_owned(),
            namespace: namespace.to_owned(),
            level: level.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn session(name: &str, carrier: &str, from: &str, to: &[&str]) -> TransferSession {
        let to: Vec<_> = to.iter().map(|peer| json!({"peer": peer})).collect();
        serde_json::from_value(json!({
            "apiVersion": "sealane.dev/v1alpha1", "kind": "TransferSession", "metadata": {"name": name},
            "spec": {"from": {"peer": from}, "to": to, "stream": {}, "carrier": carrier},
        }))
        .unwrap()
    }

    #[test]
    fn both_ends_of_a_session_that_asks_for_it_are_concerned_and_nobody_else() {
        let sessions = [
            session("plain", "Udp", "embedder", &["ranker"]),
            session("fast", "AfXdp", "embedder", &["ranker", "archive"]),
            session("faster", "AfXdp", "ranker", &["archive"]),
            session("left-open", "Auto", "other", &["another"]),
        ];
        let asked = |peer: &str| asked_by(&PeerName::new(peer).unwrap(), &sessions);
        assert_eq!(asked("embedder"), Some("fast"));
        assert_eq!(asked("ranker"), Some("fast"));
        assert_eq!(asked("archive"), Some("fast"));
        assert_eq!((asked("other"), asked("another"), asked("fast")), (None, None, None));
    }

    #[test]
    fn it_is_a_question_on_the_hosts_network_and_before_there_is_a_sidecar() {
        let open = |spec: Value| is_open(&serde_json::from_value(spec).unwrap());
        let app = json!([{"name": "app"}]);
        assert!(open(json!({"hostNetwork": true, "containers": app})));
        assert!(!open(json!({"hostNetwork": false, "containers": app})));
        assert!(!open(json!({"containers": app})));
        let injected = json!([{"name": "sealane"}]);
        assert!(!open(json!({"hostNetwork": true, "containers": app, "initContainers": injected})));
    }

    #[test]
    fn a_namespace_that_forbids_capabilities_says_so_and_how_to_go_on() {
        for level in [None, Some("privileged")] {
            assert_eq!(admits("fast", "demo", level), Ok(()));
        }
        for level in ["baseline", "restricted", "Privileged", ""] {
            let refusal = admits("fast", "demo", Some(level)).unwrap_err().to_string();
            for part in [
                "TransferSession `fast`",
                "namespace `demo`",
                &format!("pod-security.kubernetes.io/enforce: {level}"),
                "BPF, IPC_LOCK, NET_ADMIN, NET_RAW",
                "label the namespace `privileged`",
                "spec.carrier to Udp",
            ] {
                assert!(refusal.contains(part), "{part}: {refusal}");
            }
        }
    }
}
