//! Peers outside of the cluster.

use sealane_operator_api::{PeerStatus, TransferSessionStatus};
use sealane_sidecar_api::control::ExternalReport;
use serde_json::json;

use super::{condition, message};
use crate::control::convert::configuration;
use crate::reconcile::fixture::{EXPIRES, NOW, document, peer, policy, rereport, run, snapshot};
use crate::spec::Snapshot;

const KEY: [u8; 32] = [0x0a; 32];

fn key() -> String {
    hex::encode(KEY)
}

/// `name` is outside of the cluster, at two addresses, and the policy lists its key.
fn outside(name: &str) -> Snapshot {
    let mut snapshot = snapshot();
    let external = json!({"addresses": ["203.0.113.7:14710", "[2001:db8::7]:14720"], "publicKey": key()});
    let mut outsider = peer(name);
    outsider.spec.selector = None;
    outsider.spec.external = Some(serde_json::from_value(external).unwrap());
    snapshot.peers.retain(|peer| peer.metadata.name.as_deref() != Some(name));
    snapshot.peers.push(outsider);
    snapshot.pods.retain(|pod| !pod.name.starts_with(name));
    snapshot.sidecars.retain(|sidecar| !sidecar.identity.pod().starts_with(name));
    let keyed = json!({"entries": [{"kind": "Key", "publicKeys": [key()]}]});
    snapshot.policies = vec![policy(&document(1, |document| document["peers"][name] = keyed))];
    snapshot
}

fn met(peer: &str, pod: &str, key: &str) -> ExternalReport {
    ExternalReport {
        peer: peer.to_owned(),
        pod: format!("demo/{pod}/1"),
        platform: "Key".to_owned(),
        assurance: "Key".to_owned(),
        public_key: key.to_owned(),
        evidence_time: NOW - 30,
        ..ExternalReport::default()
    }
}

fn missed(peer: &str, reason: &str) -> ExternalReport {
    ExternalReport {
        peer: peer.to_owned(),
        reason: reason.to_owned(),
        message: "it went wrong".to_owned(),
        ..ExternalReport::default()
    }
}

/// What the one sidecar in the cluster says.
fn saying(mut snapshot: Snapshot, externals: Vec<ExternalReport>) -> (PeerStatus, TransferSessionStatus) {
    rereport(&mut snapshot.sidecars[0], |report| report.externals = externals);
    let (_, _, statuses) = run(snapshot);
    let peer = statuses.peers.into_iter().find(|(_, status)| status.desired == Some(2)).unwrap().1;
    (peer, statuses.sessions.into_iter().next().unwrap().1)
}

#[test]
fn sidecars_are_told_where_replicas_outside_are_and_nothing_else() {
    for (name, uid) in [("ranker", "embedder-1-uid"), ("embedder", "ranker-2-uid")] {
        let (_, applied, _) = run(outside(name));
        let told = configuration(applied.desired(uid).unwrap(), 1);
        let remote = &told.sessions[0].remotes[0];
        assert_eq!(remote.peer, name);
        let replicas: Vec<_> = remote
            .replicas
            .iter()
            .map(|one| (one.pod.as_str(), one.addresses[0].as_str(), one.port))
            .collect();
        assert_eq!(
            replicas,
            [("203.0.113.7:14710", "203.0.113.7", 14710), ("[2001:db8::7]:14720", "2001:db8::7", 14720)]
        );
        assert!(remote.replicas.iter().all(|one| one.uid.is_empty() && one.incarnation.is_empty()));
    }
}

#[test]
fn a_peer_outside_is_ready_once_sidecars_have_met_its_replicas() {
    let both = vec![met("ranker", "laptop", &key()), met("ranker", "desk", &key())];
    let (peer, session) = saying(outside("ranker"), both);
    assert_eq!(condition(&peer.conditions, "Ready"), "True AllReady");
    assert_eq!(condition(&peer.conditions, "EvidenceVerified"), "True AllVerified");
    assert_eq!(condition(&peer.conditions, "TCBUpToDate"), "Unknown NotApplicable");
    assert_eq!((peer.desired, peer.ready, peer.attested), (Some(2), Some(2), Some(2)));
    assert_eq!((peer.platform.as_deref(), peer.assurance.as_deref()), (Some("Key"), Some("Key")));
    assert_eq!(peer.tcb_status, None);
    let names: Vec<_> = peer.replicas.iter().map(|replica| replica.pod.as_str()).collect();
    assert_eq!(names, ["desk", "laptop"]);
    assert!(peer.replicas.iter().all(|replica| replica.public_key == Some(key()) && replica.ready));
    assert_eq!(condition(&session.conditions, "PeersAttested"), "True Attested");
}

#[test]
fn machines_of_one_name_are_told_apart_by_their_uids() {
    let named = |uid: &str| ExternalReport { pod: format!("demo/laptop/{uid}"), ..met("ranker", "", &key()) };
    let (peer, _) = saying(outside("ranker"), vec![named("1"), named("2"), named("2")]);
    assert_eq!(condition(&peer.conditions, "Ready"), "True AllReady");
    assert_eq!((peer.ready, peer.attested), (Some(2), Some(2)));
    let names: Vec<_> = peer.replicas.iter().map(|replica| replica.pod.as_str()).collect();
    assert_eq!(names, ["laptop/1", "laptop/2"]);
    // No name is longer than a status may hold, and none is there twice: the list is a map.
    let long = |uid: &str| named(&format!("{}{uid}", "u".repeat(250)));
    let (peer, _) = saying(outside("ranker"), vec![long("1"), long("2")]);
    let names: Vec<_> = peer.replicas.iter().map(|replica| replica.pod.as_str()).collect();
    assert!(names.iter().all(|name| name.len() == 253) && names.len() == 2 && names[0] != names[1]);
}

