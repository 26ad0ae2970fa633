//! The X25519 key that a sidecar keeps for the life of its process.

use std::fmt;

use aws_lc_rs::agreement::{PrivateKey, X25519};

use super::{Random, RandomFailed, Secret};

/// Bytes that are not an X25519 private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an X25519 private key")]
pub struct InvalidStatic;

/// A static key pair: made afresh by every process, so that a restart never shares keys with its past.
pub struct StaticKey {
    private: Secret<32>,
    public: [u8; 32],
}

impl StaticKey {
    /// A fresh key pair.
    ///
    /// # Errors
    /// [`RandomFailed`] when the source gives nothing.
    pub fn generate(random: &mut dyn Random) -> Result<Self, RandomFailed> {
        Self::new(Secret::random(random)?).map_err(|_| RandomFailed)
    }

    /// The pair of a stored private key.
    ///
    /// # Errors
    /// [`InvalidStatic`] when aws-lc refuses it.
    pub fn new(private: Secret<32>) -> Result<Self, InvalidStatic> {
        let key = PrivateKey::from_private_key(&X25519, private.expose()).map_err(|_| InvalidStatic)?;
        let public = key.compute_public_key().map_err(|_| InvalidStatic)?;
        let public = public.as_ref().try_into().map_err(|_| InvalidStatic)?;
        Ok(Self { private, public })
    }

    #[must_use]
    pub const fn public(&self) -> &[u8; 32] {
        &self.public
    }

    pub(crate) const fn private(&self) -> &Secret<32> {
        &self.private
    }
}

impl fmt::Debug for StaticKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticKey").field("public", &self.public).finish_non_exhaustive()
    }
}
