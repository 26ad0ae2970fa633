//! Which Peer a pod belongs to: decided by labels, the same way at admission and at registration. A new pod that two
//! Peers select is refused; one that is there stays with the older of them, so that a new Peer never breaks what works.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::jiff::Timestamp;
use kube::core::{Selector, SelectorExt};
use sealane_operator_api::Peer;
use sealane_types::{InvalidName, PeerName};

/// A selector that the API server's schema should have refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error(
        "spec.selector is empty: it would select every pod of the namespace; name a label, for example matchLabels: {{app: embedder}}"
    )]
    Empty,
    #[error("spec.selector: {0}; an example is matchLabels: {{app: embedder}}")]
    Malformed(String),
    #[error("spec.selector: `{0}` is no label key such as `app` or `app.kubernetes.io/name`")]
    Key(String),
    #[error("spec.selector: `{0}` is no label value such as `embedder`; no pod could have it")]
    Value(String),
}

/// A Peer of which nobody can say what it selects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadablePeer {
    #[error("metadata.name: {0}")]
    Name(#[from] InvalidName),
    #[error(transparent)]
    Selector(#[from] SelectorError),
    #[error("spec has neither selector nor external; was it written for a newer release?")]
    Nothing,
}

/// A Peer as far as membership is concerned.
#[derive(Debug, Clone)]
pub struct PeerSelector {
    pub peer: PeerName,
    selector: Selector,
    /// When the Peer was made; None of one that is not stored yet.
    made: Option<Timestamp>,
}

impl PeerSelector {
    /// # Errors
    /// [`SelectorError`] says what is wrong with the selector.
    pub fn new(peer: PeerName, selector: &LabelSelector) -> Result<Self, SelectorError> {
        well_formed(selector)?;
        let selector = Selector::try_from(selector.clone())
            .map_err(|error| SelectorError::Malformed(error.to_string()))?;
        if selector.selects_all() {
            return Err(SelectorError::Empty);
        }
        Ok(Self { peer, selector, made: None })
    }

    /// None: its replicas are outside of the cluster, and no pod is one of them.
    ///
    /// # Errors
    /// [`UnreadablePeer`] says what about `peer` cannot be read.
    pub fn read(peer: &Peer) -> Result<Option<Self>, UnreadablePeer> {
        let name = PeerName::new(peer.metadata.name.clone().unwrap_or_default())?;
        match (&peer.spec.selector, &peer.spec.external) {
            (Some(selector), _) => {
                let made = peer.metadata.creation_timestamp.as_ref().map(|time| time.0);
                Ok(Some(Self { made, ..Self::new(name, selector)? }))
            }
            (None, Some(_)) => Ok(None),
            (None, None) => Err(UnreadablePeer::Nothing),
        }
    }

    /// The selectors of `peers` for whoever tells elsewhere of those that cannot be read: here they select nothing.
    pub fn of<'a>(peers: impl IntoIterator<Item = &'a Peer>) -> Vec<Self> {
        peers.into_iter().filter_map(|peer| Self::read(peer).ok().flatten()).collect()
    }

    /// For the API server to select by.
    #[must_use]
    pub const fn selector(&self) -> &Selector {
        &self.selector
    }

    #[must_use]
    pub fn matches(&self, labels: &std::collections::BTreeMap<String, String>) -> bool {
        self.selector.matches(labels)
    }

    /// Whether it demands all that `other` does, and perhaps more: then `other` selects each of its pods.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let own: Vec<_> = self.selector.clone().into_iter().collect();
        other.selector.clone().into_iter().all(|demand| own.contains(&demand))
    }

    /// Oldest first, those that are not stored yet at the end.
    fn age(&self) -> (bool, Option<Timestamp>, &PeerName) {
        (self.made.is_none(), self.made, &self.peer)
    }
}

/// Labels that no pod can have are a slip of the pen, and would otherwise show as a Peer without replicas.
fn well_formed(selector: &LabelSelector) -> Result<(), SelectorError> {
    let labels =
        selector.match_labels.iter().flatten().map(|(key, value)| (key, std::slice::from_ref(value)));
    let expressions = selector.match_expressions.iter().flatten();
    let expressions = expressions.map(|part| (&part.key, part.values.as_deref().unwrap_or_default()));
    for (key, values) in labels.chain(expressions) {
        if !is_label_key(key) {
            return Err(SelectorError::Key(key.chars().take(80).collect()));
        }
        if let Some(value) = values.iter().find(|value| !value.is_empty() && !is_label_word(value)) {
            return Err(SelectorError::Value(value.chars().take(80).collect()));
        }
    }
    Ok(())
}

