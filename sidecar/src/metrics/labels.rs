//! What distinguishes series of one name. Every set is bounded: by the sessions that are configured, by the words of
//! [`Reason`](sealane_types::Reason), or by the constants of this program. None ever holds a tensor's name, shape or
//! content, a pod, an address, a key, or text of a peer's choosing.

use prometheus_client::encoding::EncodeLabelSet;
use sealane_types::{Reason, SessionName};

use crate::desired::{Direction, SessionKey};

/// One side of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(crate) struct SessionLabels {
    session: String,
    direction: &'static str,
}

impl SessionLabels {
    pub(crate) fn new(session: &SessionName, direction: Direction) -> Self {
        Self { session: session.to_string(), direction: word(direction) }
    }

    pub(crate) fn of(key: &SessionKey) -> Self {
        Self::new(&key.name, key.direction)
    }

    /// With the reason of something that happened on this side.
    pub(crate) fn because(self, reason: Reason) -> SessionReasonLabels {
        let Self { session, direction } = self;
        SessionReasonLabels { session, direction, reason: reason.as_str() }
    }

    /// With what became of datagrams.
    pub(crate) fn fate(self, fate: Fate) -> SessionFateLabels {
        let Self { session, direction } = self;
        SessionFateLabels { session, direction, fate: fate.as_str() }
    }

    /// With what decides how much is on the way.
    pub(crate) fn under(self, congestion: &str) -> SessionCongestionLabels {
        let Self { session, direction } = self;
        SessionCongestionLabels { session, direction, congestion: congestion.to_owned() }
    }

    /// With the way that bytes went.
    pub(crate) fn way(self, way: Way) -> SessionWayLabels {
        let Self { session, direction } = self;
        SessionWayLabels { session, direction, way: way.as_str() }
    }
}

/// One side of a session, and a congestion control: a word of this program or of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(crate) struct SessionCongestionLabels {
    session: String,
    direction: &'static str,
    congestion: String,
}

/// One side of a session, and what became of its datagrams.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct SessionFateLabels {
    session: String,
    direction: &'static str,
    fate: &'static str,
}

/// What becomes of datagrams: all that were sent, those of them that were taken for lost, and those that were only late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Sent,
    Lost,
    Late,
}

impl Fate {
    pub(crate) const ALL: [Self; 3] = [Self::Sent, Self::Lost, Self::Late];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Lost => "lost",
            Self::Late => "late",
        }
    }
}

/// One side of a session, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct SessionReasonLabels {
    session: String,
    direction: &'static str,
    reason: &'static str,
}

/// One side of a session, and which way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct SessionWayLabels {
    session: String,
    direction: &'static str,
    way: &'static str,
}

/// Towards the other sidecar, or from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Sent,
    Received,
}

impl Way {
    pub(crate) const ALL: [Self; 2] = [Self::Sent, Self::Received];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Received => "received",
        }
    }
}

/// Which way, of everything that this process carries.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct WayLabel {
    way: &'static str,
}

impl From<Way> for WayLabel {
    fn from(way: Way) -> Self {
        Self { way: way.as_str() }
    }
}

/// A lane that did not open or did not end well. Clients choose the names that they ask for, so no session is named.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct LaneFailureLabels {
    direction: &'static str,
    reason: &'static str,
}

impl LaneFailureLabels {
    pub(crate) fn new(direction: Direction, reason: Reason) -> Self {
        Self { direction: word(direction), reason: reason.as_str() }
    }
}

/// How a handshake ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct HandshakeLabels {
    /// `initiator` or `responder`.
    role: &'static str,
    /// `established`, `audited` or `refused`.
    outcome: &'static str,
    /// Why it was refused, or why an audit ended; otherwise empty.
    reason: &'static str,
}

impl HandshakeLabels {
    pub(crate) fn established(role: &'static str) -> Self {
        Self { role, outcome: "established", reason: "" }
    }

    /// An auditor accepted the evidence of this side, and the connection ended with `reason`.
    pub(crate) fn audited(role: &'static str, reason: Reason) -> Self {
        Self { role, outcome: "audited", reason: reason.as_str() }
    }

    pub(crate) fn refused(role: &'static str, reason: Reason) -> Self {
        Self { role, outcome: "refused", reason: reason.as_str() }
    }
}

/// A verdict on evidence.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct VerdictLabels {
    /// `accepted` or `refused`.
    outcome: &'static str,
    /// Empty when accepted.
    reason: &'static str,
}

impl VerdictLabels {
    pub(crate) fn of<T>(verdict: &Result<T, Reason>) -> Self {
        match verdict {
            Ok(_) => Self { outcome: "accepted", reason: "" },
            Err(reason) => Self { outcome: "refused", reason: reason.as_str() },
        }
    }
}

/// Why a connection was turned away before its handshake.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TurnedAwayLabels {
    reason: &'static str,
    /// `Rate`, `HalfOpen`, or empty where the reason says it all.
    cause: &'static str,
}

impl TurnedAwayLabels {
    pub(crate) fn new(reason: Reason, cause: &'static str) -> Self {
        Self { reason: reason.as_str(), cause }
    }
}

/// A word that explains something.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ReasonLabel {
    reason: &'static str,
}

impl From<Reason> for ReasonLabel {
    fn from(reason: Reason) -> Self {
        Self { reason: reason.as_str() }
    }
}

/// How AF_XDP is used on a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ModeLabel {
    pub(crate) mode: &'static str,
}

/// What became of packets; a word of this program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct FateLabel {
    pub(crate) fate: &'static str,
}

/// How something ended; a word of this program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutcomeLabel {
    pub(crate) outcome: &'static str,
}

/// What kind of thing; a word of this program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct KindLabel {
    pub(crate) kind: &'static str,
}

/// What was fetched of a vendor, and whether it came.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct FetchLabels {
    pub(crate) kind: &'static str,
    /// `fetched` or `failed`.
    pub(crate) outcome: &'static str,
}

/// `put` or `take`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct SideLabel {
    pub(crate) side: &'static str,
}

/// `socket` or `grpc`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct DoorLabel {
    pub(crate) door: &'static str,
}

/// `known` for addresses that the configuration names, `stranger` for all others.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct SourceLabel {
    pub(crate) source: &'static str,
}

/// What this replica's own evidence says.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct EvidenceLabels {
    pub(crate) platform: &'static str,
    pub(crate) assurance: &'static str,
    pub(crate) tcb_status: &'static str,
}

/// A series without labels that need not be there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct NoLabels {}

/// Which program this is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct BuildLabels {
    pub(crate) version: &'static str,
}

const fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Sending => "sending",
        Direction::Receiving => "receiving",
    }
}
