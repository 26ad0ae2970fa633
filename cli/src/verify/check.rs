//! One thing that an audit looks at, and what was found.

use sealane_types::Reason;

use crate::output::printable;

/// How it stands with one thing, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Status {
    Ok,
    /// Accepted, and less than it could be.
    Degraded,
    Failed,
}

impl Status {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) about: String,
    pub(super) status: Status,
    pub(super) seen: String,
    /// Why it is no better, as a word that `kubectl sealane explain` knows.
    pub(super) reason: Option<Reason>,
}

/// Checks in the order in which they were made. None is ever taken back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Checks(Vec<Check>);

impl Checks {
    pub(super) fn ok(&mut self, about: impl ToString, seen: impl ToString) {
        self.put(about, Status::Ok, seen, None);
    }

    pub(super) fn degraded(&mut self, about: impl ToString, seen: impl ToString, reason: Option<Reason>) {
        self.put(about, Status::Degraded, seen, reason);
    }

    pub(super) fn failed(&mut self, about: impl ToString, seen: impl ToString, reason: Reason) {
        self.put(about, Status::Failed, seen, Some(reason));
    }

    fn put(&mut self, about: impl ToString, status: Status, seen: impl ToString, reason: Option<Reason>) {
        // A replica may show anything at all.
        let seen = printable(&seen.to_string());
        self.0.push(Check { about: about.to_string(), status, seen, reason });
    }

    pub(super) fn append(&mut self, Self(later): Self) {
        self.0.extend(later);
    }

    pub(super) fn all(&self) -> &[Check] {
        &self.0
    }

    /// The worst of all; an audit that checked nothing has failed.
    pub(super) fn verdict(&self) -> Status {
        self.0.iter().map(|check| check.status).max().unwrap_or(Status::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_begins_no_line_of_its_own() {
        let mut checks = Checks::default();
        checks.ok("module", "i-1\n  ok        measurement\u{1b}[A");
        assert_eq!(checks.all()[0].seen, "i-1\\u{a}  ok        measurement\\u{1b}[A");
    }

    #[test]
    fn the_verdict_is_the_worst_of_all() {
        let mut checks = Checks::default();
        assert_eq!(checks.verdict(), Status::Failed, "nothing was checked");
        checks.ok("a", "");
        assert_eq!(checks.verdict(), Status::Ok);
        checks.degraded("b", "", None);
        checks.ok("c", "");
        assert_eq!(checks.verdict(), Status::Degraded);
        checks.failed("d", "", Reason::RootMismatch);
        checks.ok("e", "");
        assert_eq!(checks.verdict(), Status::Failed);
    }
}
