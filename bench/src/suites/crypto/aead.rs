//! Sealing and opening, as the record layer does it: one cipher context, the nonce from a counter, a record's header as
//! additional data.

use anyhow::{Result, anyhow};
use aws_lc_rs::aead::{Aad, Algorithm, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use aws_lc_rs::error::Unspecified;

use crate::micro::Operation;
use crate::random::SplitMix;

/// Stands for the header of a record.
const HEADER: [u8; 4] = [1, 0, 6, 0];
const TAG_BYTES: usize = 16;

/// What of it is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suites) enum Part {
    Seal,
    Open,
    Round,
}

impl Part {
    pub(in crate::suites) const fn word(self) -> &'static str {
        match self {
            Self::Seal => "seal",
            Self::Open => "open",
            Self::Round => "round",
        }
    }
}

pub(in crate::suites) struct Aead {
    part: Part,
    key: LessSafeKey,
    /// Another context of the same key, which looks at results.
    other: LessSafeKey,
    sequence: u64,
    plaintext: Vec<u8>,
    /// What is worked on, with room for the tag.
    buffer: Vec<u8>,
    sealed: (Vec<u8>, Tag),
}

impl Aead {
    pub(in crate::suites) fn new(algorithm: &'static Algorithm, bytes: usize, part: Part) -> Result<Self> {
        let mut secret = vec![0; algorithm.key_len()];
        aws_lc_rs::rand::fill(&mut secret).map_err(failed)?;
        let key = || UnboundKey::new(algorithm, &secret).map(LessSafeKey::new).map_err(failed);
        let (key, other) = (key()?, key()?);
        let mut plaintext = vec![0; bytes];
        SplitMix::new(bytes as u64).fill(&mut plaintext);
        let mut buffer = plaintext.clone();
        buffer.resize(bytes + TAG_BYTES, 0);
        let mut ciphertext = plaintext.clone();
        let tag =
            key.seal_in_place_separate_tag(nonce(0), Aad::from(HEADER), &mut ciphertext).map_err(failed)?;
        Ok(Self { part, key, other, sequence: 0, plaintext, buffer, sealed: (ciphertext, tag) })
    }

    fn seal(&mut self) -> Result<Tag, Unspecified> {
        self.sequence += 1;
        let plaintext = self.plaintext.len();
        let body = &mut self.buffer[..plaintext];
        self.key.seal_in_place_separate_tag(nonce(self.sequence), Aad::from(HEADER), body)
    }

    /// What was sealed first, into other memory, so that it can be opened again.
    fn open(&mut self) -> Result<(), Unspecified> {
        let (ciphertext, tag) = &self.sealed;
        let space = &mut self.buffer[..ciphertext.len()];
        self.key.open_separate_gather(nonce(0), Aad::from(HEADER), ciphertext, tag.as_ref(), space)
    }

    fn round(&mut self) -> Result<(), Unspecified> {
        let tag = self.seal()?;
        let (_, space) = self.buffer.split_at_mut(self.plaintext.len());
        space.copy_from_slice(tag.as_ref());
        self.key.open_in_place(nonce(self.sequence), Aad::from(HEADER), &mut self.buffer).map(|_| ())
    }

    /// Whether what lies in the buffer was sealed under the last nonce.
    fn verifies(&self, tag: &Tag) -> bool {
        let mut record = self.buffer.clone();
        record.truncate(self.plaintext.len());
        record.extend_from_slice(tag.as_ref());
        self.other.open_in_place(nonce(self.sequence), Aad::from(HEADER), &mut record).is_ok()
    }
}

impl Operation for Aead {
    type Made = Result<Option<Tag>, Unspecified>;

    fn prepare(&mut self, _: u64) -> Result<()> {
        let bytes = self.plaintext.len();
        match self.part {
            Part::Seal | Part::Round => self.buffer[..bytes].copy_from_slice(&self.plaintext),
            Part::Open => self.buffer.fill(0),
        }
        Ok(())
    }

    fn run(&mut self) -> Self::Made {
        match self.part {
            Part::Seal => self.seal().map(Some),
            Part::Open => self.open().map(|()| None),
            Part::Round => self.round().map(|()| None),
        }
    }

    fn wrong(&mut self, made: Self::Made) -> Option<String> {
        let right = match made {
            Ok(Some(tag)) => self.verifies(&tag),
            Ok(None) => self.buffer.starts_with(&self.plaintext),
            Err(Unspecified) => false,
        };
        (!right).then(|| format!("{} of {} B does not verify", self.part.word(), self.plaintext.len()))
    }
}

fn nonce(sequence: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 8..].copy_from_slice(&sequence.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

fn failed(_: Unspecified) -> anyhow::Error {
    anyhow!("the cryptography library refuses")
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::aead::{AES_256_GCM, CHACHA20_POLY1305};

    use super::*;

    #[test]
    fn all_parts_are_right_and_a_changed_byte_is_seen() {
        for algorithm in [&AES_256_GCM, &CHACHA20_POLY1305] {
            for part in [Part::Seal, Part::Open, Part::Round] {
                let mut aead = Aead::new(algorithm, 64, part).unwrap();
                aead.prepare(2).unwrap();
                let _ = aead.run();
                let made = aead.run();
                assert_eq!(aead.wrong(made), None);
                let made = aead.run();
                aead.buffer[7] ^= 1;
                assert!(aead.wrong(made).is_some());
            }
        }
    }
}
