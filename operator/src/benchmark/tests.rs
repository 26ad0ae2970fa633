//! A Benchmark from its first step to its last, purely.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use sealane_operator_api::well_known::condition::{COMPLETE, DEGRADED, REGRESSED, RUNNING, SCHEDULED};
use sealane_operator_api::{BenchmarkSpec, BenchmarkStatus, NodePhase, RunOutcome};
use sealane_results::{Better, Interval, Line, Place, Record, RowId, RunKey, Summary, Unit, VERSION};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::job::{Owner, Role, Runner, job, secret};
use super::pool::NodeView;
use super::pool::tests::node;
use super::records::Records;
use super::situation::Situation;
use super::status;
use super::step::{Advance, Begin, Cause, Finish, Outlook, Step, active, decide};
use super::view::{JobState, JobView, MeasuringPod};

mod pairs;
mod transports;

const UID: &str = "0123456789abcdef";
const OWNER: Owner<'static> = Owner { namespace: "bench", name: "nightly", uid: UID };

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A cluster with one Benchmark, and hands that take its steps.
struct World {
    now: Timestamp,
    generation: i64,
    request: Option<String>,
    spec: BenchmarkSpec,
    status: BenchmarkStatus,
    enabled: Result<(), String>,
    nodes: Vec<NodeView>,
    jobs: Vec<JobView>,
    busy: BTreeSet<String>,
    records: Records,
    keys: u8,
    outlook: Option<Outlook>,
    /// What every node measures besides.
    rows: Vec<Line>,
}

impl World {
    fn new(spec: Value) -> Self {
        Self {
            now: at("2026-11-23T10:00:00Z"),
            generation: 1,
            request: None,
            spec: serde_json::from_value(spec).unwrap(),
            status: BenchmarkStatus::default(),
            enabled: Ok(()),
            nodes: vec![node("a", &[("pool", "x")]), node("b", &[("pool", "y")])],
            jobs: Vec::new(),
            busy: BTreeSet::new(),
            records: Records::default(),
            keys: 0,
            outlook: None,
            rows: Vec::new(),
        }
    }

    fn situation(&self) -> Situation<'_> {
        Situation {
            now: self.now,
            owner: OWNER,
            generation: self.generation,
            created: at("2026-11-23T09:30:00Z"),
            request: self.request.as_deref(),
            spec: &self.spec,
            status: &self.status,
            enabled: self.enabled.clone(),
            nodes: &self.nodes,
            jobs: &self.jobs,
            busy: &self.busy,
        }
    }

    fn key(&self) -> RunKey {
        RunKey::new(Zeroizing::new([self.keys; 32]))
    }

    /// Takes the next step, as [`super::Benchmarks`] does.
    fn step(&mut self) -> Step {
        let (step, outlook) = decide(&self.situation());
        self.jobs.retain(|job| !outlook.surplus.contains(&job.name));
        let status = match &step {
            Step::Rest => self.status.clone(),
            Step::Begin(begin) => {
                self.keys += 1;
                let run = active(&self.situation(), begin, &self.key().public().unwrap());
                status::begun(&self.status, run, &begin.cause)
            }
            Step::Advance(advance) => {
                let run = self.status.active.clone().unwrap();
                for (node, role) in &advance.start {
                    let server = node.server.as_ref().filter(|_| *role == Role::Server);
                    let (name, host) =
                        server.map_or((&node.job, &node.node), |server| (&server.job, &server.node));
                    self.jobs.push(job_of(&run.id, name, host));
                }
                self.records.add(&run, advance.results.clone());
                let mut status = self.status.clone();
                status.active.as_mut().unwrap().nodes.clone_from(&advance.nodes);
                status
            }
            Step::Finish(finish) => {
                let mut records = self.records.clone();
                let status = status::finished(&self.situation(), &outlook, finish, &mut records);
                self.records = records;
                status
            }
        };
        self.status = status::told(&self.situation(), &outlook, status);
        self.outlook = Some(outlook);
        step
    }

    /// The Job on `node` ends, and its pod has said this.
    fn end(&mut self, node: &str, said: Option<String>, failure: Option<&str>) {
        let job = self.jobs.iter_mut().find(|job| job.node == node && job.is_active()).unwrap();
        job.state = JobState::Over { at: self.now, failure: failure.map(str::to_owned) };
        job.pod = said.map(|said| MeasuringPod { waits: None, said: Some(said), address: None });
    }

    /// The pod of Job `name` runs, and has this address.
    fn listen(&mut self, name: &str) {
        let job = self.jobs.iter_mut().find(|job| job.name == name).unwrap();
        job.pod = Some(MeasuringPod { waits: None, said: None, address: "10.0.0.7".parse().ok() });
    }

    /// What the pod on `node` says: signed with the run's key.
    fn result(&self, node: &str, figure: f64) -> String {
        let run = self.status.active.as_ref().unwrap();
        let planned = run.nodes.iter().find(|one| one.node == node).unwrap();
        let mut summary = summary(place(&run.id, &planned.pool, node), figure);
        summary.rows.extend(self.rows.clone());
        self.key().seal(summary).unwrap().to_string()
    }

    /// Begins a run, lets every node measure `figure`, and ends it.
    fn whole_run(&mut self, figure: f64) {
        assert!(matches!(self.step(), Step::Begin(_)));
        assert!(matches!(self.step(), Step::Advance(_)));
        for node in self.status.active.clone().unwrap().nodes {
            let said = self.result(&node.node, figure);
            self.end(&node.node, Some(said), None);
        }
        assert!(matches!(self.step(), Step::Advance(_)));
        assert!(matches!(self.step(), Step::Finish(_)));
    }

    fn condition(&self, type_: &str) -> (String, String, String) {
        let found = self.status.conditions.iter().find(|one| one.type_ == type_).unwrap();
        (found.status.clone(), found.reason.clone(), found.message.clone())
    }

    fn reason(&self, type_: &str) -> String {
        self.condition(type_).1
    }
}

