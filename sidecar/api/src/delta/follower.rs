//! The receiving end of one stream of deltas.

use super::change::apply;
use super::error::DeltaError;
use super::item::assemble;
use super::limits::CONFIGURATION_BYTES_MAX;
use super::sequence::Sequence;
use crate::control::{Configuration, Delta};

/// What a stream has told so far. Whatever goes wrong, nothing is mixed: the base is dropped, and the whole is asked for
/// unless it was the whole that was wrong, which another one would be too.
#[derive(Debug, Default)]
pub struct Follower {
    held: Option<Sequence>,
    begun: Option<Begun>,
    request: Request,
}

/// A change of which parts are missing.
#[derive(Debug)]
struct Begun {
    generation: u64,
    base: Vec<u8>,
    digest: Vec<u8>,
    changes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Request {
    #[default]
    None,
    Due,
    Sent,
}

impl Follower {
    /// The configuration that is complete with this message.
    ///
    /// # Errors
    /// [`DeltaError`]; the configuration before stays in effect.
    pub fn take(&mut self, delta: Delta) -> Result<Option<Configuration>, DeltaError> {
        let is_whole = delta.base.is_empty();
        let taken = self.part(delta).and_then(|begun| begun.map(|begun| self.complete(&begun)).transpose());
        match &taken {
            Ok(None) => {}
            Ok(Some(_)) => self.request = Request::None,
            Err(_) => {
                (self.held, self.begun) = (None, None);
                self.request = match self.request {
                    _ if is_whole => Request::None,
                    Request::Sent => Request::Sent,
                    Request::Due | Request::None => Request::Due,
                };
            }
        }
        taken
    }

    /// A configuration came whole, in one message: no delta can change it.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether the whole is to be asked for.
    #[must_use]
    pub fn wants_whole(&self) -> bool {
        self.request == Request::Due
    }

    /// The whole was asked for.
    pub const fn asked(&mut self) {
        self.request = Request::Sent;
    }

    /// The change that is complete with this part.
    fn part(&mut self, delta: Delta) -> Result<Option<Begun>, DeltaError> {
        let Delta { generation, base, digest, changes, offset, more } = delta;
        let mut begun = match self.begun.take() {
            Some(begun) if offset > 0 => begun,
            Some(_) | None => {
                self.require(&base)?;
                Begun { generation, base, digest, changes: Vec::new() }
            }
        };
        let expected = begun.changes.len() as u64;
        if offset != expected || generation != begun.generation {
            return Err(DeltaError::Part { expected, found: offset });
        }
        if begun.changes.len().saturating_add(changes.len()) > 2 * CONFIGURATION_BYTES_MAX {
            return Err(DeltaError::Bytes);
        }
        begun.changes.extend_from_slice(&changes);
        if more {
            self.begun = Some(begun);
            return Ok(None);
        }
        Ok(Some(begun))
    }

    /// Before its parts are kept: those of a change that can never be applied are not.
    fn require(&self, base: &[u8]) -> Result<(), DeltaError> {
        match &self.held {
            _ if base.is_empty() => Ok(()),
            Some(held) if held.digest() == base => Ok(()),
            Some(_) | None => Err(DeltaError::Base),
        }
    }

    fn complete(&mut self, begun: &Begun) -> Result<Configuration, DeltaError> {
        let Begun { generation, base, digest, changes } = begun;
        let nothing = Sequence::default();
        let base = match &self.held {
            _ if base.is_empty() => &nothing,
            Some(held) => held,
            None => return Err(DeltaError::Base),
        };
        let next = apply(base, changes)?;
        if next.digest() != digest.as_slice() {
            return Err(DeltaError::Digest);
        }
        let configuration = Configuration { generation: *generation, ..assemble(&next)? };
        self.held = Some(next);
        Ok(configuration)
    }
}
