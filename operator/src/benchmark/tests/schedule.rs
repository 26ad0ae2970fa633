//! When runs begin, and what keeps them from it.

use super::*;

#[test]
fn a_schedule_begins_runs_in_time_and_leaves_out_what_is_too_late() {
    let mut world = World::new(json!({"schedule": "0 * * * *", "startingDeadlineSeconds": 600}));
    world.now = at("2026-11-23T09:59:59Z");
    assert_eq!(world.step(), Step::Rest);
    assert_eq!(world.status.next_schedule_time.as_ref().unwrap().0, at("2026-11-23T10:00:00Z"));
    assert!(world.outlook.as_ref().unwrap().again.unwrap() < std::time::Duration::from_secs(2));
    world.now = at("2026-11-23T10:10:01Z");
    assert_eq!(world.step(), Step::Rest, "a second too late");
    world.now = at("2026-11-23T11:05:00Z");
    let Step::Begin(Begin { id, cause, .. }) = world.step() else { panic!() };
    assert_eq!(cause, Cause::Schedule(at("2026-11-23T11:00:00Z")));
    assert_eq!(id, format!("01234567-1-{}", at("2026-11-23T11:00:00Z").as_second()));
    assert_eq!(world.reason(SCHEDULED), "OnSchedule");
    assert_eq!(world.condition(READY).0, "True", "no run has failed");
    assert_eq!(world.status.last_schedule_time.as_ref().unwrap().0, at("2026-11-23T11:00:00Z"));
    world.rest_of_run(4.0);
    assert_eq!((world.step(), world.reason(COMPLETE)), (Step::Rest, "RunSucceeded".to_owned()));
    world.now = at("2026-11-23T12:00:00Z");
    assert!(matches!(world.step(), Step::Begin(_)), "an hour later, once more");
}

#[test]
fn a_schedule_that_is_far_off_does_not_keep_a_request_waiting() {
    let mut world = World::new(json!({"schedule": "0 0 1 1 *"}));
    assert_eq!((world.step(), world.reason(SCHEDULED)), (Step::Rest, "OnSchedule".to_owned()));
    world.request = Some("now".to_owned());
    world.whole_run(4.0);
    assert_eq!(world.reason(COMPLETE), "RunSucceeded");
    assert!(world.status.last_schedule_time.is_none());
    assert_eq!(world.status.next_schedule_time.as_ref().unwrap().0, at("2027-01-01T00:00:00Z"));
    world.spec.suspend = true;
    assert_eq!((world.step(), world.reason(SCHEDULED)), (Step::Rest, "Suspended".to_owned()));
}

#[test]
fn a_run_that_is_due_meanwhile_waits_or_replaces_the_other() {
    for (policy, outcome) in [("Forbid", None), ("Replace", Some(RunOutcome::Replaced))] {
        let mut world = World::new(json!({"schedule": "0 * * * *", "concurrencyPolicy": policy}));
        assert!(matches!(world.step(), Step::Begin(_)));
        world.step();
        world.now = at("2026-11-23T11:00:00Z");
        let step = world.step();
        assert_eq!(matches!(step, Step::Finish(_)), outcome.is_some(), "{policy}");
        if outcome.is_some() {
            assert_eq!(world.status.runs[0].outcome, RunOutcome::Replaced);
            assert!(matches!(world.step(), Step::Begin(_)));
            assert!(world.jobs.is_empty(), "what goes on for a run that is over is deleted");
        }
    }
}

#[test]
fn a_request_begins_a_run_once() {
    let mut world = World::new(json!({"schedule": "0 0 1 1 *"}));
    world.request = Some("now".to_owned());
    let Step::Begin(Begin { cause, .. }) = world.step() else { panic!() };
    assert_eq!(cause, Cause::Request("now".to_owned()));
    assert_eq!(world.status.last_request.as_deref(), Some("now"));
    world.status.active = None;
    assert_eq!(world.step(), Step::Rest);
    // As much of it as the status holds tells it from the last one.
    world.request = Some("r".repeat(200));
    assert!(matches!(world.step(), Step::Begin(_)));
    world.status.active = None;
    assert_eq!(world.step(), Step::Rest);
    world.spec.suspend = true;
    world.request = Some("again".to_owned());
    assert_eq!((world.step(), world.reason(SCHEDULED)), (Step::Rest, "Suspended".to_owned()));
}

#[test]
fn what_cannot_be_scheduled_says_why() {
    let mut world = World::new(json!({"schedule": "whenever"}));
    assert_eq!((world.step(), world.reason(SCHEDULED)), (Step::Rest, "ScheduleInvalid".to_owned()));
    assert_eq!(
        (world.condition(READY).0, world.reason(READY)),
        ("False".to_owned(), "ScheduleInvalid".to_owned())
    );
    let mut world = World::new(json!({}));
    world.enabled = Err("not here".to_owned());
    assert_eq!((world.step(), world.reason(SCHEDULED)), (Step::Rest, "NamespaceNotEnabled".to_owned()));
    let mut world = World::new(json!({"nodePools": {"key": "pool", "names": ["z"]}}));
    assert_eq!((world.step(), world.reason(SCHEDULED)), (Step::Rest, "NoNodes".to_owned()));
    assert_eq!(world.reason(DEGRADED), "PoolEmpty");
    world.nodes.push(NodeView { cordoned: true, ..node("c", &[("pool", "z")]) });
    world.step();
    assert_eq!(world.condition(DEGRADED).2, "pool z has no node that can be measured: node c is cordoned");
    // The run is still due, and begins when a node comes.
    world.nodes.push(node("d", &[("pool", "z")]));
    assert!(matches!(world.step(), Step::Begin(_)));
}

#[test]
fn two_runs_never_share_a_pool() {
    let mut world = World::new(json!({}));
    world.step();
    world.busy.insert("b".to_owned());
    let Step::Advance(Advance { nodes, start, .. }) = world.step() else { panic!() };
    assert_eq!((nodes[0].phase, start.len()), (NodePhase::Waiting, 0));
    assert!(world.condition(RUNNING).2.contains("another Benchmark's run measures node b"));
    world.busy.clear();
    let Step::Advance(Advance { start, .. }) = world.step() else { panic!() };
    assert_eq!(start.len(), 1);
    // Once it has begun it goes on.
    world.busy.insert("b".to_owned());
    let Step::Advance(Advance { nodes, .. }) = world.step() else { panic!() };
    assert_eq!(nodes[0].phase, NodePhase::Running);
}
