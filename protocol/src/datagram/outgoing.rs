//! What this side has said and the remote has not acknowledged: one sequence of bytes, kept until it has arrived.

use std::ops::Range;

use super::kept::Kept;
use crate::limits::STREAM_WINDOW_BYTES;
use crate::recovery::Ranges;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    kept: Kept,
    /// Where in the sequence the kept bytes begin: everything before has arrived.
    base: u64,
    /// Where the bytes begin that were never sent.
    unsent: u64,
    /// What arrived behind the base.
    arrived: Ranges,
    /// What has to be sent again.
    lost: Ranges,
}

impl Outgoing {
    /// Where bytes go that follow those that are there.
    pub(super) const fn kept(&mut self) -> &mut Kept {
        &mut self.kept
    }

    /// Bytes that were never sent.
    pub(super) fn unsent(&self) -> u64 {
        self.kept.end().saturating_sub(self.unsent)
    }

    /// Whether everything has arrived.
    pub(super) fn is_settled(&self) -> bool {
        self.base == self.kept.end()
    }

    /// The next bytes to be sent, `length_max` at most and none from `through` on: first what was lost.
    pub(super) fn next(&self, length_max: u64, through: u64) -> Option<Range<u64>> {
        let lost = self.lost.first();
        // Whatever the remote says it has room for: what it does not acknowledge is kept here.
        let through = through.min(self.base.saturating_add(STREAM_WINDOW_BYTES));
        let (start, end) =
            lost.map_or((self.unsent, self.kept.end().min(through)), |lost| (lost.start, lost.end));
        let end = end.min(start.saturating_add(length_max));
        (start < end).then_some(start..end)
    }

    /// Copies bytes from `start` on to where they are sealed.
    pub(super) fn copy(&self, start: u64, into: &mut [u8]) {
        self.kept.copy(start, into);
    }

    /// `range` leaves.
    pub(super) fn on_sent(&mut self, range: &Range<u64>) {
        if range.start == self.unsent {
            self.unsent = range.end;
        } else {
            self.lost.remove(range.clone());
        }
    }

    /// `range` arrived.
    pub(super) fn on_acknowledged(&mut self, range: Range<u64>) {
        if range.end <= self.base {
            return;
        }
        self.lost.remove(range.clone());
        if range.start > self.base {
            self.arrived.insert(range);
            return;
        }
        let mut base = range.end;
        if let Some(first) = self.arrived.first().filter(|first| first.start <= base) {
            base = base.max(first.end);
            self.arrived.remove_below(base);
        }
        self.kept.forget_below(base);
        self.base = base;
    }

    /// `range` did not arrive, as far as one can tell.
    pub(super) fn on_lost(&mut self, range: &Range<u64>) {
        let mut start = range.start.max(self.base);
        for arrived in self.arrived.iter().filter(|arrived| arrived.end > range.start) {
            if arrived.start >= range.end {
                break;
            }
            self.lost.insert(start..arrived.start.max(start));
            start = start.max(arrived.end);
        }
        self.lost.insert(start..range.end.max(start));
    }

    /// Gives memory back that nothing is kept in.
    pub(super) fn release(&mut self) {
        self.kept.release();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::size::index;

    fn send(outgoing: &mut Outgoing, length_max: u64) -> Option<(Range<u64>, Vec<u8>)> {
        let range = outgoing.next(length_max, u64::MAX)?;
        let mut bytes = vec![0; index(range.end - range.start)];
        outgoing.copy(range.start, &mut bytes);
        outgoing.on_sent(&range);
        Some((range, bytes))
    }

    #[test]
    fn what_was_lost_goes_first_and_nothing_beyond_what_the_remote_has_room_for() {
        let mut outgoing = Outgoing::default();
        outgoing.kept().put(b"abcdefgh");
        assert_eq!(outgoing.next(9, 5), Some(0..5));
        assert_eq!(send(&mut outgoing, 4).unwrap().1, b"abcd");
        assert_eq!(outgoing.next(9, 4), None);
        outgoing.on_acknowledged(1..2);
        outgoing.on_lost(&(0..4));
        assert_eq!(send(&mut outgoing, 9).unwrap(), (0..1, b"a".to_vec()));
        assert_eq!(send(&mut outgoing, 9).unwrap(), (2..4, b"cd".to_vec()));
        assert_eq!(send(&mut outgoing, 9).unwrap(), (4..8, b"efgh".to_vec()));
        outgoing.on_acknowledged(0..4);
        outgoing.on_acknowledged(4..8);
        assert!(outgoing.is_settled());
    }

    proptest! {
        /// Whatever is lost, everything arrives, as it was, and nothing is kept then.
        #[test]
        fn everything_arrives(steps in prop::collection::vec((0_u8..4, 1_u64..40), 1..300)) {
            let mut outgoing = Outgoing::default();
            let mut said: Vec<u8> = Vec::new();
            let mut arrived: Vec<Option<u8>> = Vec::new();
            let mut flying: Vec<(Range<u64>, Vec<u8>)> = Vec::new();
            let deliver = |outgoing: &mut Outgoing, arrived: &mut Vec<Option<u8>>, range: Range<u64>, bytes: Vec<u8>| {
                for (at, byte) in range.clone().zip(bytes) {
                    arrived[index(at)] = Some(byte);
                }
                outgoing.on_acknowledged(range);
            };
            for (step, size) in steps {
                match step {
                    0 => {
                        let bytes: Vec<u8> = (0..size).map(|at| (at + said.len() as u64) as u8).collect();
                        said.extend(&bytes);
                        if size % 2 == 0 { outgoing.kept().put(&bytes) } else { outgoing.kept().put_whole(bytes) }
                        arrived.resize(said.len(), None);
                    }
                    1 => flying.extend(send(&mut outgoing, size)),
                    2 if !flying.is_empty() => {
                        let (range, bytes) = flying.remove(index(size) % flying.len());
                        deliver(&mut outgoing, &mut arrived, range, bytes);
                    }
                    _ if !flying.is_empty() => {
                        let (range, _) = flying.remove(index(size) % flying.len());
                        outgoing.on_lost(&range);
                    }
                    _ => {}
                }
            }
            for (range, bytes) in flying {
                deliver(&mut outgoing, &mut arrived, range, bytes);
            }
            while let Some((range, bytes)) = send(&mut outgoing, 16) {
                deliver(&mut outgoing, &mut arrived, range, bytes);
            }
            prop_assert!(outgoing.is_settled());
            prop_assert_eq!(arrived, said.into_iter().map(Some).collect::<Vec<_>>());
        }
    }
}
