//! What a row is about, whichever suite measures it.

use crate::plan::Suite;
use crate::row::Row;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    Streams,
    Links,
    Records,
    Keys,
    Evidence,
    Lanes,
    Forwards,
    Growth,
    Attack,
    /// Rows of a suite that this program does not know.
    Other,
}

/// Rows of `crypto` that are about ciphers; its others are about keys.
const CIPHERS: [&str; 3] = ["W18-W22", "W18-W22-chacha", "P2"];
/// The row of `frame` that is about keys.
const WINDOW: &str = "H1";

impl Area {
    /// In the order of a report: what sees most of the product first.
    pub(super) const ALL: [Self; 10] = [
        Self::Streams,
        Self::Links,
        Self::Records,
        Self::Keys,
        Self::Evidence,
        Self::Lanes,
        Self::Forwards,
        Self::Growth,
        Self::Attack,
        Self::Other,
    ];

    pub(super) fn of(row: &Row) -> Self {
        let suite = Suite::ALL.into_iter().find(|suite| suite.word() == row.suite);
        let is = |id: &str| row.id.matches(id);
        match suite {
            Some(Suite::Crypto) if CIPHERS.into_iter().any(is) => Self::Records,
            Some(Suite::Frame) if is(WINDOW) => Self::Keys,
            Some(Suite::Crypto | Suite::Handshake) => Self::Keys,
            Some(Suite::Frame | Suite::Portable) => Self::Records,
            Some(Suite::Evidence) => Self::Evidence,
            Some(Suite::Roundtrip | Suite::Stream | Suite::Transport | Suite::Datagram | Suite::Transfer) => {
                Self::Streams
            }
            Some(Suite::Link) => Self::Links,
            Some(Suite::Lane) => Self::Lanes,
            Some(Suite::Pair) => Self::Forwards,
            Some(Suite::Memory | Suite::Growth) => Self::Growth,
            Some(Suite::Flood) => Self::Attack,
            None => Self::Other,
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Streams => "Sealed streams",
            Self::Links => "Packets by themselves",
            Self::Records => "Record layer",
            Self::Keys => "Handshake and keys",
            Self::Evidence => "Evidence",
            Self::Lanes => "Lanes between Python clients",
            Self::Forwards => "Forwarded connections",
            Self::Growth => "Growth and memory",
            Self::Attack => "Under attack",
            Self::Other => "Other rows",
        }
    }
}
