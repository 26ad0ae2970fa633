//! Bytes that wait in this process for applications to take them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sealane_protocol::limits::PIPE_WINDOW_BYTES;

/// Bytes that wait, of all pipes of this process. The kernel holds the first megabytes of every pipe, so that only
/// hundreds of applications that stopped reading together come near it.
const HELD_BYTES_MAX: u64 = 256 << 20;
/// In the smallest pods.
const HELD_BYTES_MIN: u64 = 32 << 20;
/// What windows beyond the first may add, of all pipes of this process: one part in so many of what may wait.
const WIDENED_PART: u64 = 4;
/// One connection has at most one part in so many, so that one replica leaves memory to the others.
const CONNECTION_PART: u64 = 4;
/// Largest window of one pipe: more than a cluster's network holds in flight.
const WINDOW_BYTES_MAX: u64 = 4 << 20;
/// Smallest buffer.
const BUFFER_BYTES_MIN: usize = 4 << 10;

/// Bounds the memory of the pipes of this process, or of one connection.
#[derive(Debug)]
pub(crate) struct Budget {
    held: Account,
    widened: Account,
}

/// Bounds the memory of the pipes of one connection, within that of the process.
#[derive(Debug)]
pub(super) struct Share {
    own: Budget,
    process: Arc<Budget>,
}

#[derive(Debug)]
struct Account {
    used: AtomicU64,
    max: u64,
}

/// No memory is left for what an application does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exhausted;

impl Budget {
    /// Beside tensors that take so much.
    pub(crate) fn beside(arena_bytes: u64) -> Self {
        Self::new((arena_bytes / 2).clamp(HELD_BYTES_MIN, HELD_BYTES_MAX))
    }

    const fn new(held_bytes_max: u64) -> Self {
        Self { held: Account::new(held_bytes_max), widened: Account::new(held_bytes_max / WIDENED_PART) }
    }
}

impl Share {
    pub(super) fn new(process: Arc<Budget>) -> Arc<Self> {
        Arc::new(Self { own: Budget::new(process.held.max / CONNECTION_PART), process })
    }

    fn charge(&self, account: fn(&Budget) -> &Account, bytes: u64) -> Result<(), Exhausted> {
        account(&self.own).charge(bytes)?;
        account(&self.process).charge(bytes).inspect_err(|_| account(&self.own).release(bytes))
    }

    fn release(&self, account: fn(&Budget) -> &Account, bytes: u64) {
        account(&self.own).release(bytes);
        account(&self.process).release(bytes);
    }
}

impl Account {
    const fn new(max: u64) -> Self {
        Self { used: AtomicU64::new(0), max }
    }

    fn charge(&self, bytes: u64) -> Result<(), Exhausted> {
        let charged = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged).map(drop).map_err(|_| Exhausted)
    }

    fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes of one pipe that its application has not taken, and the window that bounds them.
#[derive(Debug)]
pub(super) struct Held {
    bytes: VecDeque<u8>,
    /// Memory that they have, not merely need.
    charged: usize,
    window: u64,
    share: Arc<Share>,
}

