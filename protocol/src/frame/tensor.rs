//! What a tensor is before its bytes arrive.

use std::fmt;

use sealane_types::Dtype;

use super::{Sequence, StreamId};
use crate::limits::{TENSOR_BYTES_MAX, TENSOR_NAME_BYTES_MAX, TENSOR_RANK_MAX};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorHeader<'a> {
    pub stream: StreamId,
    pub sequence: Sequence,
    pub dtype: Dtype,
    pub shape: Shape<'a>,
    pub name: &'a str,
    /// Bytes: the product of the shape times the element size.
    pub length: u64,
}

impl TensorHeader<'_> {
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
        Ok(())
    }
}
