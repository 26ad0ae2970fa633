//! Whether an operator keeps a status up to date.
//!
//! A status says until when it counts. Without an operator it stays as it was, and its Ready with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sealane_policy::Timestamp;

use crate::lifetime::Lifetime;

/// What a row says in place of Ready.
pub(crate) const STALE: &str = "STALE";
/// What to do where statuses are stale.
pub(crate) const REMEDY: &str = "it shows what was true then: `kubectl sealane check` says whether an operator runs and leads; sidecars go on by what they were told last";

/// For how long a status has been out of date; absent of one that is not, and of one that says nothing about it.
pub(crate) fn stale_for(until: Option<&Time>, now: Timestamp) -> Option<Lifetime> {
    let until = u64::try_from(until?.0.as_second()).unwrap_or(0);
    let seconds = now.unix().0.checked_sub(until).filter(|seconds| *seconds > 0)?;
    Some(Lifetime { seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_stale_after_the_time_that_it_states() {
        let until = Time("2026-11-20T12:00:00Z".parse().unwrap());
        let age = |now: &str| stale_for(Some(&until), now.parse().unwrap()).map(|age| age.seconds);
        assert_eq!(age("2026-11-20T11:59:00Z"), None);
        assert_eq!(age("2026-11-20T12:00:00Z"), None);
        assert_eq!(age("2026-11-20T14:00:00Z"), Some(7200));
        assert_eq!(stale_for(None, "2026-11-20T12:00:00Z".parse().unwrap()), None, "of an older release");
    }
}
