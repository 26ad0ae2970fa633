//! What becomes of a session and its Peers with the Jobs, Deployments and pods that send.

use k8s_openapi::jiff::Timestamp;
use sealane_operator_api::{PeerStatus, Phase, TransferSessionStatus};

use super::{condition, message};
use crate::reconcile::fixture::{job, owner, pod, run, sidecar, snapshot};
use crate::spec::{PodPhase, PodView, Snapshot};
use crate::workload::{Owner, WorkloadState, WorkloadView};

/// The statuses after `change`, continuing from what was written before it.
fn next(snapshot: &mut Snapshot, change: impl FnOnce(&mut Snapshot)) -> (TransferSessionStatus, PeerStatus) {
    let statuses = run(snapshot.clone()).2;
    snapshot.sessions[0].status = Some(statuses.sessions[0].1.clone());
    for (object, (_, status)) in snapshot.peers.iter_mut().zip(statuses.peers) {
        object.status = Some(status);
    }
    change(snapshot);
    now(snapshot)
}

/// Of the session, and of its sending Peer.
fn now(snapshot: &Snapshot) -> (TransferSessionStatus, PeerStatus) {
    let mut statuses = run(snapshot.clone()).2;
    (statuses.sessions.remove(0).1, statuses.peers.remove(0).1)
}

fn ready(peer: &PeerStatus) -> String {
    condition(&peer.conditions, "Ready")
}

/// The session works, and a Job of one completion made the sending pod.
fn of_job() -> Snapshot {
    let mut snapshot = snapshot();
    snapshot.workloads = vec![job("send", "embedder", 1)];
    snapshot.pods[0].owner = owner(&snapshot.workloads[0]);
    snapshot
}

/// Another pod of `workload`, attached.
fn another(snapshot: &mut Snapshot, workload: usize, number: u8) {
    let made = PodView { owner: owner(&snapshot.workloads[workload]), ..pod("embedder", number) };
    snapshot.sidecars.push(sidecar(&made));
    snapshot.pods.insert(0, made);
}

fn ended(snapshot: &mut Snapshot, pod: &str, phase: PodPhase) {
    snapshot.pods.iter_mut().find(|one| one.name == pod).unwrap().phase = phase;
}

fn made(hour: u8) -> Option<Timestamp> {
    Some(format!("2026-11-20T{hour:02}:00:00Z").parse().unwrap())
}

#[test]
fn a_job_that_fails_once_and_then_succeeds_is_complete() {
    let mut snapshot = of_job();
    // The first pod has failed; its Job waits before it makes another one.
    let (session, peer) = next(&mut snapshot, |it| ended(it, "embedder-1", PodPhase::Failed));
    assert_eq!(session.phase, Some(Phase::Pending));
    assert_eq!(condition(&session.conditions, "Failed"), "False SendersActive");
    assert_eq!(ready(&peer), "False NoReplicas");
    assert!(message(&peer.conditions, "Ready").contains("1 are to come, of Job/send"));
    let (session, _) = next(&mut snapshot, |it| another(it, 0, 3));
    assert_ne!(session.phase, Some(Phase::Failed));
    // Its pod has succeeded, which the Job says some time later.
    let (session, peer) = next(&mut snapshot, |it| ended(it, "embedder-3", PodPhase::Succeeded));
    assert_eq!(session.phase, Some(Phase::Complete));
    assert_eq!(condition(&session.conditions, "Complete"), "True SendersSucceeded");
    assert_eq!(condition(&session.conditions, "Failed"), "False SendersSucceeded");
    assert_eq!(condition(&session.conditions, "Ready"), "True Complete");
    assert_eq!(ready(&peer), "True Finished");
    let told = next(&mut snapshot, |it| it.workloads[0].state = WorkloadState::Succeeded);
    assert_eq!((told.0.phase, ready(&told.1)), (Some(Phase::Complete), "True Finished".to_owned()));
    // And so it stays when the Job and its pods are cleaned up.
    let (session, peer) = next(&mut snapshot, |it| {
        it.workloads.clear();
        it.pods.retain(|pod| pod.name.starts_with("ranker"));
    });
    assert_eq!((session.phase, ready(&peer)), (Some(Phase::Complete), "True Finished".to_owned()));
}

