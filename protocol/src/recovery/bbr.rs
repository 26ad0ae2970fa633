//! A controller that keeps a model of the path (draft-ietf-ccwg-bbr) in place of taking every loss for a full queue: it
//! sends as fast as the path was seen to deliver and keeps on it what fits there, and twice that at most.
//!
//! ```text
//! Startup → Drain → Down → Cruise → Refill → Up → Down …        Empty, every ten seconds, from anywhere
//! ```
//!
//! Smaller than the draft: one ceiling for what is in flight stands for its long-term and short-term bounds.

use sealane_types::CongestionControl;

use super::controller::{Acknowledged, Controller, INITIAL_DATAGRAMS, Lost, WINDOW_BYTES_MAX};
use super::delivery::RateSample;
use super::rtt::Rtt;
use crate::Moment;

mod estimate;
mod losses;
mod phase;

use estimate::{Bandwidth, Heaps, Rounds, Shortest, pipe_bytes};
use losses::{Losses, Verdict};
use phase::{Full, Phase};

/// A window never gets smaller (draft-ietf-ccwg-bbr, `MinPipeCwnd`).
const MINIMUM_DATAGRAMS: u64 = 4;
/// Timers and acknowledgements come in heaps of about so much: without it, a path that is shorter would run dry.
const SLACK_MICROS: u64 = 1_000;
/// Heaps further apart are not made up for, and the length of the path counts: on a long one, twice the pipe is enough.
const HEAP_MICROS_MAX: u64 = 5_000;
/// A probe for more is over when so much of the pipe is in flight (draft-ietf-ccwg-bbr, `ProbeBW_UP`).
const PROBED_PERCENT: u64 = 125;
/// What a round of a probe without excessive loss makes of the ceiling.
const RAISED_PERCENT: u64 = 125;
/// What a whole cycle without it makes of the ceiling: who shared the path then may be gone.
const QUIET_PERCENT: u64 = 150;
/// Between probes, so much of the ceiling is used, and the rest is free for others (draft-ietf-ccwg-bbr, `Headroom`).
const USED_PERCENT: u64 = 85;
/// What excessive loss leaves of what was in flight: otherwise a CUBIC on the same path, which falls to 70 % of what it had,
/// has less each time.
const KEPT_PERCENT: u64 = 85;
/// Rounds between two probes for more at most, or as many as the path holds datagrams: what Reno takes to ask for as
/// much (draft-ietf-ccwg-bbr, `ProbeBW_CRUISE`, has 63, which these are with what they vary by).
const CRUISE_ROUNDS: u64 = 50;
/// Time between two probes for more at most.
const CRUISE_MICROS: u64 = 2_000_000;
/// By how much both vary, so that flows do not go on probing together.
const CRUISE_ROUNDS_SPREAD: u64 = 13;
/// See [`CRUISE_ROUNDS_SPREAD`].
const CRUISE_MICROS_SPREAD: u64 = 1_000_000;
/// How long the path is kept all but empty, to see how long it is.
const EMPTY_MICROS: u64 = 200_000;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Bbr {
    datagram_bytes: u64,
    window: u64,
    phase: Phase,
    bandwidth: Bandwidth,
    shortest: Shortest,
    rounds: Rounds,
    heaps: Heaps,
    full: Full,
    losses: Losses,
    /// More in flight was too much. None: nothing was yet.
    ceiling: Option<u64>,
    /// When the current cycle of probing began, and in which round.
    cycle_at: Moment,
    cycle_round: u64,
    /// Nothing was on the way when something was sent, and nothing has arrived since.
    was_idle: bool,
    yielded: Option<Yielded>,
}

/// What there was before the last excessive loss, and when and in which round that was.
#[derive(Debug, Clone, Copy)]
struct Yielded {
    newest_sent: Moment,
    at: Moment,
    round: u64,
    ceiling: Option<u64>,
    phase: Phase,
    full: Full,
}

impl Bbr {
    pub(crate) fn new(datagram_bytes: u64) -> Self {
        Self {
            datagram_bytes,
            window: datagram_bytes.saturating_mul(INITIAL_DATAGRAMS),
            phase: Phase::Startup,
            bandwidth: Bandwidth::default(),
            shortest: Shortest::default(),
            rounds: Rounds::default(),
            heaps: Heaps::default(),
            full: Full::default(),
            losses: Losses::default(),
            ceiling: None,
            cycle_at: Moment::default(),
            cycle_round: 0,
            was_idle: false,
            yielded: None,
        }
    }

    /// Goes on from a window that another controller found.
    pub(crate) fn beginning_with(datagram_bytes: u64, window: u64) -> Self {
        let new = Self::new(datagram_bytes);
        Self { window: new.window.max(window), ..new }
    }

    fn minimum(&self) -> u64 {
        self.datagram_bytes.saturating_mul(MINIMUM_DATAGRAMS)
    }

