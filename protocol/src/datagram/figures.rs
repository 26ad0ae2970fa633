//! What is known of the path that a connection takes, for people who look after it.

use sealane_types::CongestionControl;

/// What datagrams came to, since the connection began. Those that try a larger size count nowhere: whether they are lost
/// is what they ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathCounts {
    /// That the remote has to acknowledge, so that it shows if they are lost.
    pub sent: u64,
    /// Those of them that were taken for lost.
    pub lost: u64,
    /// Those of the lost ones that were only late, as it turned out.
    pub late: u64,
    /// Times that the remote was followed to another address.
    pub moves: u64,
}

/// In microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// The moving average.
    pub smoothed_micros: u64,
    /// The smallest: what is above it waited in queues.
    pub min_micros: u64,
}

/// How a path is used at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathFigures {
    pub counts: PathCounts,
    /// None: not measured since the connection began, or took this path.
    pub round_trip: Option<RoundTrip>,
    /// UDP payload of a full datagram, as far as probes found out what the path carries.
    pub datagram_bytes: u16,
    /// What congestion control lets be on the way at once.
    pub window_bytes: u64,
    /// Which one that is.
    pub congestion: CongestionControl,
}