impl Held {
    pub(super) const fn new(share: Arc<Share>) -> Self {
        Self { bytes: VecDeque::new(), charged: 0, window: PIPE_WINDOW_BYTES, share }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Exhausted> {
        let needed = self.bytes.len() + bytes.len();
        if needed > self.charged {
            let capacity = needed.next_power_of_two().max(BUFFER_BYTES_MIN);
            self.share.charge(|budget| &budget.held, count(capacity - self.charged))?;
            self.charged = capacity;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend(bytes);
        Ok(())
    }

    /// The oldest bytes, in one piece.
    pub(super) fn front(&self) -> &[u8] {
        self.bytes.as_slices().0
    }

    /// The application took the first `bytes`.
    pub(super) fn pop(&mut self, bytes: usize) {
        self.bytes.drain(..bytes.min(self.bytes.len()));
        if self.bytes.is_empty() {
            self.bytes = VecDeque::new();
            self.share.release(|budget| &budget.held, count(std::mem::take(&mut self.charged)));
        }
    }

    /// Doubles the window if there is memory for it: an application that takes everything at once is worth a larger one.
    pub(super) fn widen(&mut self) -> u64 {
        let wider = (self.window * 2).min(WINDOW_BYTES_MAX);
        if self.share.charge(|budget| &budget.widened, wider - self.window).is_ok() {
            self.window = wider;
        }
        self.window
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.share.release(|budget| &budget.held, count(self.charged));
        self.share.release(|budget| &budget.widened, self.window - PIPE_WINDOW_BYTES);
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(account: &Account) -> u64 {
        account.used.load(Ordering::Relaxed)
    }

    /// Pipes of `connections` connections, so many of each.
    fn pipes(budget: &Arc<Budget>, connections: usize, each: usize) -> Vec<Held> {
        let shares = (0..connections).map(|_| Share::new(Arc::clone(budget)));
        shares.flat_map(|share| (0..each).map(move |_| Held::new(Arc::clone(&share)))).collect()
    }

    #[test]
    fn what_waits_is_bounded_over_all_pipes_and_comes_back() {
        let budget = Arc::new(Budget::new(HELD_BYTES_MIN));
        let mut pipes = pipes(&budget, 5, 1);
        let quarter = vec![7; usize::try_from(HELD_BYTES_MIN / 4).unwrap()];
        for pipe in &mut pipes[..4] {
            pipe.push(&quarter).unwrap();
        }
        assert_eq!(pipes[4].push(&[7]), Err(Exhausted));
        assert_eq!(used(&pipes[4].share.own.held), 0, "what the process refuses is not charged");
        pipes[0].pop(quarter.len());
        pipes[4].push(&[7]).unwrap();
        drop(pipes);
        assert_eq!(used(&budget.held), 0);
    }

    #[test]
    fn one_connection_leaves_memory_to_the_others() {
        let budget = Arc::new(Budget::new(HELD_BYTES_MIN));
        let mut pipes = pipes(&budget, 2, 2);
        let quarter = vec![7; usize::try_from(HELD_BYTES_MIN / 4).unwrap()];
        pipes[0].push(&quarter).unwrap();
        assert_eq!(pipes[1].push(&[7]), Err(Exhausted));
        pipes[2].push(&quarter).unwrap();
        for _ in 0..8 {
            for pipe in &mut pipes[..2] {
                pipe.widen();
            }
        }
        assert!(used(&budget.widened) <= budget.widened.max / 4);
        assert!(pipes[2].widen() > PIPE_WINDOW_BYTES);
    }

    #[test]
    fn memory_is_charged_and_not_merely_what_lies_in_it() {
        let budget = Arc::new(Budget::new(HELD_BYTES_MIN));
        let mut pipe = pipes(&budget, 1, 1).remove(0);
        let check = |pipe: &Held| assert!(used(&budget.held) >= count(pipe.bytes.capacity()));
        for length in [1, 4095, 1, 70_000, 3] {
            pipe.push(&vec![7; length]).unwrap();
            check(&pipe);
        }
        pipe.pop(74_099);
        check(&pipe);
        assert_eq!(pipe.front(), [7]);
        pipe.pop(1);
        check(&pipe);
        assert_eq!(used(&budget.held), 0);
    }

    #[test]
    fn what_may_wait_follows_the_memory_of_the_pod() {
        let max = |arena_bytes| Budget::beside(arena_bytes).held.max;
        assert_eq!([max(0), max(128 << 20), max(1 << 30)], [HELD_BYTES_MIN, 64 << 20, HELD_BYTES_MAX]);
    }

    #[test]
    fn windows_widen_while_there_is_memory_for_them() {
        let budget = Arc::new(Budget::new(HELD_BYTES_MAX));
        let mut pipes = pipes(&budget, 64, 1);
        assert_eq!(pipes[0].widen(), 2 * PIPE_WINDOW_BYTES);
        for _ in 0..8 {
            pipes[0].widen();
        }
        assert_eq!(pipes[0].widen(), WINDOW_BYTES_MAX);
        for _ in 0..8 {
            assert!(pipes.iter_mut().map(Held::widen).all(|window| window <= WINDOW_BYTES_MAX));
        }
        let windows: u64 = pipes.iter_mut().map(Held::widen).sum();
        assert!(windows <= budget.widened.max + 64 * PIPE_WINDOW_BYTES);
        drop(pipes);
        assert_eq!(used(&budget.widened), 0);
    }
}
