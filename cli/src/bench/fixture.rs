//! A Benchmark with four runs on two pools, whose results are signed as a runner signs them.
//!
//! The newest is slower on `cpu`, where the machine was busy with one row and wrong in another; before it a run lost a
//! node.

use std::collections::BTreeMap;

use sealane_operator_api::{Benchmark, BenchmarkStatus};
use sealane_results::{
    Better, Interval, Line, Node, NodeRecord, Place, Record, RowId, RunKey, Sealed, Summary, Unit, VERSION,
};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::runs::Runs;

#[derive(Debug)]
pub(super) struct Fixture {
    pub(super) benchmark: Benchmark,
    pub(super) data: BTreeMap<String, String>,
}

/// Node by node of a run: what it found is `scale` times the usual, or it found nothing.
const RUNS: [[Option<f64>; 3]; 4] = [
    [Some(1.0), Some(1.04), Some(0.62)],
    [Some(1.02), Some(1.0), Some(0.6)],
    [Some(1.01), Some(1.03), None],
    [Some(1.03), Some(1.05), Some(0.41)],
];
const NODES: [(&str, &str); 3] = [("gpu", "gpu-0"), ("gpu", "gpu-1"), ("cpu", "cpu-0")];

impl Fixture {
    pub(super) fn new() -> Self {
        let runs: Vec<Value> = (1..=4).rev().map(past).collect();
        let benchmark = json!({
            "apiVersion": "sealane.dev/v1alpha1", "kind": "Benchmark",
            "metadata": {"name": "nightly", "namespace": "ml"},
            "spec": {"regression": {"tolerancePercent": 5}},
            "status": {"runs": runs, "pools": [
                {"name": "gpu", "nodes": 2, "cpu": "AMD EPYC 9654", "kernel": "6.8.0", "tee": "SevSnp"},
                {"name": "cpu", "nodes": 1, "cpu": "Intel Xeon 8481C", "kernel": "6.8.0", "regressions": [
                    {"row": "C3/65536", "before": "5.40 GB/s", "after": "3.69 GB/s", "percent": 32},
                ]},
            ]},
        });
        let data = (1..=4).map(|run| {
            let record = serde_json::to_string(&recorded(run)).unwrap();
            (format!("run-{run}.json"), record)
        });
        Self { benchmark: serde_json::from_value(benchmark).unwrap(), data: data.collect() }
    }

    pub(super) fn open(&self) -> Runs {
        Runs::open(&self.benchmark, Some(&self.data))
    }

    pub(super) fn status(&mut self) -> &mut BenchmarkStatus {
        self.benchmark.status.as_mut().unwrap()
    }

    pub(super) fn record(&self, run: &str) -> Record {
        serde_json::from_str(&self.data[&Record::key_of(run)]).unwrap()
    }

    pub(super) fn record_mut(&mut self, run: &str, change: impl FnOnce(&mut Record)) {
        let mut record = self.record(run);
        change(&mut record);
        self.data.insert(Record::key_of(run), serde_json::to_string(&record).unwrap());
    }

    /// What each node of the run says, said otherwise and signed again.
    pub(super) fn reseal(&mut self, run: &str, change: impl Fn(&mut Summary)) {
        let number = run.trim_start_matches("run-").parse().unwrap();
        self.record_mut(run, |record| {
            for sealed in record.nodes.iter_mut().filter_map(|node| node.sealed.as_mut()) {
                let public = key(number).public().unwrap();
                let mut summary = Sealed::new(sealed.clone()).open_of_any_place(&public).unwrap();
                change(&mut summary);
                *sealed = key(number).seal(summary).unwrap().to_string();
            }
        });
    }
}

fn key(run: u8) -> RunKey {
    RunKey::new(Zeroizing::new([run; 32]))
}

