//! Which stream a tensor takes that has to find another replica.

use std::collections::BTreeMap;

use crate::handoff::Sequence;

/// The highest sequence that streams of each generation have carried, but for the first one, which belongs to tensors
/// that go where they were sent at first.
///
/// Numbers grow within a stream, so a tensor takes the first generation that has carried none as high. A lane needs
/// more of them only when the same tensors are redirected again, not for every replica that it outlives.
#[derive(Debug, Default)]
pub(super) struct Generations {
    last: BTreeMap<u8, Sequence>,
}

impl Generations {
    /// A generation that can carry `sequence` to any replica; it has carried it from now on. None when all are spent.
    pub(super) fn redirect(&mut self, sequence: Sequence) -> Option<u8> {
        let free = |generation: &u8| self.last.get(generation).is_none_or(|last| *last < sequence);
        let generation = (1..=u8::MAX).find(free)?;
        self.last.insert(generation, sequence);
        Some(generation)
    }

    /// `sequence` travels in `generation`, as an earlier life of this sidecar decided.
    pub(super) fn carried(&mut self, generation: u8, sequence: Sequence) {
        let last = self.last.entry(generation).or_insert(sequence);
        *last = sequence.max(*last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_outlives_any_number_of_replicas() {
        let mut generations = Generations::default();
        for sequence in 0..10_000 {
            assert_eq!(generations.redirect(Sequence(sequence)), Some(1));
        }
        assert_eq!(generations.redirect(Sequence(9_990)), Some(2), "numbers grow within a stream");
        assert_eq!(generations.redirect(Sequence(9_991)), Some(2));
        assert_eq!(generations.redirect(Sequence(10_000)), Some(1));
    }

    #[test]
    fn one_tensor_is_redirected_as_often_as_routes_can_tell() {
        let mut generations = Generations::default();
        let found: Vec<_> = (0..256).map(|_| generations.redirect(Sequence(7))).collect();
        let all: Vec<_> = (1..=u8::MAX).map(Some).chain([None]).collect();
        assert_eq!(found, all);
    }

    #[test]
    fn what_an_earlier_life_decided_counts() {
        let mut generations = Generations::default();
        generations.carried(0, Sequence(9));
        generations.carried(1, Sequence(5));
        generations.carried(1, Sequence(4));
        assert_eq!(generations.redirect(Sequence(5)), Some(2));
        assert_eq!(generations.redirect(Sequence(6)), Some(1));
    }
}
