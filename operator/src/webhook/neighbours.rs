//! What is around an object that is judged: of a forward the other sessions of the namespace and the pods of both its
//! Peers, with which it shares ports; of a Peer the other Peers, and the pods that it selects.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::{Api, Client};
use sealane_operator_api::{Peer, TransferSession, TransferSessionSpec};

use crate::membership::PeerSelector;
use crate::spec::PodView;

/// Objects of one kind that a review looks at; what is beyond them shows as a condition later.
const SESSIONS_MAX: u32 = 4096;
const PEERS_MAX: u32 = 1024;
/// Peers whose pods one review looks at: each is a request to the API server, and all of them have to fit into the
/// time of a review.
pub(super) const POD_LISTS_MAX: usize = 16;
/// Pods of one Peer: enough to know what its workload declares, and the ordinals of a StatefulSet.
const PODS_MAX: u32 = 256;

/// The namespace around one forward.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    pub(super) sessions: Vec<TransferSession>,
    /// By Peer: of the forward's own two Peers, and of those to which a neighbour leads replica by replica.
    pub(super) pods: BTreeMap<String, Vec<Pod>>,
    /// There are more of those Peers than a review looks at.
    pub(super) partial: bool,
}

/// Reads what is around `spec`.
pub(super) async fn around(
    client: &Client,
    namespace: &str,
    spec: &TransferSessionSpec,
) -> Result<Neighbours, kube::Error> {
    let sessions: Api<DeserializeGuard<TransferSession>> = Api::namespaced(client.clone(), namespace);
    let sessions = sessions.list(&ListParams::default().limit(SESSIONS_MAX)).await?;
    let sessions: Vec<_> =
        sessions.into_iter().filter_map(|DeserializeGuard(session)| session.ok()).collect();
    let peers = readable_peers(client, namespace).await?;

    let beside = sessions.iter().map(|session| &session.spec).filter(|other| {
        other.from == spec.from && other.forward.as_ref().is_some_and(|forward| forward.per_replica)
    });
    // Its own two first: without them the rest says nothing.
    let concerned = [&spec.from].into_iter().chain(&spec.to).chain(beside.flat_map(|other| &other.to));
    let mut pods = BTreeMap::new();
    let mut partial = false;
    for peer in concerned {
        if pods.contains_key(&peer.peer) {
            continue;
        }
        if pods.len() == POD_LISTS_MAX {
            partial = true;
            break;
        }
        pods.insert(peer.peer.clone(), pods_of(client, namespace, &peer.peer, &peers).await?);
    }
    Ok(Neighbours { sessions, pods, partial })
}

/// The Peers of a namespace, and the pods that `selector` matches.
pub(super) async fn of_peer(
    client: &Client,
    namespace: &str,
    selector: &PeerSelector,
) -> Result<(Vec<PeerSelector>, Vec<PodView>), kube::Error> {
    let peers = PeerSelector::of(&readable_peers(client, namespace).await?);
    let pods = selected(client, namespace, selector).await?;
    Ok((peers, pods.iter().filter_map(PodView::new).collect()))
}

async fn readable_peers(client: &Client, namespace: &str) -> Result<Vec<Peer>, kube::Error> {
    let peers: Api<DeserializeGuard<Peer>> = Api::namespaced(client.clone(), namespace);
    let peers = peers.list(&ListParams::default().limit(PEERS_MAX)).await?;
    Ok(peers.into_iter().filter_map(|DeserializeGuard(peer)| peer.ok()).collect())
}

async fn pods_of(
    client: &Client,
    namespace: &str,
    name: &str,
    peers: &[Peer],
) -> Result<Vec<Pod>, kube::Error> {
    let found = peers.iter().find(|peer| peer.metadata.name.as_deref() == Some(name));
    let selector = found.and_then(|peer| PeerSelector::read(peer).ok().flatten());
    let Some(selector) = selector else { return Ok(Vec::new()) };
    selected(client, namespace, &selector).await
}

async fn selected(
    client: &Client,
    namespace: &str,
    selector: &PeerSelector,
) -> Result<Vec<Pod>, kube::Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let parameters = ListParams::default().labels_from(selector.selector()).limit(PODS_MAX);
    Ok(api.list(&parameters).await?.items)
}