fn job_of(run: &str, name: &str, node: &str) -> JobView {
    JobView {
        namespace: "bench".to_owned(),
        name: name.to_owned(),
        benchmark: "nightly".to_owned(),
        run: run.to_owned(),
        node: node.to_owned(),
        client: None,
        state: JobState::Active,
        pod: None,
    }
}

fn place(run: &str, pool: &str, node: &str) -> Place {
    Place { run: run.to_owned(), pool: pool.to_owned(), node: node.to_owned(), server: None }
}

fn summary(place: Place, figure: f64) -> Summary {
    let row = Line {
        id: RowId::new("C3", 1536),
        unit: Unit::GigabytesPerSecond,
        better: Better::Higher,
        ours: figure,
        bounds: Some(Interval { low: figure * 0.99, high: figure * 1.01 }),
        ratio: Some(4.0),
        verdict: None,
        correct: true,
        noisy: false,
    };
    Summary {
        version: VERSION,
        place,
        level: "quick".to_owned(),
        began: "2026-11-23T10:00:00Z".to_owned(),
        seconds: 60.0,
        sound: true,
        machine: sealane_results::Node { cpu: "EPYC".to_owned(), ..Default::default() },
        build: "0.1.0".to_owned(),
        rows: vec![row],
        left_out: 0,
        failures: Vec::new(),
    }
}

fn pools_by_label() -> Value {
    json!({"nodePools": {"key": "pool"}})
}

