//! A configuration as a bounded sequence of encoded items, with its digest.

use aws_lc_rs::digest::{Context, SHA256};
use prost::bytes::Bytes;

use super::error::DeltaError;
use super::limits::{CONFIGURATION_BYTES_MAX, ITEMS_MAX};

/// Items within their bounds. Clones share the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    items: Vec<Bytes>,
    bytes: usize,
    digest: [u8; 32],
}

impl Default for Sequence {
    fn default() -> Self {
        Self { items: Vec::new(), bytes: 0, digest: digest(&[]) }
    }
}

impl Sequence {
    /// Stops at the first item beyond the bounds, so that nothing is kept of one that is too long.
    ///
    /// # Errors
    /// [`DeltaError::Items`] and [`DeltaError::Bytes`], and those of `items`.
    pub fn new(items: impl IntoIterator<Item = Result<Bytes, DeltaError>>) -> Result<Self, DeltaError> {
        let (mut kept, mut bytes) = (Vec::new(), 0_usize);
        for item in items {
            let item = item?;
            bytes = bytes.saturating_add(item.len());
            if bytes > CONFIGURATION_BYTES_MAX {
                return Err(DeltaError::Bytes);
            }
            if kept.len() >= ITEMS_MAX {
                return Err(DeltaError::Items);
            }
            kept.push(item);
        }
        let digest = digest(&kept);
        Ok(Self { items: kept, bytes, digest })
    }

    #[must_use]
    pub fn items(&self) -> &[Bytes] {
        &self.items
    }

    /// Of all items together.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    #[must_use]
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

/// With lengths, so that no two sequences have the same bytes.
fn digest(items: &[Bytes]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for item in items {
        context.update(&(item.len() as u64).to_be_bytes());
        context.update(item);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}
