//! Where the remote is, and where it may have gone (RFC 9000 §8.2, §9.3).

use std::net::SocketAddr;

use super::token::Token;
use crate::Moment;
use crate::limits::PATH_TRIES_MAX;

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

/// What is said to whoever asks whether this side receives, no longer than the question: it may come from where
/// somebody else is (RFC 9000 §8.2.2).
#[derive(Debug, Clone, Copy)]
pub(super) struct Response {
    pub(super) to: SocketAddr,
    pub(super) token: Token,
    pub(super) bytes: usize,
}

impl Path {
    pub(super) const fn new(remote: SocketAddr) -> Self {
        Self { remote, candidate: None }
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

    /// Something that was asked for goes to `address`, whoever is there.
    pub(super) fn spend(&mut self, address: SocketAddr, bytes: u64) {
        if let Some(candidate) = self.candidate.as_mut().filter(|candidate| candidate.address == address) {
            candidate.allowance = candidate.allowance.saturating_sub(bytes);
        }
    }

    /// What to send, and where, to find out, and how long it may be: `bytes_max` at most, and as little as what came from
    /// there permits.
    pub(super) fn challenge(
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
}
