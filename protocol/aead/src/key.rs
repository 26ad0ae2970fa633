//! Authenticated ciphers by address.

mod aegis;
mod evp;

use std::fmt;

use aws_lc_sys::{EVP_AEAD, EVP_aead_aes_128_gcm, EVP_aead_aes_256_gcm, EVP_aead_chacha20_poly1305};

use crate::{Plaintext, VolatileSlice};

/// Of every algorithm here (RFC 5116 §5, RFC 8439 §2.8).
pub const TAG_BYTES: usize = 16;
/// Of every algorithm here.
pub const NONCE_BYTES: usize = 12;

/// Bytes that were not sealed or not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AeadError {
    #[error("a key, source or destination has another length than the algorithm or its counterpart asks for")]
    Length,
    #[error("the tag does not verify")]
    Tag,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
    /// A draft, and no algorithm of FIPS.
    Aegis256X4,
}

impl Algorithm {
    #[must_use]
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
            Self::Aegis256X4 => aegis::KEY_BYTES,
        }
    }
}

/// A key with the cipher's context, which of AES-GCM costs as much to set up as sealing 2 KiB. The caller never seals twice under
/// one nonce. It is wiped as it is dropped.
pub struct Key(Context);

enum Context {
    Evp(evp::Context),
    Aegis(aegis::Context),
}

/// Where a call reads, and where it writes as many bytes: the same place, or places that do not overlap.
#[derive(Clone, Copy)]
struct Places {
    from: *const u8,
    into: *mut u8,
    length: usize,
}

impl Places {
    const fn same(bytes: &mut [u8]) -> Self {
        let into = bytes.as_mut_ptr();
        Self { from: into.cast_const(), into, length: bytes.len() }
    }
}

/// The length of a source and of its destination, which is all that the library is told of the latter.
const fn same_length(source: usize, destination: usize) -> Result<usize, AeadError> {
    if source == destination { Ok(source) } else { Err(AeadError::Length) }
}

impl Key {
    /// # Errors
    /// [`AeadError::Length`] unless `key` has the algorithm's length.
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Result<Self, AeadError> {
        if key.len() != algorithm.key_bytes() {
            return Err(AeadError::Length);
        }
        let evp = |method: unsafe extern "C" fn() -> *const EVP_AEAD| {
            evp::Context::new(method, key).map(Context::Evp).ok_or(AeadError::Length)
        };
        Ok(Self(match algorithm {
            Algorithm::Aes128Gcm => evp(EVP_aead_aes_128_gcm)?,
            Algorithm::Aes256Gcm => evp(EVP_aead_aes_256_gcm)?,
            Algorithm::ChaCha20Poly1305 => evp(EVP_aead_chacha20_poly1305)?,
            Algorithm::Aegis256X4 => {
                Context::Aegis(aegis::Context::new(key.try_into().map_err(|_| AeadError::Length)?))
            }
        }))
    }

    /// Turns `bytes` into their ciphertext, and gives their tag.
    ///
    /// # Errors
    /// [`AeadError::Length`] beyond what the algorithm seals at once (64 GiB), and `bytes` are of no use.
    pub fn seal_in_place(
        &self,
        nonce: [u8; NONCE_BYTES],
        additional: &[u8],
        bytes: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], AeadError> {
        // SAFETY: both places are `bytes`, which nobody else has.
        unsafe { self.seal(nonce, additional, Places::same(bytes)) }
    }

    /// Puts the ciphertext of `plaintext` into `ciphertext`, which is as long, and gives its tag. Each byte of the plaintext is
    /// read once and ends in ciphertext and tag: whoever writes it meanwhile changes what is sealed, or makes a tag that does not
    /// verify.
    ///
    /// # Errors
    /// [`AeadError::Length`]; `ciphertext` is of no use.
    pub fn seal_from(
        &self,
        nonce: [u8; NONCE_BYTES],
        additional: &[u8],
        plaintext: Plaintext<'_>,
        ciphertext: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], AeadError> {
        let length = same_length(plaintext.len(), ciphertext.len())?;
        let places = Places { from: plaintext.start(), into: ciphertext.as_mut_ptr(), length };
        // SAFETY: both have that many bytes, and nobody else has the ciphertext: the plaintext is elsewhere.
        unsafe { self.seal(nonce, additional, places) }
    }

    /// Turns the ciphertext in `bytes` into its plaintext.
    ///
    /// # Errors
    /// [`AeadError::Tag`]; `bytes` are zero then.
    pub fn open_in_place(
        &self,
        nonce: [u8; NONCE_BYTES],
        additional: &[u8],
        bytes: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), AeadError> {
        // SAFETY: both places are `bytes`, which nobody else has.
        unsafe { self.open(nonce, additional, tag, Places::same(bytes)) }
    }

    /// Puts the plaintext of `ciphertext` into `plaintext`, which is as long. Until this returns, others who see that memory may
    /// see bytes there that nothing has verified.
    ///
    /// # Errors
    /// [`AeadError::Length`], and nothing was written; [`AeadError::Tag`], and `plaintext` was zeroed.
    pub fn open_into(
        &self,
        nonce: [u8; NONCE_BYTES],
        additional: &[u8],
        ciphertext: &[u8],
        tag: &[u8; TAG_BYTES],
        plaintext: VolatileSlice<'_>,
    ) -> Result<(), AeadError> {
        let length = same_length(ciphertext.len(), plaintext.len())?;
        let places = Places { from: ciphertext.as_ptr(), into: plaintext.start(), length };
        // SAFETY: both have that many bytes, and no reference leads to those of the plaintext: the ciphertext is elsewhere.
        unsafe { self.open(nonce, additional, tag, places) }
    }

    /// # Safety
    /// [`Places`] are what their documentation says, and can be read and written for their length.
    unsafe fn seal(
        &self,
        nonce: [u8; NONCE_BYTES],
        additional: &[u8],
        places: Places,
    ) -> Result<[u8; TAG_BYTES], AeadError> {
        let tag = match &self.0 {
            // SAFETY: the caller's promise.
            Context::Evp(context) => unsafe { context.seal(&nonce, additional, places) },
            // SAFETY: likewise.
            Context::Aegis(context) => unsafe { context.seal(&nonce, additional, places) },
        };
        tag.ok_or(AeadError::Length)
    }

    /// # Safety
    /// As [`Self::seal`].
    unsafe fn open(
        &self,
        nonce: [u8; NONCE_BYTES],
        additional: &[u8],
        tag: &[u8; TAG_BYTES],
        places: Places,
    ) -> Result<(), AeadError> {
        let opened = match &self.0 {
            // SAFETY: the caller's promise.
            Context::Evp(context) => unsafe { context.open(&nonce, additional, tag, places) },
            // SAFETY: likewise.
            Context::Aegis(context) => unsafe { context.open(&nonce, additional, tag, places) },
        };
        if opened { Ok(()) } else { Err(AeadError::Tag) }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(redacted)")
    }
}

#[cfg(test)]
mod tests;
