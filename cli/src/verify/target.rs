//! Which replicas are asked, and where.

use std::net::SocketAddr;

use anyhow::{Result, bail, ensure};
use kube::Client;
use sealane_operator_api::well_known::DATA_PORT;
use sealane_operator_api::{Peer, ReplicaStatus};
use sealane_types::PeerName;

use crate::objects;

/// One replica to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// The pod that must answer; not known of an address alone.
    pub(super) pod: Option<String>,
    pub(super) way: Way,
}

/// How it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// `HOST:PORT`.
    Direct(String),
    /// Through the API server.
    Forward { pod: String, port: u16 },
    /// Not at all, for this reason.
    None(String),
}

/// The name of a Peer, as people type it: kubectl takes a kind before it.
///
/// # Errors
/// It is of another kind, or no name.
pub(super) fn named(text: &str) -> Result<PeerName> {
    let name = match text.split_once('/') {
        None => text,
        Some((kind, name)) if ["peer", "peers", "slp", "peers.sealane.dev"].contains(&kind) => name,
        Some((kind, _)) => bail!("what is verified is a Peer, and {kind} is another kind: name a Peer"),
    };
    Ok(name.parse()?)
}

/// A Peer as the cluster has it.
pub(super) async fn peer(client: Client, namespace: &str, name: &PeerName) -> Result<Peer> {
    objects::demanded(&client, namespace, name.as_str(), "Peers").await
}

/// Every replica of `peer`, or the one that is asked for.
pub(super) fn targets(peer: &Peer, pod: Option<&str>) -> Result<Vec<Target>> {
    let status = peer.status.clone().unwrap_or_default();
    if let Some(external) = &peer.spec.external {
        ensure!(
            pod.is_none(),
            "the Peer is outside of the cluster and has no pods; --address reaches one of it"
        );
        let direct = |address: &String| Target { pod: None, way: Way::Direct(address.clone()) };
        return Ok(external.addresses.iter().map(direct).collect());
    }
    if let Some(pod) = pod {
        // Status is the control plane's word: a replica that it does not list can be asked all the same.
        let listed = status.replicas.iter().find(|replica| replica.pod == pod);
        let port = listed.and_then(port).unwrap_or(DATA_PORT);
        let way = Way::Forward { pod: pod.to_owned(), port };
        return Ok(vec![Target { pod: Some(pod.to_owned()), way }]);
    }
    if status.replicas.is_empty() {
        bail!(
            "the Peer has no replicas: `kubectl sealane status` says why; --pod names one that status does not list"
        );
    }
    let wanted = status.desired.and_then(|desired| usize::try_from(desired).ok()).unwrap_or(0);
    ensure!(
        wanted <= status.replicas.len(),
        "status lists {} of {wanted} replicas; name each with --pod",
        status.replicas.len()
    );
    Ok(status.replicas.iter().map(target).collect())
}

fn target(replica: &ReplicaStatus) -> Target {
    let pod = replica.pod.clone();
    let way = match port(replica) {
        Some(port) => Way::Forward { pod: pod.clone(), port },
        None => {
            let message =
                replica.message.clone().unwrap_or_else(|| "status knows no address of it".to_owned());
            Way::None(message)
        }
    };
    Target { pod: Some(pod), way }
}

fn port(replica: &ReplicaStatus) -> Option<u16> {
    let address: SocketAddr = replica.address.as_deref()?.parse().ok()?;
    Some(address.port())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn with(status: &Value) -> Peer {
        let spec = json!({"selector": {}, "trustPolicyRef": {"name": "demo"}});
        let mut peer = Peer::new("embedder", serde_json::from_value(spec).unwrap());
        peer.status = serde_json::from_value(status.clone()).unwrap();
        peer
    }

    fn two() -> Peer {
        with(&json!({"desired": 2, "replicas": [
            {"pod": "embedder-1", "ready": false, "message": "no sidecar"},
            {"pod": "embedder-0", "ready": true, "address": "10.0.0.7:14999"},
        ]}))
    }

    #[test]
    fn a_peer_may_be_named_as_kubectl_has_it() {
        for text in ["embedder", "peer/embedder", "peers/embedder", "slp/embedder"] {
            assert_eq!(named(text).unwrap().as_str(), "embedder");
        }
        assert!(named("transfersession/a").unwrap_err().to_string().contains("name a Peer"));
        assert!(named("Embedder").is_err() && named("peer/").is_err());
    }

    #[test]
    fn every_replica_is_asked_and_one_that_cannot_be_is_not_left_out() {
        let found = targets(&two(), None).unwrap();
        assert_eq!(found[0].way, Way::None("no sidecar".to_owned()));
        assert_eq!(found[1].way, Way::Forward { pod: "embedder-0".to_owned(), port: 14999 });
    }

    #[test]
    fn a_peer_outside_of_the_cluster_is_reached_where_it_is() {
        let mut outside = two();
        outside.spec.selector = None;
        let external = json!({"addresses": ["203.0.113.7:14710"], "publicKey": "0a".repeat(32)});
        outside.spec.external = serde_json::from_value(external).unwrap();
        let way = Way::Direct("203.0.113.7:14710".to_owned());
        assert_eq!(targets(&outside, None).unwrap(), [Target { pod: None, way }]);
        assert!(targets(&outside, Some("embedder-0")).is_err());
    }

    #[test]
    fn status_does_not_decide_whom_one_may_ask() {
        let port = |pod: &str| match &targets(&two(), Some(pod)).unwrap()[..] {
            [Target { pod: Some(of), way: Way::Forward { port, .. } }] if of == pod => *port,
            other => panic!("{other:?}"),
        };
        assert_eq!((port("embedder-0"), port("hidden")), (14999, DATA_PORT));
    }

    #[test]
    fn replicas_that_status_leaves_out_are_not_taken_for_good() {
        let none = with(&json!({"desired": 0}));
        assert!(targets(&none, None).unwrap_err().to_string().contains("--pod"));
        let mut cut = two();
        cut.status.as_mut().unwrap().desired = Some(3);
        assert!(targets(&cut, None).unwrap_err().to_string().contains("2 of 3"));
    }
}
