//! Sets of numbers that come mostly in order: packet numbers that arrived, bytes of a stream.

use std::ops::Range;

/// Disjoint half-open ranges that do not touch, in order. The newest are at the end, where adding costs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    ranges: Vec<Range<u64>>,
}

impl Ranges {
    pub(crate) const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// Adds what is in `range`; how many of its numbers were not there.
    pub(crate) fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        if self.ranges.last().is_none_or(|last| last.end < range.start) {
            let new = length(&range);
            self.ranges.push(range);
            return new;
        }
        // Those that overlap or touch become one.
        let first = self.ranges.partition_point(|old| old.end < range.start);
        let after = self.ranges.partition_point(|old| old.start <= range.end);
        let joined = self.ranges.get(first..after).unwrap_or_default();
        let (Some(lowest), Some(highest)) = (joined.first(), joined.last()) else {
            let new = length(&range);
            self.ranges.insert(first, range);
            return new;
        };
        let whole = lowest.start.min(range.start)..highest.end.max(range.end);
        let known = joined.iter().map(length).fold(0, u64::saturating_add);
        let new = length(&whole).saturating_sub(known);
        if let Some(place) = self.ranges.get_mut(first) {
            *place = whole;
        }
        self.ranges.drain(first.saturating_add(1)..after);
        new
    }

    /// Takes away what is in `range`.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.ranges.partition_point(|old| old.end <= range.start);
        let after = self.ranges.partition_point(|old| old.start < range.end);
        let hit = self.ranges.get(first..after).unwrap_or_default();
        let (Some(lowest), Some(highest)) = (hit.first(), hit.last()) else {
            return;
        };
        let before = lowest.start..range.start;
        let behind = range.end..highest.end;
        let mut kept = [before, behind].into_iter().filter(|rest| !rest.is_empty());
        // In place wherever no more is left than was there; only a range in the middle of another makes one more.
        let mut next = first;
        for rest in kept.by_ref().take(after.saturating_sub(first)) {
            if let Some(place) = self.ranges.get_mut(next) {
                *place = rest;
            }
            next = next.saturating_add(1);
        }
        match kept.next() {
            Some(rest) => self.ranges.insert(next, rest),
            None => drop(self.ranges.drain(next..after)),
        }
    }

    /// Takes away what is below `bound`.
    pub(crate) fn remove_below(&mut self, bound: u64) {
        self.remove(0..bound);
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        let place = self.ranges.partition_point(|range| range.end <= number);
        self.ranges.get(place).is_some_and(|range| range.contains(&number))
    }

    /// The lowest range.
    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.ranges.first().cloned()
    }

    /// The highest range.
    pub(crate) fn last(&self) -> Option<Range<u64>> {
        self.ranges.last().cloned()
    }

    /// How many ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// From the lowest to the highest; reversible.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + ExactSizeIterator + '_ {
        self.ranges.iter().cloned()
    }
}

fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_in_order_are_one_range() {
        let mut ranges = Ranges::new();
        for number in 0..1_000 {
            assert_eq!(ranges.insert(number..number + 1), 1);
        }
        assert_eq!(ranges.insert(10..20), 0, "known");
        assert_eq!((ranges.len(), ranges.first(), ranges.last()), (1, Some(0..1_000), Some(0..1_000)));
    }

    #[test]
    fn a_gap_is_kept_until_it_is_filled() {
        let mut ranges = Ranges::new();
        ranges.insert(0..3);
        ranges.insert(5..7);
        ranges.insert(9..10);
        assert_eq!(ranges.len(), 3);
        assert_eq!(ranges.iter().rev().collect::<Vec<_>>(), [9..10, 5..7, 0..3]);
        assert_eq!(ranges.insert(2..9), 4);
        assert_eq!((ranges.len(), ranges.last()), (1, Some(0..10)));
        ranges.remove(4..6);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [0..4, 6..10]);
        ranges.remove_below(1);
        assert_eq!(ranges.first(), Some(1..4));
    }

    #[test]
    fn the_ends_of_all_numbers_are_numbers_like_others() {
        let mut ranges = Ranges::new();
        assert_eq!(ranges.insert(u64::MAX - 1..u64::MAX), 1);
        assert_eq!(ranges.insert(0..u64::MAX), u64::MAX - 1);
        assert!(ranges.contains(0) && ranges.contains(u64::MAX - 1) && !ranges.contains(u64::MAX));
        assert_eq!(ranges.insert(5..5), 0);
        ranges.remove_below(u64::MAX);
        assert!(ranges.is_empty());
    }

    #[derive(Debug, Clone)]
    enum Change {
        Insert(Range<u64>),
        Remove(Range<u64>),
        RemoveBelow(u64),
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let range = || (0..200_u64, 0..30_u64).prop_map(|(start, length)| start..start + length);
        let change = prop_oneof![
            6 => range().prop_map(Change::Insert),
            3 => range().prop_map(Change::Remove),
            1 => (0..60_u64).prop_map(Change::RemoveBelow),
        ];
        prop::collection::vec(change, 0..60)
    }

    fn apply(change: &Change, ranges: &mut Ranges, reference: &mut BTreeSet<u64>) {
        match change.clone() {
            Change::Insert(range) => {
                let before = reference.len();
                reference.extend(range.clone());
                assert_eq!(ranges.insert(range), (reference.len() - before) as u64);
            }
            Change::Remove(range) => {
                reference.retain(|number| !range.contains(number));
                ranges.remove(range);
            }
            Change::RemoveBelow(bound) => {
                reference.retain(|number| *number >= bound);
                ranges.remove_below(bound);
            }
        }
    }

    proptest! {
        #[test]
        fn they_are_the_set_that_they_stand_for(changes in changes()) {
            let (mut ranges, mut reference) = (Ranges::new(), BTreeSet::new());
            for change in &changes {
                apply(change, &mut ranges, &mut reference);
                let numbers: Vec<u64> = ranges.iter().flatten().collect();
                prop_assert!(numbers.iter().eq(reference.iter()), "after {change:?}: {ranges:?}");
                prop_assert!((0..240).all(|number| ranges.contains(number) == reference.contains(&number)));
                let apart = ranges.iter().zip(ranges.iter().skip(1)).all(|(low, high)| low.end < high.start);
                prop_assert!(apart, "those that touch are one");
            }
        }
    }
}
