//! Seeded mutations: what the ordinary test tries beside the corpus, the same in every run.

use sealane_support::world::Counter;

/// Longest input that mutations make.
const BYTES_MAX: usize = 16_384;
const INTERESTING: [u8; 10] = [0, 1, 2, 0x0f, 0x10, 0x1f, 0x7f, 0x80, 0xfe, 0xff];

/// `seed` with one to four changes; some of them borrow from `other`.
pub fn mutate(random: &mut Counter, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        change(random, &mut bytes, other);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

fn change(random: &mut Counter, bytes: &mut Vec<u8>, other: &[u8]) {
    if bytes.is_empty() {
        *bytes = other.to_vec();
        bytes.push(0);
    }
    let at = random.below(bytes.len());
    let end = (at + 1 + random.below(32)).min(bytes.len());
    match random.below(9) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = INTERESTING[random.below(INTERESTING.len())],
        2 => bytes[at] = bytes[at].wrapping_add(1),
        3 => bytes[at] = bytes[at].wrapping_sub(1),
        4 => drop(bytes.drain(at..end)),
        5 => {
            let again = bytes[at..end].to_vec();
            drop(bytes.splice(at..at, again));
        }
        6 => {
            let new = random.below(16);
            let new = random.bytes(new);
            drop(bytes.splice(at..at, new));
        }
        7 if !other.is_empty() => {
            let from = random.below(other.len());
            let until = (from + 1 + random.below(64)).min(other.len());
            drop(bytes.splice(at..end, other[from..until].iter().copied()));
        }
        _ => bytes.truncate(at),
    }
}
