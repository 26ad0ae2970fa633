use sealane_operator_api::{Phase, TransferSessionStatus};
use sealane_sidecar_api::control::SessionReport;

use super::{condition, message};
use crate::control::registry::{Process, Totals};
use crate::reconcile::fixture::{document, pod, policy, rereport, run, session_report, sidecar, snapshot};
use crate::spec::{PodPhase, Snapshot};

fn activations(snapshot: Snapshot) -> TransferSessionStatus {
    let (_, _, statuses) = run(snapshot);
    statuses.sessions.into_iter().next().unwrap().1
}

/// The status after `change`, continuing from what was written before it.
fn next(snapshot: &mut Snapshot, change: impl FnOnce(&mut Snapshot)) -> TransferSessionStatus {
    snapshot.sessions[0].status = Some(activations(snapshot.clone()));
    change(snapshot);
    activations(snapshot.clone())
}

#[test]
fn a_working_session_says_what_it_does() {
    let status = activations(snapshot());
    let types: Vec<_> = status.conditions.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(types, ["Ready", "PeersAttested", "Established", "Complete", "Failed", "Degraded"]);
    assert_eq!(condition(&status.conditions, "Ready"), "True Connected");
    assert_eq!(status.phase, Some(Phase::Active));
    assert_eq!((status.connections, status.connections_desired), (Some(1), Some(1)));
    assert_eq!(
        (status.tensors_transferred, status.bytes_transferred),
        (Some(4), Some(400)),
        "what was taken counts"
    );
    assert_eq!((status.carrier.as_deref(), status.cipher.as_deref()), (Some("Tcp"), Some("Aes256Gcm")));
    assert_eq!(status.post_quantum, Some(true));
    assert_eq!(status.handshake_micros, Some(1500));
    assert!(status.start_time.is_some() && status.completion_time.is_none());
}

#[test]
fn it_says_whose_word_the_end_of_a_stream_is() {
    let ends = |rule: fn(&mut serde_json::Value)| {
        let mut snapshot = snapshot();
        snapshot.policies = vec![policy(&document(1, |document| rule(&mut document["sessions"][0])))];
        message(&activations(snapshot).conditions, "Complete")
    };
    let listed = ends(|_| ());
    assert!(listed.contains("all senders have that this control plane lists"), "{listed}");
    let signed = ends(|rule| rule["senders"] = serde_json::json!({"min": 4}));
    assert!(signed.contains("once at least 4 senders have, as the policy signs"), "{signed}");
}

