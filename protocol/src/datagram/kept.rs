//! Bytes that may have to be sent again, in the memory in which their records were made where there are many of them.

use crate::size::{index, wide};
use std::collections::VecDeque;

/// What few bytes are put together in.
const FEW_BYTES: usize = 16 << 10;
/// Memory of what has arrived that is kept for what follows: to get it anew costs as much as to copy into it.
const SPARES_MAX: usize = 8;

/// See the module's documentation. Places are those of the sequence.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// In order and without gaps; none is empty.
    segments: VecDeque<Segment>,
    /// Behind the last byte.
    end: u64,
    spares: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Segment {
    start: u64,
    bytes: Vec<u8>,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start.saturating_add(wide(self.bytes.len()))
    }
}

impl Kept {
    /// Behind the last byte.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Takes a copy of bytes that follow.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        let last = self.segments.back_mut().map(|last| &mut last.bytes);
        if let Some(last) = last.filter(|last| last.capacity().saturating_sub(last.len()) >= bytes.len()) {
            last.extend_from_slice(bytes);
            self.end = self.end.saturating_add(wide(bytes.len()));
        } else {
            let mut memory = Vec::with_capacity(bytes.len().max(FEW_BYTES));
            memory.extend_from_slice(bytes);
            self.put_whole(memory);
        }
    }

    /// Takes bytes that follow with the memory that they lie in.
    pub(super) fn put_whole(&mut self, bytes: Vec<u8>) {
        let start = self.end;
        self.end = start.saturating_add(wide(bytes.len()));
        self.segments.push_back(Segment { start, bytes });
    }

    /// Memory for bytes that follow.
    pub(super) fn spare(&mut self) -> Vec<u8> {
        self.spares.pop().unwrap_or_default()
    }

    /// Copies what begins at `start`.
    pub(super) fn copy(&self, start: u64, mut into: &mut [u8]) {
        let mut at = start;
        let first = self.segments.partition_point(|segment| segment.end() <= start);
        for segment in self.segments.range(first..) {
            let bytes = segment.bytes.get(index(at.saturating_sub(segment.start))..).unwrap_or_default();
            let (here, rest) = into.split_at_mut(bytes.len().min(into.len()));
            here.copy_from_slice(bytes.get(..here.len()).unwrap_or_default());
            if rest.is_empty() {
                return;
            }
            (into, at) = (rest, segment.end());
        }
    }

    /// Everything before `bound` has arrived.
    pub(super) fn forget_below(&mut self, bound: u64) {
        while let Some(first) = self.segments.pop_front_if(|first| first.end() <= bound) {
            if first.bytes.capacity() > FEW_BYTES && self.spares.len() < SPARES_MAX {
                self.spares.push(first.bytes);
            }
        }
    }

    /// Gives memory back that nothing is kept in.
    pub(super) fn release(&mut self) {
        self.spares = Vec::new();
        if self.segments.is_empty() {
            self.segments = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_in_whatever_memory_they_lie() {
        let mut kept = Kept::default();
        kept.put(b"ab");
        kept.put_whole(b"cdef".to_vec());
        kept.put(&[b'g'; FEW_BYTES]);
        assert_eq!((kept.segments.len(), kept.end()), (3, 6 + FEW_BYTES as u64));
        for (start, expected) in [(0, &b"abcdefg"[..]), (1, b"bc"), (3, b"d"), (5, b"fgg"), (9, b"g")] {
            let mut bytes = vec![0; expected.len()];
            kept.copy(start, &mut bytes);
            assert_eq!(bytes, expected, "{start}");
        }
    }

    #[test]
    fn few_bytes_share_memory_and_that_of_many_serves_again() {
        let mut kept = Kept::default();
        for _ in 0..100 {
            kept.put(&[1; 100]);
        }
        assert_eq!(kept.segments.len(), 1);
        for _ in 0..2 * SPARES_MAX {
            kept.put_whole(vec![2; FEW_BYTES + 1]);
        }
        kept.forget_below(9_999);
        assert_eq!(kept.segments.len(), 1 + 2 * SPARES_MAX, "the last of them may be asked for");
        kept.forget_below(kept.end());
        assert_eq!((kept.segments.len(), kept.spares.len()), (0, SPARES_MAX));
        assert!(kept.spare().capacity() > FEW_BYTES);
        kept.release();
        assert_eq!(kept.spare().capacity(), 0);
    }
}