#[test]
fn a_job_that_has_failed_says_why_and_another_run_goes_on() {
    let mut snapshot = of_job();
    let (session, peer) = next(&mut snapshot, |it| {
        ended(it, "embedder-1", PodPhase::Failed);
        it.workloads[0].state = WorkloadState::Failed("BackoffLimitExceeded".to_owned());
    });
    assert_eq!(session.phase, Some(Phase::Failed));
    assert_eq!(condition(&session.conditions, "Ready"), "False SendersFailed");
    for told in [message(&session.conditions, "Failed"), message(&peer.conditions, "Ready")] {
        assert!(told.contains("Job `send` has failed: BackoffLimitExceeded"), "{told}");
    }
    let failed_at = session.completion_time.unwrap();
    let (session, _) = next(&mut snapshot, |it| {
        it.workloads[0] = job("again", "embedder", 1);
        another(it, 0, 3);
    });
    assert_eq!((session.phase, session.completion_time), (Some(Phase::Connecting), None));
    let (session, _) = next(&mut snapshot, |it| {
        it.now = it.now.plus(60);
        ended(it, "embedder-3", PodPhase::Succeeded);
    });
    assert_eq!(session.phase, Some(Phase::Complete));
    assert_ne!(session.completion_time, Some(failed_at));
}

#[test]
fn a_job_of_many_is_complete_when_all_have_succeeded() {
    let mut snapshot = of_job();
    snapshot.workloads = vec![job("send", "embedder", 2)];
    // One is done, and the other one has not been made yet.
    let (session, _) = next(&mut snapshot, |it| ended(it, "embedder-1", PodPhase::Succeeded));
    assert_ne!(session.phase, Some(Phase::Complete));
    assert_eq!(condition(&session.conditions, "Complete"), "False SendersActive");
    // An index that succeeds twice is done once.
    let index = |it: &mut Snapshot, pod: &str, index: &str| {
        let pod = it.pods.iter_mut().find(|one| one.name == pod).unwrap();
        pod.labels.insert("batch.kubernetes.io/job-completion-index".to_owned(), index.to_owned());
    };
    let (session, _) = next(&mut snapshot, |it| {
        another(it, 0, 3);
        ended(it, "embedder-3", PodPhase::Succeeded);
        index(it, "embedder-1", "0");
        index(it, "embedder-3", "0");
    });
    assert_ne!(session.phase, Some(Phase::Complete));
    let (session, _) = next(&mut snapshot, |it| index(it, "embedder-3", "1"));
    assert_eq!(session.phase, Some(Phase::Complete));
}

#[test]
fn what_a_cron_job_ran_before_is_history() {
    let run = |name: &str, hour: u8, state: WorkloadState| WorkloadView {
        made: made(hour),
        owner: Some(Owner { kind: "CronJob".to_owned(), name: "nightly".to_owned(), uid: "cron".to_owned() }),
        state,
        ..job(name, "embedder", 1)
    };
    let failed = || WorkloadState::Failed("DeadlineExceeded".to_owned());
    let mut snapshot = of_job();
    snapshot.workloads = vec![run("send", 1, failed())];
    let (session, _) = next(&mut snapshot, |it| ended(it, "embedder-1", PodPhase::Failed));
    assert_eq!(session.phase, Some(Phase::Failed));
    let (session, peer) = next(&mut snapshot, |it| {
        it.workloads.push(run("send-2", 2, WorkloadState::Succeeded));
        another(it, 1, 3);
        ended(it, "embedder-3", PodPhase::Succeeded);
    });
    assert_eq!((session.phase, ready(&peer)), (Some(Phase::Complete), "True Finished".to_owned()));
    // The next one runs, and fails.
    let (session, _) = next(&mut snapshot, |it| {
        it.workloads.push(run("send-3", 3, job("x", "x", 1).state));
        another(it, 2, 4);
    });
    assert_eq!(session.phase, Some(Phase::Connecting));
    let (session, _) = next(&mut snapshot, |it| {
        ended(it, "embedder-4", PodPhase::Failed);
        it.workloads[2].state = failed();
    });
    assert_eq!(session.phase, Some(Phase::Failed));
    // Of Jobs that are each other's equals all count.
    let mut snapshot = of_job();
    snapshot.workloads = vec![job("send", "embedder", 1), job("send-2", "embedder", 1)];
    snapshot.workloads[0].state = failed();
    snapshot.workloads[1].state = WorkloadState::Succeeded;
    ended(&mut snapshot, "embedder-1", PodPhase::Failed);
    assert_eq!(now(&snapshot).0.phase, Some(Phase::Failed));
}

