//! Where the remote is, and where it may have gone (RFC 9000 §8.2, §9.3).

use std::net::SocketAddr;

use super::part::Writer;
use super::token::Token;
use crate::Moment;
use crate::limits::{DATAGRAM_BYTES_MIN, PATH_TRIES_MAX};
use crate::size::wide;

/// What goes to an address that was not shown to receive, for what came from it (RFC 9000 §8.1).
const AMPLIFICATION_MAX: u64 = 3;

/// A packet with a challenge, and a little padding.
const CHALLENGE_BYTES_MIN: u64 = 64;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Path {
    remote: SocketAddr,
    /// Packets come from there; whether it receives is not known.
    candidate: Option<Box<Candidate>>,
    /// What is said to whoever asked whether this side receives.
    answer: Option<Box<PathPacket>>,
}

#[derive(Debug)]
struct Candidate {
    address: SocketAddr,
    token: Token,
    /// Bytes that may still go there.
    allowance: u64,
    tries: u8,
    due: Moment,
}

/// A packet that finds out, or says, whether an address receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathPacket {
    pub(super) to: SocketAddr,
    /// How long it is, padding included.
    pub(super) bytes: usize,
    token: Token,
    answers: bool,
}

impl PathPacket {
    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        if self.answers { writer.response(self.token) } else { writer.challenge(self.token) }
    }
}

impl Path {
    pub(super) const fn new(remote: SocketAddr) -> Self {
        Self { remote, candidate: None, answer: None }
    }

    pub(super) const fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// The newest packet of all came from `source`. Whether a token is needed to ask whether it receives.
    pub(super) fn on_newest(&mut self, source: SocketAddr, bytes: u64) -> bool {
        if source == self.remote {
            self.candidate = None;
            return false;
        }
        match &mut self.candidate {
            Some(candidate) if candidate.address == source => {
                let more = bytes.saturating_mul(AMPLIFICATION_MAX);
                candidate.allowance = candidate.allowance.saturating_add(more);
                false
            }
            _ => true,
        }
    }

    /// Asks whether `address` receives.
    pub(super) fn try_out(&mut self, address: SocketAddr, token: Token, bytes: u64, now: Moment) {
        let allowance = bytes.saturating_mul(AMPLIFICATION_MAX);
        self.candidate = Some(Box::new(Candidate { address, token, allowance, tries: 0, due: now }));
    }

    /// `asker` wants to know whether this side receives, in a packet of `bytes`. It hears no more than it said: it may be
    /// where somebody else is (RFC 9000 §8.2.2).
    pub(super) fn on_challenge(&mut self, asker: SocketAddr, token: Token, bytes: usize) {
        let bytes = bytes.min(DATAGRAM_BYTES_MIN);
        self.answer = Some(Box::new(PathPacket { to: asker, bytes, token, answers: true }));
    }

    /// What goes out next: an answer, or a question that is asked again after `wait_micros`.
    pub(super) fn next_packet(&mut self, now: Moment, wait_micros: u64) -> Option<PathPacket> {
        if let Some(answer) = self.answer.take() {
            self.spend(answer.to, wide(answer.bytes));
            return Some(*answer);
        }
        let (to, token, bytes) = self.challenge(now, wide(DATAGRAM_BYTES_MIN), wait_micros)?;
        Some(PathPacket { to, bytes: usize::try_from(bytes).ok()?, token, answers: false })
    }

    /// Something that was asked for goes to `address`, whoever is there.
    fn spend(&mut self, address: SocketAddr, bytes: u64) {
        if let Some(candidate) = self.candidate.as_mut().filter(|candidate| candidate.address == address) {
            candidate.allowance = candidate.allowance.saturating_sub(bytes);
        }
    }

