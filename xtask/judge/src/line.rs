//! One entry's line of the result.

use serde::Serialize;

use super::verdict::{Outcome, Verdict};

/// `{id, outcome, reason, micros}`. `reason` and `micros` are null where there is nothing to say.
#[derive(Debug, Serialize)]
pub struct Line {
    pub id: String,
    /// `accept`, `reject`, `missing` or `error`.
    pub outcome: &'static str,
    pub reason: Option<String>,
    /// Microseconds of the verifier alone.
    pub micros: Option<f64>,
}

impl Line {
    pub(super) fn new(id: String, verdict: Verdict) -> Self {
        let (outcome, reason) = match verdict.outcome {
            Outcome::Accept => ("accept", None),
            Outcome::Reject(why) => ("reject", Some(why)),
            Outcome::Missing(path) => ("missing", Some(path.display().to_string())),
            Outcome::Error(what) => ("error", Some(what)),
        };
        let micros = verdict.micros.map(|micros| (micros * 10.0).round() / 10.0);
        Self { id, outcome, reason, micros }
    }

    /// The line as it is printed.
    #[must_use]
    pub fn to_json(&self) -> String {
        // A text, a word and a finite number are always JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}
