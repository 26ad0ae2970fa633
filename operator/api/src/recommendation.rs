//! What Benchmarks recommend to sessions that leave the choice to the cluster.
//!
//! Words of carriers and ciphers are text here, because a word that a later release adds must not make the objects of this
//! one unreadable when the operator is rolled back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the figures of transports become what sessions with Auto take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recommendation {
    /// How long figures count, in seconds.
    #[serde(default = "valid_seconds")]
    #[schemars(range(min = 3_600, max = 31_536_000))]
    pub valid_seconds: i64,
    /// How much better another transport has to be before it is taken instead of the one that is recommended now.
    #[serde(default = "hysteresis_percent")]
    #[schemars(range(min = 1, max = 90))]
    pub hysteresis_percent: i32,
    /// Whether sessions follow the figures. Without it they do, unless `env` is set: what was measured under settings of its
    /// own says nothing about sidecars, which have others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
}

/// 30 days.
const fn valid_seconds() -> i64 {
    2_592_000
}

const fn hysteresis_percent() -> i32 {
    10
}

impl Default for Recommendation {
    fn default() -> Self {
        Self { valid_seconds: valid_seconds(), hysteresis_percent: hysteresis_percent(), follow: None }
    }
}

/// What moves the bytes of a session and what seals them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Transport {
    #[schemars(length(max = 32))]
    pub carrier: String,
    #[schemars(length(max = 32))]
    pub cipher: String,
}

/// How fast bytes arrive over a transport.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransportFigure {
    #[schemars(length(max = 32))]
    pub carrier: String,
    #[schemars(length(max = 32))]
    pub cipher: String,
    /// From one end to the other, in 10^6 bytes.
    pub megabytes_per_second: i64,
}

/// A row that counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnoredRow {
    #[schemars(length(max = 64))]
    pub row: String,
    /// Why, in a word.
    #[schemars(length(max = 64))]
    pub reason: String,
}

/// What a session with Auto is told to prefer, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecommendedTransport {
    /// The carrier that is dialled by first from the next connection on. Absent where nothing is recommended: then each sidecar
    /// takes Tcp, and chooses the cipher by its CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub carrier: Option<String>,
    /// The cipher that is offered first from the next connection on. Open ones keep theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub cipher: Option<String>,
    /// What the slowest pair of the session's node pools reaches with it, in 10^6 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub megabytes_per_second: Option<i64>,
    /// Why this one, or why none.
    #[schemars(length(max = 512))]
    pub reason: String,
}

/// What is known of the transports within a pool, or between two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnownTransports {
    /// How fast bytes arrive over each transport. Those of an earlier run stay as long as they are fresh where the last
    /// one has a row that cannot be believed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub transports: Vec<TransportFigure>,
    /// The run that `transports` are of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub transports_run: Option<String>,
    /// When that run was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transports_time: Option<Time>,
    /// The fastest of `transports` that Auto can mean, whatever policies permit: a session takes the fastest that its policy
    /// lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended: Option<Transport>,
    /// Rows of transports of the last run that count for nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub ignored: Vec<IgnoredRow>,
}
