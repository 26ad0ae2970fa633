//! Who is dialled: replicas of each Peer with addresses that the pod's status confirms, and those of the leader before that
//! have not come back yet, to whom connections may be open. And who sends: beside those,
//! pods that are there or to come and have not registered, for which receivers wait.

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
        let replica = match valid.sidecar_of(&pod.uid) {
            Some(sidecar) => replica(pod, sidecar),
            None => {
                let inherited = valid.snapshot.inherited.contains(&pod.uid);
                inherited.then(|| awaited(&pod.name, &pod.uid, pod.ordinal()))
            }
        };
        let Some(replica) = replica else { continue };
        let Some(of_peer) = valid.peer_of(&pod.uid).and_then(|peer| replicas.get_mut(peer)) else { continue };
        if of_peer.len() < REMOTE_REPLICAS_MAX {
            of_peer.push(replica);
        }
    }
    replicas.into_iter().map(|(peer, replicas)| (peer, replicas.into())).collect()
}

/// Replicas by Peer for which a receiver waits before it takes a stream for ended, in the order of pod names. A pod that
/// has not registered is known by its name, and one that is still to be made by what makes it: nobody dials either.
pub(super) fn senders_by_peer<'a>(valid: &'a Valid, dialable: &Replicas<'a>) -> Replicas<'a> {
    let senders = |(name, known): (&&'a PeerName, &Arc<[Replica]>)| {
        if valid.is_external(name) {
            return (*name, Arc::clone(known));
        }
        let registered: BTreeMap<&str, &Replica> =
            known.iter().map(|replica| (replica.uid.as_str(), replica)).collect();
        // A pod without a sidecar never sends.
        let pods = valid.pods_of(name).filter(|pod| pod.is_wanted() && pod.injected);
        let pods = pods.map(|pod| match registered.get(pod.uid.as_str()) {
            Some(replica) => (*replica).clone(),
            None => awaited(&pod.name, &pod.uid, pod.ordinal()),
        });
        let expected = valid.work_of(name).into_iter().flat_map(|work| &work.expected);
        // One stands for all pods that a workload is to make, however many: receivers count nobody.
        let expected = expected.map(|expected| awaited(&expected.workload, "", None));
        (*name, expected.chain(pods).take(REMOTE_REPLICAS_MAX).collect())
    };
    dialable.iter().map(senders).collect()
}

/// A replica that nobody dials; whoever is connected to it stays so.
fn awaited(name: &str, uid: &str, ordinal: Option<u32>) -> Replica {
    Replica {
        pod: name.to_owned(),
        uid: uid.to_owned(),
        addresses: Vec::new(),
        port: 0,
        incarnation: None,
        ordinal,
    }
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