#[test]
fn a_peer_outside_shows_when_its_policy_ends() {
    let (peer, _) = saying(outside("ranker"), vec![met("ranker", "laptop", &key())]);
    assert_eq!(peer.earliest_expiry.unwrap().0.as_second() as u64, EXPIRES);
}

#[test]
fn nobody_met_is_unknown_and_what_was_refused_is_named() {
    let (peer, session) = saying(outside("ranker"), vec![]);
    assert_eq!(condition(&peer.conditions, "Ready"), "False NotConnected");
    assert_eq!(condition(&peer.conditions, "EvidenceVerified"), "Unknown NotConnected");
    assert_eq!(condition(&session.conditions, "PeersAttested"), "False NotConnected");
    let (peer, _) = saying(outside("ranker"), vec![missed("ranker", "KeyMismatch")]);
    assert_eq!(condition(&peer.conditions, "Ready"), "False KeyMismatch");
    assert_eq!(condition(&peer.conditions, "EvidenceVerified"), "False KeyMismatch");
    assert!(message(&peer.conditions, "Ready").contains("pod `embedder-1`: it went wrong"));
    let one = vec![met("ranker", "laptop", &key()), missed("ranker", "Unreachable")];
    let (peer, session) = saying(outside("ranker"), one);
    assert_eq!(condition(&peer.conditions, "Ready"), "False Unreachable");
    assert_eq!((peer.ready, peer.replicas.len()), (Some(1), 1));
    assert_eq!(condition(&session.conditions, "PeersAttested"), "True Attested", "one of them is enough");
}

#[test]
fn another_key_than_the_declared_one_is_none_of_its_replicas() {
    let (peer, _) = saying(outside("ranker"), vec![met("ranker", "laptop", &"0b".repeat(32))]);
    assert_eq!(condition(&peer.conditions, "Ready"), "False NotConnected");
    assert_eq!((peer.attested, peer.platform), (Some(0), None));
    // Nor is somebody else's.
    let (peer, _) = saying(outside("ranker"), vec![met("trainer", "laptop", &key())]);
    assert_eq!(peer.attested, Some(0));
}

#[test]
fn a_key_that_the_policy_does_not_list_is_told_before_anybody_connects() {
    let mut snapshot = outside("ranker");
    let other = json!({"entries": [{"kind": "Key", "publicKeys": ["0b".repeat(32)]}]});
    snapshot.policies = vec![policy(&document(1, |document| document["peers"]["ranker"] = other))];
    let (peer, _) = saying(snapshot.clone(), vec![]);
    assert_eq!(condition(&peer.conditions, "Ready"), "False KeyMismatch");
    assert!(message(&peer.conditions, "Ready").contains("lists spec.external.publicKey 0a0a"));
    // An entry of a platform is none of a key.
    snapshot.policies = vec![policy(&document(1, |_| ()))];
    assert_eq!(condition(&saying(snapshot, vec![]).0.conditions, "Ready"), "False KeyMismatch");
}

#[test]
fn what_a_session_with_the_outside_moves_is_counted_where_somebody_reports() {
    // 5 tensors sent and 4 taken by the pods of the fixture.
    for (name, tensors) in [("ranker", 5), ("embedder", 4)] {
        let both = vec![met(name, "laptop", &key()), met(name, "desk", &key())];
        let (_, session) = saying(outside(name), both);
        assert_eq!(session.tensors_transferred, Some(tensors), "{name}");
        assert_eq!((session.connections, session.connections_desired), (Some(1), Some(1)));
        assert_eq!(condition(&session.conditions, "Established"), "True Connected");
        assert_eq!(condition(&session.conditions, "Ready"), "True Connected");
    }
}

#[test]
fn an_address_that_is_none_is_a_problem_of_its_peer() {
    let mut snapshot = outside("ranker");
    let external = snapshot.peers[1].spec.external.as_mut().unwrap();
    external.addresses[1] = "example.org:14710".to_owned();
    let (_, _, statuses) = run(snapshot);
    let (_, status) = statuses.peers.iter().find(|(name, _)| name.as_str() == "ranker").unwrap();
    assert_eq!(condition(&status.conditions, "Ready"), "False SpecInvalid");
    assert!(message(&status.conditions, "Ready").contains("spec.external.addresses[1]"));
}

#[test]
fn a_key_in_the_cluster_shows_as_what_it_is() {
    let mut snapshot = snapshot();
    rereport(&mut snapshot.sidecars[0], |report| {
        let evidence = report.evidence.as_mut().unwrap();
        evidence.platform = "Key".to_owned();
        evidence.assurance = "Key".to_owned();
        evidence.measurement = String::new();
        evidence.tcb_status = String::new();
        evidence.collateral_expires = 0;
    });
    let (_, _, statuses) = run(snapshot);
    let (_, status) = statuses.peers.iter().find(|(name, _)| name.as_str() == "embedder").unwrap();
    assert_eq!(condition(&status.conditions, "Ready"), "True AllReady");
    assert_eq!(condition(&status.conditions, "TCBUpToDate"), "Unknown NotApplicable");
    assert_eq!((status.platform.as_deref(), status.assurance.as_deref()), (Some("Key"), Some("Key")));
    assert_eq!((&status.tcb_status, &status.replicas[0].measurement), (&None, &None));
}
