//! What a shell hands in when a connection begins.

use std::sync::Arc;

use sealane_attestation::TrustConfiguration;
use sealane_types::{Digest, PeerName, PodIdentity, SessionName};

use super::Places;
use crate::handshake::{Floor, Kind, Suite};
use crate::keys::{Kem, StaticKey};
use crate::limits::{
    HANDSHAKE_DEADLINE_MICROS, KEEPALIVE_DEADLINE_MICROS, KEEPALIVE_INTERVAL_MICROS, LIFE_MICROS,
};
use crate::record::Rekey;

/// The policy that a side holds, as far as the protocol needs it. The shell makes it from a verified policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyView {
    /// Zero: none is held yet.
    pub epoch: u64,
    /// SHA-256 of the exact signed bytes; zeros when none is held.
    pub digest: Digest,
    pub floor: Floor,
    /// How long a connection lives, with all that renews or resumes it.
    pub life_micros: u64,
}

impl PolicyView {
    /// The view of a side that holds no policy yet and will take one from its peer.
    #[must_use]
    pub const fn none(floor: Floor) -> Self {
        Self { epoch: 0, digest: Digest::new([0; 32]), floor, life_micros: LIFE_MICROS }
    }
}

/// What this side is, and how it speaks. The same for every connection of a replica.
#[derive(Debug, Clone)]
pub struct Local {
    pub static_key: Arc<StaticKey>,
    pub peer: PeerName,
    pub pod: PodIdentity,
    pub policy: PolicyView,
    /// What decides which policies this side follows. It holds for a whole connection: one that began under other roots does
    /// not go over to these.
    pub trust: Arc<TrustConfiguration>,
    /// Suites offered or accepted, best first. Those below the policy's floor are left out.
    pub suites: Vec<Suite>,
    pub rekey: Rekey,
    pub timing: Timing,
    pub kem: Arc<dyn Kem>,
    /// Whether further links are joined, or admitted: where there are processors to run them.
    pub links: bool,
    /// For policies of remotes that have proved nothing yet; shared by the connections of a process.
    pub places: Places,
}

/// Deadlines in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From the first byte until both sides have their verdict.
    pub handshake_micros: u64,
    /// Silence after which a ping goes out.
    pub keepalive_micros: u64,
    /// Silence after which the link is lost.
    pub silence_micros: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            handshake_micros: HANDSHAKE_DEADLINE_MICROS,
            keepalive_micros: KEEPALIVE_INTERVAL_MICROS,
            silence_micros: KEEPALIVE_DEADLINE_MICROS,
        }
    }
}

/// The side that dials.
#[derive(Debug, Clone)]
pub struct Setup {
    pub local: Local,
    pub kind: Kind,
    /// The Peer that must be at the other end.
    pub expected: PeerName,
    pub session: SessionName,
}

/// The side that accepts. Who is calling, and for which session, it learns from the initiator.
#[derive(Debug, Clone)]
pub struct AcceptSetup {
    pub local: Local,
    /// Whether connections of [`Kind::Audit`] are served.
    pub audit: bool,
}
