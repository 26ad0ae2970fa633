//! Words of tensor streams.

use crate::platform::words;

words!(
    /// Which replicas of a `to` entry receive a tensor.
    Delivery {
        /// Each tensor goes to the next attested replica with credit.
        RoundRobin,
        /// Each tensor goes to every replica connected at `put`.
        Broadcast,
    }
);

words!(
    /// Element types of tensors. The discriminant is the wire value; the list only grows.
    Dtype {
        Bool,
        Uint8,
        Int8,
        Uint16,
        Int16,
        Uint32,
        Int32,
        Uint64,
        Int64,
        Float16,
        Bfloat16,
        Float32,
        Float64,
        Complex64,
        Complex128,
        Float8E4m3,
        Float8E5m2,
    }
);

impl Dtype {
    /// The value on the wire and at the door.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The element type with wire value `code`, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Bytes of one element.
    #[must_use]
    pub const fn size_bytes(self) -> u64 {
        match self {
            Self::Bool | Self::Uint8 | Self::Int8 | Self::Float8E4m3 | Self::Float8E5m2 => 1,
            Self::Uint16 | Self::Int16 | Self::Float16 | Self::Bfloat16 => 2,
            Self::Uint32 | Self::Int32 | Self::Float32 => 4,
            Self::Uint64 | Self::Int64 | Self::Float64 | Self::Complex64 => 8,
            Self::Complex128 => 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_back() {
        for dtype in Dtype::ALL {
            assert_eq!(Dtype::from_code(dtype.code()), Some(*dtype));
        }
        assert_eq!(Dtype::from_code(Dtype::ALL.len() as u8), None);
    }
}
