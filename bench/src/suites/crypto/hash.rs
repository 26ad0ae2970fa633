//! BLAKE3 over memory in one thread.

use blake3::{Hash, Hasher};

use crate::micro::Operation;
use crate::random::SplitMix;

/// Bytes that are added one after the other to see that the hash of all of them is right.
const PIECE_BYTES: usize = 1_000;

/// Hashes the same bytes again and again.
#[derive(Debug)]
pub(super) struct Blake3 {
    bytes: Vec<u8>,
    expected: Hash,
}

impl Blake3 {
    pub(super) fn new(bytes: usize) -> Self {
        let mut memory = vec![0; bytes];
        SplitMix::new(bytes as u64).fill(&mut memory);
        let mut hasher = Hasher::new();
        for piece in memory.chunks(PIECE_BYTES) {
            hasher.update(piece);
        }
        Self { bytes: memory, expected: hasher.finalize() }
    }
}

impl Operation for Blake3 {
    type Made = Hash;

    fn run(&mut self) -> Hash {
        blake3::hash(std::hint::black_box(&self.bytes))
    }

    fn wrong(&mut self, made: Hash) -> Option<String> {
        (made != self.expected).then(|| "it is not the hash of the same bytes in pieces".to_owned())
    }
}
