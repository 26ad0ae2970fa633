//! Ed25519 keys that bind nobody.

use sealane_types::PublicKey;

/// `p`, the prime of the field, ends like this, little-endian; only the first byte differs for `p - 1` and `p + 1`.
const fn near_p(first: u8) -> [u8; 32] {
    let mut bytes = [0xff; 32];
    bytes[0] = first;
    bytes[31] = 0x7f;
    bytes
}

const fn small(first: u8) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[0] = first;
    bytes
}

/// Every encoding of a point whose order divides the cofactor 8 (RFC 8032 §5.1, with those that are not canonical), apart
/// from the sign. The text of zeros that someone leaves for later is one of them.
const SMALL_ORDER: [[u8; 32]; 7] = [
    small(0),
    small(1),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5,
        0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a,
        0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
    near_p(0xec),
    near_p(0xed),
    near_p(0xee),
];

/// Whether a signature under `key` can be made without any private key.
pub(super) fn is_weak(key: &PublicKey) -> bool {
    let mut bytes = *key.as_bytes();
    bytes[31] &= 0x7f;
    SMALL_ORDER.contains(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SigningKey;

    #[test]
    fn points_of_small_order_are_weak_with_either_sign_and_real_keys_are_not() {
        for mut bytes in SMALL_ORDER {
            assert!(is_weak(&PublicKey::new(bytes)));
            bytes[31] |= 0x80;
            assert!(is_weak(&PublicKey::new(bytes)));
        }
        assert!(!is_weak(&SigningKey::from_seed(&[7; 32]).unwrap().public_key()));
    }
}
