//! Why a Peer has no running pod, as the end of a sentence.

use crate::spec::{Outcome, Work};

/// Empty where nothing is known.
pub(super) fn absence(work: Option<&Work>) -> String {
    let Some(work) = work else { return String::new() };
    if let Some(first) = work.expected.first() {
        let pods: u64 = work.expected.iter().map(|expected| u64::from(expected.pods)).sum();
        let others = if work.expected.len() > 1 { " and others" } else { "" };
        return format!("; {pods} are to come, of {}{others}", first.workload);
    }
    match &work.outcome {
        Outcome::Failed(why) => format!(": {why}"),
        Outcome::Succeeded => ": its work has finished".to_owned(),
        Outcome::Unknown | Outcome::Active => String::new(),
    }
}