#[test]
fn a_run_goes_from_its_plan_to_its_figures() {
    let mut world = World::new(pools_by_label());
    let Step::Begin(Begin { id, parts, cause }) = world.step() else { panic!("no run") };
    assert_eq!((id.as_str(), cause), ("01234567-1", Cause::Once));
    assert_eq!(parts.iter().map(|part| part.client.pool.as_str()).collect::<Vec<_>>(), ["x", "y"]);
    assert_eq!(world.reason(RUNNING), "Measuring");

    let Step::Advance(Advance { start, results, .. }) = world.step() else { panic!() };
    assert_eq!((start.len(), results.len()), (2, 0));
    // Nothing to start twice, and nothing to tell yet.
    let Step::Advance(Advance { start, .. }) = world.step() else { panic!() };
    assert!(start.is_empty());

    let said = world.result("a", 4.0);
    world.end("a", Some(said), None);
    let Step::Advance(Advance { results, nodes, .. }) = world.step() else { panic!() };
    assert_eq!(
        (results.len(), nodes[0].phase, nodes[1].phase),
        (1, NodePhase::Succeeded, NodePhase::Running)
    );
    // What is kept does not depend on the pod any more.
    world.jobs.retain(|job| job.node == "b");
    let said = world.result("b", 2.0);
    world.end("b", Some(said), None);
    assert!(matches!(world.step(), Step::Advance(_)));
    assert_eq!(world.step(), Step::Finish(Finish { outcome: RunOutcome::Succeeded, message: None }));

    let pools = &world.status.pools;
    assert_eq!(pools[0].figures[0].value, "4.00 GB/s");
    assert_eq!((pools[1].name.as_str(), pools[1].nodes, pools[1].cpu.as_str()), ("y", 1, "EPYC"));
    assert_eq!((world.status.runs[0].nodes.as_str(), &world.status.active), ("2/2", &None));
    assert_eq!(
        (world.reason(COMPLETE), world.reason(RUNNING)),
        ("RunSucceeded".to_owned(), "NoRun".to_owned())
    );
    assert!(world.records.of("01234567-1").unwrap().ended.is_some());

    assert_eq!(world.step(), Step::Rest, "once for each generation");
    world.generation = 2;
    assert!(matches!(world.step(), Step::Begin(_)));
}

#[test]
fn an_operator_that_starts_in_the_middle_goes_on() {
    let mut world = World::new(pools_by_label());
    world.step();
    // It crashed before it made the Jobs, after it made one, and after one was over.
    let begun = world.status.clone();
    world.step();
    world.jobs.retain(|job| job.node == "a");
    world.status = begun;
    let Step::Advance(Advance { start, .. }) = world.step() else { panic!() };
    assert_eq!(start.iter().map(|(node, _)| node.node.as_str()).collect::<Vec<_>>(), ["b"]);
    let said = world.result("a", 1.0);
    world.end("a", Some(said), None);
    let before = world.status.clone();
    let once = world.step();
    let records = world.records.clone();
    // The result was kept, and the status was not written.
    world.status = before;
    assert_eq!(world.step(), once);
    assert_eq!(world.records, records, "kept once");
}

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

/// What becomes of node `a` when its Job ends like this.
fn fate(end: impl FnOnce(&mut World)) -> (NodePhase, String) {
    let mut world = World::new(pools_by_label());
    world.step();
    world.step();
    end(&mut world);
    let Step::Advance(Advance { nodes, .. }) = world.step() else { panic!() };
    (nodes[0].phase, nodes[0].message.clone().unwrap_or_default())
}

#[test]
fn what_is_not_signed_for_this_node_and_run_is_no_result() {
    let forged = |said: fn(&World) -> String| {
        let (phase, message) = fate(|world| world.end("a", Some(said(world)), None));
        assert_eq!(phase, NodePhase::Failed);
        assert!(message.starts_with("what its pod said is ignored"), "{message}");
        message
    };
    forged(|_| "all is well".to_owned());
    let message = forged(|world| {
        let place = place("01234567-1", "x", "a");
        let other = RunKey::new(Zeroizing::new([world.keys + 7; 32]));
        other.seal(summary(place, 100.0)).unwrap().to_string()
    });
    assert!(message.contains("not signed"), "{message}");
    // The other node's figures, and those of an earlier run.
    forged(|world| world.result("b", 100.0));
    forged(|world| {
        let place = place("01234567-0", "x", "a");
        world.key().seal(summary(place, 100.0)).unwrap().to_string()
    });
}

#[test]
fn a_wrong_result_fails_its_node_and_is_kept() {
    let mut world = World::new(pools_by_label());
    world.step();
    world.step();
    let place = place("01234567-1", "x", "a");
    let wrong =
        Summary { sound: false, failures: vec!["stream: wrong bytes".to_owned()], ..summary(place, 1.0) };
    let said = world.key().seal(wrong).unwrap().to_string();
    world.end("a", Some(said), Some("BackoffLimitExceeded"));
    let Step::Advance(Advance { nodes, results, .. }) = world.step() else { panic!() };
    assert_eq!(
        (nodes[0].phase, nodes[0].message.as_deref()),
        (NodePhase::Failed, Some("stream: wrong bytes"))
    );
    assert!(results[0].sealed.is_some());
}

