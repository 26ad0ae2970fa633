//! Tensors and bytes that the link, or the receiver, has not taken yet.

/// A count of tensors and of their remaining bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Unsent {
    pub(super) tensors: usize,
    pub(super) bytes: u64,
}

impl Unsent {
    pub(super) fn add(&mut self, bytes: u64) {
        self.tensors += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(super) fn remove(&mut self, bytes: u64) {
        self.shrink(bytes, true);
    }

    /// The link took `bytes`, and with them perhaps the last ones of a tensor.
    pub(super) fn shrink(&mut self, bytes: u64, last: bool) {
        self.tensors = self.tensors.saturating_sub(usize::from(last));
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { tensors: self.tensors + other.tensors, bytes: self.bytes.saturating_add(other.bytes) }
    }
}
