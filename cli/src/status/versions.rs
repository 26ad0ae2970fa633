//! Sidecars of another version than the operator's.

use kube::ResourceExt as _;
use sealane_operator_api::Peer;
use serde_json::{Value, json};

use crate::outdated::{self, Outdated};

/// A paragraph about those Peers that have any; empty without.
pub(super) fn text(peers: &[Peer]) -> String {
    let found: Vec<_> = peers.iter().filter_map(|peer| Some((peer, outdated::of(peer)?))).collect();
    if found.is_empty() {
        return String::new();
    }
    let line =
        |(peer, outdated): &(&Peer, Outdated)| format!("  peer/{}: {}\n", peer.name_any(), outdated.says());
    let lines: String = found.iter().map(line).collect();
    format!(
        "Versions differ:\n{lines}      -> kubectl sealane restart --outdated says whose pods to make again\n"
    )
}

pub(super) fn value(peers: &[Peer]) -> Vec<Value> {
    let object = |peer: &Peer| {
        let outdated = outdated::of(peer)?;
        Some(json!({
            "namespace": peer.namespace(), "peer": peer.name_any(), "operator": outdated.operator,
            "versions": outdated.versions, "pods": outdated.pods,
        }))
    };
    peers.iter().filter_map(object).collect()
}
