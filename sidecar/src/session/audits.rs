//! How often auditors get evidence: a quote is expensive, on hardware seconds of a device that all handshakes share.
//!
//! An auditor is its proved static key, not its address: whoever comes through the API server's port forward comes from
//! the pod's own loopback. Addresses are held to their rates before that, by the [gate](crate::link::gate).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sealane_policy::limits::AUDITOR_KEYS_MAX;
use sealane_protocol::Moment;

use crate::rate::{RateLimit, TokenBucket};

/// Audits of one auditor.
const ONE: RateLimit = RateLimit::every_micros(4, 5_000_000);
/// Of all auditors together.
const ALL: RateLimit = RateLimit::per_second(16, 1);

/// Keys remembered at most. Only keys that a policy lists get here, so those of two policies have room.
const KEYS_MAX: usize = 2 * AUDITOR_KEYS_MAX;

#[derive(Debug, Default)]
struct Inner {
    all: Option<TokenBucket>,
    each: HashMap<[u8; 32], TokenBucket>,
}

/// Decides whether an auditor that the policy lists gets evidence now.
#[derive(Debug, Default)]
pub(crate) struct Audits {
    inner: Mutex<Inner>,
}

impl Audits {
    /// Whether the auditor with this static key may be answered; if so, it is counted.
    pub(crate) fn admit(&self, key: &[u8; 32], now: Moment) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { all, each } = &mut *inner;
        if each.len() >= KEYS_MAX && !each.contains_key(key) {
            each.retain(|_, bucket| {
                bucket.refill(ONE, now);
                !bucket.is_full(ONE)
            });
            if each.len() >= KEYS_MAX {
                return false;
            }
        }
        let common = all.get_or_insert(TokenBucket::full(ALL, now));
        let one = each.entry(*key).or_insert(TokenBucket::full(ONE, now));
        common.refill(ALL, now);
        one.refill(ONE, now);
        // One that has used up its own share takes nothing from the others', nor they from its.
        !one.is_empty() && common.take_refilled() && one.take_refilled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn key(number: u8) -> [u8; 32] {
        [number; 32]
    }

    #[test]
    fn one_auditor_is_held_to_its_rate() {
        let audits = Audits::default();
        let now = Moment::default();
        for _ in 0..ONE.burst() {
            assert!(audits.admit(&key(1), now));
        }
        assert!(!audits.admit(&key(1), now));
        assert!(audits.admit(&key(2), now), "others are not");
        assert!(!audits.admit(&key(1), now.plus_micros(4 * SECOND)));
        assert!(audits.admit(&key(1), now.plus_micros(5 * SECOND)));
        assert!(!audits.admit(&key(1), now.plus_micros(9 * SECOND)), "time that was used is used");
        assert!(audits.admit(&key(1), now.plus_micros(10 * SECOND)));
    }

    #[test]
    fn all_auditors_together_are_held_to_theirs() {
        let audits = Audits::default();
        let now = Moment::default();
        let answered = (0..=u8::MAX).filter(|number| audits.admit(&key(*number), now)).count();
        assert_eq!(answered, ALL.burst() as usize);
        assert!(audits.admit(&key(200), now.plus_micros(SECOND)));
        assert!(!audits.admit(&key(201), now.plus_micros(SECOND)));
    }

    #[test]
    fn keys_of_policies_that_are_gone_are_forgotten() {
        let audits = Audits::default();
        let mut now = Moment::default();
        for number in 0..u8::MAX {
            now = now.plus_micros(SECOND);
            assert!(audits.admit(&key(number), now), "{number}");
        }
        let inner = audits.inner.lock().unwrap();
        assert!(inner.each.len() <= KEYS_MAX, "{}", inner.each.len());
    }
}
