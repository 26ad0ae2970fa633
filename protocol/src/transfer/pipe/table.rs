//! The pipes of one connection.

use std::collections::BTreeMap;

use sealane_attestation::binding::Role;

use super::{OpenError, PipeError};
use crate::frame::PipeId;
use crate::limits::PIPES_MAX;

/// What this side keeps for each pipe (`T`), and the rules of who may open one, under which number, and how many.
///
/// Numbers grow, so one that is not in the table was either never used, which is a fault of the peer, or belongs
/// to a pipe that is over here: frames of it may still be on the way and mean nothing any more.
#[derive(Debug)]
pub struct PipeTable<T> {
    role: Role,
    /// The highest number used.
    last: Option<PipeId>,
    pipes: BTreeMap<PipeId, T>,
}

impl<T> PipeTable<T> {
    #[must_use]
    pub const fn new(role: Role) -> Self {
        Self { role, last: None, pipes: BTreeMap::new() }
    }

    /// The initiator begins a pipe. [`Frame::PipeOpen`](crate::frame::Frame::PipeOpen) goes out next, in the order
    /// in which pipes were begun, and before anything else of the pipe.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&mut self, pipe: T) -> Result<PipeId, OpenError> {
        if self.role != Role::Initiator {
            return Err(OpenError::Responder);
        }
        if self.pipes.len() >= PIPES_MAX {
            return Err(OpenError::Full);
        }
        let number = match self.last {
            None => 0,
            Some(PipeId(last)) => last.checked_add(1).ok_or(OpenError::NumbersUsedUp)?,
        };
        let id = PipeId(number);
        self.last = Some(id);
        self.pipes.insert(id, pipe);
        Ok(id)
    }

    /// The initiator opened a pipe. `None`: this connection carries [`PIPES_MAX`] already, so the pipe is over
    /// before it began; answer with a reset (`LimitExceeded`).
    ///
    /// # Errors
    /// [`PipeError::OpenedByResponder`] or [`PipeError::NumberReused`].
    pub fn on_open(&mut self, id: PipeId, make: impl FnOnce() -> T) -> Result<Option<&mut T>, PipeError> {
        if self.role != Role::Responder {
            return Err(PipeError::OpenedByResponder);
        }
        if self.last.is_some_and(|last| id <= last) {
            return Err(PipeError::NumberReused);
        }
        self.last = Some(id);
        if self.pipes.len() >= PIPES_MAX {
            return Ok(None);
        }
        Ok(Some(self.pipes.entry(id).or_insert_with(make)))
    }

    /// The pipe that a frame is about. `None`: it is over here; ignore the frame.
    ///
    /// # Errors
    /// [`PipeError::NeverOpened`].
    pub fn find(&mut self, id: PipeId) -> Result<Option<&mut T>, PipeError> {
        if self.last.is_none_or(|last| id > last) {
            return Err(PipeError::NeverOpened);
        }
        Ok(self.pipes.get_mut(&id))
    }

    /// The pipe is over on this side: both ends are through, or either side reset it.
    pub fn remove(&mut self, id: PipeId) -> Option<T> {
        self.pipes.remove(&id)
    }

    /// Every pipe that is not over, oldest first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (PipeId, &mut T)> {
        self.pipes.iter_mut().map(|(id, pipe)| (*id, pipe))
    }

    /// Empties the table: the connection is gone.
    pub fn take_all(&mut self) -> impl Iterator<Item = (PipeId, T)> + use<T> {
        std::mem::take(&mut self.pipes).into_iter()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.pipes.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pipes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_do_not_begin_anew() {
        let mut table = PipeTable::new(Role::Initiator);
        table.last = Some(PipeId(u32::MAX - 1));
        assert_eq!(table.open(()), Ok(PipeId(u32::MAX)));
        assert_eq!(table.open(()), Err(OpenError::NumbersUsedUp));
    }
}
