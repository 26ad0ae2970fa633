//! From the first byte to shared keys: hello, Noise XX with ML-KEM-768 inside, chosen suite.
//!
//! This is the only module that names snow. Its states consume themselves, and each yields the bytes to send
//! with the next state, so a message can be neither repeated nor skipped.

mod suite;

pub use suite::{Floor, KeyExchange, Suite};

/// Versions that this build speaks, best first. Version N always speaks N−1 too.
pub const VERSIONS: &[u16] = &[1];

/// What an initiator wants of the connection. The value is the byte in the hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A new connection that carries tensors.
    Full = 0,
    /// Asks for the responder's evidence and carries no data frame, ever.
    Audit = 3,
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
    #[error("no suite is permitted by both sides")]
    Suite,
    #[error("the responder chose what was not offered or not permitted")]
    Choice,
    #[error("the cryptography of a message does not verify")]
    Crypto,
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
            Self::Suite | Self::Choice => Reason::SuiteRefused,
            Self::Refused(reason) => *reason,
            Self::NotSealane | Self::Malformed(_) | Self::Crypto | Self::Reflected => Reason::HandshakeFailed,
        }
    }
}
