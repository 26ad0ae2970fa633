//! Who can be dialled: replicas of each Peer with addresses that the pod's status confirms.

use std::collections::BTreeMap;

use sealane_sidecar_api::control::Replica;
use sealane_types::PeerName;

use crate::control::registry::Registered;
use crate::limits::REMOTE_REPLICAS_MAX;
use crate::spec::{PodView, Valid};

/// Dialable replicas by Peer, in the order of pod names.
pub(super) type Replicas<'a> = BTreeMap<&'a PeerName, Vec<Replica>>;

pub(super) fn by_peer(valid: &Valid) -> Replicas<'_> {
    let mut replicas: Replicas<'_> = valid.peers.keys().map(|peer| (peer, Vec::new())).collect();
    for pod in valid.snapshot.pods.iter().filter(|pod| pod.is_wanted()) {
        let Some(sidecar) = valid.sidecar_of(&pod.uid) else { continue };
        let Some(replica) = replica(pod, sidecar) else { continue };
        let Some(of_peer) = valid.peer_of(&pod.uid).and_then(|peer| replicas.get_mut(peer)) else { continue };
        if of_peer.len() < REMOTE_REPLICAS_MAX {
            of_peer.push(replica);
        }
    }
    replicas
}

/// A sidecar may only announce addresses that belong to its pod; until the kubelet has written the pod's status
/// there are none.
fn replica(pod: &PodView, sidecar: &Registered) -> Option<Replica> {
    let stated = &sidecar.registration;
    let addresses: Vec<_> = stated
        .addresses
        .iter()
        .filter(|address| pod.addresses.contains(address))
        .map(ToString::to_string)
        .collect();
    (!addresses.is_empty()).then(|| Replica {
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        addresses,
        port: u32::from(stated.data_port),
        incarnation: stated.incarnation.to_vec(),
    })
}
