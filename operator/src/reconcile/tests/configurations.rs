use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sealane_operator_api::{CarrierChoice, DurationText};
use sealane_sidecar_api::control::Configuration;
use sealane_types::CongestionChoice;

use crate::control::convert::configuration;
use crate::reconcile::fixture::{
    document, forward, job, owner, peer, pod, policy, run, session, sidecar, snapshot,
};
use crate::spec::{PodPhase, Snapshot};
use crate::workload::{WorkloadState, WorkloadView};

/// As the message that the sidecar receives.
fn told(snapshot: Snapshot, uid: &str) -> Configuration {
    configuration(run(snapshot).1.desired(uid).unwrap(), 0)
}

#[test]
fn both_sides_learn_of_each_other_and_get_the_signed_chain() {
    let sender = told(snapshot(), "embedder-1-uid");
    assert_eq!((sender.peer.as_str(), sender.provider.as_str(), sender.generation), ("embedder", "Auto", 0));
    let chain: sealane_types::SignedChain =
        serde_json::from_str(&sender.policy.as_ref().unwrap().chain).unwrap();
    assert_eq!(chain.signatures.len(), 1);
    let roots: sealane_types::Roots = serde_json::from_str(&sender.policy.unwrap().roots).unwrap();
    assert_eq!((roots.policy.as_str(), roots.threshold), ("demo", 1));
    let session = &sender.sessions[0];
    assert!(session.sending);
    assert_eq!((session.delivery.as_str(), session.fanout), ("RoundRobin", 16));
    assert_eq!((session.carrier.as_str(), session.cipher.as_str()), ("Auto", "Auto"));
    assert_eq!(
        (session.rekey_bytes, session.rekey_messages, session.rekey_seconds),
        (64 << 30, 1_000_000_000, 600)
    );
    assert_eq!(session.remotes[0].peer, "ranker");
    assert_eq!(session.remotes[0].replicas[0].addresses, ["10.0.0.2"]);
    assert_eq!(session.remotes[0].replicas[0].port, 14710);

    let receiver = told(snapshot(), "ranker-2-uid");
    assert!(!receiver.sessions[0].sending);
    assert_eq!(receiver.sessions[0].remotes[0].peer, "embedder");
}

#[test]
fn the_congestion_control_that_is_asked_for_is_told_and_cubic_is_by_default() {
    assert_eq!(told(snapshot(), "embedder-1-uid").sessions[0].congestion, "Cubic");
    for choice in CongestionChoice::ALL {
        let mut snapshot = snapshot();
        snapshot.sessions[0].spec.congestion = *choice;
        for side in ["embedder-1-uid", "ranker-2-uid"] {
            assert_eq!(told(snapshot.clone(), side).sessions[0].congestion, choice.as_str());
        }
    }
}

#[test]
fn the_carrier_that_is_asked_for_is_told() {
    for (choice, word) in
        [(CarrierChoice::Tcp, "Tcp"), (CarrierChoice::Udp, "Udp"), (CarrierChoice::AfXdp, "AfXdp")]
    {
        let mut snapshot = snapshot();
        snapshot.sessions[0].spec.carrier = choice;
        assert_eq!(told(snapshot, "embedder-1-uid").sessions[0].carrier, word);
    }
}

#[test]
fn of_two_peers_the_shorter_reattestation_counts_for_both() {
    let seconds = |snapshot: &Snapshot| {
        ["embedder-1-uid", "ranker-2-uid"].map(|uid| told(snapshot.clone(), uid).reattest_seconds)
    };
    let mut snapshot = snapshot();
    assert_eq!(seconds(&snapshot), [600, 600]);
    snapshot.peers[1].spec.attestation.reattest_after = DurationText("1m30s".to_owned());
    assert_eq!(seconds(&snapshot), [90, 90]);
    snapshot.peers[0].spec.attestation.reattest_after = DurationText("30s".to_owned());
    assert_eq!(seconds(&snapshot), [30, 30]);
    // Without a session the Peers have nothing to do with each other.
    snapshot.sessions.clear();
    assert_eq!(seconds(&snapshot), [30, 90]);
}

