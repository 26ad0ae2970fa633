//! Replicas that answer over TCP and not over UDP, whichever session dials them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sealane_protocol::Moment;

use super::tickets::Dialled;

/// How often in a row: who was just coming up the first time answers the second time.
const SILENCES_MAX: u32 = 2;
/// For how long UDP is not tried again. A connection that stands is not remade for it afterwards.
const AVOIDED_MICROS: u64 = 600_000_000;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Silences(Mutex<BTreeMap<Dialled, Silence>>);

#[derive(Debug, Default)]
struct Silence {
    in_a_row: u32,
    avoided_until: Option<Moment>,
}

impl Silence {
    fn lasts(&self, now: Moment) -> bool {
        self.avoided_until.is_some_and(|until| now < until)
    }
}

impl Silences {
    /// Whether another carrier stands in for UDP.
    pub(super) fn lasts(&self, replica: &Dialled, now: Moment) -> bool {
        self.lock().get(replica).is_some_and(|silence| silence.lasts(now))
    }

    /// No connection came about over UDP, and somebody answered over TCP.
    pub(super) fn go_on(&self, replica: &Dialled, now: Moment) {
        let mut all = self.lock();
        // What is over says nothing of replicas that are gone.
        all.retain(|_, silence| silence.avoided_until.is_none() || silence.lasts(now));
        let silence = all.entry(replica.clone()).or_default();
        silence.in_a_row += 1;
        if silence.in_a_row >= SILENCES_MAX {
            *silence = Silence { in_a_row: 0, avoided_until: Some(now.plus_micros(AVOIDED_MICROS)) };
        }
    }

    /// A connection over UDP came about or was refused, or nobody is there.
    pub(super) fn end(&self, replica: &Dialled) {
        let mut all = self.lock();
        if all.get(replica).is_some_and(|silence| silence.avoided_until.is_none()) {
            all.remove(replica);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Dialled, Silence>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Moment {
        Moment::from_micros(micros)
    }

    #[test]
    fn who_is_silent_twice_in_a_row_is_reached_by_another_carrier_for_a_while() {
        let replica = |id: &str| Dialled { peer: "ranker".parse().unwrap(), id: id.to_owned() };
        let (one, other) = (replica("one"), replica("other"));
        let silences = Silences::default();
        silences.go_on(&one, at(0));
        silences.go_on(&other, at(0));
        assert!(!silences.lasts(&one, at(0)), "it may have been coming up");
        silences.end(&one);
        silences.go_on(&one, at(0));
        assert!(!silences.lasts(&one, at(0)), "not in a row");
        silences.go_on(&one, at(0));
        assert!(silences.lasts(&one, at(AVOIDED_MICROS - 1)) && !silences.lasts(&other, at(0)));
        silences.end(&one);
        assert!(silences.lasts(&one, at(0)), "what another session did before it knew changes nothing");
        assert!(!silences.lasts(&one, at(AVOIDED_MICROS)));
        silences.go_on(&one, at(AVOIDED_MICROS));
        assert!(!silences.lasts(&one, at(AVOIDED_MICROS)), "then it gets as many tries as at first");
        silences.end(&one);
        silences.end(&other);
        assert!(silences.lock().is_empty());
    }
}
