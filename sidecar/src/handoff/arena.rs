//! Where tensor bytes lie on the client's side.

use std::io;
use std::sync::Arc;

use tokio::sync::Notify;

/// Where the bytes of parcels lie: a client's put segment.
pub trait ReadAt: Send + Sync + std::fmt::Debug {
    /// Fills `into` from `offset`.
    ///
    /// # Errors
    /// When the range cannot be read whole; the session then ends the lane.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
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

    /// Writes part of a tensor. The range lies within the reserved bytes.
    ///
    /// # Errors
    /// When the memory cannot be written; the session then ends the lane.
    fn write_at(&self, slot: SlotId, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Gives back a slot that was never delivered. A delivered slot is the door's to free.
    fn release(&self, slot: SlotId);

    /// Told (`notify_waiters`) after every release or free; one value for the life of the arena.
    fn freed(&self) -> Arc<Notify>;
}
