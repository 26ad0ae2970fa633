//! FFI is out of reach for Miri.
#![cfg(not(miri))]

use std::ptr::NonNull;

use ::aegis::aegis256x4::Aegis256X4;
use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use proptest::prelude::*;

use super::*;

const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::Aes128Gcm, Algorithm::Aes256Gcm, Algorithm::ChaCha20Poly1305, Algorithm::Aegis256X4];

const NONCE: [u8; NONCE_BYTES] = [5; NONCE_BYTES];
const ADDITIONAL: &[u8] = b"a header";

fn key(algorithm: Algorithm) -> Key {
    Key::new(algorithm, &vec![3; algorithm.key_bytes()]).unwrap()
}

/// What the safe interface of the library makes of `bytes` with the same key; yields their tag.
fn theirs(algorithm: Algorithm, nonce: [u8; NONCE_BYTES], additional: &[u8], bytes: &mut [u8]) -> Vec<u8> {
    let method = match algorithm {
        Algorithm::Aes128Gcm => &aead::AES_128_GCM,
        Algorithm::Aes256Gcm => &aead::AES_256_GCM,
        Algorithm::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        Algorithm::Aegis256X4 => {
            let mut long = [0; 32];
            long[..NONCE_BYTES].copy_from_slice(&nonce);
            return Aegis256X4::<TAG_BYTES>::new(&[3; 32], &long)
                .encrypt_in_place(bytes, additional)
                .to_vec();
        }
    };
    let key = LessSafeKey::new(UnboundKey::new(method, &vec![3; algorithm.key_bytes()]).unwrap());
    let unique = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_separate_tag(unique, Aad::from(additional), bytes).unwrap().as_ref().to_vec()
}

/// RFC 8439 §2.8.2.
#[test]
fn the_vector_of_the_rfc() {
    let key: Vec<u8> = (0x80..=0x9f).collect();
    let nonce = [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47];
    let additional = [0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7];
    let mut text = *b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the \
        future, sunscreen would be it.";
    let key = Key::new(Algorithm::ChaCha20Poly1305, &key).unwrap();
    let tag = key.seal_in_place(nonce, &additional, &mut text).unwrap();
    assert_eq!(text[..8], [0xd3, 0x1a, 0x8d, 0x34, 0x64, 0x8e, 0x60, 0xdb]);
    let expected =
        [0x1a, 0xe1, 0x0b, 0x59, 0x4f, 0x09, 0xe2, 0x6a, 0x7e, 0x90, 0x2e, 0xcb, 0xd0, 0x60, 0x06, 0x91];
    assert_eq!(tag, expected);
}

#[test]
fn a_key_has_the_length_of_its_algorithm() {
    for algorithm in ALGORITHMS {
        for length in [0, 15, 16, 24, 31, 32, 33] {
            let made = Key::new(algorithm, &vec![1; length]);
            assert_eq!(made.is_ok(), length == algorithm.key_bytes(), "{algorithm:?} {length}");
        }
    }
}

#[test]
fn lengths_that_differ_are_refused_before_a_byte_is_written() {
    for algorithm in ALGORITHMS {
        let key = key(algorithm);
        for length in [9, 11] {
            let (mut shared, mut private) = ([1; 10], vec![2; length]);
            let plaintext = VolatileSlice::from(&mut shared[..]);
            assert_eq!(
                key.seal_from(NONCE, ADDITIONAL, plaintext.into(), &mut private),
                Err(AeadError::Length)
            );
            let opened = key.open_into(NONCE, ADDITIONAL, &private, &[0; TAG_BYTES], plaintext);
            assert_eq!(opened, Err(AeadError::Length));
            assert!(shared == [1; 10] && private == vec![2; length]);
        }
    }
}

/// Nobody is left with bytes that an attacker chose: neither the application, whose memory it is, nor who asked.
#[test]
fn what_does_not_verify_leaves_zeros() {
    for algorithm in ALGORITHMS {
        let key = key(algorithm);
        for length in [1, 15, 16, 17, 1_000, 65_536] {
            let mut sealed = vec![7; length];
            let mut tag = key.seal_in_place(NONCE, ADDITIONAL, &mut sealed).unwrap();
            tag[3] ^= 0x10;
            let mut shared = vec![9; length];
            let place = VolatileSlice::from(&mut shared[..]);
            assert_eq!(key.open_into(NONCE, ADDITIONAL, &sealed, &tag, place), Err(AeadError::Tag));
            assert_eq!(shared, vec![0; length], "{algorithm:?} {length}");
            assert_eq!(key.open_in_place(NONCE, ADDITIONAL, &mut sealed, &tag), Err(AeadError::Tag));
            assert_eq!(sealed, vec![0; length], "{algorithm:?} {length}");
        }
    }
}