#[test]
fn nodes_that_leave_and_pods_that_vanish_end_their_part() {
    let (phase, message) = fate(|world| world.end("a", None, Some("PodFailurePolicy: DisruptionTarget")));
    assert_eq!((phase, message.as_str()), (NodePhase::Failed, "PodFailurePolicy: DisruptionTarget"));
    let (phase, message) = fate(|world| world.nodes.retain(|node| node.name != "a"));
    assert_eq!(
        (phase, message.as_str()),
        (NodePhase::Failed, "node a left the cluster in the middle of the run")
    );
    // The cache may know of the Job's end before it knows of the pod's.
    let (phase, _) = fate(|world| world.end("a", None, None));
    assert_eq!(phase, NodePhase::Running);
    let (phase, _) = fate(|world| {
        world.end("a", None, None);
        world.now = world.now.checked_add(SignedDuration::from_secs(31)).unwrap();
    });
    assert_eq!(phase, NodePhase::Failed);
    let (phase, message) = fate(|world| {
        let waits = Some("Unschedulable: no room".to_owned());
        world.jobs[0].pod = Some(MeasuringPod { waits, said: None, address: None });
    });
    assert_eq!((phase, message.as_str()), (NodePhase::Running, "Unschedulable: no room"));
}

#[test]
fn a_run_of_which_a_node_failed_has_failed_and_leaves_the_figures_of_before() {
    let mut world = World::new(pools_by_label());
    world.whole_run(4.0);
    world.generation = 2;
    world.step();
    world.step();
    let said = world.result("a", 1.0);
    world.end("a", Some(said), None);
    world.end("b", None, Some("DeadlineExceeded: too long"));
    world.step();
    let Step::Finish(Finish { outcome, message }) = world.step() else { panic!() };
    assert_eq!(outcome, RunOutcome::Failed);
    assert_eq!(message.unwrap(), "1 of 2 nodes failed; b: DeadlineExceeded: too long");
    assert_eq!(world.reason(COMPLETE), "RunFailed");
    assert_eq!(world.status.pools[0].figures[0].value, "4.00 GB/s");
    assert_eq!(world.status.runs.len(), 2);
    // What was measured of it can be read all the same.
    let run = &world.status.runs[0];
    assert_eq!(world.records.summaries(&run.id, &run.key, 1).unwrap().len(), 1);
}

#[test]
fn what_is_worse_beyond_doubt_and_tolerance_is_a_regression() {
    let regression = json!({"regression": {"tolerancePercent": 10}, "nodePools": {"key": "pool"}});
    let mut world = World::new(regression);
    world.whole_run(4.0);
    assert_eq!(world.reason(REGRESSED), "NotCompared");
    world.generation = 2;
    world.whole_run(3.9);
    assert_eq!(world.reason(REGRESSED), "NotWorse");
    world.generation = 3;
    world.whole_run(2.0);
    let (status, reason, message) = world.condition(REGRESSED);
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Worse"));
    assert!(message.starts_with("C3/1536 in pool x: 2.00 GB/s after 3.90 GB/s, 49 % worse"), "{message}");
    assert_eq!(world.status.pools[0].regressions[0].percent, 49);
    world.generation = 4;
    world.whole_run(2.0);
    assert_eq!(world.reason(REGRESSED), "NotWorse", "against the previous run");
}

