//! What a step is decided by.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sealane_operator_api::{BenchmarkSpec, BenchmarkStatus};

use super::job::Owner;
use super::pool::NodeView;
use super::view::JobView;

/// A Benchmark and the world as they are at one moment.
#[derive(Debug, Clone)]
pub(super) struct Situation<'a> {
    pub(super) now: Timestamp,
    pub(super) owner: Owner<'a>,
    pub(super) generation: i64,
    pub(super) created: Timestamp,
    /// The annotation that asks for a run.
    pub(super) request: Option<&'a str>,
    pub(super) spec: &'a BenchmarkSpec,
    pub(super) status: &'a BenchmarkStatus,
    /// Whether the operator may make Jobs in its namespace, or why not.
    pub(super) enabled: Result<(), String>,
    pub(super) nodes: &'a [NodeView],
    /// Those of this Benchmark.
    pub(super) jobs: &'a [JobView],
    /// Nodes that runs of other Benchmarks measure.
    pub(super) busy: &'a BTreeSet<String>,
}
