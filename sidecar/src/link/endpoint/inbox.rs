//! Where datagrams wait for their connection. It takes no memory while none do, which a channel would: room for 32 of them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::batch::Batch;

/// Batches of datagrams that wait for one connection, and bytes of memory that they take.
const BATCHES_MAX: usize = 2_048;
const BYTES_MAX: usize = 2 << 20;
/// Room for batches that is kept while none wait.
const ROOM_KEPT: usize = 8;

/// See the module's documentation.
#[derive(Debug, Clone, Default)]
pub(super) struct Inbox(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    batches: VecDeque<Batch>,
    bytes: usize,
    /// Of the connection, while it waits.
    waker: Option<Waker>,
}

impl Inbox {
    /// Lets a batch wait. Where there is no room for it, it is as if it were lost on the way.
    pub(super) fn put(&self, batch: Batch) {
        let mut waiting = self.lock();
        let bytes = waiting.bytes.saturating_add(batch.buffer.len());
        if bytes > BYTES_MAX || waiting.batches.len() >= BATCHES_MAX {
            return;
        }
        waiting.bytes = bytes;
        waiting.batches.push_back(batch);
        let waker = waiting.waker.take();
        drop(waiting);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The batch that has waited longest.
    pub(super) fn take(&self) -> Option<Batch> {
        self.lock().take()
    }

    /// As [`Self::take`], once there is one.
    pub(super) fn poll_take(&self, context: &Context<'_>) -> Poll<Batch> {
        let mut waiting = self.lock();
        match waiting.take() {
            Some(batch) => Poll::Ready(batch),
            None => {
                waiting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Gives back the room that no batch waits in.
    pub(super) fn release(&self) {
        self.lock().batches.shrink_to_fit();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn take(&mut self) -> Option<Batch> {
        let batch = self.batches.pop_front()?;
        self.bytes = self.bytes.saturating_sub(batch.buffer.len());
        if self.batches.is_empty() && self.batches.capacity() > ROOM_KEPT {
            self.batches = VecDeque::new();
        }
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn batch(bytes: usize) -> Batch {
        let from = ([10, 0, 0, 2], 9).into();
        Batch { from, to: None, buffer: vec![0; bytes], length: bytes, stride: bytes, spare: Arc::default() }
    }

    #[test]
    fn what_waits_is_bounded_and_comes_in_order() {
        let inbox = Inbox::default();
        for bytes in [BYTES_MAX - 1, 2, 1] {
            inbox.put(batch(bytes));
        }
        let lengths: Vec<usize> = std::iter::from_fn(|| inbox.take()).map(|batch| batch.length).collect();
        assert_eq!(lengths, [BYTES_MAX - 1, 1], "the one that had no room was lost");
        for _ in 0..=BATCHES_MAX {
            inbox.put(batch(1));
        }
        assert_eq!(std::iter::from_fn(|| inbox.take()).count(), BATCHES_MAX);
        let waiting = inbox.lock();
        assert_eq!((waiting.bytes, waiting.batches.capacity()), (0, 0), "its memory is given back");
    }

    #[test]
    fn who_waits_is_woken_once() {
        let (inbox, woken) = (Inbox::default(), Arc::new(Woken::default()));
        let waker = Arc::clone(&woken).into();
        let context = Context::from_waker(&waker);
        assert!(inbox.poll_take(&context).is_pending());
        inbox.put(batch(1));
        inbox.put(batch(2));
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(inbox.poll_take(&context).is_ready() && inbox.poll_take(&context).is_ready());
        assert!(inbox.poll_take(&context).is_pending());
    }
}
