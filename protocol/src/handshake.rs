//! From the first byte to shared keys: hello, Noise XX with ML-KEM-768 inside or Noise NN under the secret of a ticket,
//! chosen suite.
//!
//! This is the only module that names snow. Its states consume themselves, and each yields the bytes to send
//! with the next state, so a message can be neither repeated nor skipped.

mod choice;
mod hello;
mod initiator;
mod noise;
mod renewal;
mod resolver;
mod responder;
mod resume;
mod suite;

use crate::keys::Root;

pub use suite::{Floor, KeyExchange, Suite};

pub(crate) use hello::Hello;
pub(crate) use initiator::{Initiator, Opening};
pub(crate) use renewal::{Terms, answer_renewal};
pub(crate) use responder::{Responder, ResponderWaiting};
pub(crate) use resume::{Presented, Resuming, answer_ticket};

/// Versions that this build speaks, best first. Version N always speaks N−1 too.
pub const VERSIONS: &[u16] = &[1];

/// Bits of the hello's capabilities, which a responder repeats as far as it has them too.
pub(crate) mod capability {
    /// Frames that hand over tickets are understood.
    pub(crate) const TICKETS: u32 = 1;
    /// Further links are joined, or admitted.
    pub(crate) const LINKS: u32 = 2;

    /// What a side has, which may do without further links.
    pub(crate) const fn of(links: bool) -> u32 {
        if links { TICKETS | LINKS } else { TICKETS }
    }
}

/// What an initiator wants of the connection. The value is the byte in the hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A new connection that carries tensors.
    Full = 0,
    /// A new connection that carries tensors, between the two ends of an earlier one, without new evidence.
    Resume = 1,
    // 2 begins a further link of a connection (`connection::links`), which is no connection.
    /// Asks for the responder's evidence and carries no data frame, ever.
    Audit = 3,
}

impl Kind {
    const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Full),
            1 => Some(Self::Resume),
            3 => Some(Self::Audit),
            _ => None,
        }
    }
}

/// What a finished handshake leaves behind.
pub(crate) struct Finished {
    pub(crate) root: Root,
    /// Public: it names the handshake and is never key material.
    pub(crate) handshake_hash: [u8; 32],
    pub(crate) remote_static: [u8; 32],
    pub(crate) suite: Suite,
    pub(crate) version: u16,
    pub(crate) kind: Kind,
    /// Of both sides.
    pub(crate) capabilities: u32,
}

/// The handshake could not even begin; this side is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BeginError {
    #[error(transparent)]
    Random(#[from] crate::keys::RandomFailed),
    #[error(transparent)]
    Kem(#[from] crate::keys::KemFailed),
    #[error("the cryptography library refused to start a handshake")]
    Crypto,
}

/// Why no keys came about. The peer, or someone between, is at fault unless it says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    #[error("it does not begin with a Sealane hello")]
    NotSealane,
    #[error("a message is malformed")]
    Malformed(#[from] crate::codec::CodecError),
    #[error("no version is spoken by both sides")]
    Version,
    #[error("this kind of connection is not served here")]
    Kind,
    #[error("the policy lists no auditors")]
    Audit,
    #[error("no suite is permitted by both sides")]
    Suite,
    #[error("the responder chose what was not offered or not permitted")]
    Choice,
    #[error("the cryptography of a message does not verify")]
    Crypto,
    #[error("the ticket is not good, or not any more")]
    Ticket,
    #[error("the peer uses our own static key")]
    Reflected,
    #[error("the other side refused: {0}")]
    Refused(sealane_types::Reason),
}

impl HandshakeError {
    /// The word that status, metrics and the remote see.
    #[must_use]
    pub const fn reason(&self) -> sealane_types::Reason {
        use sealane_types::Reason;
        match self {
            Self::Version | Self::Kind => Reason::VersionUnsupported,
            Self::Audit => Reason::AuditorUnknown,
            Self::Suite | Self::Choice => Reason::SuiteRefused,
            Self::Ticket => Reason::TicketRefused,
            Self::Refused(reason) => *reason,
            Self::NotSealane | Self::Malformed(_) | Self::Crypto | Self::Reflected => Reason::HandshakeFailed,
        }
    }
}

#[cfg(test)]
mod tests;
