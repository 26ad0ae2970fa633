//! Where tensor bytes lie on the client's side.

use std::io;
use std::sync::Arc;

use sealane_arena::{Plaintext, VolatileSlice};
use tokio::sync::Notify;

/// Where the bytes of parcels lie: a client's put segment, which it may write at any time.
pub trait TensorSource: Send + Sync + std::fmt::Debug {
    /// `length` bytes from `offset` on.
    ///
    /// # Errors
    /// Some of them do not exist; the session then ends the lane.
    fn bytes(&self, offset: u64, length: usize) -> io::Result<Plaintext<'_>>;
}

/// A place for one arriving tensor in a [`TakeArena`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub u64);

/// Why no place was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSlot {
    /// Full at the moment; [`TakeArena::freed`] tells when to ask again.
    Full,
    /// Larger than this client can ever hold.
    TooLarge,
}

/// Where the bytes of arriving tensors go: a client's take segments. It bounds what a sender may have under way.
pub trait TakeArena: Send + Sync + std::fmt::Debug {
    /// Sets `bytes` aside (0 is allowed). Never waits.
    ///
    /// # Errors
    /// [`NoSlot`] when there is no room now or ever.
    fn reserve(&self, bytes: u64) -> Result<SlotId, NoSlot>;

    /// Lets `write` have `length` bytes of a slot from `offset` on. They lie within the reserved ones, and nobody has been told of
    /// them yet.
    ///
    /// # Errors
    /// The slot has not as many, or was released; `write` was not called, and the session ends the lane.
    fn with_bytes(
        &self,
        slot: SlotId,
        offset: u64,
        length: usize,
        write: &mut dyn FnMut(VolatileSlice<'_>),
    ) -> io::Result<()>;

    /// Writes part of a tensor.
    ///
    /// # Errors
    /// As [`Self::with_bytes`].
    fn write_at(&self, slot: SlotId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut copied = Ok(());
        self.with_bytes(slot, offset, bytes.len(), &mut |place| copied = place.copy_from(bytes))?;
        copied.map_err(io::Error::other)
    }

    /// Gives back a slot that was never delivered. A delivered slot is the door's to free.
    fn release(&self, slot: SlotId);

    /// Told (`notify_waiters`) after every release or free; one value for the life of the arena.
    fn freed(&self) -> Arc<Notify>;
}
