//! A Benchmark from its first step to its last, purely.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use sealane_operator_api::well_known::condition::{COMPLETE, DEGRADED, READY, REGRESSED, RUNNING, SCHEDULED};
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
mod parts;
mod recorded;
mod regression;
mod schedule;
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
        self.rest_of_run(figure);
    }

    /// As [`Self::whole_run`], of a run that has begun.
    fn rest_of_run(&mut self, figure: f64) {
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