#[test]
fn only_addresses_of_the_pod_itself_are_told() {
    let mut snapshot = snapshot();
    snapshot.sidecars[1].registration.addresses =
        vec!["10.0.0.99".parse().unwrap(), "10.0.0.2".parse().unwrap()];
    let remotes = |snapshot: &Snapshot| told(snapshot.clone(), "embedder-1-uid").sessions[0].remotes.clone();
    assert_eq!(remotes(&snapshot)[0].replicas[0].addresses, ["10.0.0.2"]);
    snapshot.sidecars[1].registration.addresses.truncate(1);
    assert!(remotes(&snapshot)[0].replicas.is_empty(), "a foreign address is no replica");
    // Before the kubelet has written the status there is nothing to compare with.
    snapshot.sidecars[1].registration.addresses = vec!["10.0.0.2".parse().unwrap()];
    snapshot.pods[1].addresses.clear();
    assert!(remotes(&snapshot)[0].replicas.is_empty());
}

/// Names of the senders that a receiver is told of, and whether they can be dialled.
fn awaited(snapshot: &Snapshot) -> Vec<(String, bool)> {
    let session = told(snapshot.clone(), "ranker-2-uid").sessions.remove(0);
    let replicas = session.remotes.into_iter().flat_map(|remote| remote.replicas);
    replicas.map(|replica| (replica.pod, !replica.addresses.is_empty())).collect()
}

#[test]
fn receivers_wait_for_pods_that_have_not_registered_and_nobody_dials_them() {
    let mut snapshot = snapshot();
    // Pending, starting, and one without a sidecar, which never sends.
    let mut pending = pod("embedder", 3);
    (pending.addresses, pending.node) = (Vec::new(), None);
    let mut without = pod("embedder", 5);
    without.injected = false;
    snapshot.pods.extend([pending, pod("embedder", 4), without]);
    let named = |names: &[(&str, bool)]| {
        names.iter().map(|(name, dialled)| ((*name).to_owned(), *dialled)).collect::<Vec<_>>()
    };
    let all = [("embedder-1", true), ("embedder-3", false), ("embedder-4", false)];
    assert_eq!(awaited(&snapshot), named(&all));
    // A new leader knows nobody yet, and no receiver is to take that for an end.
    let mut unknown = snapshot.clone();
    unknown.sidecars.remove(0);
    assert_eq!(awaited(&unknown), named(&all.map(|(name, _)| (name, false))));
    // What has finished or leaves is not waited for.
    snapshot.pods[2].leaving = true;
    snapshot.pods[3].phase = PodPhase::Failed;
    assert_eq!(awaited(&snapshot), named(&all[..1]));
    // Senders are told of receivers that they can dial, and a forward is not waited for at all.
    let mut receivers = snapshot.clone();
    receivers.pods.push(pod("ranker", 6));
    assert_eq!(told(receivers, "embedder-1-uid").sessions[0].remotes[0].replicas.len(), 1);
    let mut forwarding = snapshot;
    forwarding.pods.push(pod("embedder", 7));
    forwarding.sessions = vec![forward("inference", 1, 18001, false)];
    assert_eq!(awaited(&forwarding), named(&all[..1]));
}

#[test]
fn receivers_wait_for_pods_that_are_still_to_be_made() {
    let one = || vec![("Job/send".to_owned(), false), ("embedder-1".to_owned(), true)];
    let mut snapshot = snapshot();
    snapshot.workloads = vec![job("send", "embedder", 3)];
    snapshot.pods[0].owner = owner(&snapshot.workloads[0]);
    assert_eq!(awaited(&snapshot), one());
    // Its pods are all there.
    snapshot.workloads = vec![job("send", "embedder", 1)];
    assert_eq!(awaited(&snapshot), one()[1..]);
    // One has to be made again.
    snapshot.pods[0].phase = PodPhase::Failed;
    assert_eq!(awaited(&snapshot), one()[..1]);
    snapshot.workloads[0].state = WorkloadState::Failed("BackoffLimitExceeded".to_owned());
    assert!(awaited(&snapshot).is_empty());
    // A Job of another Peer, one of pods that two Peers would select, and one whose pods get no sidecar.
    snapshot.workloads = vec![job("send", "ranker", 3)];
    assert!(awaited(&snapshot).is_empty());
    let mut opted_out = job("send", "embedder", 3);
    opted_out.labels.insert("sealane.dev/inject".to_owned(), "false".to_owned());
    snapshot.workloads = vec![opted_out];
    assert!(awaited(&snapshot).is_empty());
    snapshot.workloads = vec![job("send", "embedder", 3)];
    let mut twin = peer("twin");
    twin.spec.selector = snapshot.peers[0].spec.selector.clone();
    snapshot.peers.push(twin);
    assert!(awaited(&snapshot).is_empty());
}

