//! Notices a receiver that takes nothing of what it has.

use sealane_protocol::Moment;

/// A receiver that takes nothing for this long while something is there for it has stalled, as far as people want to
/// know; nothing happens to it.
const STALL_MICROS_MIN: u64 = 60_000_000;

/// Whether a receiver takes what it is given.
#[derive(Debug, Default)]
pub(super) struct Taking {
    /// Since when something is there for it and nothing of it was taken.
    waiting_since: Option<Moment>,
    took: bool,
}

impl Taking {
    /// The receiver has taken something.
    pub(super) const fn took(&mut self) {
        self.took = true;
    }

    /// Looks at the time; `waiting`: something is there for the receiver.
    pub(super) fn look(&mut self, waiting: bool, now: Moment) {
        let took = std::mem::take(&mut self.took);
        self.waiting_since = match self.waiting_since {
            _ if !waiting => None,
            Some(since) if !took => Some(since),
            Some(_) | None => Some(now),
        };
    }

    pub(super) fn has_stalled(&self, now: Moment) -> bool {
        self.waiting_since.is_some_and(|since| now.micros_since(since) >= STALL_MICROS_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_that_has_something_and_takes_nothing_has_stalled() {
        let start = Moment::from_micros(1);
        let late = start.plus_micros(STALL_MICROS_MIN);
        let mut taking = Taking::default();
        taking.look(false, start);
        assert!(!taking.has_stalled(late), "it was given nothing");
        taking.look(true, start);
        assert!(!taking.has_stalled(start) && taking.has_stalled(late));
        taking.took();
        taking.look(true, late);
        assert!(!taking.has_stalled(late), "it goes on");
        taking.look(true, late.plus_micros(1));
        assert!(taking.has_stalled(late.plus_micros(STALL_MICROS_MIN)), "a look alone is no progress");
        taking.look(false, late);
        assert!(!taking.has_stalled(late.plus_micros(STALL_MICROS_MIN)), "everything is taken");
    }
}
