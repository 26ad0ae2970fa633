//! What a tensor is called and numbered, apart from its bytes.

use sealane_types::Dtype;

/// Most dimensions of a tensor.
pub const DIMENSIONS_MAX: usize = 32;
/// Longest tensor name in bytes.
pub const TENSOR_NAME_BYTES_MAX: usize = 255;

/// Number of a tensor within its sender lane, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

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
    /// At most [`TENSOR_NAME_BYTES_MAX`] bytes; empty when the application gave none.
    pub name: String,
}
