//! Bytes that wait in this process for applications to take them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sealane_protocol::limits::PIPE_WINDOW_BYTES;

/// Bytes that wait, of all pipes of this process. The kernel holds the first megabytes of every pipe, so that only
/// hundreds of applications that stopped reading together come near it.
const HELD_BYTES_MAX: u64 = 256 << 20;
/// What windows beyond the first may add, of all pipes of this process.
const WIDENED_BYTES_MAX: u64 = 64 << 20;
/// Largest window of one pipe: more than a cluster's network holds in flight.
const WINDOW_BYTES_MAX: u64 = 4 << 20;
/// A buffer that was larger gives its memory back when it is empty.
const KEPT_BYTES: usize = 16 << 10;

/// Bounds the memory of all pipes.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    held: AtomicU64,
    widened: AtomicU64,
}

/// No memory is left for what an application does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exhausted;

impl Budget {
    fn charge(account: &AtomicU64, bytes: u64, max: u64) -> Result<(), Exhausted> {
        let charged = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= max);
        account.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged).map(drop).map_err(|_| Exhausted)
    }
}

/// Bytes of one pipe that its application has not taken, and the window that bounds them.
#[derive(Debug)]
pub(super) struct Held {
    bytes: VecDeque<u8>,
    window: u64,
    budget: Arc<Budget>,
}

impl Held {
    pub(super) const fn new(budget: Arc<Budget>) -> Self {
        Self { bytes: VecDeque::new(), window: PIPE_WINDOW_BYTES, budget }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Exhausted> {
        Budget::charge(&self.budget.held, count(bytes.len()), HELD_BYTES_MAX)?;
        self.bytes.extend(bytes);
        Ok(())
    }

    /// The oldest bytes, in one piece.
    pub(super) fn front(&self) -> &[u8] {
        self.bytes.as_slices().0
    }

    /// The application took the first `bytes`.
    pub(super) fn pop(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes.len());
        self.bytes.drain(..bytes);
        self.budget.held.fetch_sub(count(bytes), Ordering::Relaxed);
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            self.bytes = VecDeque::new();
        }
    }

    /// Doubles the window if there is memory for it: an application that takes everything at once is worth a larger one.
    pub(super) fn widen(&mut self) -> u64 {
        let wider = (self.window * 2).min(WINDOW_BYTES_MAX);
        if Budget::charge(&self.budget.widened, wider - self.window, WIDENED_BYTES_MAX).is_ok() {
            self.window = wider;
        }
        self.window
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(count(self.bytes.len()), Ordering::Relaxed);
        self.budget.widened.fetch_sub(self.window - PIPE_WINDOW_BYTES, Ordering::Relaxed);
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_over_all_pipes_and_comes_back() {
        let budget = Arc::new(Budget::default());
        let mut pipes: Vec<_> = (0..3).map(|_| Held::new(Arc::clone(&budget))).collect();
        let half = vec![7; usize::try_from(HELD_BYTES_MAX / 2).unwrap()];
        pipes[0].push(&half).unwrap();
        pipes[1].push(&half).unwrap();
        assert_eq!(pipes[2].push(&[7]), Err(Exhausted));
        pipes[0].pop(1);
        pipes[2].push(&[7]).unwrap();
        assert_eq!(pipes[2].push(&[7]), Err(Exhausted));
        drop(pipes);
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn windows_widen_while_there_is_memory_for_them() {
        let budget = Arc::new(Budget::default());
        let mut pipes: Vec<_> = (0..64).map(|_| Held::new(Arc::clone(&budget))).collect();
        assert_eq!(pipes[0].widen(), 2 * PIPE_WINDOW_BYTES);
        for _ in 0..8 {
            pipes[0].widen();
        }
        assert_eq!(pipes[0].widen(), WINDOW_BYTES_MAX);
        for _ in 0..8 {
            assert!(pipes.iter_mut().map(Held::widen).all(|window| window <= WINDOW_BYTES_MAX));
        }
        let windows: u64 = pipes.iter_mut().map(Held::widen).sum();
        assert!(windows <= WIDENED_BYTES_MAX + 64 * PIPE_WINDOW_BYTES);
        drop(pipes);
        assert_eq!(budget.widened.load(Ordering::Relaxed), 0);
    }
}
