//! Benchmark: scheduled benchmark Jobs on node pools, their results and verdicts.

mod status;
mod words;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::emptied::or_null;
use crate::recommendation::Recommendation;
use crate::schema;

pub use status::{
    ActiveNode, ActiveRun, ActiveServer, BenchmarkStatus, Figure, NodePhase, PairStatus, PastRun, PoolStatus,
    Regressed, RunOutcome,
};
pub use words::{ComparedWith, Level, Placement, Suite};

/// Benchmark Jobs on node pools, once or on a schedule, their results and verdicts.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sealane.dev",
    version = "v1alpha1",
    kind = "Benchmark",
    namespaced,
    status = "BenchmarkStatus",
    derive = "PartialEq",
    shortname = "slb",
    category = "sealane",
    doc = "Benchmark Jobs on node pools, once or on a schedule, their results and verdicts.",
    annotation("helm.sh/resource-policy", "keep"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(
        name = "Running",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Running")].status"#
    ),
    printcolumn(
        name = "Complete",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Complete")].status"#
    ),
    printcolumn(
        name = "Regressed",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Regressed")].status"#
    ),
    printcolumn(name = "Last run", type_ = "date", json_path = ".status.runs[0].startTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.schedule) || (!has(self.timeZone) && !has(self.startingDeadlineSeconds))", "message": "timeZone and startingDeadlineSeconds belong to a schedule, for example schedule: \"0 3 * * *\"", "fieldPath": ".schedule"},
    {"rule": "!has(self.pairs) || size(self.pairs) == 0 || 'Transport' in self.suites", "message": "between nodes the suite Transport is measured: add it to suites, for example suites: [Transport]", "fieldPath": ".pairs"},
    {"rule": "!has(self.regression) || self.regression.minimumRuns <= self.successfulRunsHistoryLimit", "message": "more runs are asked for than are kept: raise successfulRunsHistoryLimit to minimumRuns at least", "fieldPath": ".regression.minimumRuns"},
]))]
pub struct BenchmarkSpec {
    /// When runs begin, as in a CronJob: minute, hour, day of month, month, day of week, or @hourly, @daily, @weekly,
    /// @monthly, @yearly. Without it there is one run for each generation of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub schedule: Option<String>,
    /// The IANA time zone of the schedule. UTC without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// How late a run may begin, in seconds. Without it the latest run that was missed begins however late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens to a run that is due while another goes on.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// No run begins until it is false again. One that goes on is not stopped.
    #[serde(default)]
    pub suspend: bool,
    /// Succeeded runs that are kept.
    #[serde(default = "successful_runs")]
    #[schemars(range(min = 1, max = 32))]
    pub successful_runs_history_limit: i32,
    /// Failed runs that are kept.
    #[serde(default = "failed_runs")]
    #[schemars(range(min = 1, max = 32))]
    pub failed_runs_history_limit: i32,
    #[serde(default)]
    pub node_pools: NodePools,
    /// What is measured.
    #[serde(default = "suites")]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "set"))]
    pub suites: Vec<Suite>,
    /// Between which nodes the suite Transport is measured as well, with a client and a server. Without any it is measured on
    /// each node alone, over loopback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3), extend("x-kubernetes-list-type" = "set"))]
    pub pairs: Vec<Placement>,
    /// Whom the suite Transport is compared with, in turn, in the same run. Other suites have their own peers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "set"))]
    pub compare_with: Vec<ComparedWith>,
    /// How long each figure is measured.
    #[serde(default)]
    pub level: Level,
    /// When a run counts as a regression. Without it none does.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_null")]
    #[schemars(with = "Option<Regression>")]
    pub regression: Option<Regression>,
    /// How the figures of transports become what sessions with Auto take.
    #[serde(default)]
    pub recommendation: Recommendation,
    /// Resources of the pods that measure. Give them whole cores: what is throttled measures its limit.
    #[serde(default)]
    pub resources: PodResources,
    /// Settings under which is measured, as environment of the pods, for example OPENSSL_ia32cap to do without some of the
    /// CPU's instructions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<Setting>,
    /// Whether the pods measure on the host's network. The namespace has to permit it.
    #[serde(default)]
    pub host_network: bool,
    /// How long one node may take, in seconds, the wait for its pod included.
    #[serde(default = "active_deadline")]
    #[schemars(range(min = 30, max = 86_400))]
    pub active_deadline_seconds: i64,
}

impl BenchmarkSpec {
    /// Whether sessions follow what is measured.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.recommendation.follow.unwrap_or(self.env.is_empty())
    }
}

const fn successful_runs() -> i32 {
    5
}

const fn failed_runs() -> i32 {
    3
}

const fn active_deadline() -> i64 {
    1_800
}

fn suites() -> Vec<Suite> {
    vec![Suite::Crypto, Suite::Frame, Suite::Handshake, Suite::Stream, Suite::Transport]
}

/// What happens to a run that is due while another goes on. Two at once would measure each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConcurrencyPolicy {
    /// It waits until the other one is over, as far as startingDeadlineSeconds lets it.
    #[default]
    Forbid,
    /// The other one is stopped.
    Replace,
}

/// Which nodes are measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePools {
    /// The node label whose values are the pools: a label key, or Gke, Eks, Aks or Karpenter for the key of theirs. Auto
    /// is the first of these that any node has; where none has, all nodes are one pool.
    #[serde(default = "auto")]
    #[schemars(schema_with = "schema::pool_key")]
    pub key: String,
    /// Only these pools. A name that no node has is reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::label_values")]
    pub names: Vec<String>,
    /// Only nodes with these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::node_selector")]
    pub selector: Option<LabelSelector>,
    /// How many nodes of each pool are measured, at the same time.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 16))]
    pub nodes_per_pool: i32,
    /// Taints that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tolerations")]
    pub tolerations: Vec<Toleration>,
}

fn auto() -> String {
    "Auto".to_owned()
}

const fn one() -> i32 {
    1
}

impl Default for NodePools {
    fn default() -> Self {
        Self {
            key: auto(),
            names: Vec::new(),
            selector: None,
            nodes_per_pool: one(),
            tolerations: Vec::new(),
        }
    }
}

/// When a run counts as a regression: a figure of a pool is worse than it was by more than the tolerance, beyond doubt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Regression {
    /// Differences up to here count as none.
    #[serde(default = "tolerance")]
    #[schemars(range(min = 1, max = 90))]
    pub tolerance_percent: i32,
    /// What a run is compared with.
    #[serde(default)]
    pub against: Against,
    /// The run that is the baseline. Without it the first that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub baseline_run: Option<String>,
    /// How many runs have to have succeeded before one is compared.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 32))]
    pub minimum_runs: i32,
}

const fn tolerance() -> i32 {
    10
}

impl Default for Regression {
    fn default() -> Self {
        Self {
            tolerance_percent: tolerance(),
            against: Against::default(),
            baseline_run: None,
            minimum_runs: one(),
        }
    }
}

/// What a run is compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Against {
    /// The last run that succeeded.
    #[default]
    Previous,
    /// The same run for as long as it is kept, so that small steps add up.
    Baseline,
}

/// A variable of the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    #[schemars(schema_with = "schema::variable")]
    pub name: String,
    #[schemars(length(max = 1024))]
    pub value: String,
}

/// Requests and limits, as in a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodResources {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub requests: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub limits: BTreeMap<String, String>,
}
