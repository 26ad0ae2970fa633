//! One direction of the link: bytes on the way, and how many of those that came out are as they went in.

use crate::transition::Fault;

/// Bytes of a carrier that are on the way at most: what is behind them waits at the sender.
const WAY_BYTES_MAX: usize = 400_000;

#[derive(Debug, Default)]
pub(crate) struct Link {
    /// Everything that was sent on this link.
    sent: Vec<u8>,
    /// What is on the way, changed or not.
    flying: Vec<u8>,
    /// How much came out.
    given: usize,
    /// How much of that was as it was sent, from the beginning.
    intact: usize,
    /// Nothing goes in any more.
    pub(crate) broken: bool,
}

impl Link {
    pub(crate) fn room(&self) -> usize {
        if self.broken { usize::MAX } else { WAY_BYTES_MAX.saturating_sub(self.flying.len()) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if !self.broken {
            self.sent.extend_from_slice(bytes);
            self.flying.extend_from_slice(bytes);
        }
    }

    /// The next bytes, at most so many.
    pub(crate) fn give(&mut self, bytes_max: usize) -> Vec<u8> {
        let count = bytes_max.min(self.flying.len());
        let given: Vec<u8> = self.flying.drain(..count).collect();
        if self.intact == self.given {
            let honest = self.sent.get(self.given..).unwrap_or_default();
            self.intact += honest.iter().zip(&given).take_while(|(sent, given)| sent == given).count();
        }
        self.given += given.len();
        given
    }

    /// What was given and is as it was sent: more than this is never to be believed.
    pub(crate) const fn intact(&self) -> usize {
        self.intact
    }

    /// Whether all that was given was as it was sent.
    pub(crate) const fn is_intact(&self) -> bool {
        self.intact == self.given
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.flying.is_empty()
    }

    /// `back` is what goes the other way.
    pub(crate) fn suffer(&mut self, fault: &Fault, back: &[u8]) {
        let length = self.flying.len();
        let span = |at: u16, count: u16| {
            let from = if length == 0 { 0 } else { usize::from(at) % length };
            from..(from + usize::from(count)).min(length)
        };
        match fault {
            Fault::Change { at, with } => {
                let span = span(*at, 1);
                self.flying[span].iter_mut().for_each(|byte| *byte ^= with);
            }
            Fault::Delete { at, length } => drop(self.flying.drain(span(*at, *length))),
            Fault::Repeat { at, length } => {
                let again = self.flying[span(*at, *length)].to_vec();
                let at = span(*at, 0).start;
                self.flying.splice(at..at, again);
            }
            Fault::Reflect => self.flying = back.to_vec(),
            Fault::Insert(bytes) => drop(self.flying.splice(0..0, bytes.iter().copied())),
        }
    }

    pub(crate) fn flying(&self) -> &[u8] {
        &self.flying
    }

    /// What is on the way is lost.
    pub(crate) fn break_off(&mut self) {
        self.flying.clear();
        self.broken = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_ends_what_is_intact() {
        let mut link = Link::default();
        link.send(b"abcdef");
        assert_eq!(link.give(2), b"ab");
        link.suffer(&Fault::Change { at: 1, with: 1 }, &[]);
        assert!(link.is_intact());
        assert_eq!(link.give(9), b"ceef");
        assert!(!link.is_intact());
        assert_eq!((link.intact(), link.is_empty()), (3, true));
        link.send(b"gh");
        link.give(9);
        assert_eq!(link.intact(), 3, "what follows counts no more");
    }

    #[test]
    fn what_is_broken_off_takes_nothing() {
        let mut link = Link::default();
        link.send(b"abc");
        link.break_off();
        link.send(b"def");
        assert!(link.is_empty() && link.room() > WAY_BYTES_MAX);
    }
}
