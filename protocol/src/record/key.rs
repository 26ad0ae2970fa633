//! AEAD keys of one phase of one direction. Sealing and opening keys are different types, so one can never
//! stand in for the other.

use std::fmt;

use sealane_aead::{AeadError, Algorithm, Key, NONCE_BYTES, Plaintext, VolatileSlice};
use sealane_types::Cipher;

use super::RecordError;
use super::packet::PacketNumber;
use crate::keys::{LinkSecret, Secret};
use crate::limits::TAG_BYTES;

const _: () = assert!(TAG_BYTES == sealane_aead::TAG_BYTES, "every cipher's tag has one length");

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
    key: Key,
    mask: Secret<NONCE_BYTES>,
}

const fn algorithm(cipher: Cipher) -> Algorithm {
    match cipher {
        Cipher::Aes256Gcm => Algorithm::Aes256Gcm,
        Cipher::ChaCha20Poly1305 => Algorithm::ChaCha20Poly1305,
        Cipher::Aes128Gcm => Algorithm::Aes128Gcm,
        Cipher::Aegis256X4 => Algorithm::Aegis256X4,
    }
}

impl Keyed {
    fn new(secret: &LinkSecret) -> Self {
        let algorithm = algorithm(secret.suite().cipher);
        let key = secret.key();
        // AES-128 takes the first half.
        let bytes = key.expose().get(..algorithm.key_bytes()).unwrap_or_default();
        #[expect(
            clippy::expect_used,
            reason = "the only failure is a wrong length, and no algorithm wants more"
        )]
        let key = Key::new(algorithm, bytes).expect("the key has the algorithm's length");
        Self { key, mask: secret.nonce() }
    }

    /// RFC 8446 §5.3: the sequence, left-padded with zeros, XOR the mask.
    fn nonce(&self, sequence: RecordSequence) -> [u8; NONCE_BYTES] {
        let mut nonce = *self.mask.expose();
        let (_, low) = nonce.split_at_mut(4);
        low.iter_mut().zip(sequence.0.to_be_bytes()).for_each(|(byte, count)| *byte ^= count);
        nonce
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
        Ok(self.0.key.seal_in_place(self.0.nonce(sequence), aad, plaintext)?)
    }

    /// Seals `plaintext` into `ciphertext`, which is as long, and yields its tag.
    pub(in crate::record) fn seal_from(
        &self,
        sequence: RecordSequence,
        aad: &[u8],
        plaintext: Plaintext<'_>,
        ciphertext: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], RecordError> {
        Ok(self.0.key.seal_from(self.0.nonce(sequence), aad, plaintext, ciphertext)?)
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
        let (bytes, tag) = sealed.split_last_chunk_mut::<TAG_BYTES>().ok_or(RecordError::Tag)?;
        self.0.key.open_in_place(self.0.nonce(sequence), aad, bytes, tag)?;
        Ok(bytes)
    }

    /// Opens `sealed` (ciphertext and tag) into `plaintext`, which is as long as the ciphertext.
    pub(in crate::record) fn open_into(
        &self,
        sequence: RecordSequence,
        aad: &[u8],
        sealed: &[u8],
        plaintext: VolatileSlice<'_>,
    ) -> Result<(), RecordError> {
        let (ciphertext, tag) = sealed.split_last_chunk::<TAG_BYTES>().ok_or(RecordError::Tag)?;
        Ok(self.0.key.open_into(self.0.nonce(sequence), aad, ciphertext, tag, plaintext)?)
    }
}

impl From<AeadError> for RecordError {
    fn from(error: AeadError) -> Self {
        match error {
            AeadError::Length => Self::Length,
            AeadError::Tag => Self::Tag,
        }
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
        let secret = Root::new(&split, None, suite, [4; 32]).link(Label::Initiator);
        let key = Keyed::new(&secret);
        let sequences = (0..64).map(|bit| 1_u64 << bit).chain([0, u64::MAX - 1]);
        let nonces: std::collections::BTreeSet<_> =
            sequences.map(|sequence| key.nonce(RecordSequence(sequence))).collect();
        assert_eq!(nonces.len(), 66);
    }
}
