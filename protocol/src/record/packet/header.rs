//! What stands before the ciphertext of a packet.

use aws_lc_rs::aead::quic::{AES_128, AES_256, Algorithm, CHACHA20, HeaderProtectionKey};
use sealane_types::Cipher;

use crate::keys::{LinkSecret, Random, RandomFailed};
use crate::limits::TAG_BYTES;

/// Flags, connection id and the low half of the packet number.
pub(crate) const HEADER_BYTES: usize = 13;
/// What a packet has that is sealed: this, and the phase in bit 0.
const FLAGS: u8 = 0b0100_0000;
const PHASE: u8 = 1;
/// The bits of the flags that are hidden.
const HIDDEN: u8 = 0b0001_1111;
const SAMPLE_BYTES: usize = 16;
/// Numbers that share their low half are so far apart.
const TURN: u64 = 1 << 32;

/// By which one side recognises packets that are for one connection. It chooses it at random, and the other side
/// repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub(crate) [u8; 8]);

impl ConnectionId {
    pub(crate) fn random(random: &mut dyn Random) -> Result<Self, RandomFailed> {
        let mut id = [0; 8];
        random.fill(&mut id)?;
        Ok(Self(id))
    }

    /// As it is on the wire.
    #[must_use]
    pub const fn bytes(self) -> [u8; 8] {
        self.0
    }
}

/// Counts the packets of a direction from 0; none is used twice, whatever it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PacketNumber(pub(crate) u64);

impl PacketNumber {
    /// The number nearest to `expected` whose low half is `low` (RFC 9000 §A.3).
    fn near(expected: u64, low: u32) -> Self {
        let candidate = (expected & !(TURN.saturating_sub(1))) | u64::from(low);
        let half = TURN / 2;
        if candidate.saturating_add(half) <= expected {
            Self(candidate.saturating_add(TURN))
        } else if candidate > expected.saturating_add(half) && candidate >= TURN {
            Self(candidate.saturating_sub(TURN))
        } else {
            Self(candidate)
        }
    }
}

/// For whom a packet is, if it may be a sealed one.
pub(crate) fn addressee(packet: &[u8]) -> Option<ConnectionId> {
    let ([flags, ..], sealed) = packet.split_first_chunk::<HEADER_BYTES>()?;
    let id = packet.get(1..)?.first_chunk::<8>()?;
    (flags & !HIDDEN == FLAGS && sealed.len() >= TAG_BYTES).then_some(ConnectionId(*id))
}

/// A header as it is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) to: ConnectionId,
    pub(crate) number: PacketNumber,
    pub(crate) phase: bool,
}

impl Header {
    pub(crate) fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let (flags, rest) = bytes.split_at_mut(1);
        flags.fill(FLAGS | u8::from(self.phase));
        let (to, number) = rest.split_at_mut(8);
        to.copy_from_slice(&self.to.0);
        let [_, _, _, _, low @ ..] = self.number.0.to_be_bytes();
        number.copy_from_slice(&low);
        bytes
    }

    /// Reads what was uncovered. `expected` is the number behind the newest one.
    pub(super) fn parse(bytes: [u8; HEADER_BYTES], expected: u64) -> Option<Self> {
        let [flags, a, b, c, d, e, f, g, h, low @ ..] = bytes;
        if flags & !PHASE != FLAGS {
            return None;
        }
        let number = PacketNumber::near(expected, u32::from_be_bytes(low));
        Some(Self { to: ConnectionId([a, b, c, d, e, f, g, h]), number, phase: flags & PHASE != 0 })
    }
}

/// Hides headers and uncovers them; one key for the life of a connection (RFC 9001 §6.1).
pub(super) struct Mask(HeaderProtectionKey);

impl Mask {
    pub(super) fn new(secret: &LinkSecret) -> Self {
        let algorithm = algorithm(secret.suite().cipher);
        let key = secret.header();
        let bytes = key.expose().get(..algorithm.key_len()).unwrap_or_default();
        #[expect(
            clippy::expect_used,
            reason = "the only failure is a wrong length, and no algorithm wants more"
        )]
        let key = HeaderProtectionKey::new(algorithm, bytes).expect("the key has the algorithm's length");
        Self(key)
    }

    /// Hides the header of `packet`, or uncovers it: both are the same. `None` when the packet is too short.
    pub(super) fn apply(&self, packet: &mut [u8]) -> Option<()> {
        let (header, sealed) = packet.split_first_chunk_mut::<HEADER_BYTES>()?;
        let mask = self.0.new_mask(sealed.get(..SAMPLE_BYTES)?).ok()?;
        let [first, rest @ ..] = mask;
        let (flags, rest_of_header) = header.split_first_mut()?;
        *flags ^= first & HIDDEN;
        let number = rest_of_header.last_chunk_mut::<4>()?;
        number.iter_mut().zip(rest).for_each(|(byte, mask)| *byte ^= mask);
        Some(())
    }
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mask(redacted)")
    }
}

const fn algorithm(cipher: Cipher) -> &'static Algorithm {
    match cipher {
        // AEGIS masks nothing by itself, and is built from AES.
        Cipher::Aes256Gcm | Cipher::Aegis256X4 => &AES_256,
        Cipher::ChaCha20Poly1305 => &CHACHA20,
        Cipher::Aes128Gcm => &AES_128,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_one_nearest_to_what_is_expected() {
        for (expected, number) in [
            (0, 0),
            (0, 5),
            (7, 3),
            (TURN - 1, TURN + 3),
            (TURN + 3, TURN - 1),
            (3 * TURN + 9, 3 * TURN + 9 + TURN / 2),
            (3 * TURN + 9, 3 * TURN + 10 - TURN / 2),
            (u64::MAX - 1, u64::MAX - 3),
        ] {
            let low = u32::try_from(number & (TURN - 1)).unwrap();
            assert_eq!(PacketNumber::near(expected, low), PacketNumber(number), "{expected} {number}");
        }
    }

    #[test]
    fn flags_that_no_sender_sets_are_refused() {
        let header = Header { to: ConnectionId([7; 8]), number: PacketNumber(TURN + 1), phase: true };
        let bytes = header.encode();
        assert_eq!(Header::parse(bytes, TURN), Some(header));
        for bit in 1..8 {
            let mut other = bytes;
            other[0] ^= 1 << bit;
            assert_eq!(Header::parse(other, TURN), None, "bit {bit}");
        }
        let mut shortest = [&bytes[..], &[0; TAG_BYTES]].concat();
        assert_eq!(addressee(&shortest), Some(header.to));
        assert_eq!(addressee(&shortest[1..]), None);
        assert_eq!(addressee(&shortest[..shortest.len() - 1]), None, "no room for a tag");
        shortest[0] = 0x80;
        assert_eq!(addressee(&shortest), None);
    }
}
