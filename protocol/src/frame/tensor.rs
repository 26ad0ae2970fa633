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

/// Dimensions of a tensor, outermost first; none for a scalar.
#[derive(Clone, Copy)]
pub struct Shape {
    rank: usize,
    dimensions: [u64; TENSOR_RANK_MAX],
}

impl Shape {
    /// # Errors
    /// [`InvalidShape`] above [`TENSOR_RANK_MAX`] dimensions.
    pub fn new(dimensions: &[u64]) -> Result<Self, InvalidShape> {
        let mut shape = Self { rank: dimensions.len(), dimensions: [0; TENSOR_RANK_MAX] };
        shape.dimensions.get_mut(..dimensions.len()).ok_or(InvalidShape)?.copy_from_slice(dimensions);
        Ok(shape)
    }

    #[must_use]
    pub fn dimensions(&self) -> &[u64] {
        self.dimensions.get(..self.rank).unwrap_or_default()
    }

    /// Elements, if their number can be written down.
    #[must_use]
    pub fn elements(&self) -> Option<u64> {
        // A zero anywhere makes the tensor empty, whatever the other dimensions are.
        if self.dimensions().contains(&0) {
            return Some(0);
        }
        self.dimensions().iter().try_fold(1_u64, |product, dimension| product.checked_mul(*dimension))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.dimensions()).finish()
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        self.dimensions() == other.dimensions()
    }
}

impl Eq for Shape {}

/// Announces a tensor; its bytes follow in chunks, row-major, little-endian elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorHeader<'a> {
    pub stream: StreamId,
    pub sequence: Sequence,
    pub dtype: Dtype,
    pub shape: Shape,
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
