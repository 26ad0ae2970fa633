//! Which sidecars of a Peer are of another version than the operator that reported on them.

use std::collections::BTreeSet;

use sealane_operator_api::{Peer, ReplicaStatus};

use crate::output::printable;

/// The skew of one Peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outdated {
    /// The operator's, which pods that are made now get.
    pub(crate) operator: String,
    /// Those of the sidecars that have another one.
    pub(crate) versions: BTreeSet<String>,
    /// Their pods, as far as status lists them.
    pub(crate) pods: Vec<String>,
    /// Status lists all replicas.
    pub(crate) complete: bool,
}

/// None where every sidecar has the operator's version, or nobody says which.
pub(crate) fn of(peer: &Peer) -> Option<Outdated> {
    let status = peer.status.as_ref()?;
    let operator = status.operator_version.clone()?;
    let differs =
        |replica: &&ReplicaStatus| replica.version.as_ref().is_some_and(|version| *version != operator);
    let others: Vec<&ReplicaStatus> = status.replicas.iter().filter(differs).collect();
    let listed = others.iter().filter_map(|replica| replica.version.clone());
    // Of replicas that status does not list it says the versions alone.
    let joined =
        status.sidecar_version.iter().flat_map(|joined| stated(joined)).filter(|one| *one != operator);
    let versions: BTreeSet<String> = listed.chain(joined).collect();
    let wanted = status.desired.and_then(|desired| usize::try_from(desired).ok()).unwrap_or(0);
    let (pods, complete) =
        (others.iter().map(|replica| replica.pod.clone()).collect(), status.replicas.len() >= wanted);
    (!versions.is_empty()).then_some(Outdated { operator, versions, pods, complete })
}

/// The versions of a list that is joined by `+`, of which a version itself may hold one.
fn stated(joined: &str) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for part in joined.split('+') {
        match versions.last_mut() {
            // What is no number.number goes on the one before: it is build metadata.
            Some(last) if !begins(part) => last.push_str(&format!("+{part}")),
            _ => versions.push(part.to_owned()),
        }
    }
    versions
}

fn begins(part: &str) -> bool {
    part.starts_with(|first: char| first.is_ascii_digit()) && part.contains('.')
}

impl Outdated {
    pub(crate) fn says(&self) -> String {
        let versions: Vec<&str> = self.versions.iter().map(String::as_str).collect();
        let more = if self.complete { "" } else { ", and others that status does not list" };
        printable(&format!(
            "sidecars of {} ({} pods{more}), the operator is of {}",
            versions.join(", "),
            self.pods.len(),
            self.operator
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn peer(status: &Value) -> Peer {
        serde_json::from_value(json!({
            "apiVersion": "sealane.dev/v1alpha1", "kind": "Peer", "metadata": {"name": "embedder"},
            "spec": {"selector": {}, "trustPolicyRef": {"name": "demo"}}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn sidecars_of_another_version_than_the_operator_are_outdated() {
        let status = json!({"operatorVersion": "0.2.0", "sidecarVersion": "0.1.0+0.2.0", "desired": 2, "replicas": [
            {"pod": "a", "version": "0.1.0"}, {"pod": "b", "version": "0.2.0"},
        ]});
        let found = of(&peer(&status)).unwrap();
        assert_eq!((found.pods.as_slice(), found.complete), (["a".to_owned()].as_slice(), true));
        assert_eq!(found.says(), "sidecars of 0.1.0 (1 pods), the operator is of 0.2.0");
        let same = json!({"operatorVersion": "0.2.0", "sidecarVersion": "0.2.0", "replicas": []});
        assert_eq!(of(&peer(&same)), None);
        assert_eq!(of(&peer(&json!({"sidecarVersion": "0.2.0"}))), None, "of an older operator");
    }

    #[test]
    fn replicas_that_status_does_not_list_are_not_forgotten() {
        let status = json!({"operatorVersion": "0.2.0", "sidecarVersion": "0.1.0+0.2.0", "desired": 51, "replicas": []});
        let found = of(&peer(&status)).unwrap();
        assert!(!found.complete && found.says().contains("0.1.0"), "{found:?}");
    }

    #[test]
    fn a_version_may_have_build_metadata() {
        assert_eq!(stated("0.1.0+abc+0.2.0"), ["0.1.0+abc", "0.2.0"]);
    }
}
