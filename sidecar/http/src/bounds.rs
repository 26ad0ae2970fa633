//! How much and how long, for each kind of listener.

use std::time::Duration;

use crate::places::Caps;

/// What a listener lets its clients have.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub connections: Caps,
    /// Bodies of requests that are being read and answered, in KiB.
    pub bodies: Caps,
    pub timeouts: Timeouts,
}

/// How long each step of a connection may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For a TLS handshake, and from the first byte of a request to the end of its header.
    pub header: Duration,
    /// Before the first byte of the first request.
    pub unused: Duration,
    /// From the end of a header to the answer, with the body of the request.
    pub request: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// Without the client reading any of what there is for it.
    pub stalled: Duration,
}

impl Bounds {
    /// For probes and metrics: what Prometheus and kubelet open is a few connections each, without bodies.
    pub const MANAGEMENT: Self = Self {
        connections: Caps { total: 256, per_source: 64 },
        bodies: Caps { total: 0, per_source: 0 },
        timeouts: Timeouts {
            header: Duration::from_secs(5),
            unused: Duration::from_secs(5),
            request: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            stalled: Duration::from_secs(10),
        },
    };
}
