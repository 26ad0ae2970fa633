//! AEAD keys of one phase of one direction. Sealing and opening keys are different types, so one can never
//! stand in for the other.

use std::fmt;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use sealane_types::Cipher;

use super::RecordError;
use super::packet::PacketNumber;
use crate::keys::{LinkSecret, Secret};
use crate::limits::TAG_BYTES;

/// Position of a record in its direction of its link: never repeats, never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::record) struct RecordSequence(u64);

impl RecordSequence {
    pub(in crate::record) const FIRST: Self = Self(0);

    /// A packet's place is its number.
    pub(in crate::record) const fn of(number: PacketNumber) -> Self {
        Self(number.0)
    }

    pub(in crate::record) fn next(self) -> Result<Self, RecordError> {
        self.0.checked_add(1).map(Self).ok_or(RecordError::Exhausted)
    }
}

/// Seals records of one phase.
pub(in crate::record) struct SealKey(Keyed);

/// Opens records of one phase.
pub(in crate::record) struct OpenKey(Keyed);

/// The cipher's context is made once per phase: setting it up costs as much as sealing 2 KiB.
struct Keyed {
    key: LessSafeKey,
    mask: Secret<12>,
}

const fn algorithm(cipher: Cipher) -> &'static Algorithm {
    match cipher {
        Cipher::Aes256Gcm => &AES_256_GCM,
        Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        Cipher::Aes128Gcm => &AES_128_GCM,
    }
}

impl Keyed {
    fn new(secret: &LinkSecret) -> Self {
        let algorithm = algorithm(secret.suite().cipher);
        let key = secret.key();
        // AES-128 takes the first half.
        let bytes = key.expose().get(..algorithm.key_len()).unwrap_or_default();
        #[expect(
            clippy::expect_used,
            reason = "the only failure is a wrong length, and no algorithm wants more"
        )]
        let key = UnboundKey::new(algorithm, bytes).expect("the key has the algorithm's length");
        Self { key: LessSafeKey::new(key), mask: secret.nonce() }
    }

    /// RFC 8446 §5.3: the sequence, left-padded with zeros, XOR the mask.
    fn nonce(&self, sequence: RecordSequence) -> Nonce {
        let mut nonce = *self.mask.expose();
        let (_, low) = nonce.split_at_mut(4);
        low.iter_mut().zip(sequence.0.to_be_bytes()).for_each(|(byte, count)| *byte ^= count);
        Nonce::assume_unique_for_key(nonce)
    }
}

impl SealKey {
    pub(in crate::record) fn new(secret: &LinkSecret) -> Self {
        Self(Keyed::new(secret))
    }

    /// Seals `plaintext` in place and yields its tag.
    pub(in crate::record) fn seal(
        &self,
        sequence: RecordSequence,
        aad: &[u8],
        plaintext: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], RecordError> {
        let nonce = self.0.nonce(sequence);
        let tag = self.0.key.seal_in_place_separate_tag(nonce, Aad::from(aad), plaintext);
        let tag = tag.map_err(|_| RecordError::Length)?;
        tag.as_ref().try_into().map_err(|_| RecordError::Length)
    }
}

impl OpenKey {
    pub(in crate::record) fn new(secret: &LinkSecret) -> Self {
        Self(Keyed::new(secret))
    }

    /// Opens `sealed` (ciphertext and tag) in place and yields the plaintext.
    pub(in crate::record) fn open<'a>(
        &self,
        sequence: RecordSequence,
        aad: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], RecordError> {
        let nonce = self.0.nonce(sequence);
        self.0.key.open_in_place(nonce, Aad::from(aad), sealed).map_err(|_| RecordError::Tag)
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(redacted)")
    }
}

impl fmt::Debug for OpenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenKey(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::{KeyExchange, Suite};
    use crate::keys::{Label, Root, Split};

    #[test]
    fn four_billion_records_are_not_the_end_and_the_last_one_is() {
        let four_billion = RecordSequence(u64::from(u32::MAX));
        assert_eq!(four_billion.next(), Ok(RecordSequence(1 << 32)));
        assert_eq!(RecordSequence(u64::MAX).next(), Err(RecordError::Exhausted));
    }

    #[test]
    fn no_two_records_share_a_nonce() {
        let part = |byte| Secret::take(&mut [byte; 32]);
        let split = Split { initiator: part(1), responder: part(2) };
        let suite = Suite::new(KeyExchange::Classical, Cipher::ChaCha20Poly1305);
        let secret = Root::new(&split, None, suite, [4; 32]).link(Label::Initiator, 0, &[0; 64]);
        let key = Keyed::new(&secret);
        let sequences = (0..64).map(|bit| 1_u64 << bit).chain([0, u64::MAX - 1]);
        let nonces: std::collections::BTreeSet<_> =
            sequences.map(|sequence| *key.nonce(RecordSequence(sequence)).as_ref()).collect();
        assert_eq!(nonces.len(), 66);
    }
}
