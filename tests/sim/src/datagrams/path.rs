//! What happens to datagrams on the way from one participant to another.

use std::ops::Range;

use sealane_protocol::Moment;
use sealane_support::world::Counter;

use super::link::LinkId;
use super::steps::Steps;

/// One direction between two participants. Chances are those of a datagram, in thousandths.
#[derive(Debug, Clone)]
pub struct Path {
    pub link: LinkId,
    pub delay_micros: u64,
    /// Up to so much longer, at random; what follows waits.
    pub jitter_micros: u64,
    /// What is longer vanishes. Bytes of the datagram, without the headers of IP and UDP.
    pub datagram_bytes_max: Steps<usize>,
    pub lost_permille: u64,
    /// The chance that this datagram and those that follow are lost, and how many these are at most.
    pub burst_permille: u64,
    pub burst_datagrams_max: u64,
    pub duplicated_permille: u64,
    /// One bit is flipped.
    pub corrupted_permille: u64,
    /// The chance of being overtaken, and by how much longer it takes at most.
    pub reordered_permille: u64,
    pub reordered_micros_max: u64,
    /// Nothing passes meanwhile.
    pub blackholes: Vec<Range<Moment>>,
}

impl Path {
    /// One that does no harm and takes no time but that of `link`.
    #[must_use]
    pub const fn perfect(link: LinkId) -> Self {
        Self {
            link,
            delay_micros: 0,
            jitter_micros: 0,
            datagram_bytes_max: Steps::always(usize::MAX),
            lost_permille: 0,
            burst_permille: 0,
            burst_datagrams_max: 0,
            duplicated_permille: 0,
            corrupted_permille: 0,
            reordered_permille: 0,
            reordered_micros_max: 0,
            blackholes: Vec::new(),
        }
    }
}

/// A path with what it remembers from one datagram to the next.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) path: Path,
    /// Datagrams that are still to be lost together.
    burst: u64,
    /// Nothing that keeps its order arrives earlier.
    last_arrival: Moment,
}

/// Why a datagram does not get as far as the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    TooLarge,
    Blackhole,
}

/// What became of a datagram behind the link: no arrival, one, or two.
#[derive(Debug, Default)]
pub(super) struct Fate {
    pub(super) arrives: Option<Moment>,
    pub(super) again: Option<Moment>,
    pub(super) corrupted: bool,
    pub(super) reordered: bool,
}

impl Way {
    pub(super) fn new(path: Path) -> Self {
        Self { path, burst: 0, last_arrival: Moment::default() }
    }

    pub(super) fn refuses(&self, now: Moment, bytes: usize) -> Option<Refusal> {
        if bytes > self.path.datagram_bytes_max.at(now) {
            Some(Refusal::TooLarge)
        } else if self.path.blackholes.iter().any(|blackhole| blackhole.contains(&now)) {
            Some(Refusal::Blackhole)
        } else {
            None
        }
    }

    /// The link has sent a datagram at `now`; what happens to it from here on.
    pub(super) fn decide(&mut self, now: Moment, random: &mut Counter) -> Fate {
        if self.is_lost(random) {
            return Fate::default();
        }
        let corrupted = chance(random, self.path.corrupted_permille);
        let (arrives, reordered) = self.arrival(now, random);
        let again =
            chance(random, self.path.duplicated_permille).then(|| self.arrival(now, random).0.max(arrives));
        Fate { arrives: Some(arrives), again, corrupted, reordered }
    }

    fn is_lost(&mut self, random: &mut Counter) -> bool {
        if self.path.burst_permille == 0 {
            // One that began when the path was another is over.
            self.burst = 0;
        }
        if self.burst == 0 && chance(random, self.path.burst_permille) {
            self.burst = 1 + up_to(random, self.path.burst_datagrams_max.saturating_sub(1));
        }
        if self.burst > 0 {
            self.burst -= 1;
            return true;
        }
        chance(random, self.path.lost_permille)
    }

    /// When it arrives, and whether what follows may overtake it.
    fn arrival(&mut self, now: Moment, random: &mut Counter) -> (Moment, bool) {
        let path = &self.path;
        let due = now.plus_micros(path.delay_micros + up_to(random, path.jitter_micros));
        if chance(random, path.reordered_permille) {
            return (due.plus_micros(1 + up_to(random, path.reordered_micros_max)), true);
        }
        self.last_arrival = self.last_arrival.max(due);
        (self.last_arrival, false)
    }
}

fn chance(random: &mut Counter, permille: u64) -> bool {
    permille > 0 && random.draw() % 1_000 < permille
}

/// From zero to `max`.
fn up_to(random: &mut Counter, max: u64) -> u64 {
    if max == 0 { 0 } else { random.draw() % max.saturating_add(1) }
}