#[test]
fn each_reason_not_to_flow_is_named() {
    type Case = (fn(&mut Snapshot), &'static str, Phase);
    let cases: [Case; 8] = [
        (|snapshot| drop(snapshot.peers.remove(1)), "False PeerUnknown", Phase::Pending),
        (|snapshot| snapshot.policies.clear(), "False PolicyMissing", Phase::Pending),
        (
            |snapshot| snapshot.peers[1].spec.trust_policy_ref.name = "other".to_owned(),
            "False PolicyMismatch",
            Phase::Pending,
        ),
        (
            |snapshot| {
                let without = document(1, |document| document["sessions"] = serde_json::json!([]));
                snapshot.policies = vec![policy(&without)];
            },
            "False SessionNotInPolicy",
            Phase::Pending,
        ),
        (|snapshot| snapshot.pods.truncate(1), "False NoReplicas", Phase::Pending),
        (|snapshot| snapshot.sidecars[1].report = None, "False NotConfigured", Phase::Pending),
        (
            |snapshot| {
                rereport(&mut snapshot.sidecars[0], |report| {
                    report.sessions[0].reason = "Unreachable".to_owned();
                    report.sessions[0].message = "10.0.0.2:14710: connection refused".to_owned();
                });
            },
            "False Unreachable",
            Phase::Connecting,
        ),
        (|snapshot| snapshot.sessions[0].spec.suspend = true, "False SessionSuspended", Phase::Suspended),
    ];
    for (change, expected, phase) in cases {
        let mut snapshot = snapshot();
        rereport(&mut snapshot.sidecars[0], |report| report.sessions[0].connections = 0);
        change(&mut snapshot);
        let status = activations(snapshot);
        assert_eq!(condition(&status.conditions, "Ready"), expected);
        assert_eq!(status.phase, Some(phase), "{expected}");
    }
}

#[test]
fn complete_means_that_every_sending_pod_has_succeeded() {
    let mut snapshot = snapshot();
    snapshot.pods.push(pod("embedder", 3));
    let second = sidecar(&snapshot.pods[2]);
    snapshot.sidecars.push(second);
    let status = next(&mut snapshot, |snapshot| snapshot.pods[0].phase = PodPhase::Succeeded);
    assert_eq!(condition(&status.conditions, "Complete"), "False SendersActive");
    let status = next(&mut snapshot, |snapshot| snapshot.pods[2].phase = PodPhase::Succeeded);
    assert_eq!(status.phase, Some(Phase::Complete));
    assert_eq!(condition(&status.conditions, "Complete"), "True SendersSucceeded");
    assert_eq!(condition(&status.conditions, "Ready"), "True Complete");
    let completed = status.completion_time.unwrap();
    // The Job's pods are cleaned up: it stays complete, at the same time.
    let status = next(&mut snapshot, |snapshot| {
        snapshot.pods.retain(|pod| pod.name.starts_with("ranker"));
        snapshot.now = snapshot.now.plus(600);
    });
    assert_eq!((status.phase, status.completion_time), (Some(Phase::Complete), Some(completed)));
    // A new run begins.
    let status = next(&mut snapshot, |snapshot| snapshot.pods.push(pod("embedder", 4)));
    assert_ne!(status.phase, Some(Phase::Complete));
    assert_eq!(status.completion_time, None);
}

#[test]
fn what_never_took_place_is_not_complete() {
    let mut snapshot = snapshot();
    snapshot.pods[0].phase = PodPhase::Succeeded;
    for sidecar in &mut snapshot.sidecars {
        rereport(sidecar, |report| {
            report.sessions[0] = SessionReport { connections: 0, ..session_report() };
        });
    }
    let status = activations(snapshot.clone());
    assert_eq!((status.phase, status.start_time), (Some(Phase::Pending), None));
    assert_eq!(condition(&status.conditions, "Ready"), "False NoReplicas");
    // A stream so short that no connection was seen still closed its lanes.
    rereport(&mut snapshot.sidecars[0], |report| report.sessions[0].ended = true);
    let status = activations(snapshot);
    assert_eq!(status.phase, Some(Phase::Complete));
    assert!(status.start_time.is_some());
}

#[test]
fn failed_means_that_a_sending_pod_failed_and_none_runs() {
    let mut snapshot = snapshot();
    snapshot.pods.push(pod("embedder", 3));
    snapshot.pods[0].phase = PodPhase::Failed;
    assert_eq!(condition(&activations(snapshot.clone()).conditions, "Failed"), "False SendersActive");
    snapshot.pods[2].phase = PodPhase::Succeeded;
    let status = activations(snapshot);
    assert_eq!(
        (status.phase, condition(&status.conditions, "Failed").as_str()),
        (Some(Phase::Failed), "True SendersFailed")
    );
    assert_eq!(condition(&status.conditions, "Ready"), "False SendersFailed");
}

#[test]
fn totals_survive_processes_and_leaders() {
    let mut snapshot = snapshot();
    let before = Process { pod: "ranker-2-uid".to_owned(), incarnation: [1; 16] };
    let counted = Totals { tensors: 10, bytes: 1000, forwarded: 0 };
    snapshot.retired.insert("session-uid".to_owned(), [(before, counted)].into());
    let totals = |status: &TransferSessionStatus| {
        (status.tensors_transferred.unwrap(), status.bytes_transferred.unwrap())
    };
    assert_eq!(totals(&activations(snapshot.clone())), (14, 1400));
    // A new leader knows neither what is retired nor the sidecar that has not registered again.
    let mut away = None;
    let status = next(&mut snapshot, |snapshot| {
        snapshot.retired.clear();
        away = Some(snapshot.sidecars.remove(1));
    });
    assert_eq!(totals(&status), (14, 1400));
    // It comes back and has counted on.
    let status = next(&mut snapshot, |snapshot| {
        let mut back = away.take().unwrap();
        rereport(&mut back, |report| (report.sessions[0].tensors, report.sessions[0].bytes) = (6, 600));
        snapshot.sidecars.push(back);
    });
    assert_eq!(totals(&status), (16, 1600));
    // Another process takes its place while nobody leads, and begins at zero.
    let status = next(&mut snapshot, |snapshot| {
        let sidecar = &mut snapshot.sidecars[1];
        sidecar.registration.incarnation = [5; 16];
        rereport(sidecar, |report| (report.sessions[0].tensors, report.sessions[0].bytes) = (1, 100));
    });
    assert_eq!(totals(&status), (17, 1700));
    // The pod goes for good.
    let status = next(&mut snapshot, |snapshot| {
        snapshot.sidecars.remove(1);
        snapshot.pods.remove(1);
    });
    assert_eq!(totals(&status), (17, 1700));
    assert!(status.counted.unwrap().processes.is_empty());
}

#[test]
fn reports_about_an_earlier_session_of_the_same_name_do_not_count() {
    let mut snapshot = snapshot();
    for sidecar in &mut snapshot.sidecars {
        rereport(sidecar, |report| report.sessions[0].uid = "earlier-uid".to_owned());
    }
    let status = activations(snapshot);
    assert_eq!((status.connections, status.tensors_transferred), (Some(0), Some(0)));
    assert_eq!(condition(&status.conditions, "Established"), "False Connecting");
}

#[test]
fn every_degradation_is_told() {
    let mut snapshot = snapshot();
    rereport(&mut snapshot.sidecars[0], |report| {
        report.sessions[0].connections_desired = 2;
        report.sessions[0].post_quantum = false;
        report.sessions[0].degraded = vec!["Stalled".to_owned()];
    });
    let status = activations(snapshot);
    assert_eq!(condition(&status.conditions, "Ready"), "True Connected");
    assert_eq!(condition(&status.conditions, "Degraded"), "True SomeUnconnected");
    let message = message(&status.conditions, "Degraded");
    for part in ["1 of 2 connections", "classical keys", "Stalled at pod `embedder-1`"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(status.post_quantum, Some(false));
}

/// The session is carried by AF_XDP at its sending replica, in `mode`.
fn past_the_kernel(mode: &'static str) -> impl Fn(&mut Snapshot) {
    move |snapshot| {
        rereport(&mut snapshot.sidecars[0], |report| {
            let session = &mut report.sessions[0];
            (session.carrier, session.carrier_mode) = ("AfXdp".to_owned(), mode.to_owned());
        });
    }
}

#[test]
fn how_af_xdp_reaches_the_devices_is_told() {
    let mode = |mode| {
        let mut snapshot = snapshot();
        past_the_kernel(mode)(&mut snapshot);
        let status = activations(snapshot);
        assert_eq!(status.carrier.as_deref(), Some("AfXdp"));
        status.carrier_mode
    };
    assert_eq!(mode("Generic").as_deref(), Some("Generic"));
    assert_eq!(mode("ZeroCopy").as_deref(), Some("ZeroCopy"));
    assert_eq!(mode("Warp"), None, "no word that this release knows");
    assert_eq!(mode(""), None);
    assert_eq!(activations(snapshot()).carrier_mode, None);

    // Two replicas differ; what one says that is not connected does not count.
    let mut differing = snapshot();
    past_the_kernel("Generic")(&mut differing);
    for (number, connections, mode) in [(3, 1, "Native"), (4, 0, "ZeroCopy")] {
        let other = pod("embedder", number);
        let mut attached = sidecar(&other);
        let (carrier, carrier_mode) = ("AfXdp".to_owned(), mode.to_owned());
        let session = SessionReport { connections, carrier, carrier_mode, ..session_report() };
        rereport(&mut attached, |report| report.sessions = vec![session]);
        differing.pods.push(other);
        differing.sidecars.push(attached);
    }
    assert_eq!(activations(differing).carrier_mode.as_deref(), Some("Generic+Native"));
}

#[test]
fn congestion_controls_of_connected_senders_are_told_together() {
    let told = |words: &str| {
        let mut snapshot = snapshot();
        rereport(&mut snapshot.sidecars[0], |report| words.clone_into(&mut report.sessions[0].congestion));
        activations(snapshot).congestion
    };
    assert_eq!(told("cubic").as_deref(), Some("cubic"));
    assert_eq!(told("Cubic+Bbr+Cubic").as_deref(), Some("Bbr+Cubic"));
    assert_eq!(told(""), None);
    assert_eq!(told("a_word_of_16bytes+<b>+reno").as_deref(), Some("reno"), "none that a kernel can have");
    assert_eq!(told("e+d+c+b+a").as_deref(), Some("a+b+c+d"), "as many as there is room for");
}

#[test]
fn the_mode_goes_with_its_carrier() {
    let mut snapshot = snapshot();
    past_the_kernel("Generic")(&mut snapshot);
    let status = next(&mut snapshot, |snapshot| {
        rereport(&mut snapshot.sidecars[0], |report| report.sessions[0].connections = 0);
    });
    assert_eq!((status.carrier.as_deref(), status.carrier_mode.as_deref()), (Some("AfXdp"), Some("Generic")));
    let status = next(&mut snapshot, |snapshot| {
        // Whatever it says of a mode, UDP has none.
        past_the_kernel("Generic")(snapshot);
        rereport(&mut snapshot.sidecars[0], |report| {
            let session = &mut report.sessions[0];
            (session.connections, session.carrier) = (1, "Udp".to_owned());
        });
    });
    assert_eq!((status.carrier.as_deref(), status.carrier_mode), (Some("Udp"), None));
}

#[test]
fn a_carrier_that_stands_in_says_why() {
    let fallback = |words: &str| {
        let mut snapshot = snapshot();
        rereport(&mut snapshot.sidecars[0], |report| {
            let session = &mut report.sessions[0];
            session.carrier = "Udp".to_owned();
            session.degraded = vec!["CarrierFallback".to_owned(), "Stalled".to_owned()];
            session.carrier_message = words.to_owned();
        });
        let status = activations(snapshot);
        assert_eq!(condition(&status.conditions, "Ready"), "True Connected");
        message(&status.conditions, "Degraded")
    };
    let told = fallback("another XDP program holds eth0");
    assert!(told.contains("CarrierFallback at pod `embedder-1`: another XDP program holds eth0"), "{told}");
    assert!(told.contains("Stalled at pod `embedder-1`") && !told.contains("Stalled at pod `embedder-1`:"));
    assert!(fallback("").contains("CarrierFallback at pod `embedder-1`"));
    assert!(!fallback("").contains("CarrierFallback at pod `embedder-1`:"));
    // What a sidecar says is bounded, whatever it says.
    assert!(fallback(&"x".repeat(5000)).chars().count() <= 1024);
}

#[test]
fn an_error_stays_until_it_is_mended_and_tells_since_when() {
    let fail = |snapshot: &mut Snapshot, word: &str| {
        let (sidecar, word) = (&mut snapshot.sidecars[0], word.to_owned());
        rereport(sidecar, |report| {
            report.sessions[0] = SessionReport { connections: 0, reason: word, ..session_report() };
        });
    };
    let mut snapshot = snapshot();
    let first = next(&mut snapshot, |snapshot| fail(snapshot, "Unreachable"));
    assert!(first.last_error.clone().unwrap().starts_with("Unreachable"));
    // It tries again, and nobody has mended anything meanwhile.
    for word in ["", "Unreachable"] {
        let again = next(&mut snapshot, |snapshot| {
            snapshot.now = snapshot.now.plus(60);
            fail(snapshot, word);
        });
        assert_eq!((&again.last_error, &again.last_error_time), (&first.last_error, &first.last_error_time));
    }
    let other = next(&mut snapshot, |snapshot| fail(snapshot, "LinkLost"));
    assert!(other.last_error.unwrap().starts_with("LinkLost"));
    assert!(other.last_error_time > first.last_error_time);
    let mended = next(&mut snapshot, |snapshot| {
        rereport(&mut snapshot.sidecars[0], |report| report.sessions = vec![session_report()]);
    });
    assert_eq!((mended.last_error, mended.last_error_time), (None, None));
    assert_eq!(condition(&mended.conditions, "Ready"), "True Connected");
}

#[test]
fn an_error_of_what_ended_well_is_none() {
    let mut snapshot = snapshot();
    next(&mut snapshot, |snapshot| {
        rereport(&mut snapshot.sidecars[0], |report| report.sessions[0].reason = "LinkLost".to_owned());
    });
    let complete = next(&mut snapshot, |snapshot| snapshot.pods[0].phase = PodPhase::Succeeded);
    assert_eq!((complete.phase, complete.last_error), (Some(Phase::Complete), None));
}
