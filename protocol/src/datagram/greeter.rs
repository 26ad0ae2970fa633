//! Datagrams that belong to no connection yet: whoever sent them shows first that it receives what is sent to it.

use std::net::SocketAddr;

use super::clear::{Clear, NOBODY};
use super::cookie::Cookies;
use super::reset::{ResetKey, ResetToken};
use crate::Moment;
use crate::keys::{Random, RandomFailed};
use crate::record::{ConnectionId, addressee};

/// For whom a datagram is, by what it claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The connection that called itself so.
    To(ConnectionId),
    /// The connection that the remote calls so.
    Opening(ConnectionId),
    /// Nobody yet.
    Stranger,
}

/// Reads for whom a datagram is; `None` when it is nothing of this protocol.
#[must_use]
pub fn route(datagram: &[u8]) -> Option<Route> {
    if let Some(id) = addressee(datagram) {
        return Some(Route::To(id));
    }
    Some(match Clear::parse(datagram)? {
        Clear::Ask { .. } => Route::Stranger,
        Clear::Flight(part) if part.to == NOBODY => Route::Opening(part.from),
        Clear::Flight(part) => Route::To(part.to),
        Clear::Cookie { to, .. } => Route::To(to),
        // It repeats the id under which its sender was called.
        Clear::Reset { id, .. } => Route::Opening(id),
    })
}

/// Somebody at an address where it receives what is sent there, and who wants a connection. Only a [`Greeter`] finds one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beginning {
    pub(super) source: SocketAddr,
    pub(super) id: ConnectionId,
}

impl Beginning {
    #[must_use]
    pub const fn source(&self) -> SocketAddr {
        self.source
    }

    /// How the remote calls its handshake.
    #[must_use]
    pub const fn id(&self) -> ConnectionId {
        self.id
    }
}

/// What to do with a datagram of a stranger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// Send so many bytes back; fewer than came.
    Answer(usize),
    /// Begin a connection and hand the datagram to it.
    Begin(Beginning),
    /// Nothing.
    Ignore,
}

/// Greets strangers, and keeps nothing of them.
#[derive(Debug)]
pub struct Greeter {
    cookies: Cookies,
    resets: ResetKey,
}

impl Greeter {
    /// Ends connections that began in this process; [`Self::with_resets`] those before it too.
    ///
    /// # Errors
    /// [`RandomFailed`] when `random` gives nothing.
    pub fn new(random: &mut dyn Random) -> Result<Self, RandomFailed> {
        Ok(Self { cookies: Cookies::new(random)?, resets: ResetKey::random(random)? })
    }

    /// The same with a key that outlives the process.
    #[must_use]
    pub fn with_resets(self, resets: ResetKey) -> Self {
        Self { resets, ..self }
    }

    /// What ends the connection that this port calls `id`.
    pub(super) fn reset_token(&self, id: ConnectionId) -> ResetToken {
        self.resets.token(id)
    }

    /// Looks at a datagram that belongs to no connection. An answer is put into `space`.
    pub fn greet(&self, now: Moment, source: SocketAddr, datagram: &[u8], space: &mut [u8]) -> Greeting {
        let answer = match (addressee(datagram), Clear::parse(datagram)) {
            // Of a connection that this process does not know any more, or never knew.
            (Some(id), _) => Clear::Reset { id, token: self.reset_token(id) },
            (None, Some(Clear::Ask { from })) => {
                Clear::Cookie { to: from, cookie: self.cookies.make(source, from, now) }
            }
            (None, Some(Clear::Flight(part))) => {
                let good =
                    part.cookie.is_some_and(|cookie| self.cookies.is_good(cookie, source, part.from, now));
                return match good {
                    true => Greeting::Begin(Beginning { source, id: part.from }),
                    false => Greeting::Ignore,
                };
            }
            (None, _) => return Greeting::Ignore,
        };
        match answer.put(space) {
            Some(length) if length < datagram.len() => Greeting::Answer(length),
            _ => Greeting::Ignore,
        }
    }
}
