//! What a tensor is before its bytes arrive.

use std::fmt;

use sealane_types::Dtype;

use super::{Sequence, StreamId};
use crate::limits::{
    RUN_BYTES_MAX, RUN_TENSORS_MAX, TENSOR_BYTES_MAX, TENSOR_NAME_BYTES_MAX, TENSOR_RANK_MAX,
};

/// More dimensions than [`TENSOR_RANK_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a tensor has at most {TENSOR_RANK_MAX} dimensions")]
pub struct InvalidShape;

/// A header whose parts contradict each other or a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTensor {
    #[error("the shape times the element size is not the stated length")]
    Length,
    #[error("a tensor has at most {TENSOR_BYTES_MAX} bytes")]
    TooLarge,
    #[error("a tensor's name has at most {TENSOR_NAME_BYTES_MAX} bytes")]
    Name,
    #[error("a run has 2 to {RUN_TENSORS_MAX} tensors and 1 to {RUN_BYTES_MAX} bytes")]
    Run,
}

/// Dimensions of a tensor, outermost first; none for a scalar. Borrowed from the caller or from the wire.
#[derive(Clone, Copy)]
pub struct Shape<'a>(Dimensions<'a>);

#[derive(Clone, Copy)]
enum Dimensions<'a> {
    Caller(&'a [u64]),
    /// Big-endian numbers.
    Wire(&'a [[u8; 8]]),
}

impl<'a> Shape<'a> {
    /// # Errors
    /// [`InvalidShape`] above [`TENSOR_RANK_MAX`] dimensions.
    pub const fn new(dimensions: &'a [u64]) -> Result<Self, InvalidShape> {
        Self::bounded(Dimensions::Caller(dimensions))
    }

    /// From eight big-endian bytes for each dimension.
    pub(super) const fn from_wire(dimensions: &'a [[u8; 8]]) -> Result<Self, InvalidShape> {
        Self::bounded(Dimensions::Wire(dimensions))
    }

    const fn bounded(dimensions: Dimensions<'a>) -> Result<Self, InvalidShape> {
        let shape = Self(dimensions);
        if shape.rank() > TENSOR_RANK_MAX { Err(InvalidShape) } else { Ok(shape) }
    }

    /// How many dimensions there are.
    #[must_use]
    pub const fn rank(&self) -> usize {
        match self.0 {
            Dimensions::Caller(dimensions) => dimensions.len(),
            Dimensions::Wire(dimensions) => dimensions.len(),
        }
    }

    pub fn dimensions(&self) -> impl Iterator<Item = u64> + 'a {
        let (caller, wire): (&[u64], &[[u8; 8]]) = match self.0 {
            Dimensions::Caller(dimensions) => (dimensions, &[]),
            Dimensions::Wire(dimensions) => (&[], dimensions),
        };
        caller.iter().copied().chain(wire.iter().copied().map(u64::from_be_bytes))
    }

    /// Elements, if their number can be written down.
    #[must_use]
    pub fn elements(&self) -> Option<u64> {
        let mut product = Some(1_u64);
        for dimension in self.dimensions() {
            // A zero anywhere makes the tensor empty, whatever the other dimensions are.
            if dimension == 0 {
                return Some(0);
            }
            product = product.and_then(|product| product.checked_mul(dimension));
        }
        product
    }
}

impl fmt::Debug for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.dimensions()).finish()
    }
}

impl PartialEq for Shape<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.dimensions().eq(other.dimensions())
    }
}

impl Eq for Shape<'_> {}

/// Announces a tensor; its bytes follow in chunks, row-major, little-endian elements.
///
/// A *run* is several small tensors of one shape, element type and name that travel as one: they lie one after the other
/// along a first dimension that counts them, and are numbered from `sequence` on. Everything between the two applications
/// treats a run as one tensor under its first number; only the applications see its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorHeader<'a> {
    pub stream: StreamId,
    pub sequence: Sequence,
    pub dtype: Dtype,
    pub shape: Shape<'a>,
    /// The first dimension counts tensors.
    pub run: bool,
    pub name: &'a str,
    /// Bytes: the product of the shape times the element size.
    pub length: u64,
}

impl<'a> TensorHeader<'a> {
    /// Bytes without a name: one dimension, their length.
    #[must_use]
    pub const fn of_bytes(stream: StreamId, sequence: Sequence, length: &'a u64) -> Self {
        let shape = Shape(Dimensions::Caller(std::slice::from_ref(length)));
        Self { stream, sequence, dtype: Dtype::Uint8, shape, run: false, name: "", length: *length }
    }

    /// How many tensors these are: 1, or those of a run.
    #[must_use]
    pub fn tensors(&self) -> u64 {
        let first = || self.shape.dimensions().next().unwrap_or(1);
        if self.run { first() } else { 1 }
    }

    /// The number of its last tensor.
    #[must_use]
    pub fn last(&self) -> Sequence {
        Sequence(self.sequence.0.saturating_add(self.tensors().saturating_sub(1)))
    }

    /// # Errors
    /// [`InvalidTensor`] when length, shape, element type and limits do not agree.
    pub fn check(&self) -> Result<(), InvalidTensor> {
        let elements = self.shape.elements().ok_or(InvalidTensor::TooLarge)?;
        let bytes = elements.checked_mul(self.dtype.size_bytes()).ok_or(InvalidTensor::TooLarge)?;
        if bytes > TENSOR_BYTES_MAX {
            return Err(InvalidTensor::TooLarge);
        }
        if bytes != self.length {
            return Err(InvalidTensor::Length);
        }
        if self.name.len() > TENSOR_NAME_BYTES_MAX {
            return Err(InvalidTensor::Name);
        }
        if self.run && !self.is_run() {
            return Err(InvalidTensor::Run);
        }
        Ok(())
    }

    /// Whether its parts can be told apart and numbered.
    fn is_run(&self) -> bool {
        (2..=RUN_TENSORS_MAX).contains(&self.tensors())
            && (1..=RUN_BYTES_MAX).contains(&self.length)
            && self.sequence.0.checked_add(self.tensors()).is_some()
    }
}
