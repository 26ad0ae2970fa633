//! Whether a pod gets the sidecar. Pure: labels and Peers in, decision out.

use std::collections::BTreeMap;

use sealane_operator_api::well_known::INJECT_LABEL;
use sealane_types::{PeerName, Provider};

use super::af_xdp::Forbidden;
use crate::membership::{Membership, PeerSelector};

/// What becomes of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The sidecar is added; `None` when the pod asks for it and no Peer selects it yet.
    Inject(Option<PeerName>),
    Leave,
    Refuse(Refusal),
}

/// Why a pod is not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "Peers `{0}` and `{1}` both select this pod; a pod belongs to one Peer. Change one of their selectors or the pod's labels"
    )]
    TwoPeers(PeerName, PeerName),
    #[error("label {INJECT_LABEL} must be `true` or `false`, not `{0}`")]
    UnknownLabelValue(String),
    #[error(
        "Peer `{peer}` cannot be read, and as far as it can, it selects this pod: {problem}. Correct or delete that Peer; a pod labelled {INJECT_LABEL}: \"false\" is admitted without the sidecar"
    )]
    UnreadablePeer { peer: String, problem: String },
    #[error(
        "Peer `{0}` gets its evidence from the node agent (provider NodeAgent), which this installation does not run: set agent.enabled in the chart, or another provider"
    )]
    NoNodeAgent(PeerName),
    #[error(transparent)]
    Forbidden(Forbidden),
}

/// Whether a pod of this Peer gets the volume by which its sidecar reaches the agent of its node, where there is one.
///
/// # Errors
/// [`Refusal::NoNodeAgent`] for a Peer that has no other source of evidence: the volume would never come.
pub fn reaches_node_agent(peer: &PeerName, provider: Provider, installed: bool) -> Result<bool, Refusal> {
    match provider {
        Provider::NodeAgent if !installed => Err(Refusal::NoNodeAgent(peer.clone())),
        Provider::NodeAgent | Provider::Auto => Ok(installed),
        _ => Ok(false),
    }
}

/// Whether a pod with these labels does without the sidecar, whatever Peers there are.
#[must_use]
pub fn opted_out(labels: &BTreeMap<String, String>) -> bool {
    labels.get(INJECT_LABEL).is_some_and(|value| value == "false")
}

/// Decides for a pod with these labels in a namespace that opted in.
#[must_use]
pub fn decide(labels: &BTreeMap<String, String>, peers: &[PeerSelector]) -> Decision {
    if opted_out(labels) {
        return Decision::Leave;
    }
    let asked = match labels.get(INJECT_LABEL).map(String::as_str) {
        Some("true") => true,
        None => false,
        Some(other) => return Decision::Refuse(Refusal::UnknownLabelValue(other.to_owned())),
    };
    match Membership::of(labels, peers) {
        Membership::Conflict(first, second) => Decision::Refuse(Refusal::TwoPeers(first, second)),
        Membership::One(peer) => Decision::Inject(Some(peer)),
        Membership::None if asked => Decision::Inject(None),
        Membership::None => Decision::Leave,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn peer(name: &str, app: &str) -> PeerSelector {
        let selector = serde_json::from_value(json!({"matchLabels": {"app": app}})).unwrap();
        PeerSelector::new(PeerName::new(name).unwrap(), &selector).unwrap()
    }

    #[test]
    fn labels_and_peers_decide() {
        let peers = [peer("a", "one"), peer("b", "two"), peer("c", "two")];
        let name = |name: &str| PeerName::new(name).unwrap();
        let cases: [(&[(&str, &str)], Decision); 8] = [
            (&[], Decision::Leave),
            (&[("app", "one")], Decision::Inject(Some(name("a")))),
            (&[("app", "other")], Decision::Leave),
            (&[("app", "two")], Decision::Refuse(Refusal::TwoPeers(name("b"), name("c")))),
            (&[(INJECT_LABEL, "true")], Decision::Inject(None)),
            (&[(INJECT_LABEL, "true"), ("app", "one")], Decision::Inject(Some(name("a")))),
            // Opting out wins even over a conflict.
            (&[(INJECT_LABEL, "false"), ("app", "two")], Decision::Leave),
            (&[(INJECT_LABEL, "yes")], Decision::Refuse(Refusal::UnknownLabelValue("yes".to_owned()))),
        ];
        for (labels, expected) in cases {
            let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            assert_eq!(decide(&labels, &peers), expected, "{labels:?}");
        }
    }

    #[test]
    fn the_provider_and_the_installation_decide_about_the_node_agent() {
        let peer = PeerName::new("a").unwrap();
        let reaches = |provider, installed| reaches_node_agent(&peer, provider, installed);
        for installed in [true, false] {
            assert_eq!(reaches(Provider::Auto, installed), Ok(installed));
            assert_eq!(reaches(Provider::CocoAgent, installed), Ok(false));
            assert_eq!(reaches(Provider::Simulated, installed), Ok(false));
        }
        assert_eq!(reaches(Provider::NodeAgent, true), Ok(true));
        let refused = reaches(Provider::NodeAgent, false).unwrap_err();
        assert!(refused.to_string().contains("agent.enabled"), "{refused}");
    }

    #[test]
    fn a_conflict_names_both_peers() {
        let refusal = Refusal::TwoPeers(PeerName::new("b").unwrap(), PeerName::new("c").unwrap());
        assert!(refusal.to_string().contains("`b` and `c`"));
    }
}