/// A qualified name: `[prefix/]name`, the prefix a DNS subdomain.
fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let part = |part: &str| {
        let edge =
            |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let inner = |byte: u8| byte == b'-' || edge(Some(byte));
        part.bytes().all(inner) && edge(part.bytes().next()) && edge(part.bytes().last())
    };
    is_label_word(name) && prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(part))
}

fn is_label_word(word: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    word.len() <= 63 && word.bytes().all(inner) && edge(word.bytes().next()) && edge(word.bytes().last())
}

/// The Peers that select a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    None,
    One(PeerName),
    /// At least two, of which these are the oldest, the older one first.
    Conflict(PeerName, PeerName),
}

impl Membership {
    #[must_use]
    pub fn of(labels: &std::collections::BTreeMap<String, String>, peers: &[PeerSelector]) -> Self {
        let mut matching: Vec<_> = peers.iter().filter(|peer| peer.matches(labels)).collect();
        matching.sort_by_key(|peer| peer.age());
        match matching.as_slice() {
            [] => Self::None,
            [one] => Self::One(one.peer.clone()),
            [first, second, ..] => Self::Conflict(first.peer.clone(), second.peer.clone()),
        }
    }

    /// The Peer that a pod which is there belongs to.
    #[must_use]
    pub fn into_peer(self) -> Option<PeerName> {
        match self {
            Self::None => None,
            Self::One(peer) | Self::Conflict(peer, _) => Some(peer),
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
    fn of_two_peers_the_older_one_has_the_pod() {
        let named = |name: &str, made: Option<&str>| {
            let selector = peer(name, json!({"matchLabels": {"app": "x"}}));
            PeerSelector { made: made.map(|made| made.parse().unwrap()), ..selector }
        };
        let labels = [("app".to_owned(), "x".to_owned())].into();
        let (early, late) = ("2026-11-20T00:00:00Z", "2026-11-20T00:00:01Z");
        let cases = [
            ([named("a", Some(late)), named("b", Some(early))], "b"),
            ([named("a", Some(early)), named("b", Some(late))], "a"),
            ([named("b", Some(early)), named("a", Some(early))], "a"),
            ([named("a", None), named("b", Some(late))], "b"),
        ];
        for (peers, owner) in cases {
            let membership = Membership::of(&labels, &peers);
            assert!(matches!(&membership, Membership::Conflict(..)), "{membership:?}");
            assert_eq!(membership.into_peer().unwrap().as_str(), owner);
        }
        assert_eq!(Membership::of(&[].into(), &[]).into_peer(), None);
    }

    #[test]
    fn a_selector_that_demands_more_is_within_one_that_demands_less() {
        let narrow = peer("narrow", json!({"matchLabels": {"app": "x", "tier": "y"}}));
        let wide = peer("wide", json!({"matchLabels": {"app": "x"}}));
        let values = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]});
        let other = peer("other", values);
        assert!(narrow.is_within(&wide) && !wide.is_within(&narrow) && wide.is_within(&wide));
        assert!(!narrow.is_within(&other) && !other.is_within(&narrow));
    }

    #[test]
    fn labels_that_no_pod_can_have_are_refused() {
        let new = |selector: serde_json::Value| {
            let selector = serde_json::from_value(selector).unwrap();
            PeerSelector::new(PeerName::new("p").unwrap(), &selector).map(|_| ())
        };
        let labels = |key: &str, value: &str| new(json!({"matchLabels": {(key): value}}));
        for (key, value) in [("app", "embedder"), ("app.kubernetes.io/name", "A_b.c-1"), ("a/b", "")] {
            assert_eq!(labels(key, value), Ok(()), "{key}={value}");
        }
        for key in ["", "a b", "-a", "a-", "/a", "a/", "a/b/c", "A/b", "a..b/c", &"a".repeat(64)] {
            assert_eq!(labels(key, "x"), Err(SelectorError::Key(key.to_owned())), "{key}");
        }
        for value in ["a b", "-a", "a.", "ä", "a/b"] {
            assert_eq!(labels("app", value), Err(SelectorError::Value(value.to_owned())), "{value}");
        }
        let values = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b c"]}]});
        assert_eq!(new(values), Err(SelectorError::Value("b c".to_owned())));
    }

    #[test]
    fn a_selector_that_selects_everything_is_refused() {
        let refused = PeerSelector::new(PeerName::new("all").unwrap(), &LabelSelector::default());
        assert_eq!(refused.unwrap_err(), SelectorError::Empty);
    }
}
