//! Tells loss that has nothing to do with the sender from loss because there is too much on the path.

/// A path whose queue overflows loses more than this part of what it is sent (draft-ietf-ccwg-bbr, `LossThresh`: 2 %).
const EXCESSIVE_PERCENT: u64 = 2;
/// Fewer lost datagrams say nothing: one of twenty is five percent.
const DATAGRAMS_MIN: u64 = 6;

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

    /// `bytes` of the `in_flight` that were on the way were lost: whether that is too much to be chance.
    pub(super) fn on_lost(&mut self, bytes: u64, in_flight: u64, datagram: u64) -> bool {
        self.lost = self.lost.saturating_add(bytes);
        let sent = self.delivered.saturating_add(self.lost).max(in_flight);
        self.lost >= datagram.saturating_mul(DATAGRAMS_MIN)
            && self.lost.saturating_mul(100) > sent.saturating_mul(EXCESSIVE_PERCENT)
    }

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
