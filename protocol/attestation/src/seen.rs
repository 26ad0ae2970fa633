//! Signatures of roots that were found right before.
//!
//! What a root signs comes again with every peer of its platform: AMD's key for a product and the list of what it
//! revoked, AWS's certificate for a region. To verify one again costs as much as the first time and finds nothing new.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use rustls_pki_types::InvalidSignature;

/// A root signs one certificate per product or region, and a list that is replaced every few months.
const SIGNATURES_MAX: usize = 64;

/// Which signatures over which messages held, under which keys. Dates, names and revocation are not in it: they are asked
/// each time.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<VecDeque<[u8; SHA256_OUTPUT_LEN]>>);

impl Seen {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    /// What `verify` says, which is not asked if it accepted exactly this before.
    pub(crate) fn or_verify(
        &self,
        key: &[u8],
        message: &[u8],
        signature: &[u8],
        verify: impl FnOnce() -> Result<(), InvalidSignature>,
    ) -> Result<(), InvalidSignature> {
        let digest = digest([key, message, signature]);
        if self.lock().contains(&digest) {
            return Ok(());
        }
        verify()?;
        let mut seen = self.lock();
        if seen.len() >= SIGNATURES_MAX {
            seen.pop_front();
        }
        seen.push_back(digest);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<[u8; SHA256_OUTPUT_LEN]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each part with its length, so that no two triples have one digest.
fn digest(parts: [&[u8]; 3]) -> [u8; SHA256_OUTPUT_LEN] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut digest = [0; SHA256_OUTPUT_LEN];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts() -> Result<(), InvalidSignature> {
        Ok(())
    }

    fn refuses() -> Result<(), InvalidSignature> {
        Err(InvalidSignature)
    }

    #[test]
    fn only_what_held_is_known_and_only_exactly_that() {
        let seen = Seen::new();
        assert!(seen.or_verify(b"key", b"message", b"signature", refuses).is_err());
        assert!(seen.or_verify(b"key", b"message", b"signature", refuses).is_err());
        assert!(seen.or_verify(b"key", b"message", b"signature", accepts).is_ok());
        assert!(seen.or_verify(b"key", b"message", b"signature", refuses).is_ok());
        let others: [[&[u8]; 3]; 5] = [
            [b"kez", b"message", b"signature"],
            [b"key", b"messagf", b"signature"],
            [b"key", b"message", b"signaturf"],
            // The same bytes, cut elsewhere.
            [b"keym", b"essage", b"signature"],
            [b"key", b"messages", b"ignature"],
        ];
        for [key, message, signature] in others {
            assert!(seen.or_verify(key, message, signature, refuses).is_err());
        }
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let seen = Seen::new();
        let number = |number: usize| number.to_be_bytes();
        for count in 0..=SIGNATURES_MAX {
            seen.or_verify(b"key", &number(count), b"signature", accepts).unwrap();
        }
        assert!(seen.or_verify(b"key", &number(0), b"signature", refuses).is_err());
        assert!(seen.or_verify(b"key", &number(1), b"signature", refuses).is_ok());
        assert_eq!(seen.lock().len(), SIGNATURES_MAX);
    }
}
