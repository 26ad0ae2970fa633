//! Who may take a Lease, and when: the leader election of client-go (`k8s.io/client-go/tools/leaderelection`), without
//! I/O.
//!
//! No replica believes another one's wall clock. A lease is over when its record has not changed for as long as it
//! says that it lasts, on the clock of whoever looks.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// How long a lease lasts after its holder renewed it.
pub(super) const LEASE_TIME: Duration = Duration::from_secs(15);
/// The longest time that a record may claim; a holder that asks for more is not waited for.
const LEASE_TIME_MAX: Duration = Duration::from_secs(60);

/// What a replica may do with the lease that it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// Nobody holds it, or whoever does has not renewed it in time.
    Acquire,
    /// This replica holds it.
    Renew,
    /// Another replica holds it.
    Wait,
}

/// A replica that would lead.
#[derive(Debug)]
pub(super) struct Candidate {
    identity: String,
    /// Another holder's record, and since when it has been the same.
    seen: Option<(LeaseSpec, Instant)>,
}

impl Candidate {
    pub(super) fn new(identity: impl Into<String>) -> Self {
        Self { identity: identity.into(), seen: None }
    }

    /// Whether this replica holds the lease.
    pub(super) fn holds(&self, record: &LeaseSpec) -> bool {
        record.holder_identity.as_deref() == Some(self.identity.as_str())
    }

    /// What may be done with a lease of this record, which was read at `now`.
    pub(super) fn judge(&mut self, record: &LeaseSpec, now: Instant) -> Claim {
        if self.holds(record) {
            self.seen = None;
            return Claim::Renew;
        }
        if record.holder_identity.as_deref().unwrap_or_default().is_empty() {
            return Claim::Acquire;
        }
        let since = match &self.seen {
            Some((known, since)) if known == record => *since,
            _ => {
                self.seen = Some((record.clone(), now));
                now
            }
        };
        if now.duration_since(since) >= lasts(record) { Claim::Acquire } else { Claim::Wait }
    }

    /// The record with which this replica holds the lease on from `now`, after `record`. Its times are for people.
    pub(super) fn record(&self, record: &LeaseSpec, now: Timestamp) -> LeaseSpec {
        let renews = self.holds(record);
        let transitions = record.lease_transitions.unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            acquire_time: record.acquire_time.clone().filter(|_| renews).or(Some(MicroTime(now))),
            renew_time: Some(MicroTime(now)),
            lease_duration_seconds: Some(seconds(LEASE_TIME)),
            lease_transitions: Some(if renews { transitions } else { transitions.saturating_add(1) }),
            ..LeaseSpec::default()
        }
    }

    /// The record of a lease that this replica gave back. Those that wait find it free when they look next.
    pub(super) fn released(record: &LeaseSpec) -> LeaseSpec {
        LeaseSpec { lease_transitions: record.lease_transitions, ..LeaseSpec::default() }
    }
}

/// How long a lease of this record lasts.
fn lasts(record: &LeaseSpec) -> Duration {
    let told = record.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    told.map_or(LEASE_TIME, Duration::from_secs).min(LEASE_TIME_MAX)
}

fn seconds(time: Duration) -> i32 {
    i32::try_from(time.as_secs()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(holder: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        }
    }

    fn after(seconds: u64, began: Instant) -> Instant {
        began + Duration::from_secs(seconds)
    }

    #[test]
    fn a_free_lease_is_taken_at_once() {
        let mut candidate = Candidate::new("me");
        for free in [LeaseSpec::default(), held("", 0), Candidate::released(&held("other", 0))] {
            assert_eq!(candidate.judge(&free, Instant::now()), Claim::Acquire);
        }
    }

    #[test]
    fn a_lease_is_over_when_it_did_not_change_for_as_long_as_it_lasts() {
        let (mut candidate, began) = (Candidate::new("me"), Instant::now());
        assert_eq!(candidate.judge(&held("other", 0), began), Claim::Wait);
        assert_eq!(candidate.judge(&held("other", 0), after(14, began)), Claim::Wait);
        assert_eq!(candidate.judge(&held("other", 5), after(14, began)), Claim::Wait, "it was renewed");
        assert_eq!(candidate.judge(&held("other", 5), after(28, began)), Claim::Wait);
        assert_eq!(candidate.judge(&held("third", 5), after(28, began)), Claim::Wait, "another one took it");
        assert_eq!(candidate.judge(&held("third", 5), after(43, began)), Claim::Acquire);
    }

    #[test]
    fn wall_clocks_that_differ_by_minutes_change_nothing() {
        // The holder's clock is five minutes behind or ahead, and it renews in time.
        for clock in [-300, 300] {
            let (mut candidate, began) = (Candidate::new("me"), Instant::now());
            for step in 0..100 {
                let now = Timestamp::now().as_second() + clock + i64::try_from(step).unwrap();
                assert_eq!(candidate.judge(&held("other", now), after(step, began)), Claim::Wait);
            }
        }
    }

    #[test]
    fn a_holder_cannot_ask_for_years() {
        let (mut candidate, began) = (Candidate::new("me"), Instant::now());
        let long = LeaseSpec { lease_duration_seconds: Some(i32::MAX), ..held("other", 0) };
        let odd = LeaseSpec { lease_duration_seconds: Some(-1), ..held("other", 0) };
        assert_eq!(candidate.judge(&long, began), Claim::Wait);
        assert_eq!(candidate.judge(&long, after(60, began)), Claim::Acquire);
        assert_eq!(candidate.judge(&odd, after(60, began)), Claim::Wait);
        assert_eq!(candidate.judge(&odd, after(75, began)), Claim::Acquire);
    }

    #[test]
    fn the_record_tells_since_when_and_how_often_the_holder_changed() {
        let (candidate, now) = (Candidate::new("me"), Timestamp::from_second(100).unwrap());
        let other = LeaseSpec { lease_transitions: Some(6), ..held("other", 0) };
        let acquired = candidate.record(&other, now);
        assert!(candidate.holds(&acquired));
        assert_eq!((acquired.lease_transitions, acquired.lease_duration_seconds), (Some(7), Some(15)));
        let later = Timestamp::from_second(102).unwrap();
        let renewed = candidate.record(&acquired, later);
        assert_eq!(renewed, LeaseSpec { renew_time: Some(MicroTime(later)), ..acquired });
        assert_eq!(Candidate::released(&renewed).lease_transitions, Some(7));
    }
}
