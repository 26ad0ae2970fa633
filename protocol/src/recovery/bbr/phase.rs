//! What the model does to the path just now.

use crate::Moment;

/// The rate grew by less than this much per round, in percent (draft-ietf-ccwg-bbr, `StartupFullBwThresh`) …
const GROWTH_PERCENT: u64 = 125;
/// … for so many rounds: the path is full.
const EVEN_ROUNDS: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The rate doubles every round, until it grows no more.
    Startup,
    /// What has queued up meanwhile drains.
    Drain,
    /// A little slower than the path delivers, until others find room.
    Down,
    /// As fast as the path delivers.
    Cruise,
    /// The same for a round from `round` on, so that a probe begins with a path that is full.
    Refill { round: u64 },
    /// A little faster than the path delivers, to see whether it delivers more.
    Up { since: Moment },
    /// Much less is in flight, until some moment and for a round, to see how long the path is.
    Empty { until: Option<Moment>, round: u64 },
}

impl Phase {
    /// At which rate to send, in percent of that at which the path delivers (draft-ietf-ccwg-bbr, `pacing_gain`). One less
    /// than the whole, so that queues drain in the long run.
    pub(super) const fn rate_percent(self) -> u64 {
        match self {
            Self::Startup => 277,
            Self::Drain => 50,
            Self::Down => 90,
            Self::Cruise | Self::Refill { .. } | Self::Empty { .. } => 99,
            Self::Up { .. } => 125,
        }
    }

    /// How much may be in flight, in percent of what fills the path.
    pub(super) const fn window_percent(self) -> u64 {
        match self {
            Self::Up { .. } => 225,
            Self::Empty { .. } => 50,
            Self::Startup => 277,
            Self::Drain | Self::Down | Self::Cruise | Self::Refill { .. } => 200,
        }
    }
}

/// Finds out whether the path is full: sending faster no longer delivers faster.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Full {
    pub(super) reached: bool,
    bandwidth: u64,
    rounds: u32,
}

impl Full {
    /// Whether the last round delivered no faster than the one before.
    pub(super) fn is_near(&self) -> bool {
        self.rounds > 0
    }

    /// A round is over that was not limited by the application.
    pub(super) fn on_round(&mut self, bandwidth: u64) {
        if self.reached {
            return;
        }
        if bandwidth.saturating_mul(100) >= self.bandwidth.saturating_mul(GROWTH_PERCENT) {
            (self.bandwidth, self.rounds) = (bandwidth, 0);
            return;
        }
        self.rounds = self.rounds.saturating_add(1);
        self.reached = self.rounds >= EVEN_ROUNDS;
    }
}
