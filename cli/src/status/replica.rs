//! What each replica proved, as it reported itself.

use kube::ResourceExt as _;
use sealane_operator_api::{Peer, ReplicaStatus};

use super::{left, shown, since};
use crate::output::table;

/// A table of the replicas of all Peers; empty without any.
pub(super) fn listing(all_namespaces: bool, peers: &[Peer]) -> String {
    let rows = peers.iter().flat_map(|peer| {
        let replicas = peer.status.as_ref().map(|status| status.replicas.as_slice()).unwrap_or_default();
        let place = all_namespaces.then(|| peer.namespace().unwrap_or_default());
        replicas.iter().map(move |replica| place.clone().into_iter().chain(row(peer, replica)).collect())
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    let cells = [
        "REPLICA",
        "PEER",
        "READY",
        "PLATFORM",
        "ASSURANCE",
        "ROOTS",
        "TCB",
        "EPOCH",
        "APPRAISED",
        "COLLATERAL",
    ];
    let heading = all_namespaces.then_some("NAMESPACE").into_iter().chain(cells).map(str::to_owned).collect();
    table(&std::iter::once(heading).chain(rows).collect::<Vec<_>>())
}

fn row(peer: &Peer, replica: &ReplicaStatus) -> Vec<String> {
    let platform = match (&replica.platform, &replica.simulated_form) {
        (Some(platform), Some(form)) => format!("{platform} ({form})"),
        (platform, _) => shown(platform.as_ref()),
    };
    vec![
        replica.pod.clone(),
        peer.name_any(),
        if replica.ready { "True" } else { "False" }.to_owned(),
        platform,
        shown(replica.assurance.as_ref()),
        shown(replica.root_source.as_ref()),
        shown(replica.tcb_status.as_ref()),
        shown(replica.policy_epoch),
        since(replica.evidence_time.as_ref()),
        left(replica.collateral_expires.as_ref()),
    ]
}