#[test]
fn small_steps_add_up_against_a_baseline_that_is_kept() {
    let mut world = World::new(json!({
        "regression": {"tolerancePercent": 10, "against": "Baseline", "minimumRuns": 2},
        "successfulRunsHistoryLimit": 2,
    }));
    let mut reasons = Vec::new();
    for (generation, figure) in [4.0, 3.8, 3.6, 3.4].into_iter().enumerate() {
        world.generation = generation as i64 + 1;
        world.whole_run(figure);
        reasons.push(world.reason(REGRESSED));
    }
    assert_eq!(world.status.baseline.as_deref(), Some("01234567-1"));
    assert_eq!(reasons, ["NotCompared", "NotCompared", "NotWorse", "Worse"]);
    let kept: Vec<&str> = world.status.runs.iter().map(|run| run.id.as_str()).collect();
    assert_eq!(kept, ["01234567-4", "01234567-3", "01234567-1"]);
    assert!(world.records.of("01234567-2").is_none());
    // Another baseline may be named.
    world.spec.regression.as_mut().unwrap().baseline_run = Some("01234567-4".to_owned());
    world.generation = 5;
    world.whole_run(3.4);
    assert_eq!(
        (world.reason(REGRESSED), world.status.baseline.as_deref()),
        ("NotWorse".to_owned(), Some("01234567-4"))
    );
}

#[test]
fn a_poisoned_record_is_not_compared_with() {
    let mut world = World::new(json!({"regression": {}}));
    world.whole_run(4.0);
    // Whoever can write ConfigMaps makes the first run look slow, so that a later one looks fast.
    let run = world.status.runs[0].clone();
    let key = Record::key_of(&run.id);
    let text = world.records.0[&key].replace("\"node\":\"a\"", "\"node\":\"b\"");
    world.records.0.insert(key, text);
    world.generation = 2;
    world.whole_run(2.0);
    let (status, reason, message) = world.condition(REGRESSED);
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "NotCompared"));
    assert!(message.contains("the record of run 01234567-1 is ignored"), "{message}");
}

#[test]
fn a_record_that_was_emptied_is_no_record() {
    let mut world = World::new(json!({"regression": {}}));
    world.whole_run(4.0);
    // Without its results, and without a record.
    let run = world.status.runs[0].id.clone();
    let mut record = world.records.of(&run).unwrap();
    record.nodes.clear();
    world.records.0.insert(Record::key_of(&run), serde_json::to_string(&record).unwrap());
    world.generation = 2;
    world.whole_run(2.0);
    assert!(world.condition(REGRESSED).2.contains("it has 0 results, and 1 nodes were measured"));
    world.generation = 3;
    world.step();
    world.step();
    let said = world.result("a", 4.0);
    world.end("a", Some(said), None);
    world.step();
    world.records.0.clear();
    world.step();
    assert_eq!(world.status.runs[0].outcome, RunOutcome::Failed);
}

#[test]
fn runs_of_other_levels_are_not_compared_and_those_of_smoke_never() {
    let mut world = World::new(json!({"regression": {"against": "Baseline"}, "level": "Smoke"}));
    world.whole_run(8.0);
    world.generation = 2;
    world.whole_run(1.0);
    assert!(world.condition(REGRESSED).2.contains("Smoke"));
    world.spec.level = sealane_operator_api::Level::Quick;
    world.generation = 3;
    world.whole_run(4.0);
    assert_eq!(world.reason(REGRESSED), "NotCompared");
    assert_eq!(world.status.baseline.as_deref(), Some("01234567-3"));
    world.generation = 4;
    world.whole_run(1.0);
    assert_eq!(world.reason(REGRESSED), "Worse");
}

#[test]
fn a_job_that_was_deleted_is_not_made_again() {
    let mut world = World::new(json!({}));
    world.step();
    world.step();
    world.jobs.clear();
    let Step::Advance(Advance { nodes, start, .. }) = world.step() else { panic!() };
    assert_eq!((nodes[0].phase, start.len()), (NodePhase::Running, 0), "the cache may be behind");
    world.now = world.now.checked_add(SignedDuration::from_secs(31)).unwrap();
    let Step::Advance(Advance { nodes, .. }) = world.step() else { panic!() };
    assert_eq!(nodes[0].message.as_deref(), Some("its Job was deleted"));
}

#[test]
fn a_benchmark_that_was_changed_measures_nothing_more_of_its_old_run() {
    let mut world = World::new(json!({}));
    world.step();
    world.generation = 2;
    let Step::Advance(Advance { nodes, start, .. }) = world.step() else { panic!() };
    assert_eq!((nodes[0].phase, start.len()), (NodePhase::Failed, 0));
}

