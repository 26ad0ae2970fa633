//! Tells loss that has nothing to do with the sender from loss because there is too much on the path.

/// A path whose queue overflows loses more than this part of what it is sent (draft-ietf-ccwg-bbr, `LossThresh`: 2 %).
const EXCESSIVE_PERCENT: u64 = 2;
/// Fewer lost datagrams say nothing: one of twenty is five percent.
const DATAGRAMS_MIN: u64 = 6;

/// No path that is of any use loses so much by chance.
const OVERWHELMING_PERCENT: u64 = 25;

/// What a loss says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Chance,
    /// There is too much on the path, unless it still delivers more and more.
    Excessive,
    /// There is too much on the path.
    Overwhelming,
}

/// Counts over a round, and over as many as it takes to lose so much by chance.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Losses {
    lost: u64,
    delivered: u64,
}

impl Losses {
    pub(super) fn on_delivered(&mut self, bytes: u64) {
        self.delivered = self.delivered.saturating_add(bytes);
    }

    /// `bytes` of the `in_flight` that were on the way were lost.
    pub(super) fn on_lost(&mut self, bytes: u64, in_flight: u64, datagram: u64) -> Verdict {
        self.lost = self.lost.saturating_add(bytes);
        let sent = self.delivered.saturating_add(self.lost).max(in_flight);
        let percent = self.lost.saturating_mul(100).checked_div(sent).unwrap_or(0);
        if self.lost < datagram.saturating_mul(DATAGRAMS_MIN) {
            Verdict::Chance
        } else if percent >= OVERWHELMING_PERCENT {
            Verdict::Overwhelming
        } else if self.lost.saturating_mul(100) > sent.saturating_mul(EXCESSIVE_PERCENT) {
            Verdict::Excessive
        } else {
            Verdict::Chance
        }
    }

    /// A round begins: what was counted stays as long as it is too little to judge by.
    pub(super) fn on_round(&mut self, datagram: u64) {
        let enough = datagram.saturating_mul(DATAGRAMS_MIN).saturating_mul(100) / EXCESSIVE_PERCENT;
        if self.delivered >= enough {
            self.restart();
        }
    }

    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATAGRAM: u64 = 1_000;

    #[test]
    fn few_losses_are_chance_however_little_was_sent() {
        let mut losses = Losses::default();
        for _ in 0..5 {
            assert_eq!(losses.on_lost(DATAGRAM, 8 * DATAGRAM, DATAGRAM), Verdict::Chance);
        }
        assert_eq!(losses.on_lost(DATAGRAM, 8 * DATAGRAM, DATAGRAM), Verdict::Overwhelming);
    }

    #[test]
    fn more_than_two_percent_are_excessive_and_a_quarter_is_overwhelming() {
        let mut losses = Losses::default();
        losses.on_delivered(490 * DATAGRAM);
        assert_eq!(losses.on_lost(10 * DATAGRAM, DATAGRAM, DATAGRAM), Verdict::Chance, "two percent");
        assert_eq!(losses.on_lost(DATAGRAM, DATAGRAM, DATAGRAM), Verdict::Excessive);
        assert_eq!(losses.on_lost(300 * DATAGRAM, DATAGRAM, DATAGRAM), Verdict::Overwhelming);
    }

    #[test]
    fn rounds_are_counted_together_until_they_are_enough() {
        let mut losses = Losses::default();
        for _ in 0..5 {
            losses.on_delivered(50 * DATAGRAM);
            losses.on_lost(DATAGRAM, DATAGRAM, DATAGRAM);
            losses.on_round(DATAGRAM);
        }
        assert_eq!((losses.lost, losses.delivered), (5 * DATAGRAM, 250 * DATAGRAM));
        losses.on_delivered(50 * DATAGRAM);
        losses.on_round(DATAGRAM);
        assert_eq!((losses.lost, losses.delivered), (0, 0));
    }
}
