//! Finds how large datagrams a path carries (DPLPMTUD, RFC 8899, as RFC 9000, section 14.3 uses it): a probe of a
//! larger size is sent, and only its acknowledgement raises what is sent. What routers say is never asked, so nothing
//! that an outsider sends changes anything.

use crate::Moment;

/// What every path carries that carries the protocol at all (RFC 9000, section 14).
pub(crate) const BASE_BYTES: u16 = 1_200;
/// Sizes that paths mostly end at, in the order in which to try them: Ethernet under IPv4 and IPv6, then jumbo frames.
const LIKELY_BYTES: [u16; 4] = [1_472, 1_452, 8_972, 8_952];
/// The search ends when so little is left to win.
const STEP_BYTES: u16 = 16;
/// A size is given up after so many lost probes (RFC 8899, section 5.1.2: `MAX_PROBES`).
const TRIES_MAX: u8 = 3;
/// Losses in a row, of nothing but large datagrams, after which the path no longer carries them.
const LOSSES_MAX: u8 = 3;
/// A path may have become wider after so long (RFC 8899, section 5.1.1: `PMTU_RAISE_TIMER`).
const RAISE_MICROS: u64 = 600_000_000;

/// Sizes in bytes of UDP payload.
#[derive(Debug)]
pub(crate) struct Mtu {
    current: u16,
    /// What the interface and the peer take at most.
    ceiling: u16,
    state: State,
    /// Times in a row that datagrams of more than [`BASE_BYTES`] were lost, and the largest of them.
    losses: u8,
    lost_bytes: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The path carries the current size, and may carry less than `narrow` bytes; `narrow` itself it does not carry.
    Searching { narrow: u16, tries: u8, flying: Option<u16> },
    /// `since` when, if that is known already.
    Found { since: Option<Moment> },
}

impl Mtu {
    /// `ceiling`: what the interface carries without the headers of IP and UDP, and the peer takes.
    pub(crate) fn new(ceiling: u16) -> Self {
        let ceiling = ceiling.max(BASE_BYTES);
        let state = Self::searching(ceiling);
        Self { current: BASE_BYTES, ceiling, state, losses: 0, lost_bytes: 0 }
    }

    /// What a datagram may have.
    pub(crate) const fn current(&self) -> u16 {
        self.current
    }

    /// The size of a probe that is to be sent now; it counts as sent. The caller sends it when the window lets it, and
    /// tells its end: a lost probe says nothing of congestion (RFC 9000, section 14.4).
    pub(crate) fn probe(&mut self, now: Moment) -> Option<u16> {
        if let State::Found { since } = &mut self.state {
            let since = *since.get_or_insert(now);
            if now.micros_since(since) < RAISE_MICROS {
                return None;
            }
            self.state = Self::searching(self.ceiling);
        }
        let candidate = self.candidate();
        let State::Searching { flying, .. } = &mut self.state else { return None };
        if flying.is_some() {
            return None;
        }
        *flying = candidate;
        if candidate.is_none() {
            self.state = State::Found { since: Some(now) };
        }
        candidate
    }

    /// A probe of `size` arrived.
    pub(crate) fn on_probe_acknowledged(&mut self, size: u16) {
        let State::Searching { tries, flying, .. } = &mut self.state else { return };
        if *flying != Some(size) {
            // One of before a black hole was found.
            return;
        }
        (*tries, *flying) = (0, None);
        self.current = self.current.max(size);
        (self.losses, self.lost_bytes) = (0, 0);
        self.rest();
    }

    /// A probe of `size` did not arrive.
    pub(crate) fn on_probe_lost(&mut self, size: u16) {
        let State::Searching { narrow, tries, flying } = &mut self.state else { return };
        if *flying != Some(size) {
            return;
        }
        (*tries, *flying) = (tries.saturating_add(1), None);
        if *tries >= TRIES_MAX {
            (*narrow, *tries) = (size, 0);
        }
        self.rest();
    }

    /// A datagram of `size` that is no probe arrived: the path carries what is not larger. To be told before the losses
    /// that the same acknowledgement shows.
    pub(crate) fn on_acknowledged(&mut self, size: u16) {
        if size >= self.lost_bytes {
            (self.losses, self.lost_bytes) = (0, 0);
        }
    }

    /// Datagrams that are no probes, the largest of `size`, were found to be lost, together; or a probe timeout passed
    /// while they were on the way, after which the caller sends a small one. True: the path no longer carries them, and
    /// what they held goes out again in smaller ones (RFC 8899, section 4.3).
    pub(crate) fn on_lost(&mut self, size: u16) -> bool {
        if size <= BASE_BYTES || size > self.current {
            return false;
        }
        self.losses = self.losses.saturating_add(1);
        self.lost_bytes = self.lost_bytes.max(size);
        if self.losses < LOSSES_MAX {
            return false;
        }
        (self.current, self.losses, self.lost_bytes) = (BASE_BYTES, 0, 0);
        self.state = Self::searching(self.ceiling);
        true
    }

    const fn searching(ceiling: u16) -> State {
        State::Searching { narrow: ceiling.saturating_add(1), tries: 0, flying: None }
    }

    /// Ends the search when nothing is left to try.
    fn rest(&mut self) {
        if self.candidate().is_none() {
            self.state = State::Found { since: None };
        }
    }

