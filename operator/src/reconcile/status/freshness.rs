//! Until when a status counts as up to date. Whoever reads one that is older knows that no operator writes it.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sealane_types::UnixSeconds;

use crate::condition::time;
use crate::limits::{STATUS_FRESH_SECONDS, STATUS_RENEWAL_SECONDS};

/// How long `until` is ahead.
fn left(until: &Time, now: UnixSeconds) -> u64 {
    u64::try_from(until.0.as_second()).unwrap_or(0).saturating_sub(now.0)
}

/// The end that a status states: the one that it has, unless that is near.
pub(super) fn stale_after(stated: Option<&Time>, now: UnixSeconds) -> Time {
    // One that is further ahead than any would be is of a clock that was wrong.
    let fresh = STATUS_RENEWAL_SECONDS + 1..=STATUS_FRESH_SECONDS;
    let stated = stated.filter(|until| fresh.contains(&left(until, now)));
    stated.cloned().unwrap_or_else(|| time(now.plus(STATUS_FRESH_SECONDS)))
}

/// When a status that states `until` is to be written anew.
pub(super) fn renewal(until: &Time, now: UnixSeconds) -> Duration {
    Duration::from_secs(left(until, now).saturating_sub(STATUS_RENEWAL_SECONDS).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::CLOCK_BEHIND_SECONDS_MAX;

    const NOW: UnixSeconds = UnixSeconds(1_000_000);

    #[test]
    fn a_status_is_renewed_before_it_is_stale_and_not_at_every_look() {
        let first = stale_after(None, NOW);
        assert_eq!(left(&first, NOW), STATUS_FRESH_SECONDS);
        let wait = renewal(&first, NOW);
        assert_eq!(wait.as_secs(), STATUS_FRESH_SECONDS - STATUS_RENEWAL_SECONDS);
        assert_eq!(stale_after(Some(&first), NOW.plus(wait.as_secs() - 1)), first);
        let later = NOW.plus(wait.as_secs());
        assert_eq!(left(&stale_after(Some(&first), later), later), STATUS_FRESH_SECONDS);
        // So is one that is stale already, and one that a wrong clock stated.
        for now in [NOW.plus(10 * STATUS_FRESH_SECONDS), UnixSeconds(NOW.0 - 100)] {
            assert_eq!(left(&stale_after(Some(&first), now), now), STATUS_FRESH_SECONDS);
        }
    }
    #[test]
    fn an_operator_whose_clock_is_wrong_by_minutes_renews_what_others_still_find_fresh() {
        for behind in [0, CLOCK_BEHIND_SECONDS_MAX] {
            let own = UnixSeconds(NOW.0 - behind);
            let until = stale_after(None, own);
            let renewed = NOW.plus(renewal(&until, own).as_secs());
            assert!(left(&until, renewed) >= 60, "behind by {behind} s");
        }
        // The next leader states an end of its own clock, whatever the one before thought.
        for (before, after) in [(NOW.plus(300), NOW), (NOW, NOW.plus(300)), (NOW, UnixSeconds(NOW.0 - 300))] {
            let until = stale_after(Some(&stale_after(None, before)), after);
            let ahead = left(&until, after);
            assert!(ahead > STATUS_RENEWAL_SECONDS && ahead <= STATUS_FRESH_SECONDS, "{ahead}");
        }
    }
}
