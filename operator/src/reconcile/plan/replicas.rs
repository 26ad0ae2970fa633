//! Who can be dialled: replicas of each Peer with addresses that the pod's status confirms.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealane_types::PeerName;

use crate::control::registry::Registered;
use crate::desired::Replica;
use crate::limits::REMOTE_REPLICAS_MAX;
use crate::spec::{PodView, Valid, ValidPeer};

/// Dialable replicas by Peer, in the order of pod names; shared by every sidecar that is told of them.
pub(super) type Replicas<'a> = BTreeMap<&'a PeerName, Arc<[Replica]>>;

pub(super) fn by_peer(valid: &Valid) -> Replicas<'_> {
    let mut replicas: BTreeMap<&PeerName, Vec<Replica>> =
        valid.peers.iter().map(|(name, peer)| (name, external(peer).collect())).collect();
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

/// Replicas outside of the cluster, where the Peer says that they are.
fn external(peer: &ValidPeer) -> impl Iterator<Item = Replica> {
    let addresses = peer.external.iter().flat_map(|external| &external.addresses);
    // In the order of ordinals, as a configuration file lists them.
    (0..).zip(addresses).map(|(ordinal, address)| Replica {
        pod: address.to_string(),
        uid: String::new(),
        addresses: vec![address.ip()],
        port: address.port(),
        incarnation: None,
        ordinal: Some(ordinal),
    })
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
        incarnation: Some(stated.incarnation),
        ordinal: pod.ordinal(),
    })
}
