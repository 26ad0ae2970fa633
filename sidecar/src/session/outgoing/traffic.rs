//! What the sending side puts on a connection.

use std::sync::Arc;

use sealane_attestation::VerifiedPeer;
use sealane_policy::VerifiedPolicy;
use sealane_protocol::connection::{Connection, Introduction, Sink};
use sealane_protocol::frame::Frame;
use sealane_types::{PeerName, Reason, SessionName};
use tokio::sync::Notify;

use super::association::Association;
use super::phase::Phase;
use crate::context::process;
use crate::session::traffic::{Established, Traffic};

/// Tensors of one session towards one replica.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) association: Arc<Association>,
    pub(super) session: SessionName,
    /// This pod's Peer when the connection was dialled.
    pub(super) own: PeerName,
    pub(super) namespace: String,
}

impl Sink for Outbound {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        self.association.on_frame(&frame)
    }
}

impl Traffic for Outbound {
    fn role(&self) -> &'static str {
        "initiator"
    }

    fn introduced(&mut self, introduction: &Introduction) -> Result<(), Reason> {
        let same = introduction.peer == *self.association.peer()
            && introduction.session == self.session
            && introduction.pod.namespace() == self.namespace;
        if same { Ok(()) } else { Err(Reason::PeerUnknown) }
    }

    fn permitted(&self, policy: &VerifiedPolicy, introduction: &Introduction) -> Result<(), Reason> {
        policy.permits(&self.session, &self.own, &introduction.peer).map_err(|error| error.reason())
    }

    fn verified(&mut self, _: &VerifiedPeer) {}

    fn established(&mut self, connection: &Established<'_>) -> Result<(), Reason> {
        let mut degraded: Vec<_> = connection.peer.degradations().iter().map(|one| one.reason()).collect();
        degraded.dedup();
        let phase = Phase::Established { suite: connection.suite, handshake: connection.handshake, degraded };
        self.association.attach(process(&connection.introduction.static_key), phase);
        Ok(())
    }

    fn fill(&mut self, connection: &mut Connection) -> Result<(), Reason> {
        self.association.fill(connection)?;
        if self.association.is_done() { Err(Reason::Finished) } else { Ok(()) }
    }

    fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.association.wake)
    }
}