#[test]
fn what_was_evicted_and_replaced_is_no_failure() {
    let serving = |pods: u32| {
        let set = WorkloadView { kind: "ReplicaSet", ..job("serve-1", "embedder", 1) };
        let deployment = WorkloadView { kind: "Deployment", ..job("serve", "embedder", 1) };
        let owner = owner(&deployment);
        let state = || WorkloadState::Serving { pods };
        vec![WorkloadView { state: state(), ..deployment }, WorkloadView { state: state(), owner, ..set }]
    };
    let mut snapshot = snapshot();
    snapshot.workloads = serving(1);
    snapshot.pods[0].owner = owner(&snapshot.workloads[1]);
    another(&mut snapshot, 1, 3);
    ended(&mut snapshot, "embedder-3", PodPhase::Failed);
    let (session, peer) = now(&snapshot);
    assert_eq!((session.phase, ready(&peer)), (Some(Phase::Active), "True AllReady".to_owned()));
    // All of it is evicted, and what replaces it is not there yet.
    let (session, peer) = next(&mut snapshot, |it| ended(it, "embedder-1", PodPhase::Failed));
    assert_eq!((session.phase, ready(&peer)), (Some(Phase::Pending), "False NoReplicas".to_owned()));
    assert!(message(&peer.conditions, "Ready").contains("1 are to come, of Deployment/serve"));
    // Nor is one that was scaled to nothing, with what was evicted before.
    let (session, _) = next(&mut snapshot, |it| it.workloads = serving(0));
    assert_eq!(condition(&session.conditions, "Failed"), "False SendersActive");
}

#[test]
fn pods_of_a_workload_that_is_gone_say_nothing() {
    let mut snapshot = of_job();
    let (session, _) = next(&mut snapshot, |it| {
        it.workloads[0].state = WorkloadState::Succeeded;
        ended(it, "embedder-1", PodPhase::Succeeded);
    });
    assert_eq!(session.phase, Some(Phase::Complete));
    // Cleaned up after a time: the Job goes first, with a pod that had failed before.
    let (session, _) = next(&mut snapshot, |it| {
        it.workloads.clear();
        ended(it, "embedder-1", PodPhase::Failed);
    });
    assert_eq!(session.phase, Some(Phase::Complete));
}

#[test]
fn a_pod_of_another_controller_is_replaced_by_what_it_made_afterwards() {
    let mut snapshot = snapshot();
    let other = Some(Owner { kind: "Workflow".to_owned(), name: "w".to_owned(), uid: "w".to_owned() });
    let late = PodView { owner: other.clone(), made: made(3), ..pod("embedder", 3) };
    snapshot.pods.push(late);
    ended(&mut snapshot, "embedder-3", PodPhase::Succeeded);
    let first = &mut snapshot.pods[0];
    (first.phase, first.owner, first.made) = (PodPhase::Failed, other, made(1));
    snapshot.pods[0].ended = made(2);
    assert_eq!(now(&snapshot).0.phase, Some(Phase::Complete), "it tried again");
    snapshot.pods[0].ended = made(4);
    assert_eq!(now(&snapshot).0.phase, Some(Phase::Failed), "they ran side by side");
    // Nothing replaces a bare pod but another one that somebody makes.
    snapshot.pods[0].ended = made(2);
    for index in [0, 2] {
        snapshot.pods[index].owner = None;
    }
    assert_eq!(now(&snapshot).0.phase, Some(Phase::Failed));
}

#[test]
fn peers_of_complete_sessions_have_finished_whatever_became_of_their_pods() {
    let mut snapshot = snapshot();
    ended(&mut snapshot, "embedder-1", PodPhase::Succeeded);
    let statuses = |snapshot: &Snapshot| -> Vec<String> {
        run(snapshot.clone()).2.peers.iter().map(|(_, status)| ready(status)).collect()
    };
    assert_eq!(statuses(&snapshot), ["True Finished", "True AllReady"]);
    // Receivers that were deleted are not missed.
    snapshot.sessions[0].status = Some(now(&snapshot).0);
    snapshot.pods.retain(|pod| pod.name != "ranker-2");
    assert_eq!(statuses(&snapshot), ["True Finished", "True Finished"]);
    // Those that failed are.
    let failed = PodView { phase: PodPhase::Failed, ..pod("ranker", 2) };
    snapshot.pods.push(failed);
    assert_eq!(statuses(&snapshot), ["True Finished", "False NoReplicas"]);
}

#[test]
fn the_end_of_the_work_is_no_fault() {
    let mut snapshot = of_job();
    let (session, peer) = next(&mut snapshot, |it| ended(it, "embedder-1", PodPhase::Succeeded));
    for (type_, expected) in [
        ("Ready", "True Finished"),
        ("PolicyVerified", "Unknown Finished"),
        ("EvidenceVerified", "Unknown Finished"),
        ("Degraded", "False AsDeclared"),
    ] {
        assert_eq!(condition(&peer.conditions, type_), expected);
    }
    assert_eq!((peer.desired, peer.ready), (Some(0), Some(0)));
    assert_eq!(condition(&session.conditions, "PeersAttested"), "Unknown Complete");
    assert_eq!(condition(&session.conditions, "Established"), "Unknown Complete");
}