    /// What to send, and where, to find out, and how long it may be: `bytes_max` at most, and as little as what came from
    /// there permits.
    fn challenge(
        &mut self,
        now: Moment,
        bytes_max: u64,
        wait_micros: u64,
    ) -> Option<(SocketAddr, Token, u64)> {
        let candidate = self.candidate.as_mut().filter(|candidate| now >= candidate.due)?;
        if candidate.tries >= PATH_TRIES_MAX {
            self.candidate = None;
            return None;
        }
        candidate.due = now.plus_micros(wait_micros);
        let bytes = candidate.allowance.min(bytes_max);
        if bytes < CHALLENGE_BYTES_MIN {
            return None;
        }
        candidate.tries = candidate.tries.saturating_add(1);
        candidate.allowance = candidate.allowance.saturating_sub(bytes);
        Some((candidate.address, candidate.token, bytes))
    }

    pub(super) fn due(&self) -> Option<Moment> {
        self.candidate.as_ref().map(|candidate| candidate.due)
    }

    /// The answer to a challenge came: whether the remote is somewhere else from now on.
    pub(super) fn on_response(&mut self, token: Token) -> bool {
        match self.candidate.take() {
            Some(candidate) if candidate.token == token => {
                self.remote = candidate.address;
                true
            }
            other => {
                self.candidate = other;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::from_micros(0);

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    #[test]
    fn it_moves_only_to_where_the_answer_came_from() {
        let mut path = Path::new(address(1));
        assert!(!path.on_newest(address(1), 100));
        assert!(path.on_newest(address(2), 100));
        path.try_out(address(2), [7; 8], 500, NOW);
        assert!(!path.on_newest(address(2), 100), "it is being asked already");
        assert_eq!(path.challenge(NOW, 1_200, 9), Some((address(2), [7; 8], 1_200)));
        assert_eq!((path.challenge(NOW, 1_200, 9), path.due()), (None, Some(NOW.plus_micros(9))));
        assert!(!path.on_response([8; 8]) && path.remote() == address(1));
        assert!(path.on_response([7; 8]) && path.remote() == address(2));
        assert!(!path.on_response([7; 8]));
    }

    #[test]
    fn little_goes_to_an_address_that_was_not_shown_to_receive() {
        let mut path = Path::new(address(1));
        path.try_out(address(2), [7; 8], 400, NOW);
        assert!(path.challenge(NOW, 1_200, 9).is_some());
        let later = NOW.plus_micros(9);
        assert_eq!(path.challenge(later, 1_200, 9), None, "three times what came is spent");
        path.on_newest(address(2), 400);
        assert!(path.challenge(later.plus_micros(9), 1_200, 9).is_some());
        path.on_newest(address(2), 40);
        let as_little = path.challenge(later.plus_micros(18), 1_200, 9);
        assert_eq!(as_little.map(|(.., bytes)| bytes), Some(120), "who says little is asked as little");
        assert_eq!(path.challenge(later.plus_micros(27), 1_200, 9), None);
        assert_eq!(path.due(), None, "given up");
        path.try_out(address(2), [7; 8], 400, NOW);
        path.spend(address(3), 1);
        path.spend(address(2), 1);
        let left = path.challenge(NOW, 1_200, 9);
        assert_eq!(left.map(|(.., bytes)| bytes), Some(1_199), "an answer has gone there");
        path.try_out(address(2), [7; 8], 400, NOW);
        path.on_newest(address(1), 100);
        assert_eq!(path.due(), None, "it is where it was");
    }

    #[test]
    fn answers_count_for_what_goes_to_an_address() {
        let mut path = Path::new(address(1));
        path.try_out(address(2), [7; 8], 400, NOW);
        path.on_challenge(address(2), [9; 8], 9_000);
        let answer = path.next_packet(NOW, 9).unwrap();
        assert_eq!((answer.to, answer.bytes, answer.answers), (address(2), DATAGRAM_BYTES_MIN, true));
        assert_eq!(path.next_packet(NOW, 9), None, "three times what came is spent");
        path.on_challenge(address(3), [9; 8], 50);
        let answer = path.next_packet(NOW, 9).unwrap();
        assert_eq!((answer.to, answer.bytes), (address(3), 50), "no more than the question");
    }
}
