//! Packets that span frames, put together in memory of our own.

use crate::limits::PACKET_BYTES_MAX;

/// Holds what has come of one packet.
#[derive(Debug)]
pub(super) struct Gather {
    state: State,
    /// Empty where packets do not span frames: then those that do are skipped.
    bytes: Box<[u8]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next piece begins a packet.
    Between,
    /// So many bytes are here, and the packet goes on.
    Within(usize),
    /// The packet is lost, and goes on.
    Skipping,
}

/// What a piece did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Gathered<'a> {
    /// The packet goes on.
    More,
    /// It is whole.
    Packet(&'a [u8]),
    /// It has ended, and was too long or lacks a part.
    Cut,
}

impl Gather {
    pub(super) fn new(fragments: bool) -> Self {
        let bytes = if fragments { PACKET_BYTES_MAX } else { 0 };
        Self { state: State::Between, bytes: vec![0; bytes].into_boxed_slice() }
    }

    /// Whether the next piece begins a packet.
    pub(super) fn is_between(&self) -> bool {
        self.state == State::Between
    }

    /// Adds a piece.
    pub(super) fn add(&mut self, piece: &[u8], continues: bool) -> Gathered<'_> {
        let begin = match self.state {
            State::Between => 0,
            State::Within(bytes) => bytes,
            State::Skipping => return self.skip(continues),
        };
        let end = begin + piece.len();
        let Some(place) = self.bytes.get_mut(begin..end) else { return self.skip(continues) };
        place.copy_from_slice(piece);
        if continues {
            self.state = State::Within(end);
            return Gathered::More;
        }
        self.state = State::Between;
        Gathered::Packet(&self.bytes[..end])
    }

    /// Gives the packet up of which a piece could not be had.
    pub(super) fn skip(&mut self, continues: bool) -> Gathered<'_> {
        self.state = if continues { State::Skipping } else { State::Between };
        if continues { Gathered::More } else { Gathered::Cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_a_packet() {
        let mut gather = Gather::new(true);
        assert_eq!(gather.add(b"one ", true), Gathered::More);
        assert!(!gather.is_between());
        assert_eq!(gather.add(b"two ", true), Gathered::More);
        assert_eq!(gather.add(b"three", false), Gathered::Packet(b"one two three"));
        assert!(gather.is_between());
    }

    #[test]
    fn a_packet_that_is_too_long_or_lacks_a_part_is_cut_and_the_next_is_not() {
        let mut gather = Gather::new(true);
        let piece = vec![0; 4096];
        for _ in 0..40 {
            assert_eq!(gather.add(&piece, true), Gathered::More);
        }
        assert_eq!(gather.add(&piece, false), Gathered::Cut);
        assert_eq!(gather.add(b"next", true), Gathered::More);
        assert_eq!(gather.skip(true), Gathered::More);
        assert_eq!(gather.add(b"end", false), Gathered::Cut);
        assert_eq!(gather.add(b"whole", false), Gathered::Packet(b"whole"));
        let mut none = Gather::new(false);
        assert_eq!(none.add(b"x", true), Gathered::More);
        assert_eq!(none.add(b"y", false), Gathered::Cut);
    }
}
