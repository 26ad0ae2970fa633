//! Which Peer a pod belongs to: decided by labels, the same way at admission and at registration.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use sealane_operator_api::Peer;
use sealane_types::PeerName;

/// A selector that the API server's schema should have refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("spec.selector is empty: it would select every pod of the namespace")]
    Empty,
    #[error("spec.selector: {0}")]
    Malformed(String),
}

/// A Peer as far as membership is concerned.
#[derive(Debug, Clone)]
pub struct PeerSelector {
    pub peer: PeerName,
    selector: Selector,
}

impl PeerSelector {
    /// # Errors
    /// [`SelectorError`] says what is wrong with the selector.
    pub fn new(peer: PeerName, selector: &LabelSelector) -> Result<Self, SelectorError> {
        let selector = Selector::try_from(selector.clone())
            .map_err(|error| SelectorError::Malformed(error.to_string()))?;
        if selector.selects_all() {
            return Err(SelectorError::Empty);
        }
        Ok(Self { peer, selector })
    }

    /// The selectors of `peers`; one that cannot be read selects nothing.
    pub fn of<'a>(peers: impl IntoIterator<Item = &'a Peer>) -> Vec<Self> {
        peers
            .into_iter()
            .filter_map(|peer| {
                let name = PeerName::new(peer.metadata.name.clone()?).ok()?;
                Self::new(name, &peer.spec.selector).ok()
            })
            .collect()
    }

    #[must_use]
    pub fn matches(&self, labels: &std::collections::BTreeMap<String, String>) -> bool {
        self.selector.matches(labels)
    }
}

/// The Peers that select a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    None,
    One(PeerName),
    /// At least two: the pod belongs to none of them.
    Conflict(PeerName, PeerName),
}

impl Membership {
    #[must_use]
    pub fn of(labels: &std::collections::BTreeMap<String, String>, peers: &[PeerSelector]) -> Self {
        let mut matching: Vec<_> =
            peers.iter().filter(|peer| peer.matches(labels)).map(|peer| &peer.peer).collect();
        matching.sort();
        match matching.as_slice() {
            [] => Self::None,
            [one] => Self::One((*one).clone()),
            [first, second, ..] => Self::Conflict((*first).clone(), (*second).clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn peer(name: &str, selector: serde_json::Value) -> PeerSelector {
        PeerSelector::new(PeerName::new(name).unwrap(), &serde_json::from_value(selector).unwrap()).unwrap()
    }

    #[test]
    fn one_peer_or_none_or_a_conflict_naming_both() {
        let peers = [
            peer("ranker", json!({"matchLabels": {"app": "ranker"}})),
            peer(
                "embedder",
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["embedder", "both"]}]}),
            ),
            peer("all-gpu", json!({"matchLabels": {"gpu": "yes"}})),
        ];
        let labels = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let name = |name: &str| PeerName::new(name).unwrap();
        assert_eq!(Membership::of(&labels(&[]), &peers), Membership::None);
        assert_eq!(Membership::of(&labels(&[("app", "ranker")]), &peers), Membership::One(name("ranker")));
        assert_eq!(
            Membership::of(&labels(&[("app", "embedder"), ("gpu", "yes")]), &peers),
            Membership::Conflict(name("all-gpu"), name("embedder"))
        );
    }

    #[test]
    fn a_selector_that_selects_everything_is_refused() {
        let refused = PeerSelector::new(PeerName::new("all").unwrap(), &LabelSelector::default());
        assert_eq!(refused.unwrap_err(), SelectorError::Empty);
    }
}