#[test]
fn nothing_beside_the_place_is_written() {
    for algorithm in ALGORITHMS {
        let key = key(algorithm);
        for length in [0, 1, 15, 16, 17, 255, 4_096, 65_536] {
            let mut memory = vec![0xee; length + 128];
            memory[64..64 + length].fill(1);
            let slice = VolatileSlice::from(&mut memory[..]).slice(64, length).unwrap();
            let mut sealed = vec![0; length];
            let tag = key.seal_from(NONCE, ADDITIONAL, slice.into(), &mut sealed).unwrap();
            key.open_into(NONCE, ADDITIONAL, &sealed, &tag, slice).unwrap();
            assert!(memory[..64].iter().chain(&memory[64 + length..]).all(|byte| *byte == 0xee));
            assert!(memory[64..64 + length].iter().all(|byte| *byte == 1), "{algorithm:?} {length}");
        }
    }
}

/// Somebody writes all the time: each byte is read once, so that what is sealed then is authentic, and nothing else is touched.
#[test]
fn plaintext_that_changes_while_it_is_sealed_hurts_nobody_else() {
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

    let memory: Vec<AtomicU8> = (0..1 << 18).map(|_| AtomicU8::new(0)).collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for byte in (0..=u8::MAX).cycle() {
                memory.iter().for_each(|place| place.store(byte, Ordering::Relaxed));
                if over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for algorithm in ALGORITHMS {
            let key = key(algorithm);
            for _ in 0..50 {
                let start = NonNull::from(&memory[..]).cast();
                // SAFETY: atomics may be written while somebody else reads, and live as long as the scope.
                let shared = unsafe { VolatileSlice::new(start, memory.len()) };
                let mut private = vec![0xee; memory.len() + 128];
                let sealed = &mut private[64..64 + memory.len()];
                let tag = key.seal_from(NONCE, ADDITIONAL, shared.into(), sealed).unwrap();
                assert_eq!(key.open_in_place(NONCE, ADDITIONAL, sealed, &tag), Ok(()), "{algorithm:?}");
                let (before, rest) = private.split_at(64);
                assert!(before.iter().chain(&rest[memory.len()..]).all(|byte| *byte == 0xee));
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

proptest! {
    /// What the safe interface of the library makes of the same bytes, in each of the four ways.
    #[test]
    fn it_agrees_with_the_library(
        which in 0..ALGORITHMS.len(),
        nonce in any::<[u8; NONCE_BYTES]>(),
        additional in proptest::collection::vec(any::<u8>(), 0..64),
        plaintext in proptest::collection::vec(any::<u8>(), 0..5_000),
    ) {
        let ours = key(ALGORITHMS[which]);
        let mut expected = plaintext.clone();
        let tag = theirs(ALGORITHMS[which], nonce, &additional, &mut expected);
        let shared = plaintext.clone();
        let mut sealed = vec![0; plaintext.len()];
        let made = ours.seal_from(nonce, &additional, shared[..].into(), &mut sealed).unwrap();
        prop_assert_eq!((&sealed, &made[..]), (&expected, &tag[..]));
        let mut in_place = plaintext.clone();
        prop_assert_eq!(ours.seal_in_place(nonce, &additional, &mut in_place), Ok(made));
        prop_assert_eq!(&in_place, &expected);
        let mut place = vec![0; plaintext.len()];
        ours.open_into(nonce, &additional, &sealed, &made, (&mut place[..]).into()).unwrap();
        prop_assert_eq!(&place, &plaintext);
        ours.open_in_place(nonce, &additional, &mut sealed, &made).unwrap();
        prop_assert_eq!(&sealed, &plaintext);
    }

    #[test]
    fn a_bit_of_anything_counts(which in 0..ALGORITHMS.len(), what in 0..4_usize, bit in 0..8_usize, at in any::<prop::sample::Index>()) {
        let key = key(ALGORITHMS[which]);
        let (mut sealed, mut nonce, mut additional) = (vec![1; 100], NONCE, ADDITIONAL.to_vec());
        let mut tag = key.seal_in_place(nonce, &additional, &mut sealed).unwrap();
        let changed: &mut [u8] = match what {
            0 => &mut sealed,
            1 => &mut nonce,
            2 => &mut additional,
            _ => &mut tag,
        };
        let at = at.index(changed.len());
        changed[at] ^= 1 << bit;
        prop_assert_eq!(key.open_in_place(nonce, &additional, &mut sealed, &tag), Err(AeadError::Tag));
    }
}
