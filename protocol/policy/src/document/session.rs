//! Permitted flows.

use std::collections::BTreeSet;
use std::fmt;

use sealane_types::{ForwardPort, PeerName, SessionName};

/// One permitted flow. Absent from `sessions` means refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRule {
    /// Only the TransferSession of this name; any name when absent.
    pub name: Option<SessionName>,
    pub from: PeerName,
    pub to: BTreeSet<PeerName>,
    pub kind: SessionKind,
}

/// What may flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionKind {
    /// Tensors.
    Stream {
        /// How many replicas of the `from` Peer must have closed before a receiver ends, whoever is listed. Zero leaves it to
        /// those that the control plane lists.
        senders_min: u32,
    },
    /// TCP connections to one of these ports in a pod of the `to` Peer; never empty.
    Forward { targets: BTreeSet<ForwardPort> },
}

/// A flow that somebody wants to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Tensors.
    Stream,
    /// TCP connections.
    Forward {
        /// The port that the serving side is about to reach, in its own pod. `None` on the side that listens, which
        /// asks only whether anything may be forwarded: what the other side reaches is not its to decide.
        target: Option<ForwardPort>,
    },
}

impl SessionRule {
    /// Whether the rule permits `flow` from `from` to `to` in the TransferSession `session`.
    pub(crate) fn permits(&self, session: &SessionName, from: &PeerName, to: &PeerName, flow: Flow) -> bool {
        self.from == *from
            && self.to.contains(to)
            && self.name.as_ref().is_none_or(|name| name == session)
            && self.kind.permits(flow)
    }
}

impl SessionKind {
    fn permits(&self, flow: Flow) -> bool {
        match (self, flow) {
            (Self::Stream { .. }, Flow::Stream) | (Self::Forward { .. }, Flow::Forward { target: None }) => {
                true
            }
            (Self::Forward { targets }, Flow::Forward { target: Some(port) }) => targets.contains(&port),
            (Self::Stream { .. }, Flow::Forward { .. }) | (Self::Forward { .. }, Flow::Stream) => false,
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream => f.write_str("a stream of tensors"),
            Self::Forward { target: None } => f.write_str("forwarded TCP connections"),
            Self::Forward { target: Some(port) } => write!(f, "TCP connections to port {port}"),
        }
    }
}