fn past(run: u8) -> Value {
    let whole = RUNS[usize::from(run) - 1].iter().all(Option::is_some);
    json!({
        "id": format!("run-{run}"), "generation": 1, "key": key(run).public().unwrap().to_string(),
        "startTime": format!("2026-11-2{run}T03:00:00Z"), "completionTime": format!("2026-11-2{run}T03:06:40Z"),
        "outcome": if whole { "Succeeded" } else { "Failed" },
        "nodes": if whole { "3/3" } else { "2/3" },
        "message": if whole { Value::Null } else { "1 of 3 nodes failed".into() },
    })
}

fn recorded(run: u8) -> Record {
    let node = |((pool, node), scale): ((&str, &str), Option<f64>)| NodeRecord {
        pool: pool.to_owned(),
        node: node.to_owned(),
        server: None,
        sealed: scale.map(|scale| sealed(&format!("run-{run}"), run, (pool, node), scale)),
        failure: scale.is_none().then(|| "DeadlineExceeded".to_owned()),
    };
    let nodes = NODES.into_iter().zip(RUNS[usize::from(run) - 1]).map(node).collect();
    Record { run: format!("run-{run}"), began: format!("2026-11-2{run}T03:00:00Z"), ended: None, nodes }
}

/// What a node found, signed with the key of run number `signer`.
pub(super) fn sealed(run: &str, signer: u8, place: (&str, &str), scale: f64) -> String {
    key(signer).seal(summary(run, place, scale)).unwrap().to_string()
}

fn summary(run: &str, (pool, node): (&str, &str), scale: f64) -> Summary {
    let (gpu, second) = (pool == "gpu", node.ends_with('1'));
    let mut rows = vec![
        line("C3/65536", Unit::GigabytesPerSecond, 9.0 * scale, Some(8.1)),
        line("C3/1536", Unit::GigabytesPerSecond, 2.2 * scale, Some(12.4)),
        line("C3-tcp/1536", Unit::GigabytesPerSecond, 1.4 * scale, Some(15.2)),
        line("C1/attested", Unit::Microseconds, 900.0 / scale, Some(1.3)),
        line("W7/1456", Unit::Nanoseconds, 310.0 / scale, None),
        line("C2/4096", Unit::Microseconds, 3.4 / scale, Some(5.0)),
        line("P2/1048576", Unit::Nanoseconds, 142_000.0 / scale, None),
    ];
    if second {
        rows.truncate(6);
    }
    if !gpu {
        rows[2].noisy = true;
        rows[3].correct = scale > 0.5;
        rows.push(line("verify/snp", Unit::Microseconds, 240.0, None));
    }
    Summary {
        version: VERSION,
        place: Place { run: run.to_owned(), pool: pool.to_owned(), node: node.to_owned(), server: None },
        level: "quick".to_owned(),
        began: "2026-11-24T03:00:12Z".to_owned(),
        seconds: 301.5,
        sound: true,
        machine: Node {
            cpu: if gpu { "AMD EPYC 9654" } else { "Intel Xeon 8481C" }.to_owned(),
            architecture: "x86_64".to_owned(),
            cores: if gpu { 192 } else { 16 },
            features: "aes avx2 vaes avx512f".to_owned(),
            kernel: if second { "6.8.0-1021" } else { "6.8.0-1020" }.to_owned(),
            memory_mebibytes: if gpu { 768 << 10 } else { 64 << 10 },
            load: if second { 0.3 } else { 0.1 },
        },
        build: "0.1.0, commit 210a01f, profile measured".to_owned(),
        rows,
        left_out: u32::from(second),
        failures: Vec::new(),
    }
}

fn line(id: &str, unit: Unit, ours: f64, ratio: Option<f64>) -> Line {
    let throughput = unit == Unit::GigabytesPerSecond;
    Line {
        id: RowId(id.to_owned()),
        unit,
        better: if throughput { Better::Higher } else { Better::Lower },
        ours,
        bounds: Some(Interval { low: ours * 0.97, high: ours * 1.02 }),
        ratio,
        verdict: None,
        correct: true,
        noisy: false,
    }
}
