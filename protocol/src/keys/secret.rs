//! Bytes that must not leak.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use super::random::{Random, RandomFailed};

/// `N` secret bytes: wiped on drop, never printed, never cloned, compared in constant time.
///
/// They live on the heap, so that moving the value leaves no copy behind.
pub struct Secret<const N: usize>(Box<[u8; N]>);

impl<const N: usize> Secret<N> {
    /// Takes over `bytes` and wipes the caller's copy.
    #[must_use]
    pub fn take(bytes: &mut [u8; N]) -> Self {
        let mut secret = Self::zeroed();
        secret.0.copy_from_slice(bytes);
        bytes.zeroize();
        secret
    }

    /// Zeros, to be filled in place.
    #[must_use]
    pub(crate) fn zeroed() -> Self {
        Self(Box::new([0; N]))
    }

    /// Random bytes.
    ///
    /// # Errors
    /// [`RandomFailed`] when `random` gives none.
    pub(crate) fn random(random: &mut dyn Random) -> Result<Self, RandomFailed> {
        let mut secret = Self::zeroed();
        random.fill(secret.bytes_mut())?;
        Ok(secret)
    }

    pub(crate) const fn bytes_mut(&mut self) -> &mut [u8; N] {
        &mut self.0
    }

    /// The bytes themselves, for the primitive that needs them. Do not copy them.
    #[must_use]
    pub const fn expose(&self) -> &[u8; N] {
        &self.0
    }
}

impl<const N: usize> Drop for Secret<N> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<const N: usize> fmt::Debug for Secret<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret<{N}>(redacted)")
    }
}

impl<const N: usize> PartialEq for Secret<N> {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(other.0.as_slice()).into()
    }
}

impl<const N: usize> Eq for Secret<N> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_over_compares_and_never_prints() {
        let mut bytes = [7; 32];
        let secret = Secret::take(&mut bytes);
        assert_eq!(bytes, [0; 32]);
        assert_eq!(secret, Secret::take(&mut [7; 32]));
        assert_ne!(secret, Secret::take(&mut [8; 32]));
        assert_eq!(format!("{secret:?}"), "Secret<32>(redacted)");
    }
}
