//! What a Benchmark's status says.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::words::{Level, Placement};
use crate::recommendation::KnownTransports;
use crate::schema;

/// What runs found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BenchmarkStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The time that the last run was scheduled for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<Time>,
    /// When the last run that succeeded was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Time>,
    /// The last `sealane.dev/run` annotation that was answered with a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub last_request: Option<String>,
    /// The run that goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ActiveRun>,
    /// Runs that are over and kept, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 80))]
    pub runs: Vec<PastRun>,
    /// The run that others are compared with where regressions are told against a baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub baseline: Option<String>,
    /// What the last run that succeeded found, pool by pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub pools: Vec<PoolStatus>,
    /// What the last run that succeeded found between nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub pairs: Vec<PairStatus>,
    /// The ConfigMap with the results of all runs that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub results: Option<String>,
}

/// A run that goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveRun {
    #[schemars(length(max = 64))]
    pub id: String,
    /// The generation whose spec it follows.
    pub generation: i64,
    #[serde(default)]
    pub level: Level,
    /// The Ed25519 key by which its results are known, in hex.
    #[schemars(length(max = 64))]
    pub key: String,
    /// The Secret with the other half of the key.
    #[schemars(length(max = 253))]
    pub secret: String,
    pub start_time: Time,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub nodes: Vec<ActiveNode>,
}

/// A node of a run that goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveNode {
    #[schemars(length(max = 63))]
    pub pool: String,
    #[schemars(length(max = 253))]
    pub node: String,
    #[schemars(length(max = 63))]
    pub job: String,
    /// The other end, of a pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ActiveServer>,
    pub phase: NodePhase,
    /// When its Job was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// What it waits for, or what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,
}

/// The end of a pair that answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveServer {
    #[schemars(length(max = 63))]
    pub pool: String,
    #[schemars(length(max = 253))]
    pub node: String,
    #[schemars(length(max = 63))]
    pub job: String,
    /// When its Job was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// Where it listens, once its pod runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub address: Option<String>,
}

/// Where a node is in its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NodePhase {
    /// Its pool is busy with another run, or it with another part of this one.
    Waiting,
    Running,
    Succeeded,
    Failed,
}

/// A run that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PastRun {
    #[schemars(length(max = 64))]
    pub id: String,
    pub generation: i64,
    /// Runs of different levels are not compared.
    #[serde(default)]
    pub level: Level,
    #[schemars(length(max = 64))]
    pub key: String,
    pub start_time: Time,
    pub completion_time: Time,
    pub outcome: RunOutcome,
    /// Nodes that were measured, of those that were to be.
    #[schemars(length(max = 32))]
    pub nodes: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunOutcome {
    /// Every node was measured and every result was right.
    Succeeded,
    Failed,
    /// Another run took its place.
    Replaced,
}

/// What the last run that succeeded found in a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    #[schemars(length(max = 63))]
    pub name: String,
    /// Nodes that were measured.
    pub nodes: i32,
    #[schemars(length(max = 256))]
    pub cpu: String,
    #[schemars(length(max = 256))]
    pub kernel: String,
    /// What the labels of its nodes say of their hardware: Tdx or SevSnp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub tee: Option<String>,
    /// The figures that matter most; the others are in the results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub figures: Vec<Figure>,
    /// Rows that are worse than they were, beyond doubt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub regressions: Vec<Regressed>,
    #[serde(flatten)]
    pub known: KnownTransports,
}

/// What the last run that succeeded found between two nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PairStatus {
    /// `FROM → TO`, or `POOL, one node`.
    #[schemars(length(max = 140))]
    pub name: String,
    /// The client's pool.
    #[schemars(length(max = 63))]
    pub from: String,
    /// The server's pool.
    #[schemars(length(max = 63))]
    pub to: String,
    pub placement: Placement,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub figures: Vec<Figure>,
    /// Rows that are worse than they were, beyond doubt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub regressions: Vec<Regressed>,
    #[serde(flatten)]
    pub known: KnownTransports,
}

/// One figure, as people read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    #[schemars(length(max = 64))]
    pub row: String,
    /// With its unit.
    #[schemars(length(max = 32))]
    pub value: String,
    /// The bounds between which it lies with 95 % confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub bounds: Option<String>,
    /// Against the row's peer, measured in turn; above 1 is better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub ratio: Option<String>,
}

/// A row that is worse than it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Regressed {
    #[schemars(length(max = 64))]
    pub row: String,
    #[schemars(length(max = 32))]
    pub before: String,
    #[schemars(length(max = 32))]
    pub after: String,
    /// By how much, in percent of `before`.
    pub percent: i32,
}
