//! What an accepted connection carries: it finds its session by name, and joins it once its replica is verified.

use std::sync::Arc;

use sealane_attestation::VerifiedPeer;
use sealane_policy::{Flow, VerifiedPolicy};
use sealane_protocol::connection::{
    BulkError, BulkOpened, BulkRecord, Connection, Introduction, LinkTerms, Sink,
};
use sealane_protocol::frame::Frame;
use sealane_protocol::handshake::Kind;
use sealane_protocol::record::Rekey;
use sealane_types::{PeerName, Reason, SessionName};
use tokio::sync::Notify;

use super::arrival::{Arrival, Connected};
use super::phase::degraded;
use super::stop::Stop;
use super::traffic::{Established, Traffic};
use crate::desired::{Direction, TransportChoice};
use crate::link::gate::Admission;

/// Finds the accepting side of a session by its name.
pub(crate) trait FindSession: Send + Sync {
    fn accepting(&self, name: &SessionName) -> Option<Arc<dyn Accepting>>;
}

/// The accepting side of a session, whatever it carries.
pub(crate) trait Accepting: Send + Sync {
    /// Whether `peer` is configured to dial in this session.
    fn expects(&self, peer: &PeerName) -> bool;

    /// What the policy has to permit.
    fn flow(&self) -> Flow;

    /// What it asks to be carried by.
    fn transport(&self) -> TransportChoice;

    /// When keys are to be replaced.
    fn rekey(&self) -> Rekey;

    /// A verified connection begins. `wake` makes it look for something to send.
    fn attach(self: Arc<Self>, arrival: Arrival, wake: Arc<Notify>) -> Result<Box<dyn Accepted>, Reason>;
}

/// A verified connection within its session, which it leaves when it is dropped. Frames of another kind of session are
/// refused by its [`Sink`].
pub(crate) trait Accepted: Sink + Send {
    fn established(&mut self, known: Connected);

    /// As [`Traffic::degraded`].
    fn degraded(&mut self, reasons: &[Reason]);

    /// As [`Traffic::link`].
    fn link(&mut self, _terms: Option<Arc<LinkTerms>>) {}

    /// As [`Traffic::fill`].
    fn fill(&mut self, connection: &mut Connection) -> Result<(), Reason>;
}

/// An accepted connection.
pub(crate) struct Inbound {
    sessions: Arc<dyn FindSession>,
    own: PeerName,
    namespace: String,
    /// Held until the remote is verified.
    admission: Option<Admission>,
    stop: Stop,
    wake: Arc<Notify>,
    session: Option<Arc<dyn Accepting>>,
    /// Until its first frame, or until the connection is established.
    verified: Option<VerifiedPeer>,
    accepted: Option<Box<dyn Accepted>>,
}

impl Inbound {
    pub(crate) fn new(
        sessions: Arc<dyn FindSession>,
        own: PeerName,
        namespace: String,
        admission: Admission,
        stop: Stop,
    ) -> Self {
        Self {
            sessions,
            own,
            namespace,
            admission: Some(admission),
            stop,
            wake: Arc::new(Notify::new()),
            session: None,
            verified: None,
            accepted: None,
        }
    }

    /// Joins the session, once the remote is verified.
    fn accepted(&mut self) -> Result<&mut Box<dyn Accepted>, Reason> {
        if let Some(peer) = self.verified.take() {
            let session = self.session.clone().ok_or(Reason::SessionUnknown)?;
            let (pod, degraded, stop) = (peer.pod().clone(), degraded(&peer), self.stop.clone());
            let arrival = Arrival { peer: peer.peer().clone(), pod, degraded, stop };
            self.accepted = Some(session.attach(arrival, Arc::clone(&self.wake))?);
        }
        self.accepted.as_mut().ok_or(Reason::FrameMalformed)
    }
}

impl Sink for Inbound {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        self.accepted()?.on_frame(frame)
    }

    fn on_bulk(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        self.accepted()?.on_bulk(record)
    }
}

impl Traffic for Inbound {
    fn role(&self) -> &'static str {
        "responder"
    }

    fn direction(&self) -> Direction {
        Direction::Receiving
    }

    fn introduced(&mut self, introduction: &Introduction) -> Result<(), Reason> {
        if introduction.pod.namespace() != self.namespace {
            return Err(Reason::PeerUnknown);
        }
        if introduction.kind == Kind::Audit {
            return Ok(());
        }
        let session = self.sessions.accepting(&introduction.session).ok_or(Reason::SessionUnknown)?;
        if !session.expects(&introduction.peer) {
            return Err(Reason::PeerUnknown);
        }
        self.session = Some(session);
        Ok(())
    }

    fn permitted(&self, policy: &VerifiedPolicy, introduction: &Introduction) -> Result<(), Reason> {
        if introduction.kind == Kind::Audit {
            return Ok(());
        }
        let flow = self.session.as_ref().ok_or(Reason::SessionUnknown)?.flow();
        policy
            .permits(&introduction.session, &introduction.peer, &self.own, flow)
            .map_err(|error| error.reason())
    }

    fn verified(&mut self, peer: &VerifiedPeer) {
        self.verified = Some(peer.clone());
    }

    fn established(&mut self, connection: &Established<'_>) -> Result<(), Reason> {
        let Established { carried, suite, handshake, .. } = *connection;
        let known = Connected { carried, suite, handshake };
        self.accepted()?.established(known);
        self.admission = None;
        Ok(())
    }

    fn degraded(&mut self, reasons: &[Reason]) {
        if let Some(accepted) = &mut self.accepted {
            accepted.degraded(reasons);
        }
    }

    fn link(&mut self, terms: Option<Arc<LinkTerms>>) {
        if let Some(accepted) = &mut self.accepted {
            accepted.link(terms);
        }
    }

    fn transport(&self) -> TransportChoice {
        self.session.as_ref().map_or(TransportChoice::ANY, |session| session.transport())
    }

    fn rekey(&self) -> Option<Rekey> {
        self.session.as_ref().map(|session| session.rekey())
    }

    fn fill(&mut self, connection: &mut Connection) -> Result<(), Reason> {
        self.accepted.as_mut().map_or(Ok(()), |accepted| accepted.fill(connection))
    }

    fn over(&mut self) {
        self.accepted = None;
    }

    fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }
}
