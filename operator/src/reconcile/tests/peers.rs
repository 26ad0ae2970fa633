use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sealane_operator_api::PeerStatus;

use super::{condition, message};
use crate::reconcile::fixture::{NOW, peer, pod, rereport, run, sidecar, snapshot};
use crate::spec::{PodPhase, Snapshot};

fn embedder(snapshot: Snapshot) -> PeerStatus {
    let (_, _, statuses) = run(snapshot);
    statuses.peers.into_iter().find(|(name, _)| name.as_str() == "embedder").unwrap().1
}

#[test]
fn a_working_peer_says_so_with_ready_first() {
    let status = embedder(snapshot());
    let types: Vec<_> = status.conditions.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(
        types,
        ["Ready", "PolicyVerified", "EvidenceVerified", "CollateralFresh", "TCBUpToDate", "Degraded"]
    );
    assert_eq!(condition(&status.conditions, "Ready"), "True AllReady");
    assert_eq!(condition(&status.conditions, "Degraded"), "False AsDeclared");
    assert_eq!(
        (status.desired, status.ready, status.attested, status.degraded),
        (Some(1), Some(1), Some(1), Some(0))
    );
    assert_eq!((status.platform.as_deref(), status.assurance.as_deref()), (Some("SevSnp"), Some("Pod")));
    assert_eq!(status.tcb_status.as_deref(), Some("UpToDate"));
    assert_eq!(status.earliest_expiry.unwrap().0.as_second() as u64, NOW + 3600);
    assert_eq!(status.observed_generation, Some(2));
    let replica = &status.replicas[0];
    assert_eq!((replica.pod.as_str(), replica.address.as_deref()), ("embedder-1", Some("10.0.0.1:14710")));
    assert_eq!((replica.ready, replica.root_source.as_deref()), (true, Some("Injected")));
}