#[test]
fn while_a_deployment_makes_its_pods_anew_receivers_wait() {
    let serving = WorkloadView { kind: "Deployment", ..job("serve", "embedder", 1) };
    let set = WorkloadView { kind: "ReplicaSet", owner: owner(&serving), ..job("serve-1", "embedder", 1) };
    let of = |view: &WorkloadView, pods: u32| {
        let state = WorkloadState::Serving { pods };
        WorkloadView { state, ..view.clone() }
    };
    let mut snapshot = snapshot();
    snapshot.pods[0].owner = owner(&set);
    let names = |snapshot: &Snapshot| awaited(snapshot).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    // The older ReplicaSet was scaled to nothing, and the newer one is not there yet.
    snapshot.workloads = vec![of(&serving, 2), of(&set, 0)];
    assert_eq!(names(&snapshot), ["Deployment/serve", "embedder-1"]);
    snapshot.pods[0].leaving = true;
    assert_eq!(names(&snapshot), ["Deployment/serve"]);
    snapshot.pods[0].leaving = false;
    snapshot.workloads = vec![of(&serving, 1), of(&set, 2)];
    assert_eq!(names(&snapshot), ["embedder-1"], "the Deployment counts for its ReplicaSets");
}

#[test]
fn pods_that_end_are_not_dialled_but_stay_configured() {
    for change in [
        |snapshot: &mut Snapshot| snapshot.pods[1].leaving = true,
        |snapshot: &mut Snapshot| snapshot.pods[1].phase = PodPhase::Succeeded,
    ] {
        let mut snapshot = snapshot();
        change(&mut snapshot);
        assert!(told(snapshot.clone(), "embedder-1-uid").sessions[0].remotes[0].replicas.is_empty());
        assert_eq!(told(snapshot, "ranker-2-uid").sessions.len(), 1);
    }
}

#[test]
fn a_pod_of_no_peer_gets_no_policy_and_no_session() {
    let mut none = snapshot();
    none.peers.remove(0);
    let told = told(none, "embedder-1-uid");
    assert_eq!((told.peer.as_str(), told.reason.as_str()), ("", "PeerUnknown"));
    assert!(told.policy.is_none() && told.sessions.is_empty());
}

#[test]
fn a_younger_peer_that_selects_the_same_pods_changes_nothing_for_their_sidecars() {
    let mut two = snapshot();
    let mut twin = peer("twin");
    twin.spec.selector = two.peers[0].spec.selector.clone();
    twin.metadata.creation_timestamp = Some(Time("2026-11-20T00:00:01Z".parse().unwrap()));
    two.peers[0].metadata.creation_timestamp = Some(Time("2026-11-20T00:00:00Z".parse().unwrap()));
    two.peers.push(twin);
    for uid in ["embedder-1-uid", "ranker-2-uid"] {
        assert_eq!(told(two.clone(), uid), told(snapshot(), uid));
    }
}

#[test]
fn a_deleted_session_or_policy_is_gone_from_the_configuration() {
    let mut snapshot = snapshot();
    snapshot.sessions.clear();
    assert!(told(snapshot.clone(), "embedder-1-uid").sessions.is_empty());
    snapshot.policies.clear();
    assert!(told(snapshot, "embedder-1-uid").policy.is_none());
}

#[test]
fn sessions_without_both_peers_or_one_policy_are_told_to_nobody() {
    let mut unknown = snapshot();
    unknown.peers.remove(1);
    let mut mismatch = snapshot();
    mismatch.peers[1].spec.trust_policy_ref.name = "other".to_owned();
    for snapshot in [unknown, mismatch] {
        assert!(told(snapshot, "embedder-1-uid").sessions.is_empty());
    }
}

