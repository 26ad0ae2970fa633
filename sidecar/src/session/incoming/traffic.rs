//! What the receiving side does with a connection.

use std::collections::HashMap;
use std::sync::Arc;

use sealane_attestation::VerifiedPeer;
use sealane_policy::VerifiedPolicy;
use sealane_protocol::connection::{Connection, Introduction, SendError, Sink};
use sealane_protocol::frame::{Frame, Open, Sequences, StreamId, Taken};
use sealane_protocol::handshake::Kind;
use sealane_protocol::limits::STREAMS_MAX;
use sealane_protocol::transfer::Reply;
use sealane_types::{PeerName, PodIdentity, Reason, SessionName};
use tokio::sync::{Notify, watch};

use super::sender::Connected;
use super::stream::{Answer, Attachment, Stream};
use super::{Arrival, Receiving};
use crate::link::gate::Admission;
use crate::session::traffic::{Established, Traffic};

/// Finds the receiving side of a session by its name.
pub(crate) trait FindSession: Send + Sync {
    fn receiving(&self, name: &SessionName) -> Option<Arc<Receiving>>;
}

/// Tensors that one sender replica brings.
pub(crate) struct Inbound {
    sessions: Arc<dyn FindSession>,
    own: PeerName,
    namespace: String,
    /// Held until the sender is verified.
    admission: Option<Admission>,
    stop: watch::Sender<Option<Reason>>,
    wake: Arc<Notify>,
    session: Option<Arc<Receiving>>,
    /// Until its first frame, or until the connection is established.
    verified: Option<VerifiedPeer>,
    attached: Option<Attached>,
}

/// A verified connection within its session.
pub(super) struct Attached {
    session: Arc<Receiving>,
    pod: PodIdentity,
    connection: u64,
    streams: HashMap<StreamId, (Arc<Stream>, Attachment)>,
}

impl Inbound {
    pub(crate) fn new(
        sessions: Arc<dyn FindSession>,
        own: PeerName,
        namespace: String,
        admission: Admission,
        stop: watch::Sender<Option<Reason>>,
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
            attached: None,
        }
    }

    /// Joins the session, once the sender is verified.
    fn attach(&mut self) -> Result<&mut Attached, Reason> {
        if let Some(peer) = self.verified.take() {
            let session = self.session.clone().ok_or(Reason::SessionUnknown)?;
            let mut degraded: Vec<_> = peer.degradations().iter().map(|one| one.reason()).collect();
            degraded.dedup();
            let (pod, stop) = (peer.pod().clone(), self.stop.clone());
            let arrival = Arrival { peer: peer.peer().clone(), pod, degraded, stop };
            self.attached = Some(Attached::new(session, arrival)?);
        }
        self.attached.as_mut().ok_or(Reason::FrameMalformed)
    }
}

impl Sink for Inbound {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        let wake = Arc::clone(&self.wake);
        self.attach()?.on_frame(frame, wake)
    }
}

impl Attached {
    pub(super) fn new(session: Arc<Receiving>, arrival: Arrival) -> Result<Self, Reason> {
        let pod = arrival.pod.clone();
        let connection = session.attach(arrival)?;
        Ok(Self { session, pod, connection, streams: HashMap::new() })
    }

    pub(super) fn on_frame(&mut self, frame: Frame<'_>, wake: Arc<Notify>) -> Result<(), Reason> {
        match frame {
            Frame::Chunk(chunk) => {
                let (stream, attachment) = self.stream(chunk.stream)?;
                if stream.write(*attachment, &chunk)? {
                    self.session.deliver(stream);
                }
                Ok(())
            }
            Frame::Tensor(header) => {
                let (stream, attachment) = self.stream(header.stream)?;
                if let Some(waiting) = stream.announce(*attachment, &header)? {
                    self.session.request(stream, waiting);
                }
                Ok(())
            }
            Frame::Open(open) => self.open(&open, wake),
            Frame::End(end) => {
                let (stream, attachment) = self.stream(end.stream)?;
                stream.end(*attachment, &end)?;
                self.session.ended(&self.pod, false);
                Ok(())
            }
            Frame::Abort(id) => {
                let (stream, attachment) = self.streams.remove(&id).ok_or(Reason::FrameMalformed)?;
                if stream.abort(attachment)? {
                    self.session.ended(&self.pod, true);
                }
                Ok(())
            }
            Frame::Credit(_) | Frame::Taken(_) | Frame::Lost(_) | Frame::Ended(_) => {
                Err(Reason::FrameMalformed)
            }
        }
    }

