//! One line of a report: a figure of ours, the peer it was measured beside, and how the two compare.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::statistics::{Interval, Quantiles};

/// A row's id: the row of the table of published figures, a case, and the peer where there are several.
/// `C3/1536`, `C3-tcp/1048576@plaintext`, `flood/p99`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RowId(pub String);

impl RowId {
    #[must_use]
    pub fn new(row: &str, case: impl fmt::Display) -> Self {
        Self(format!("{row}/{case}"))
    }

    #[must_use]
    pub fn beside(&self, peer: &str) -> Self {
        Self(format!("{}@{peer}", self.0))
    }

    /// Whether `filter` names this row: the whole id, or a beginning of it that ends at `/` or `@`.
    #[must_use]
    pub fn matches(&self, filter: &str) -> bool {
        let Some(rest) = self.0.strip_prefix(filter) else { return false };
        rest.is_empty() || filter.ends_with(['/', '@']) || rest.starts_with(['/', '@'])
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unit {
    #[serde(rename = "GB/s")]
    GigabytesPerSecond,
    #[serde(rename = "ns")]
    Nanoseconds,
    #[serde(rename = "us")]
    Microseconds,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "1/s")]
    PerSecond,
    /// Of all cores together, per byte that arrived.
    #[serde(rename = "ns/B")]
    NanosecondsPerByte,
    /// A number without a dimension, such as a slowdown.
    #[serde(rename = "times")]
    Times,
    #[serde(rename = "KiB")]
    Kibibytes,
    #[serde(rename = "MiB")]
    Mebibytes,
    /// Of 100.
    #[serde(rename = "%")]
    Percent,
}

impl Unit {
    /// What a figure cannot be told from nothing below. Times come from a clock that reads in tens of nanoseconds, those of
    /// [`Unit::Nanoseconds`] from blocks of very many operations.
    #[must_use]
    pub const fn resolution(self) -> f64 {
        match self {
            Self::Nanoseconds | Self::Microseconds => 0.05,
            Self::Seconds => 5e-8,
            Self::NanosecondsPerByte | Self::Times => 0.001,
            Self::GigabytesPerSecond
            | Self::PerSecond
            | Self::Kibibytes
            | Self::Mebibytes
            | Self::Percent => f64::MIN_POSITIVE,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GigabytesPerSecond => "GB/s",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "µs",
            Self::Seconds => "s",
            Self::PerSecond => "1/s",
            Self::NanosecondsPerByte => "ns/B",
            Self::Times => "×",
            Self::Kibibytes => "KiB",
            Self::Mebibytes => "MiB",
            Self::Percent => "%",
        })
    }
}

/// Which way is better for `ours` and `theirs`. The ratio is turned so that more is always better for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    Higher,
    Lower,
}

/// What a limit is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// The ratio must be at least the limit.
    Ratio,
    /// Our own figure must not be worse than the limit.
    Ours,
}

/// What the bootstrap bounds say about a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The whole 95 % interval is on the good side.
    Met,
    /// The whole 95 % interval is on the bad side.
    Missed,
    /// The limit lies inside the interval, the machine was too noisy, or the result was wrong.
    Unclear,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_whole_parts_of_an_id() {
        let id = RowId::new("C3-tcp", 1536).beside("plaintext");
        assert_eq!(id.to_string(), "C3-tcp/1536@plaintext");
        for filter in ["C3-tcp", "C3-tcp/", "C3-tcp/1536", "C3-tcp/1536@plaintext"] {
            assert!(id.matches(filter), "{filter}");
        }
        for filter in ["C3", "C3-tcp/15", "C3-tcp/1536@plain", "c3-tcp"] {
            assert!(!id.matches(filter), "{filter}");
        }
    }
}
