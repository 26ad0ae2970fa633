//! A selector beside the other Peers of its namespace and the pods that are there. Pure.

use sealane_types::PeerName;

use super::Invalid;
use crate::membership::{Membership, PeerSelector};
use crate::spec::PodView;

/// A Peer that selects what it has not selected so far.
#[derive(Debug)]
pub(in crate::webhook) struct Selecting {
    pub(in crate::webhook) asked: PeerSelector,
    /// As the Peer is stored, if it is.
    pub(in crate::webhook) stored: Option<PeerSelector>,
}

/// Refuses a selector that would claim a pod which another Peer has: of a running pod nothing may change. Returns
/// warnings: that two selectors meet is no harm before there is a pod.
pub(in crate::webhook) fn check(
    selecting: &Selecting,
    peers: &[PeerSelector],
    pods: &[PodView],
) -> Result<Vec<String>, Invalid> {
    let own = &selecting.asked;
    let others: Vec<_> = peers.iter().filter(|peer| peer.peer != own.peer).cloned().collect();
    let before: Vec<_> = others.iter().chain(&selecting.stored).cloned().collect();
    let holder = |pod: &PodView| -> Option<PeerName> {
        Membership::of(&pod.labels, &before).into_peer().filter(|holder| *holder != own.peer)
    };
    let claimed = pods.iter().filter(|pod| pod.is_wanted() && own.matches(&pod.labels));
    if let Some((pod, peer)) = claimed.filter_map(|pod| Some((pod, holder(pod)?))).next() {
        return Err(Invalid::PodTaken { pod: pod.name.clone(), peer });
    }
    let alike = others.iter().find(|other| own.is_within(other) || other.is_within(own));
    let warning = alike.map(|other| {
        format!(
            "spec.selector: Peer `{}` selects the same pods; pods that both select are refused, so one of the two has to change",
            other.peer
        )
    });
    Ok(warning.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selector(name: &str, hour: u8, labels: Value) -> PeerSelector {
        let peer = json!({
            "metadata": {"name": name, "creationTimestamp": format!("2026-11-20T{hour:02}:00:00Z")},
            "spec": {"selector": {"matchLabels": labels}, "trustPolicyRef": {"name": "demo"}},
        });
        PeerSelector::read(&serde_json::from_value(peer).unwrap()).unwrap().unwrap()
    }

    fn pod(labels: Value, phase: &str) -> PodView {
        let pod =
            json!({"metadata": {"name": "p-0", "uid": "u", "labels": labels}, "status": {"phase": phase}});
        PodView::new(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    fn asking(asked: PeerSelector, stored: Option<PeerSelector>) -> Selecting {
        Selecting { asked, stored }
    }

    #[test]
    fn a_pod_of_another_peer_is_not_claimed() {
        let peers = [selector("old", 1, json!({"app": "x"})), selector("new", 2, json!({"tier": "y"}))];
        let both = [pod(json!({"app": "x", "tier": "y"}), "Running")];
        let new = || selector("new", 2, json!({"tier": "y"}));
        let error = check(&asking(new(), None), &peers[..1], &both).unwrap_err().to_string();
        assert!(error.contains("pod `p-0` belongs to Peer `old`"), "{error}");
        // What is finished, or selected by this one alone, is no reason.
        for pods in [pod(json!({"app": "x", "tier": "y"}), "Failed"), pod(json!({"tier": "y"}), "Running")] {
            assert!(check(&asking(new(), None), &peers[..1], &[pods]).unwrap().is_empty());
        }
    }

    #[test]
    fn an_older_peer_takes_no_pod_from_a_younger_one_and_keeps_its_own() {
        let stored = selector("old", 1, json!({"app": "x"}));
        let asked = selector("old", 1, json!({"team": "z"}));
        let young = [selector("new", 2, json!({"tier": "y"}))];
        let theirs = [pod(json!({"tier": "y", "team": "z"}), "Running")];
        let refused = check(&asking(asked.clone(), Some(stored.clone())), &young, &theirs);
        assert!(matches!(refused, Err(Invalid::PodTaken { .. })), "{refused:?}");
        // Both select it, and it is the older one's already.
        let own = [pod(json!({"app": "x", "tier": "y", "team": "z"}), "Running")];
        assert!(check(&asking(asked, Some(stored)), &young, &own).unwrap().is_empty());
    }

    #[test]
    fn selectors_that_must_meet_are_told_of_before_there_is_a_pod() {
        let asked = || selector("new", 2, json!({"app": "x", "tier": "y"}));
        let told = |other: Value| check(&asking(asked(), None), &[selector("old", 1, other)], &[]).unwrap();
        assert!(told(json!({"app": "x"}))[0].contains("Peer `old` selects the same pods"));
        assert!(!told(json!({"app": "x", "tier": "y"})).is_empty());
        assert!(told(json!({"app": "z"})).is_empty());
    }
}
