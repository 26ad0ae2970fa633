//! What can be measured, how long, where, and beside whom.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A group of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Suite {
    /// Sealing, keys and handshakes by themselves.
    Crypto,
    /// What the record layer costs a packet.
    Frame,
    /// From the first byte to two verdicts.
    Handshake,
    /// Verifying evidence.
    Evidence,
    /// There and back over TCP on the node.
    Roundtrip,
    /// One way, in process and over TCP on the node.
    Stream,
    /// One way with each cipher, and there and back, over TCP: what sessions are recommended by.
    Transport,
    /// Keeping account of a stream, without its bytes.
    Transfer,
    /// What an established connection takes.
    Memory,
}

impl Suite {
    /// The word of the runner's command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Crypto => "crypto",
            Self::Frame => "frame",
            Self::Handshake => "handshake",
            Self::Evidence => "evidence",
            Self::Roundtrip => "roundtrip",
            Self::Stream => "stream",
            Self::Transport => "transport",
            Self::Transfer => "transfer",
            Self::Memory => "memory",
        }
    }
}

/// Where the client and the server of a pair are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Placement {
    /// In two pods of one node, of each pool.
    SameNode,
    /// On two nodes, of each pool.
    SamePool,
    /// On a node of each of two pools, for every two pools.
    AcrossPools,
}

/// Whom the suite Transport is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ComparedWith {
    /// The same framing without sealing.
    Plaintext,
    /// TLS 1.3 of rustls, AES-256-GCM.
    Rustls,
    /// QUIC of quinn over UDP, AES-256-GCM.
    Quinn,
    /// The published crate of that name, with its mock attestation.
    ConfidentialMlTransport,
}

impl ComparedWith {
    /// The word of the runner's command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Rustls => "rustls",
            Self::Quinn => "quinn",
            Self::ConfidentialMlTransport => "confidential-ml-transport",
        }
    }
}

/// How long each figure is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Level {
    /// Everything runs and is checked, and no figure means anything.
    Smoke,
    /// A few minutes.
    #[default]
    Quick,
    /// As long as steady figures take.
    Full,
}

impl Level {
    /// The word of the runner's command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}
