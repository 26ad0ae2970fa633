//! One line of a report: a figure of ours, the peer it was measured beside, and how the two compare.

use schemars::JsonSchema;
pub use sealane_results::{Better, RowId, Unit, Verdict};
use serde::{Deserialize, Serialize};

use crate::statistics::{Interval, Quantiles};

/// What a limit is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// The ratio must be at least the limit.
    Ratio,
    /// Our own figure must not be worse than the limit.
    Ours,
}

/// A limit and how the row stands to it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    pub on: Subject,
    pub value: f64,
    pub verdict: Verdict,
}

/// Latencies of single operations, where a row's samples are medians of blocks of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    pub ours: Quantiles,
    pub theirs: Option<Quantiles>,
}

/// Every sample, in the order it was taken, so that others can compute what they like.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sampled {
    pub ours: Vec<f64>,
    pub theirs: Vec<f64>,
    /// Milliseconds of the fixed work before each round: how quiet the machine was.
    pub control: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Row {
    pub id: RowId,
    pub suite: String,
    /// What was measured, in words.
    pub name: String,
    pub unit: Unit,
    pub better: Better,
    /// Median of our samples.
    pub ours: f64,
    /// Width between the quartiles of our samples, in `unit`.
    pub spread: f64,
    /// 95 % bounds of `ours`.
    pub ours_interval: Option<Interval>,
    /// Rounds; ours and theirs were measured in turn in each.
    pub samples: u64,
    /// Who `theirs` is.
    pub peer: Option<String>,
    pub theirs: Option<f64>,
    pub theirs_spread: Option<f64>,
    /// Ours against theirs; above 1 is better for us, whatever the unit.
    pub ratio: Option<f64>,
    /// 95 % bounds of `ratio`.
    pub ratio_interval: Option<Interval>,
    /// The value of the first of `limits`.
    pub limit: Option<f64>,
    pub limits: Vec<Limit>,
    /// Whether every timed result was what it had to be.
    pub correct: bool,
    /// The control's spread was too large: differences of this row are not called significant.
    pub noisy: bool,
    /// Why no verdict can rest on this row, where it is `noisy`.
    pub doubt: Option<String>,
    pub latency: Option<Latency>,
    pub note: String,
    pub sampled: Sampled,
}

impl Row {
    /// The row's standing: the worst verdict of its limits. None when it has none.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        let has = |verdict| self.limits.iter().any(|limit| limit.verdict == verdict);
        [Verdict::Missed, Verdict::Unclear, Verdict::Met].into_iter().find(|verdict| has(*verdict))
    }
}

/// A row that this run does not have, and why: never an estimate in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    pub id: RowId,
    pub why: String,
}

impl Missing {
    #[must_use]
    pub fn new(id: &str, why: impl Into<String>) -> Self {
        Self { id: RowId(id.to_owned()), why: why.into() }
    }
}
