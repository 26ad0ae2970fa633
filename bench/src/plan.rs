//! How much is measured: enough for a look, for a verdict, or only to see that everything runs.

use std::time::Duration;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::row::RowId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Tiny counts: every path runs and is checked, and no figure means anything.
    Smoke,
    /// A few minutes.
    Quick,
    /// As long as steady figures take.
    Full,
}

impl Level {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// A group of rows that share their set-up.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    /// W18–W30, P1–P3: sealing, hashing, keys and handshakes by themselves
    Crypto,
    /// W1–W7, W38, H1, H6: what the record layer costs a packet
    Frame,
    /// C1: from the first byte to two verdicts
    Handshake,
    /// One verification of each platform's evidence, and many peers that prove themselves at once
    Evidence,
    /// C2: there and back, in process and over TCP
    Roundtrip,
    /// C3: one way, in process and over TCP
    Stream,
    /// This program beside the same one built for this processor alone
    Portable,
    /// One way with each cipher over TCP and UDP, and there and back over TCP: on this machine, or to a server
    Transport,
    /// Datagrams: our engine over UDP beside QUIC and TCP, and over AF_XDP
    Datagram,
    /// P5, P6, P12, P13: packets by themselves, over UDP sockets and over AF_XDP
    Link,
    /// C4 and lanes: Python client to Python client through two sidecars, busy and idle
    Lane,
    /// A TCP connection that two sidecars carry
    Pair,
    /// What it costs to keep account of a stream, without its bytes
    Transfer,
    /// P11, H9: what an established connection takes
    Memory,
    /// How time and memory grow with streams and connections
    Growth,
    /// A live lane while strangers flood the sidecar with handshakes
    Flood,
}

impl Suite {
    pub const ALL: [Self; 16] = [
        Self::Crypto,
        Self::Frame,
        Self::Handshake,
        Self::Evidence,
        Self::Roundtrip,
        Self::Stream,
        Self::Portable,
        Self::Transport,
        Self::Datagram,
        Self::Link,
        Self::Lane,
        Self::Pair,
        Self::Transfer,
        Self::Memory,
        Self::Growth,
        Self::Flood,
    ];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Crypto => "crypto",
            Self::Frame => "frame",
            Self::Handshake => "handshake",
            Self::Evidence => "evidence",
            Self::Roundtrip => "roundtrip",
            Self::Stream => "stream",
            Self::Portable => "portable",
            Self::Transport => "transport",
            Self::Datagram => "datagram",
            Self::Link => "link",
            Self::Lane => "lane",
            Self::Pair => "pair",
            Self::Transfer => "transfer",
            Self::Memory => "memory",
            Self::Growth => "growth",
            Self::Flood => "flood",
        }
    }
}

/// Whom the suite `transport` is compared with. Other suites have their own peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// Our framing without sealing
    Plaintext,
    /// TLS 1.3 behind a buffer of 64 KiB
    Rustls,
    /// QUIC over UDP
    Quinn,
    /// The published crate, with its mock attestation
    ConfidentialMlTransport,
}

impl Peer {
    pub const ALL: [Self; 4] = [Self::Plaintext, Self::Rustls, Self::Quinn, Self::ConfidentialMlTransport];

    /// What a row's id carries.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Rustls => "rustls-buffered",
            Self::Quinn => "quinn",
            Self::ConfidentialMlTransport => "confidential-ml-transport",
        }
    }

    /// What people read.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Plaintext => "the same framing unsealed",
            Self::Rustls => "rustls 0.23, AES-256-GCM of aws-lc",
            Self::Quinn => "quinn 0.11, AES-256-GCM of aws-lc, one stream over UDP",
            Self::ConfidentialMlTransport => "confidential-ml-transport 0.6.2",
        }
    }
}

/// The counts behind a [`Level`].
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub level: Level,
    /// Rounds of samples, ours and theirs in turn.
    pub rounds: usize,
    /// Rounds before the first that counts.
    pub warmups: usize,
    /// About how long one block of operations of nanoseconds takes.
    pub micro: Duration,
    /// About how long one sample of a stream takes.
    pub sample: Duration,
    /// Round trips in a block whose median is one sample.
    pub block: u64,
    /// Handshakes in a block whose median is one sample.
    pub handshakes: usize,
    /// About how long one sample of a lane takes.
    pub lane_sample: Duration,
    /// Length of a block of a flood, and how many pairs of blocks there are.
    pub flood_block: Duration,
    pub flood_pairs: usize,
    /// Connections that a flood opens per second.
    pub flood_rate: u32,
    /// How long an end over UDP waits for the other one to answer.
    pub udp_answer: Duration,
}

/// What is plenty on a network. A test on a busy machine gives more.
pub const UDP_ANSWER_SECONDS: u64 = 10;

impl Plan {
    #[must_use]
    pub const fn of(level: Level) -> Self {
        match level {
            Level::Smoke => Self {
                level,
                rounds: 2,
                warmups: 0,
                micro: Duration::from_micros(20),
                sample: Duration::from_millis(1),
                block: 5,
                handshakes: 2,
                lane_sample: Duration::from_millis(1),
                flood_block: Duration::from_millis(300),
                flood_pairs: 1,
                flood_rate: 100,
                udp_answer: Duration::from_secs(UDP_ANSWER_SECONDS),
            },
            Level::Quick => Self {
                level,
                rounds: 11,
                warmups: 1,
                micro: Duration::from_millis(2),
                sample: Duration::from_millis(60),
                block: 1_000,
                handshakes: 50,
                lane_sample: Duration::from_millis(200),
                flood_block: Duration::from_secs(3),
                flood_pairs: 5,
                flood_rate: 1_000,
                udp_answer: Duration::from_secs(UDP_ANSWER_SECONDS),
            },
            Level::Full => Self {
                level,
                rounds: 31,
                warmups: 3,
                micro: Duration::from_millis(5),
                sample: Duration::from_millis(250),
                block: 1_000,
                handshakes: 200,
                lane_sample: Duration::from_secs(1),
                flood_block: Duration::from_secs(10),
                flood_pairs: 7,
                flood_rate: 1_000,
                udp_answer: Duration::from_secs(UDP_ANSWER_SECONDS),
            },
        }
    }

    /// Round trips of `bytes` in a block: large ones are fewer, since each takes longer.
    #[must_use]
    pub const fn block_of(&self, bytes: usize) -> u64 {
        let fewer = if bytes > 65_536 && self.block > 10 { self.block / 10 } else { self.block };
        match self.level {
            Level::Full => self.block,
            _ => fewer,
        }
    }
}

/// Which suites and rows are wanted.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Empty: all.
    pub suites: Vec<Suite>,
    /// Rows by id, or by the beginning of one. Empty: all.
    pub rows: Vec<String>,
    /// Whom the suite `transport` is compared with.
    pub peers: Vec<Peer>,
}

impl Selection {
    #[must_use]
    pub fn includes(&self, suite: Suite) -> bool {
        self.suites.is_empty() || self.suites.contains(&suite)
    }

    #[must_use]
    pub fn wants(&self, id: &RowId) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|filter| id.matches(filter))
    }
}
