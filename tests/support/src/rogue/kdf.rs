//! HMAC and HKDF over SHA-256, written out from RFC 2104 and RFC 5869, so that nothing here shares code with the product
//! above the hash function.

use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};

pub(super) fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::with_key(&Key::new(HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    context.sign().as_ref().try_into().unwrap()
}

/// RFC 5869 §2.3, at most 32 bytes.
pub(super) fn expand(secret: &[u8; 32], info: &[u8]) -> [u8; 32] {
    hmac(secret, &[info, &[1]])
}

/// What Noise calls HKDF with two outputs.
pub(super) fn two(chaining: &[u8; 32], input: &[u8]) -> ([u8; 32], [u8; 32]) {
    let secret = hmac(chaining, &[input]);
    let first = hmac(&secret, &[&[1]]);
    (first, hmac(&secret, &[&first, &[2]]))
}

/// The same with three.
pub(super) fn three(chaining: &[u8; 32], input: &[u8]) -> ([u8; 32], [u8; 32], [u8; 32]) {
    let secret = hmac(chaining, &[input]);
    let first = hmac(&secret, &[&[1]]);
    let second = hmac(&secret, &[&first, &[2]]);
    (first, second, hmac(&secret, &[&second, &[3]]))
}