#[test]
fn each_reason_not_to_be_ready_is_named() {
    type Case = (fn(&mut Snapshot), &'static str);
    let cases: [Case; 8] = [
        (|snapshot| snapshot.pods.clear(), "False NoReplicas"),
        (|snapshot| snapshot.pods[0].phase = PodPhase::Failed, "False NoReplicas"),
        (|snapshot| snapshot.pods[0].injected = false, "False PodsNotInjected"),
        (|snapshot| snapshot.sidecars.clear(), "False NotAttached"),
        (|snapshot| snapshot.sidecars[0].report = None, "False NotConfigured"),
        (
            |snapshot| rereport(&mut snapshot.sidecars[0], |report| report.policy = None),
            "False PolicyMissing",
        ),
        (
            |snapshot| {
                rereport(&mut snapshot.sidecars[0], |report| {
                    let policy = report.policy.as_mut().unwrap();
                    policy.verified = false;
                    policy.reason = "PolicyUnderSigned".to_owned();
                });
            },
            "False PolicyUnderSigned",
        ),
        (
            |snapshot| {
                rereport(&mut snapshot.sidecars[0], |report| {
                    let evidence = report.evidence.as_mut().unwrap();
                    evidence.verified = false;
                    evidence.reason = "HostDataMismatch".to_owned();
                });
            },
            "False HostDataMismatch",
        ),
    ];
    for (change, expected) in cases {
        let mut snapshot = snapshot();
        change(&mut snapshot);
        assert_eq!(condition(&embedder(snapshot).conditions, "Ready"), expected);
    }
}

#[test]
fn silence_is_no_verdict() {
    let mut snapshot = snapshot();
    snapshot.sidecars.clear();
    let status = embedder(snapshot);
    assert_eq!(condition(&status.conditions, "PolicyVerified"), "Unknown NotAttached");
    assert_eq!(condition(&status.conditions, "EvidenceVerified"), "Unknown NotAttached");
    assert_eq!(condition(&status.conditions, "Ready"), "False NotAttached");
}

#[test]
fn a_reason_from_nowhere_is_not_repeated() {
    let mut snapshot = snapshot();
    rereport(&mut snapshot.sidecars[0], |report| {
        let evidence = report.evidence.as_mut().unwrap();
        evidence.verified = false;
        evidence.reason = "made up".to_owned();
        evidence.platform = "Quantum".to_owned();
    });
    let status = embedder(snapshot);
    assert_eq!(condition(&status.conditions, "EvidenceVerified"), "False Unspecified");
    assert_eq!(status.platform, None);
}

#[test]
fn the_epoch_that_replicas_act_by_is_shown_and_so_is_a_newer_one_that_they_refuse() {
    let mut snapshot = snapshot();
    snapshot.pods.push(pod("embedder", 3));
    let mut behind = sidecar(&snapshot.pods[2]);
    rereport(&mut behind, |report| report.policy.as_mut().unwrap().epoch = 4);
    rereport(&mut snapshot.sidecars[0], |report| report.policy.as_mut().unwrap().epoch = 5);
    snapshot.sidecars.push(behind);
    let status = embedder(snapshot.clone());
    assert_eq!(status.policy_epoch, Some(4));
    let replicas: Vec<_> =
        status.replicas.iter().map(|replica| (replica.pod.as_str(), replica.policy_epoch)).collect();
    assert_eq!(replicas, [("embedder-3", Some(4)), ("embedder-1", Some(5))]);
    assert_eq!(condition(&status.conditions, "Degraded"), "False AsDeclared");

    rereport(&mut snapshot.sidecars[0], |report| {
        report.policy.as_mut().unwrap().reason = "PolicyUnderSigned".to_owned();
    });
    snapshot.policies[0].spec.signatures[0].signature = format!("{}==", "A".repeat(86));
    let status = embedder(snapshot);
    assert_eq!(condition(&status.conditions, "Degraded"), "True PolicyUnderSigned");
    assert_eq!(condition(&status.conditions, "Ready"), "True AllReady", "the older document is in force");
}

/// A Peer that selects the pods of `embedder` too, made `hour` hours into the day on which that one was made at noon.
fn twin(snapshot: &mut Snapshot, hour: u8) {
    let made = |hour: u8| Some(Time(format!("2026-11-20T{hour:02}:00:00Z").parse().unwrap()));
    let mut twin = peer("twin");
    twin.spec.selector = snapshot.peers[0].spec.selector.clone();
    twin.metadata.creation_timestamp = made(hour);
    snapshot.peers[0].metadata.creation_timestamp = made(12);
    snapshot.peers.push(twin);
}

#[test]
fn a_pod_of_two_peers_stays_with_the_older_and_the_younger_says_so() {
    for (hour, older, younger) in [(13, "embedder", "twin"), (11, "twin", "embedder")] {
        let mut snapshot = snapshot();
        twin(&mut snapshot, hour);
        let (_, _, statuses) = run(snapshot);
        let of = |name: &str| &statuses.peers.iter().find(|(peer, _)| peer.as_str() == name).unwrap().1;
        assert_eq!(condition(&of(older).conditions, "Ready"), "True AllReady");
        assert_eq!(of(older).desired, Some(1));
        assert_eq!(condition(&of(younger).conditions, "Ready"), "False Conflict");
        assert_eq!(of(younger).desired, Some(0));
        assert!(message(&of(younger).conditions, "Ready").contains(&format!("`{older}` and `{younger}`")));
    }
}

#[test]
fn finished_pods_are_no_conflict() {
    let mut snapshot = snapshot();
    twin(&mut snapshot, 13);
    snapshot.pods[0].phase = PodPhase::Succeeded;
    let (_, _, statuses) = run(snapshot);
    let twin = statuses.peers.iter().find(|(peer, _)| peer.as_str() == "twin").unwrap();
    assert_ne!(condition(&twin.1.conditions, "Ready"), "False Conflict");
}

#[test]
fn a_lost_control_stream_is_forgiven_for_a_while() {
    let mut snapshot = snapshot();
    snapshot.sidecars[0].detached = Some(Duration::from_secs(29));
    assert_eq!(condition(&embedder(snapshot.clone()).conditions, "Ready"), "True AllReady");
    snapshot.sidecars[0].detached = Some(Duration::from_secs(31));
    assert_eq!(condition(&embedder(snapshot).conditions, "Ready"), "False NotAttached");
}

#[test]
fn simulation_is_accepted_and_never_hidden() {
    let mut snapshot = snapshot();
    rereport(&mut snapshot.sidecars[0], |report| {
        let evidence = report.evidence.as_mut().unwrap();
        evidence.platform = "Simulated".to_owned();
        evidence.assurance = "Simulated".to_owned();
        evidence.form = "Tdx".to_owned();
        evidence.degraded = vec!["ReferenceValueMissing".to_owned()];
    });
    let status = embedder(snapshot);
    assert_eq!(condition(&status.conditions, "Ready"), "True AllReady");
    assert_eq!(condition(&status.conditions, "Degraded"), "True ReferenceValueMissing");
    assert!(message(&status.conditions, "Degraded").contains("ReferenceValueMissing+SimulatedEvidence"));
    assert_eq!((status.assurance.as_deref(), status.degraded), (Some("Simulated"), Some(1)));
    assert_eq!(status.platform.as_deref(), Some("Simulated"), "whatever it resembles");
    assert!(status.replicas.iter().any(|replica| replica.simulated_form.as_deref() == Some("Tdx")));
}

#[test]
fn versions_of_sidecars_are_kept_and_another_than_the_operator_s_is_listed_first() {
    let mut snapshot = snapshot();
    snapshot.pods.push(pod("embedder", 3));
    snapshot.sidecars.push(sidecar(&snapshot.pods[2]));
    snapshot.sidecars[2].registration.version = "0.0.9".to_owned();
    let status = embedder(snapshot.clone());
    let current = status.operator_version.unwrap();
    assert_eq!(status.sidecar_version, Some(format!("0.0.9+{current}")));
    assert_eq!(status.replicas[0].version.as_deref(), Some("0.0.9"));
    assert_eq!(status.replicas[1].version, Some(current));
    // What cannot be a version is not repeated.
    snapshot.sidecars[2].registration.version = "1\u{1b}[2K".to_owned();
    assert!(embedder(snapshot).replicas.iter().any(|replica| replica.version.is_none()));
}

/// Otherwise a throttled sidecar of a simulated installation is never what its condition says.
#[test]
fn simulation_never_stands_before_what_can_be_mended() {
    let mut snapshot = snapshot();
    snapshot.pods.push(pod("embedder", 3));
    snapshot.sidecars.push(sidecar(&snapshot.pods[2]));
    let told = |snapshot: &mut Snapshot, index: usize, words: &[&str]| {
        rereport(&mut snapshot.sidecars[index], |report| {
            let evidence = report.evidence.as_mut().unwrap();
            evidence.platform = "Simulated".to_owned();
            evidence.degraded = words.iter().map(|word| (*word).to_owned()).collect();
        });
    };
    told(&mut snapshot, 0, &[]);
    told(&mut snapshot, 2, &["CpuThrottled"]);
    let status = embedder(snapshot.clone());
    assert_eq!(condition(&status.conditions, "Degraded"), "True CpuThrottled");
    assert!(message(&status.conditions, "Degraded").ends_with("pod `embedder-3`"));
    let listed = status.replicas.iter().find(|replica| replica.pod == "embedder-3").unwrap();
    assert_eq!(listed.reason.as_deref(), Some("CpuThrottled"));
    told(&mut snapshot, 2, &[]);
    assert_eq!(condition(&embedder(snapshot).conditions, "Degraded"), "True SimulatedEvidence");
}

#[test]
fn stale_collateral_and_an_old_tcb_are_conditions() {
    let mut snapshot = snapshot();
    rereport(&mut snapshot.sidecars[0], |report| {
        let evidence = report.evidence.as_mut().unwrap();
        evidence.collateral_expires = NOW;
        evidence.tcb_status = "OutOfDate".to_owned();
    });
    let status = embedder(snapshot.clone());
    assert_eq!(condition(&status.conditions, "CollateralFresh"), "False CollateralExpired");
    assert_eq!(condition(&status.conditions, "TCBUpToDate"), "False OutOfDate");
    snapshot.sidecars.clear();
    let status = embedder(snapshot);
    assert_eq!(condition(&status.conditions, "CollateralFresh"), "Unknown EvidenceMissing");
}

#[test]
fn status_is_computed_again_when_the_first_collateral_ends() {
    let again = |ends: [u64; 2]| {
        let mut snapshot = snapshot();
        for (sidecar, end) in snapshot.sidecars.iter_mut().zip(ends) {
            rereport(sidecar, |report| report.evidence.as_mut().unwrap().collateral_expires = end);
        }
        run(snapshot).2.again_in
    };
    assert_eq!(again([NOW + 900, NOW + 300]), Some(Duration::from_secs(300)));
    assert_eq!(again([NOW, NOW + 900]), Some(Duration::from_secs(900)), "what is over changes no more");
    assert_eq!(again([NOW, 0]), again([0, 0]), "the policy's alone");
}

#[test]
fn collateral_that_a_replica_misses_is_a_condition() {
    let told = |verified: bool, reason: &str, degraded: &[&str]| {
        let mut snapshot = snapshot();
        rereport(&mut snapshot.sidecars[0], |report| {
            let evidence = report.evidence.as_mut().unwrap();
            evidence.verified = verified;
            evidence.reason = reason.to_owned();
            evidence.degraded = degraded.iter().map(|word| (*word).to_owned()).collect();
        });
        condition(&embedder(snapshot).conditions, "CollateralFresh")
    };
    assert_eq!(told(false, "CollateralMissing", &[]), "False CollateralMissing");
    assert_eq!(told(false, "CollateralExpired", &[]), "False CollateralExpired");
    assert_eq!(told(true, "", &["CollateralStale"]), "False CollateralStale");
    assert_ne!(told(false, "MeasurementMismatch", &[]), "False CollateralMissing");
}

#[test]
fn at_most_fifty_replicas_are_listed_and_the_unready_come_first() {
    let mut snapshot = snapshot();
    snapshot.pods = (1..=60).map(|number| pod("embedder", number)).collect();
    snapshot.sidecars = snapshot.pods.iter().map(sidecar).collect();
    snapshot.sidecars[57].report = None;
    let status = embedder(snapshot);
    assert_eq!((status.desired, status.ready), (Some(60), Some(59)));
    assert_eq!(status.replicas.len(), 50);
    assert_eq!((status.replicas[0].pod.as_str(), status.replicas[0].ready), ("embedder-58", false));
}

#[test]
fn the_weakest_of_many_is_shown() {
    let mut snapshot = snapshot();
    snapshot.pods = vec![pod("embedder", 1), pod("embedder", 2)];
    snapshot.sidecars = snapshot.pods.iter().map(sidecar).collect();
    rereport(&mut snapshot.sidecars[1], |report| {
        let evidence = report.evidence.as_mut().unwrap();
        evidence.platform = "Tdx".to_owned();
        evidence.assurance = "Node".to_owned();
        evidence.tcb_status = "SoftwareHardeningNeeded".to_owned();
    });
    let status = embedder(snapshot);
    assert_eq!(status.platform.as_deref(), Some("SevSnp+Tdx"));
    assert_eq!(status.assurance.as_deref(), Some("Node"));
    assert_eq!(status.tcb_status.as_deref(), Some("SoftwareHardeningNeeded"));
}

#[test]
fn nothing_new_writes_nothing_new() {
    let mut snapshot = snapshot();
    let first = embedder(snapshot.clone());
    snapshot.peers[0].status = Some(first.clone());
    snapshot.now = snapshot.now.plus(1000);
    assert_eq!(embedder(snapshot), first, "transition times are kept");
}