    /// What fills the path without a queue.
    fn pipe(&self) -> u64 {
        let micros = self.shortest.micros().unwrap_or(0);
        pipe_bytes(self.bandwidth.bytes_per_second(), micros)
    }

    fn learn(&mut self, acknowledged: &Acknowledged, sample: &RateSample) {
        let now = acknowledged.now;
        let round_begins = self.rounds.update(sample);
        self.bandwidth.update(sample);
        let forgotten = self.shortest.update(now, sample.rtt_micros);
        if self.full.reached {
            // Before, what looks like a heap is a rate that is not known yet.
            let micros_max = HEAP_MICROS_MAX.saturating_sub(self.shortest.micros().unwrap_or(0));
            let rate = self.bandwidth.bytes_per_second();
            let heap_max = pipe_bytes(rate, micros_max).min(self.window);
            self.heaps.update(now, acknowledged.bytes, rate, heap_max, self.rounds.count);
        }
        if round_begins {
            self.losses.on_round(self.datagram_bytes);
            if !sample.limited {
                self.full.on_round(self.bandwidth.bytes_per_second());
            }
        }
        let was_idle = std::mem::take(&mut self.was_idle);
        if forgotten && was_idle {
            // After a pause the path is empty as it is.
            self.shortest.renew(now);
        } else if forgotten && !matches!(self.phase, Phase::Empty { .. }) {
            self.phase = Phase::Empty { until: None, round: 0 };
        }
        if let Phase::Up { since } = self.phase {
            if round_begins && !sample.limited {
                self.raise_ceiling(RAISED_PERCENT);
            }
            // One acknowledgement may name so much that hardly anything is left: what was there before counts as well.
            let reached = acknowledged.in_flight.max(sample.prior_in_flight);
            let seen = now.micros_since(since) > self.shortest.micros().unwrap_or(0);
            if seen && reached >= percent(self.pipe(), PROBED_PERCENT) {
                self.begin_down(now);
            }
        }
        self.step(now, acknowledged.in_flight);
    }

    fn step(&mut self, now: Moment, in_flight: u64) {
        match self.phase {
            Phase::Startup if self.full.reached => self.phase = Phase::Drain,
            Phase::Drain if in_flight <= self.pipe() => self.begin_down(now),
            Phase::Down if self.is_probe_due(now) => self.begin_refill(),
            Phase::Down if in_flight <= self.pipe() => self.phase = Phase::Cruise,
            Phase::Cruise if self.is_probe_due(now) => self.begin_refill(),
            Phase::Refill { round } if self.rounds.count > round => self.phase = Phase::Up { since: now },
            Phase::Empty { until, round } => self.step_empty(now, in_flight, until, round),
            Phase::Startup
            | Phase::Drain
            | Phase::Down
            | Phase::Cruise
            | Phase::Refill { .. }
            | Phase::Up { .. } => {}
        }
    }

    fn step_empty(&mut self, now: Moment, in_flight: u64, until: Option<Moment>, round: u64) {
        match until {
            None if in_flight <= self.target() => {
                let until = Some(now.plus_micros(EMPTY_MICROS));
                self.phase = Phase::Empty { until, round: self.rounds.count };
            }
            Some(until) if now >= until && self.rounds.count > round => {
                self.shortest.renew(now);
                if self.full.reached { self.begin_down(now) } else { self.phase = Phase::Startup }
            }
            None | Some(_) => {}
        }
    }

    /// Ends a probe for more, and with it a cycle.
    fn begin_down(&mut self, now: Moment) {
        self.bandwidth.end_cycle();
        (self.cycle_at, self.cycle_round) = (now, self.rounds.count);
        self.phase = Phase::Down;
    }

    fn begin_refill(&mut self) {
        if self.yielded.is_none_or(|yielded| yielded.at < self.cycle_at) {
            self.raise_ceiling(QUIET_PERCENT);
        }
        self.losses.restart();
        self.phase = Phase::Refill { round: self.rounds.count };
    }

    fn is_probe_due(&self, now: Moment) -> bool {
        let datagrams = self.pipe().checked_div(self.datagram_bytes).unwrap_or(0);
        let rounds = self.rounds.count.saturating_sub(self.cycle_round);
        // Flows that share a path began at other moments, and so wait for other times.
        let began = self.cycle_at.as_micros();
        let rounds_max = CRUISE_ROUNDS.saturating_add(began % CRUISE_ROUNDS_SPREAD);
        rounds >= datagrams.min(rounds_max)
            || now.micros_since(self.cycle_at) >= CRUISE_MICROS.saturating_add(began % CRUISE_MICROS_SPREAD)
    }

    fn raise_ceiling(&mut self, to_percent: u64) {
        self.ceiling = self.ceiling.map(|ceiling| percent(ceiling, to_percent).min(WINDOW_BYTES_MAX));
    }

    /// What has to be on its way beyond the pipe, because acknowledgements come unevenly.
    fn slack(&self) -> u64 {
        self.heaps.bytes().max(pipe_bytes(self.bandwidth.bytes_per_second(), SLACK_MICROS))
    }

