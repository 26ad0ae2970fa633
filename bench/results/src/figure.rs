//! The words that a figure is told in.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// The bounds between which a statistic lies with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
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
