//! The post-quantum half of the key exchange: ML-KEM-768 (FIPS 203).
//!
//! It sits behind a trait because the implementation draws its own randomness inside aws-lc, which a test
//! vector must be able to replace.

use std::fmt;

use aws_lc_rs::kem::{Ciphertext, DecapsulationKey, EncapsulationKey, ML_KEM_768};

use super::Secret;
use crate::limits::{KEM_CIPHERTEXT_BYTES, KEM_KEY_BYTES};

/// A key or ciphertext that is not one of ML-KEM-768, or no randomness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the ML-KEM-768 operation failed")]
pub struct KemFailed;

/// Key encapsulation with the sizes of ML-KEM-768.
pub trait Kem: fmt::Debug + Send + Sync {
    /// A fresh key pair: the half that opens, and the bytes of the half that anyone may seal to.
    ///
    /// # Errors
    /// [`KemFailed`] when no key could be made.
    fn generate(&self) -> Result<(Box<dyn Decapsulate>, [u8; KEM_KEY_BYTES]), KemFailed>;

    /// A fresh secret sealed to `key`.
    ///
    /// # Errors
    /// [`KemFailed`] when `key` is not a valid encapsulation key.
    fn encapsulate(
        &self,
        key: &[u8; KEM_KEY_BYTES],
    ) -> Result<([u8; KEM_CIPHERTEXT_BYTES], Secret<32>), KemFailed>;
}

/// The private half of a key pair; used once.
pub trait Decapsulate: fmt::Debug + Send {
    /// The secret inside `ciphertext`. A ciphertext made for another key yields an unrelated secret, not an
    /// error (implicit rejection).
    ///
    /// # Errors
    /// [`KemFailed`] when the operation could not be done at all.
    fn decapsulate(self: Box<Self>, ciphertext: &[u8; KEM_CIPHERTEXT_BYTES])
    -> Result<Secret<32>, KemFailed>;
}

/// ML-KEM-768 of aws-lc, with its own randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct MlKem768;

impl Kem for MlKem768 {
    fn generate(&self) -> Result<(Box<dyn Decapsulate>, [u8; KEM_KEY_BYTES]), KemFailed> {
        let private = DecapsulationKey::generate(&ML_KEM_768).map_err(|_| KemFailed)?;
        let public = private.encapsulation_key().and_then(|key| key.key_bytes()).map_err(|_| KemFailed)?;
        let public = public.as_ref().try_into().map_err(|_| KemFailed)?;
        Ok((Box::new(Private(private)), public))
    }

    fn encapsulate(
        &self,
        key: &[u8; KEM_KEY_BYTES],
    ) -> Result<([u8; KEM_CIPHERTEXT_BYTES], Secret<32>), KemFailed> {
        let key = EncapsulationKey::new(&ML_KEM_768, key).map_err(|_| KemFailed)?;
        let (ciphertext, shared) = key.encapsulate().map_err(|_| KemFailed)?;
        let ciphertext = ciphertext.as_ref().try_into().map_err(|_| KemFailed)?;
        Ok((ciphertext, copy(shared.as_ref())?))
    }
}

#[derive(Debug)]
struct Private(DecapsulationKey);

impl Decapsulate for Private {
    fn decapsulate(
        self: Box<Self>,
        ciphertext: &[u8; KEM_CIPHERTEXT_BYTES],
    ) -> Result<Secret<32>, KemFailed> {
        let shared = self.0.decapsulate(Ciphertext::from(ciphertext.as_slice())).map_err(|_| KemFailed)?;
        copy(shared.as_ref())
    }
}

/// aws-lc wipes its own copy of the shared secret when it is dropped.
fn copy(shared: &[u8]) -> Result<Secret<32>, KemFailed> {
    let mut secret = Secret::zeroed();
    if shared.len() != secret.expose().len() {
        return Err(KemFailed);
    }
    secret.bytes_mut().copy_from_slice(shared);
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_agree_and_a_changed_ciphertext_does_not() {
        let (private, public) = MlKem768.generate().unwrap();
        let (ciphertext, secret) = MlKem768.encapsulate(&public).unwrap();
        assert_eq!(private.decapsulate(&ciphertext).unwrap(), secret);

        let (private, public) = MlKem768.generate().unwrap();
        let (mut ciphertext, secret) = MlKem768.encapsulate(&public).unwrap();
        ciphertext[0] ^= 1;
        assert_ne!(private.decapsulate(&ciphertext).unwrap(), secret);
    }

    #[test]
    fn a_key_outside_the_field_is_refused() {
        assert_eq!(MlKem768.encapsulate(&[0xff; KEM_KEY_BYTES]).unwrap_err(), KemFailed);
    }
}
