//! What a tensor is called and numbered, apart from its bytes.

use sealane_types::Dtype;

/// Most dimensions of a tensor.
pub const DIMENSIONS_MAX: usize = 32;
/// Longest tensor name in bytes.
pub const TENSOR_NAME_BYTES_MAX: usize = 255;

/// Number of a tensor within its sender lane, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

/// Numbers without a gap: of one tensor, of a run, or of neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub first: Sequence,
    pub last: Sequence,
}

impl Span {
    /// `tensors` (at least 1) from `first` on.
    #[must_use]
    pub const fn new(first: Sequence, tensors: u64) -> Self {
        Self { first, last: Sequence(first.0.saturating_add(tensors.saturating_sub(1))) }
    }

    #[must_use]
    pub const fn tensors(self) -> u64 {
        self.last.0.saturating_sub(self.first.0).saturating_add(1)
    }
}

/// Sixteen random bytes made by the client for each sender lane. They outlive a restart of the sidecar, so that the
/// receiver can tell a repeat from a new tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneIncarnation(pub [u8; 16]);

/// What a tensor is, apart from its bytes. The door has checked that `shape` × element size is the length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorHeader {
    pub dtype: Dtype,
    /// At most [`DIMENSIONS_MAX`] dimensions.
    pub shape: Vec<u64>,
    /// The first dimension counts tensors of one client's `put_many`, numbered from the parcel's sequence on. A run is
    /// handed on, taken, repeated and lost as one tensor.
    pub run: bool,
    /// At most [`TENSOR_NAME_BYTES_MAX`] bytes; empty when the application gave none.
    pub name: String,
}

impl TensorHeader {
    /// How many tensors these are: 1, or those of a run.
    #[must_use]
    pub fn tensors(&self) -> u64 {
        let first = || self.shape.first().copied().unwrap_or(1);
        if self.run { first() } else { 1 }
    }

    /// What each tensor of it has for a shape.
    #[must_use]
    pub fn shape_of_one(&self) -> &[u64] {
        let skipped = usize::from(self.run);
        self.shape.get(skipped..).unwrap_or_default()
    }
}