    pub(super) fn stream(&self, id: StreamId) -> Result<&(Arc<Stream>, Attachment), Reason> {
        self.streams.get(&id).ok_or(Reason::FrameMalformed)
    }

    fn open(&mut self, open: &Open, wake: Arc<Notify>) -> Result<(), Reason> {
        if self.streams.contains_key(&open.stream) {
            return Err(Reason::FrameMalformed);
        }
        // A lane that is opened again under another number counts as well.
        if self.streams.len() >= STREAMS_MAX {
            return Err(Reason::LimitExceeded);
        }
        let (stream, attachment) = self.session.open_stream(&self.pod, self.connection, open, wake)?;
        self.streams.insert(open.stream, (stream, attachment));
        Ok(())
    }
}

impl Traffic for Inbound {
    fn role(&self) -> &'static str {
        "responder"
    }

    fn introduced(&mut self, introduction: &Introduction) -> Result<(), Reason> {
        if introduction.pod.namespace() != self.namespace {
            return Err(Reason::PeerUnknown);
        }
        if introduction.kind == Kind::Audit {
            return Ok(());
        }
        let session = self.sessions.receiving(&introduction.session).ok_or(Reason::SessionUnknown)?;
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
        policy.permits(&introduction.session, &introduction.peer, &self.own).map_err(|error| error.reason())
    }

    fn verified(&mut self, peer: &VerifiedPeer) {
        self.verified = Some(peer.clone());
    }

    fn established(&mut self, connection: &Established<'_>) -> Result<(), Reason> {
        let attached = self.attach()?;
        let known = Connected { suite: connection.suite, handshake: connection.handshake };
        attached.session.established(&attached.pod, attached.connection, known);
        self.admission = None;
        Ok(())
    }

    fn fill(&mut self, connection: &mut Connection) -> Result<(), Reason> {
        let Some(attached) = &mut self.attached else { return Ok(()) };
        let mut over = Vec::new();
        for (id, (stream, attachment)) in &attached.streams {
            while let Some(answer) = stream.next_answer(*attachment) {
                if !answered(connection, *id, &answer)? {
                    stream.owe(*attachment, answer);
                    return Ok(());
                }
                if matches!(answer, Answer::Plain(Reply::Ended(_))) {
                    over.push(*id);
                }
            }
        }
        for id in over {
            attached.streams.remove(&id);
        }
        Ok(())
    }

    fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.session.detach(&self.pod, self.connection);
    }
}

/// Queues an answer; false when the output is full.
fn answered(connection: &mut Connection, stream: StreamId, answer: &Answer) -> Result<bool, Reason> {
    let taken = |sequences| Taken { stream, sequences: Sequences::new(sequences) };
    let sent = match answer {
        Answer::Plain(Reply::Credit(credit)) => connection.send(&Frame::Credit(*credit)),
        Answer::Plain(Reply::Taken(sequences)) => connection.send(&Frame::Taken(taken(sequences))),
        Answer::Plain(Reply::Ended(stream)) => connection.send(&Frame::Ended(*stream)),
        Answer::Lost(sequences) => connection.send(&Frame::Lost(taken(sequences))),
    };
    match sent {
        Ok(()) => Ok(true),
        Err(SendError::NoRoom) => Ok(false),
        Err(SendError::Misuse(misuse)) => {
            tracing::error!(%misuse, "an answer was not accepted");
            Err(Reason::Unspecified)
        }
    }
}
