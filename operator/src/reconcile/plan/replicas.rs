//! Who can be dialled: replicas of each Peer with addresses that the pod's status confirms.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealane_types::PeerName;

use crate::control::registry::Registered;
use crate::desired::Replica;
use crate::limits::REMOTE_REPLICAS_MAX;
use crate::spec::{PodView, Valid};

/// Dialable replicas by Peer, in the order of pod names; shared by every sidecar that is told of them.
pub(super) type Replicas<'a> = BTreeMap<&'a PeerName, Arc<[Replica]>>;

pub(super) fn by_peer(valid: &Valid) -> Replicas<'_> {
    let mut replicas: BTreeMap<&PeerName, Vec<Replica>> =
        valid.peers.keys().map(|peer| (peer, Vec::new())).collect();
    for pod in valid.snapshot.pods.iter().filter(|pod| pod.is_wanted()) {
        let Some(sidecar) = valid.sidecar_of(&pod.uid) else { continue };
        let Some(replica) = replica(pod, sidecar) else { continue };
        let Some(of_peer) = valid.peer_of(&pod.uid).and_then(|peer| replicas.get_mut(peer)) else { continue };
        if of_peer.len() < REMOTE_REPLICAS_MAX {
            of_peer.push(replica);
        }
    }
    replicas.into_iter().map(|(peer, replicas)| (peer, replicas.into())).collect()
}

/// A sidecar may only announce addresses that belong to its pod; until the kubelet has written the pod's status
/// there are none.
fn replica(pod: &PodView, sidecar: &Registered) -> Option<Replica> {
    let stated = &sidecar.registration;
    let addresses: Vec<_> =
        stated.addresses.iter().copied().filter(|address| pod.addresses.contains(address)).collect();
    (!addresses.is_empty()).then(|| Replica {
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        addresses,
        port: stated.data_port,
        incarnation: stated.incarnation,
        ordinal: pod.ordinal(),
    })
}