    /// What to try next: a likely size, else all, else the middle of what is open.
    fn candidate(&self) -> Option<u16> {
        let State::Searching { narrow, .. } = self.state else { return None };
        let open = narrow.saturating_sub(self.current);
        if narrow > self.ceiling && self.current == self.ceiling || open <= STEP_BYTES {
            return None;
        }
        let likely =
            LIKELY_BYTES.into_iter().find(|size| (self.current.saturating_add(1)..narrow).contains(size));
        let all = (narrow > self.ceiling).then_some(self.ceiling);
        likely.or(all).or(Some(self.current.saturating_add(open / 2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment::from_micros(5_000_000);

    /// Searches over a path that carries `carried` bytes; how many probes it took.
    fn search(mtu: &mut Mtu, now: Moment, carried: u16) -> usize {
        let mut probes = 0;
        while let Some(size) = mtu.probe(now) {
            assert_eq!(mtu.probe(now), None, "one at a time");
            assert!(size > mtu.current() && size <= mtu.ceiling);
            if size <= carried {
                mtu.on_probe_acknowledged(size)
            } else {
                mtu.on_probe_lost(size)
            }
            probes += 1;
            assert!(probes < 60, "it ends");
        }
        probes
    }

    #[test]
    fn the_common_paths_take_a_probe_or_two() {
        for (ceiling, carried, found, probes) in [
            (1_472, 1_472, 1_472, 1),
            (1_452, 1_452, 1_452, 1),
            (8_973, 8_973, 8_972, 2),
            (8_952, 8_952, 8_952, 2),
            (1_422, 1_422, 1_422, 1),
            (65_507, 65_507, 65_507, 3),
            (1_200, 1_200, 1_200, 0),
            (900, 1_200, 1_200, 0),
        ] {
            let mut mtu = Mtu::new(ceiling);
            assert_eq!(search(&mut mtu, START, carried), probes, "{ceiling}");
            assert_eq!(mtu.current(), found);
        }
    }

    #[test]
    fn whatever_the_path_carries_is_found_within_a_step() {
        for ceiling in [1_300, 1_472, 8_972, 65_507] {
            for carried in (1_200..=9_100).step_by(13) {
                let mut mtu = Mtu::new(ceiling);
                search(&mut mtu, START, carried);
                let best = carried.min(ceiling);
                assert!((best.saturating_sub(STEP_BYTES)..=best).contains(&mtu.current()), "{best}: {mtu:?}");
            }
        }
    }

    #[test]
    fn one_lost_probe_says_nothing_yet() {
        let mut mtu = Mtu::new(1_472);
        for _ in 0..2 {
            assert_eq!(mtu.probe(START), Some(1_472));
            mtu.on_probe_lost(1_472);
        }
        assert_eq!(mtu.probe(START), Some(1_472));
        mtu.on_probe_acknowledged(1_472);
        assert_eq!((mtu.current(), mtu.probe(START)), (1_472, None));
    }

    #[test]
    fn a_path_may_become_wider_after_ten_minutes() {
        let mut mtu = Mtu::new(8_972);
        search(&mut mtu, START, 1_472);
        assert!((1_472 - STEP_BYTES..=1_472).contains(&mtu.current()));
        assert_eq!(mtu.probe(START.plus_micros(RAISE_MICROS - 1)), None);
        search(&mut mtu, START.plus_micros(RAISE_MICROS), 8_972);
        assert_eq!(mtu.current(), 8_972);
    }

    #[test]
    fn a_path_that_swallows_full_datagrams_gets_small_ones_at_once() {
        let mut mtu = Mtu::new(1_472);
        assert!(!mtu.on_lost(1_200), "none was sent");
        search(&mut mtu, START, 1_472);
        for _ in 0..10 {
            assert!(!mtu.on_lost(1_472) && !mtu.on_lost(1_472));
            mtu.on_acknowledged(1_472);
        }
        assert!(!mtu.on_lost(1_472) && !mtu.on_lost(1_472));
        assert!(mtu.on_lost(1_472), "three in a row");
        assert_eq!(mtu.current(), BASE_BYTES);
        search(&mut mtu, START, 1_400);
        assert!((1_384..=1_400).contains(&mtu.current()), "and what it does carry is found");
    }

    /// Few have so much to say that their datagrams are full, and what they say in between is small and arrives.
    #[test]
    fn large_datagrams_that_are_not_full_count_and_small_ones_that_arrive_do_not() {
        let mut mtu = Mtu::new(1_472);
        search(&mut mtu, START, 1_472);
        for size in [1_263, 1_230] {
            assert!(!mtu.on_lost(size));
            mtu.on_acknowledged(1_200);
        }
        assert!(mtu.on_lost(1_263));
        assert_eq!(mtu.current(), BASE_BYTES);
    }

    #[test]
    fn answers_to_probes_of_another_search_do_not_count() {
        let mut mtu = Mtu::new(1_472);
        search(&mut mtu, START, 1_472);
        for _ in 0..LOSSES_MAX {
            mtu.on_lost(1_472);
        }
        mtu.on_probe_acknowledged(1_472);
        mtu.on_probe_lost(1_472);
        assert_eq!((mtu.current(), mtu.probe(START)), (BASE_BYTES, Some(1_472)));
        mtu.on_probe_acknowledged(1_452);
        assert_eq!(mtu.current(), BASE_BYTES);
    }
}
