//! Which ports the forwards of one Peer listen on, and where two of them want the same. Pure: the same answer at
//! admission and in reconciliation.

use std::ops::RangeInclusive;

use sealane_operator_api::Forward;

/// The ports that a forward listens on in pods of `from`, while `highest` is the highest ordinal among the replicas
/// of `to`. The ordinals of a StatefulSet have no gaps, so neither has the range.
#[must_use]
pub fn listened(forward: &Forward, highest: Option<u32>) -> RangeInclusive<u32> {
    let first = u32::try_from(forward.listen).unwrap_or(0);
    let more = if forward.per_replica { highest.unwrap_or(0) } else { 0 };
    first..=first.saturating_add(more)
}

/// The lowest port that both ranges hold.
#[must_use]
pub fn shared(left: &RangeInclusive<u32>, right: &RangeInclusive<u32>) -> Option<u32> {
    let first = *left.start().max(right.start());
    (left.contains(&first) && right.contains(&first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_forward_to_each_replica_takes_more_than_one_port() {
        let forward = |per_replica| Forward { listen: 18000, target: 8001, per_replica };
        assert_eq!(listened(&forward(false), Some(7)), 18000..=18000);
        assert_eq!(listened(&forward(true), Some(7)), 18000..=18007);
        assert_eq!(listened(&forward(true), None), 18000..=18000);
    }

    #[test]
    fn ranges_meet_at_their_lowest_common_port() {
        assert_eq!(shared(&(1..=3), &(3..=9)), Some(3));
        assert_eq!(shared(&(1..=9), &(4..=5)), Some(4));
        assert_eq!(shared(&(1..=2), &(3..=9)), None);
    }
}
