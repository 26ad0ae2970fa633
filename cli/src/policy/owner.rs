//! Owners as the command line names them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use sealane_policy::{Authorities, SigningKey};
use sealane_types::PublicKey;

use crate::source::read_text;

/// A public key, or the file of a private key that it is taken from.
#[derive(Debug, Clone)]
pub(crate) enum OwnerKey {
    Public(PublicKey),
    File(PathBuf),
}

#[derive(Debug, thiserror::Error)]
#[error("expected the file of a key, or a public key of 64 lower-case hex digits")]
pub(crate) struct InvalidOwnerKey;

impl FromStr for OwnerKey {
    type Err = InvalidOwnerKey;
    fn from_str(text: &str) -> Result<Self, InvalidOwnerKey> {
        match text.parse() {
            Ok(key) => Ok(Self::Public(key)),
            Err(_) if text.is_empty() => Err(InvalidOwnerKey),
            Err(_) => Ok(Self::File(text.into())),
        }
    }
}

impl OwnerKey {
    pub(crate) fn public_key(&self) -> Result<PublicKey> {
        match self {
            Self::Public(key) => Ok(*key),
            Self::File(path) => Ok(read_key(path)?.public_key()),
        }
    }
}

/// Reads an owner's private key.
pub(crate) fn read_key(path: &Path) -> Result<SigningKey> {
    let text = zeroize::Zeroizing::new(read_text(path)?);
    SigningKey::from_pem(&text).with_context(|| path.display().to_string())
}

/// Authorities that can be reached.
pub(crate) fn authorities_of(threshold: u32, keys: BTreeSet<PublicKey>) -> Result<Authorities> {
    ensure!(
        u64::from(threshold) <= keys.len() as u64,
        "--threshold {threshold} asks for more signatures than there are owners ({})",
        keys.len()
    );
    Ok(Authorities { threshold, keys })
}