#[test]
fn more_nodes_than_a_run_measures_are_told() {
    let mut world = World::new(json!({"nodePools": {"nodesPerPool": 16, "key": "pool"}}));
    world.nodes = (0..140)
        .map(|number| {
            node(
                &format!("n{number:03}"),
                &[("pool", ["a", "b", "c", "d", "e", "f", "g", "h", "i"][number % 9])],
            )
        })
        .collect();
    world.step();
    assert_eq!(world.status.active.as_ref().unwrap().nodes.len(), 128);
    assert_eq!(world.condition(DEGRADED).2, "a run has 128 nodes and pairs at most: 12 are left out");
}

#[test]
fn a_run_whose_own_record_was_changed_has_failed() {
    let mut world = World::new(json!({}));
    world.step();
    world.step();
    let said = world.result("a", 4.0);
    world.end("a", Some(said), None);
    world.step();
    let key = Record::key_of("01234567-1");
    let text = world.records.0[&key].replace("sealane-result/1 ", "sealane-result/1 AAAA");
    world.records.0.insert(key, text);
    world.step();
    assert_eq!(world.status.runs[0].outcome, RunOutcome::Failed);
    assert!(world.condition(COMPLETE).2.contains("is ignored"));
}

#[test]
fn old_records_make_room_for_new_ones() {
    let mut records = Records(BTreeMap::new());
    for run in ["one", "two", "three"] {
        records.0.insert(Record::key_of(run), "x".repeat(400 << 10));
    }
    records.bound(&["three", "two", "one"]);
    assert_eq!(records.0.keys().collect::<Vec<_>>(), ["three.json", "two.json"]);
}

#[test]
fn a_measuring_pod_has_no_privilege_and_goes_with_its_benchmark() {
    let mut world = World::new(json!({
        "nodePools": {"key": "pool", "tolerations": [{"key": "gpu", "operator": "Exists"}]},
        "suites": ["Crypto", "Stream"], "compareWith": ["Plaintext", "Rustls"], "resources": {"requests": {"cpu": "2"}},
        "env": [{"name": "OPENSSL_ia32cap", "value": "~0x2"}, {"name": "SEALANE_BENCH_RUN", "value": "mine"}],
    }));
    world.step();
    let run = world.status.active.clone().unwrap();
    let runner = Runner {
        image: "bench:1".to_owned(),
        pull_policy: "Never".to_owned(),
        pull_secrets: vec!["r".to_owned()],
    };
    let job = job(OWNER, &world.spec, (&run, &run.nodes[0], Role::Alone), &runner);
    let _: k8s_openapi::api::batch::v1::Job = serde_json::from_value(job.clone()).unwrap();
    let pod = &job["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let compared = ["--compare-with", "plaintext,rustls"];
    assert_eq!(
        container["args"],
        json!(["run", "--quick", "--suite", "crypto,stream", compared[0], compared[1]])
    );
    let variables: Vec<&Value> = container["env"].as_array().unwrap().iter().collect();
    assert_eq!(variables[0], &json!({"name": "OPENSSL_ia32cap", "value": "~0x2"}));
    // Whatever else is given, the operator's own counts.
    let last = variables.iter().rfind(|one| one["name"] == "SEALANE_BENCH_RUN");
    assert_eq!(last.unwrap()["value"], run.id);
    let key = variables.iter().find(|one| one["name"] == "SEALANE_BENCH_KEY").unwrap();
    assert_eq!(key["valueFrom"]["secretKeyRef"]["name"], run.secret);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!((&pod["automountServiceAccountToken"], &pod["hostNetwork"]), (&json!(false), &json!(false)));
    assert_eq!(pod["tolerations"][0]["key"], "gpu");
    assert_eq!(container["resources"]["requests"]["cpu"], "2");
    assert_eq!(job["spec"]["backoffLimit"], 0);
    assert_eq!(job["metadata"]["ownerReferences"][0]["uid"], UID);
    assert!(job["metadata"]["name"].as_str().unwrap().len() <= 63);
    let secret = secret(OWNER, &run.id, &run.secret, &world.key().to_hex());
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], UID);
}
