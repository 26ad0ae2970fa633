//! Conditions as Kubernetes defines them: a transition is a change of status, and only it moves the time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use sealane_operator_api::page;
use sealane_operator_api::well_known::condition::READY;
use sealane_types::UnixSeconds;

use crate::spec::Problem;

/// Bounds of messages in conditions.
const MESSAGE_CHARS_MAX: usize = 1024;

/// One finding about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    type_: &'static str,
    status: &'static str,
    reason: String,
    message: String,
}

impl Finding {
    pub(crate) fn yes(type_: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self { type_, status: "True", reason: reason.to_owned(), message: message.into() }
    }

    pub(crate) fn no(type_: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self { type_, status: "False", reason: reason.to_owned(), message: message.into() }
    }

    pub(crate) fn unknown(type_: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self { type_, status: "Unknown", reason: reason.to_owned(), message: message.into() }
    }

    /// False with the problem's words.
    pub(crate) fn not(type_: &'static str, problem: &Problem) -> Self {
        Self::no(type_, problem.reason, problem.message.clone())
    }

    pub(crate) fn holds(&self) -> bool {
        self.status == "True"
    }

    /// The message as people read it. Why an object is not ready is the first thing that they look at, and it says
    /// where to read on.
    fn text(&self) -> String {
        let bounded: String = self.message.chars().take(MESSAGE_CHARS_MAX).collect();
        if self.type_ == READY && !self.holds() {
            format!("{bounded} ({})", page(&self.reason))
        } else {
            bounded
        }
    }

    pub(crate) fn is_false(&self) -> bool {
        self.status == "False"
    }

    /// The same of another condition, which depends on this one.
    pub(crate) fn of(&self, type_: &'static str) -> Self {
        Self { type_, ..self.clone() }
    }

    /// What is wrong when the finding does not hold.
    pub(crate) fn complaint(&self) -> Option<(&str, &str)> {
        (!self.holds()).then_some((self.reason.as_str(), self.message.as_str()))
    }
}

/// The conditions to write, in the order of `findings`.
pub(crate) fn conditions(
    previous: &[Condition],
    findings: Vec<Finding>,
    generation: Option<i64>,
    now: UnixSeconds,
) -> Vec<Condition> {
    let now = time(now);
    findings
        .into_iter()
        .map(|finding| {
            let message = finding.text();
            let Finding { type_, status, reason, message: _ } = finding;
            let before = previous.iter().find(|before| before.type_ == type_ && before.status == status);
            Condition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason,
                message,
                observed_generation: generation,
                last_transition_time: before
                    .map_or_else(|| now.clone(), |before| before.last_transition_time.clone()),
            }
        })
        .collect()
}

/// Whether the condition `type_` of `conditions` is True.
pub(crate) fn is_true(conditions: &[Condition], type_: &str) -> bool {
    conditions.iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// A time as statuses write it; beyond the calendar it is the calendar's end.
pub(crate) fn time(seconds: UnixSeconds) -> Time {
    let seconds = i64::try_from(seconds.0).unwrap_or(i64::MAX);
    Time(Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_status_is_a_transition() {
        let first = conditions(&[], vec![Finding::no("Ready", "A", "a")], Some(1), UnixSeconds(100));
        let reworded = conditions(&first, vec![Finding::no("Ready", "B", "b")], Some(2), UnixSeconds(200));
        assert_eq!(reworded[0].last_transition_time, first[0].last_transition_time);
        assert_eq!((reworded[0].reason.as_str(), reworded[0].observed_generation), ("B", Some(2)));
        let turned = conditions(&reworded, vec![Finding::yes("Ready", "C", "c")], Some(2), UnixSeconds(300));
        assert_eq!(turned[0].last_transition_time, time(UnixSeconds(300)));
        assert!(is_true(&turned, "Ready") && !is_true(&reworded, "Ready"));
    }

    #[test]
    fn messages_are_bounded_and_times_never_fail() {
        let long =
            conditions(&[], vec![Finding::no("Ready", "A", "ä".repeat(5000))], None, UnixSeconds(u64::MAX));
        assert!(long[0].message.chars().count() < MESSAGE_CHARS_MAX + 64);
    }

    #[test]
    fn who_is_not_ready_says_where_to_read_on() {
        let text = |finding: Finding| conditions(&[], vec![finding], None, UnixSeconds(1))[0].message.clone();
        let expired = Finding::no("Ready", "PolicyExpired", "expired yesterday");
        assert_eq!(text(expired), "expired yesterday (docs/reasons.md#policyexpired)");
        assert_eq!(text(Finding::yes("Ready", "AllReady", "2 of 2")), "2 of 2");
        assert_eq!(text(Finding::no("Established", "LinkLost", "cut")), "cut");
    }
}
