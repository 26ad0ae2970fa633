//! What becomes of an entry.

use std::{path::PathBuf, time::Instant};

use sealane_attestation::{Claims, Collateral, Evidence, Rejection, inspect};
use sealane_types::UnixSeconds;

/// Times the verifier runs on one piece of evidence; the fastest counts.
const RUNS: u32 = 5;

/// The outcome, and what the verifier took where it ran.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    pub(super) micros: Option<f64>,
}

#[derive(Debug)]
pub(super) enum Outcome {
    Accept,
    Reject(String),
    Missing(PathBuf),
    Error(String),
}

/// Why an entry never came before the verifier.
#[derive(Debug)]
pub(super) enum Unjudged {
    /// What the entry asks for, or whom it trusts, cannot be granted.
    Refused(String),
    /// A file that the entry names is not there.
    Missing(PathBuf),
    /// The entry is none.
    Malformed(String),
}

impl From<Unjudged> for Verdict {
    fn from(unjudged: Unjudged) -> Self {
        let outcome = match unjudged {
            Unjudged::Refused(why) => Outcome::Reject(why),
            Unjudged::Missing(path) => Outcome::Missing(path),
            Unjudged::Malformed(what) => Outcome::Error(what),
        };
        Self { outcome, micros: None }
    }
}

/// A rejection as one reads it: the word that users search for, then the sentence.
pub(super) fn reason(rejection: &Rejection) -> String {
    format!("{}: {rejection}", rejection.reason())
}

/// Runs the verifier on `evidence`, and `permitted` on what it says.
pub(super) fn verdict(
    evidence: &Evidence,
    collateral: &Collateral,
    now: UnixSeconds,
    permitted: impl FnOnce(&Claims) -> Result<(), Rejection>,
) -> Verdict {
    let mut fastest = f64::INFINITY;
    for _ in 0..RUNS {
        let started = Instant::now();
        let outcome = inspect(evidence, collateral, now);
        fastest = fastest.min(started.elapsed().as_secs_f64() * 1e6);
        drop(outcome);
    }
    let judged = inspect(evidence, collateral, now).and_then(|claims| permitted(&claims));
    let outcome = match judged {
        Ok(()) => Outcome::Accept,
        Err(rejection) => Outcome::Reject(reason(&rejection)),
    };
    Verdict { outcome, micros: Some(fastest) }
}
