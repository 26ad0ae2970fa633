//! What is known of an accepted connection whose replica is verified.

use std::time::Duration;

use sealane_protocol::handshake::Suite;
use sealane_types::{PeerName, PodIdentity, Reason};

use super::carried::Carried;
use super::stop::Stop;

/// A verified connection of a replica that dialled.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) peer: PeerName,
    pub(crate) pod: PodIdentity,
    pub(crate) degraded: Vec<Reason>,
    /// Closes the connection.
    pub(crate) stop: Stop,
}

impl Arrival {
    pub(crate) fn sender(&self) -> SenderKey {
        SenderKey { peer: self.peer.clone(), pod: self.pod.clone() }
    }
}

/// Names a sender. What pod it is a replica says itself, what Peer it is of it proves: a replica of another Peer that
/// claims the same pod is somebody else, and takes nothing over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SenderKey {
    pub(crate) peer: PeerName,
    pub(crate) pod: PodIdentity,
}

/// What is known of it once it is established.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connected {
    pub(crate) carried: Carried,
    pub(crate) suite: Suite,
    pub(crate) handshake: Duration,
}