    /// What fills the path however unevenly acknowledgements come.
    fn filling(&self) -> u64 {
        self.pipe().saturating_add(self.slack()).max(self.minimum())
    }

    /// What may be in flight between probes: below the ceiling others find room, but the path never runs dry.
    fn room_with_others(&self) -> u64 {
        let below = self.ceiling.map_or(WINDOW_BYTES_MAX, |ceiling| percent(ceiling, USED_PERCENT));
        below.max(self.filling())
    }

    /// What the window grows to, and falls to at once.
    fn target(&self) -> u64 {
        let share = percent(self.pipe(), self.phase.window_percent());
        let ceiling = self.ceiling.unwrap_or(WINDOW_BYTES_MAX);
        let target = match self.phase {
            Phase::Empty { .. } => share.min(ceiling),
            Phase::Down | Phase::Cruise => share.saturating_add(self.slack()).min(self.room_with_others()),
            Phase::Startup | Phase::Drain | Phase::Refill { .. } | Phase::Up { .. } => {
                share.saturating_add(self.slack()).min(ceiling)
            }
        };
        target.clamp(self.minimum(), WINDOW_BYTES_MAX)
    }

    /// Too much was lost for chance: less may be in flight, and a probe for more is over.
    fn yield_room(&mut self, lost: &Lost) {
        let Self { ceiling, phase, full, .. } = *self;
        self.yielded = Some(Yielded {
            newest_sent: lost.newest_sent,
            at: lost.now,
            round: self.rounds.count,
            ceiling,
            phase,
            full,
        });
        let before = lost.in_flight.saturating_add(lost.bytes);
        let kept = before.min(ceiling.unwrap_or(u64::MAX));
        // What a start was too much for is what the path holds, and nobody's share yet.
        let share = if phase == Phase::Startup { 100 } else { KEPT_PERCENT };
        self.ceiling = Some(percent(kept, share).max(self.filling()));
        self.losses.restart();
        match self.phase {
            Phase::Startup => {
                self.full.reached = true;
                self.phase = Phase::Drain;
            }
            Phase::Refill { .. } | Phase::Up { .. } => self.begin_down(lost.now),
            Phase::Drain | Phase::Down | Phase::Cruise | Phase::Empty { .. } => {}
        }
    }

    fn restart(&mut self) {
        *self = Self { window: self.minimum(), ..Self::new(self.datagram_bytes) };
    }
}

impl Controller for Bbr {
    fn on_sent(&mut self, _: Moment, bytes: u64, in_flight: u64) {
        self.was_idle |= in_flight <= bytes;
    }

    fn on_acknowledged(&mut self, acknowledged: &Acknowledged, _: &Rtt) {
        self.losses.on_delivered(acknowledged.bytes);
        if let Some(sample) = &acknowledged.delivery {
            self.learn(acknowledged, sample);
        }
        let grown = self.window.saturating_add(acknowledged.bytes);
        self.window = match self.phase {
            // What was seen bounds it only from below: the path may be twice as fast, or the application slow.
            Phase::Startup if self.ceiling.is_none() => grown.min(self.target()).max(self.window),
            _ => grown.min(self.target()),
        };
    }

    fn on_lost(&mut self, lost: &Lost, _: &Rtt) {
        if lost.persistent {
            self.restart();
            return;
        }
        let before = lost.in_flight.saturating_add(lost.bytes);
        // A start that still delivers more every round has not filled the path, whatever is lost by chance.
        let early = self.phase == Phase::Startup && !self.full.is_near();
        let yields = match self.losses.on_lost(lost.bytes, before, self.datagram_bytes) {
            Verdict::Chance => false,
            Verdict::Excessive => !early,
            Verdict::Overwhelming => true,
        };
        let again = self.yielded.is_some_and(|yielded| yielded.round == self.rounds.count);
        if yields && !again {
            self.yield_room(lost);
            self.window = self.window.min(self.target());
        }
    }

    fn on_spurious_loss(&mut self, newest_sent: Moment) {
        let Some(yielded) =
            self.yielded.take_if(|yielded| (yielded.newest_sent..=yielded.at).contains(&newest_sent))
        else {
            return;
        };
        self.ceiling = yielded.ceiling;
        if yielded.phase == Phase::Startup {
            (self.phase, self.full) = (yielded.phase, yielded.full);
        }
    }

    fn on_datagram_bytes(&mut self, bytes: u64) {
        self.datagram_bytes = bytes;
        self.window = self.window.max(self.minimum());
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn rate(&self) -> Option<u64> {
        match self.bandwidth.bytes_per_second() {
            0 => None,
            bandwidth => Some(percent(bandwidth, self.phase.rate_percent()).max(1)),
        }
    }

    fn name(&self) -> CongestionControl {
        CongestionControl::Bbr
    }
}

fn percent(of: u64, percent: u64) -> u64 {
    of.saturating_mul(percent) / 100
}

#[cfg(test)]
mod tests;
