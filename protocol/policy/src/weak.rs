//! Keys that bind nobody: points whose order divides the cofactor 8. No key generator makes one.

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

/// The encodings that are of small order on Ed25519 and Curve25519 alike, those that are not canonical among them. The text
/// of zeros that someone leaves for later is one.
const ON_BOTH: [[u8; 32]; 5] = [small(0), small(1), near_p(0xec), near_p(0xed), near_p(0xee)];

/// The rest of Ed25519's (RFC 8032 §5.1), apart from the sign.
const ON_ED25519: [[u8; 32]; 2] = [
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5,
        0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a,
        0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
];

/// The rest of Curve25519's (RFC 7748 §6.1).
const ON_CURVE25519: [[u8; 32]; 2] = [
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda,
        0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b, 0x04,
        0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57,
    ],
];

/// Whether a signature under `key` (Ed25519) can be made without any private key.
pub(crate) fn signs_for_anybody(key: &PublicKey) -> bool {
    is_one_of(key, &ON_ED25519)
}

/// Whether whoever agrees with `key` (X25519) agrees on zeros, whatever the private keys.
pub(crate) fn agrees_with_anybody(key: &PublicKey) -> bool {
    is_one_of(key, &ON_CURVE25519)
}

/// The highest bit is the sign of Ed25519, and nothing to X25519.
fn is_one_of(key: &PublicKey, rest: &[[u8; 32]]) -> bool {
    let mut bytes = *key.as_bytes();
    bytes[31] &= 0x7f;
    ON_BOTH.contains(&bytes) || rest.contains(&bytes)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};

    use super::*;
    use crate::SigningKey;

    fn with_either_sign(points: [&[[u8; 32]]; 2]) -> Vec<PublicKey> {
        let signed = |mut bytes: [u8; 32]| {
            bytes[31] |= 0x80;
            bytes
        };
        points.concat().into_iter().flat_map(|bytes| [bytes, signed(bytes)]).map(PublicKey::new).collect()
    }

    #[test]
    fn points_of_small_order_are_weak_with_either_sign_and_real_keys_are_not() {
        for key in with_either_sign([&ON_BOTH, &ON_ED25519]) {
            assert!(signs_for_anybody(&key), "{key}");
        }
        let real = SigningKey::from_seed(&[7; 32]).unwrap().public_key();
        assert!(!signs_for_anybody(&real) && !agrees_with_anybody(&real));
    }

    /// Minus one, zero and one, as 2^255 - 20, 2^255 - 19 and 2^255 - 18 (RFC 7748 §4.1).
    #[test]
    fn what_is_not_canonical_is_weak_as_well() {
        for first in [0xec, 0xed, 0xee] {
            let written = |at| match at {
                0 => first,
                31 => 0x7f,
                _ => 0xff,
            };
            let key = PublicKey::new(std::array::from_fn(written));
            assert!(signs_for_anybody(&key) && agrees_with_anybody(&key), "{key}");
        }
    }

    #[test]
    fn nobody_agrees_with_a_point_of_small_order() {
        let own = PrivateKey::generate(&X25519).unwrap();
        for key in with_either_sign([&ON_BOTH, &ON_CURVE25519]) {
            let theirs = UnparsedPublicKey::new(&X25519, key.as_bytes());
            assert!(agree(&own, theirs, (), |_| Ok(())).is_err(), "{key}");
            assert!(agrees_with_anybody(&key), "{key}");
        }
    }
}