#[test]
fn a_sidecar_is_told_of_no_more_sessions_than_it_holds() {
    let mut snapshot = snapshot();
    let named = |index: usize| {
        let mut session = session();
        session.metadata.name = Some(format!("s{index:03}"));
        session.metadata.uid = Some(format!("s{index:03}-uid"));
        session
    };
    snapshot.sessions = (0..257).map(named).collect();
    assert_eq!(told(snapshot.clone(), "embedder-1-uid").sessions.len(), 256);
    let (_, _, statuses) = run(snapshot);
    let refused =
        statuses.sessions.iter().filter(|(_, status)| status.conditions[0].reason == "LimitExceeded");
    assert_eq!(refused.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["s256"]);
}

#[test]
fn suspension_is_told_and_nobody_elses_session_is() {
    let mut snapshot = snapshot();
    snapshot.sessions[0].spec.suspend = true;
    snapshot.peers.push(peer("bystander"));
    snapshot.pods.push(pod("bystander", 3));
    let bystander = sidecar(&snapshot.pods[2]);
    snapshot.sidecars.push(bystander);
    assert!(told(snapshot.clone(), "embedder-1-uid").sessions[0].suspend);
    let bystander = told(snapshot, "bystander-3-uid");
    assert_eq!(bystander.peer, "bystander");
    assert!(bystander.policy.is_some() && bystander.sessions.is_empty());
}

#[test]
fn a_document_that_the_operator_refuses_is_still_handed_on() {
    let mut snapshot = snapshot();
    let expired = document(1, |document| {
        document["notBefore"] = "2026-01-01T00:00:00Z".into();
        document["expires"] = "2026-01-02T00:00:00Z".into();
    });
    snapshot.policies = vec![policy(&expired)];
    assert!(told(snapshot, "embedder-1-uid").policy.is_some(), "the verdict is the sidecar's");
}

#[test]
fn sidecars_of_vanished_pods_are_forgotten_once_they_are_detached() {
    let mut snapshot = snapshot();
    snapshot.pods.remove(1);
    let (_, applied, _) = run(snapshot.clone());
    assert!(applied.gone().is_empty(), "the cache may be behind: it was alive when it attached");
    assert!(applied.desired("ranker-2-uid").is_none());
    snapshot.sidecars[1].detached = Some(std::time::Duration::ZERO);
    assert_eq!(run(snapshot).1.gone(), ["ranker-2-uid"]);
}

#[test]
fn the_plan_of_the_same_namespace_is_the_same() {
    let (_, first, _) = run(snapshot());
    let mut shuffled = snapshot();
    shuffled.sessions = vec![session()];
    let (_, second, _) = run(shuffled);
    for uid in ["embedder-1-uid", "ranker-2-uid"] {
        assert_eq!(first.desired(uid), second.desired(uid));
    }
}

#[test]
fn a_pod_that_the_leader_before_knew_is_listed_until_it_comes_back_or_is_gone() {
    let replicas = |snapshot: &Snapshot| {
        let replicas = told(snapshot.clone(), "embedder-1-uid").sessions.remove(0).remotes.remove(0).replicas;
        replicas.into_iter().map(|replica| (replica.uid, replica.addresses)).collect::<Vec<_>>()
    };
    let mut snapshot = snapshot();
    let whole = replicas(&snapshot);
    snapshot.sidecars.retain(|sidecar| sidecar.identity.uid() != "ranker-2-uid");
    assert_eq!(replicas(&snapshot), [], "a pod that came later has nobody connected to it");
    snapshot.inherited =
        ["ranker-2-uid".to_owned()].into_iter().collect::<std::collections::BTreeSet<_>>().into();
    assert_eq!(replicas(&snapshot), [("ranker-2-uid".to_owned(), Vec::new())]);
    // Its own status decides, and not how long it has been silent.
    snapshot.pods.iter_mut().find(|pod| pod.uid == "ranker-2-uid").unwrap().phase = PodPhase::Failed;
    assert_eq!(replicas(&snapshot), []);
    assert_eq!(whole, [("ranker-2-uid".to_owned(), vec!["10.0.0.2".to_owned()])]);
}
