//! Where tensors lie while they pass through: memory of the pod's one budget, in the same segments as the door's.

use std::io;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use sealane_arena::Plaintext;

use super::fault::Fault;
use super::limits;
use crate::door::budget::{Budget, Side};
use crate::door::segment::{Nothing, Segment};
use crate::door::take::TakeSegments;
use crate::handoff::{NoSlot, SlotId, TakeArena, TensorSource};

/// The tensors of one lane.
#[derive(Debug, Clone)]
pub(super) struct Store {
    arena: Arc<TakeSegments>,
    bytes_max: u64,
}

impl Store {
    /// Sets the first segment up, so that the first tensor does not wait for it. `lane` is what the lane pays beside its tensors.
    pub(super) async fn new(side: Side, budget: &Arc<Budget>, lane: u64) -> Self {
        let left = budget.side_bytes_max().saturating_sub(lane);
        let arena = TakeSegments::on(side, budget, left, Arc::default());
        let bytes_max = arena.bytes_max();
        let growing = Arc::clone(&arena);
        // A runtime that ends takes the lane with it.
        let _ = tokio::task::spawn_blocking(move || growing.begin()).await;
        Self { arena, bytes_max }
    }

    /// What the sessions write arriving tensors into.
    pub(super) fn arena(&self) -> Arc<dyn TakeArena> {
        Arc::clone(&self.arena) as Arc<_>
    }

    /// Largest tensor.
    pub(super) const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// A place for `bytes` if there is one now.
    pub(super) fn try_place(&self, bytes: u64) -> Result<Option<Stored>, Fault> {
        match self.arena.reserve(bytes) {
            Ok(slot) => {
                Ok(Some(Stored { memory: self.arena.memory(slot), arena: Arc::clone(&self.arena), slot }))
            }
            Err(NoSlot::Full) => Ok(None),
            Err(NoSlot::TooLarge) => Err(Fault::TooLarge { bytes, max: self.bytes_max }),
        }
    }

    /// A place for `bytes`, once there is one: this is where back-pressure reaches a client that puts.
    pub(super) async fn place(&self, bytes: u64) -> Result<Stored, Fault> {
        let freed = self.arena.freed();
        loop {
            let freed = freed.notified();
            tokio::pin!(freed);
            // Registered before asking, so that nothing freed in between goes unnoticed.
            freed.as_mut().enable();
            if let Some(stored) = self.try_place(bytes)? {
                return Ok(stored);
            }
            freed.await;
        }
    }

    /// What was delivered in `slot`, which is given back when the value is dropped.
    pub(super) fn stored(&self, slot: SlotId) -> Stored {
        Stored { memory: self.arena.memory(slot), arena: Arc::clone(&self.arena), slot }
    }
}

/// A tensor's place; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Stored {
    arena: Arc<TakeSegments>,
    slot: SlotId,
    /// None for a tensor without bytes.
    memory: Option<(Arc<Segment>, u64)>,
}

impl Stored {
    /// Fills `into` from `offset`.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.bytes(offset, into.len())?.copy_to(into).map_err(io::Error::other)
    }

    /// Writes a part, a piece at a time. The caller keeps to the length that it asked for.
    pub(super) async fn write(&self, mut offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        let Some((segment, base)) = &self.memory else { return Ok(()) };
        for piece in bytes.chunks(limits::WRITE_BYTES) {
            segment.write_at(base + offset, piece).map_err(|error| Fault::Broken(error.to_string()))?;
            offset += piece.len() as u64;
            if piece.len() == limits::WRITE_BYTES {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }
}

impl TensorSource for Stored {
    fn bytes(&self, offset: u64, length: usize) -> io::Result<Plaintext<'_>> {
        match &self.memory {
            Some((segment, base)) => {
                segment.bytes(base.checked_add(offset).ok_or(io::ErrorKind::InvalidInput)?, length)
            }
            None => Nothing.bytes(offset, length),
        }
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.arena.release(self.slot);
    }
}

/// Buffers for chunks on their way out, used again and again: fresh pages for each would cost more than the copy.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// A buffer that goes home.
#[derive(Debug)]
struct Lent {
    bytes: Vec<u8>,
    length: usize,
    home: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Buffers {
    /// `length` bytes (at most [`limits::CHUNK_BYTES`]) of `stored` from `offset`.
    pub(super) fn read(&self, stored: &Stored, offset: u64, length: usize) -> io::Result<Bytes> {
        if length < limits::CHUNK_BYTES / 16 {
            let mut bytes = vec![0; length];
            stored.read_at(offset, &mut bytes)?;
            return Ok(bytes.into());
        }
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bytes = free.unwrap_or_else(|| vec![0; limits::CHUNK_BYTES]);
        let mut lent = Lent { bytes, length, home: Arc::clone(&self.free) };
        let into = lent.bytes.get_mut(..length).ok_or(io::ErrorKind::InvalidInput)?;
        stored.read_at(offset, into)?;
        Ok(Bytes::from_owner(lent))
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut free = self.home.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < limits::BUFFERS_MAX {
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_stored_reads_back_and_goes_back() {
        let budget = Budget::new(64 << 20, crate::metrics::Door::default());
        let store = Store::new(Side::Put, &budget, 1 << 20).await;
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|index| (index % 251) as u8).collect();
        let stored = store.place(bytes.len() as u64).await.unwrap();
        stored.write(0, &bytes[..1_000_001]).await.unwrap();
        stored.write(1_000_001, &bytes[1_000_001..]).await.unwrap();
        let buffers = Buffers::default();
        let chunk = buffers.read(&stored, 999_000, limits::CHUNK_BYTES).unwrap();
        assert_eq!(chunk, &bytes[999_000..999_000 + limits::CHUNK_BYTES]);
        drop(chunk);
        assert_eq!(buffers.read(&stored, 2_999_990, 10).unwrap(), &bytes[2_999_990..]);
        drop(stored);
        assert!(matches!(store.try_place(u64::MAX), Err(Fault::TooLarge { .. })));
        assert!(matches!(store.try_place(48 << 20), Err(Fault::TooLarge { .. })));
        store.place(47 << 20).await.unwrap();
    }
}
