//! What the receiving side of a stream does with a connection.

use std::collections::HashMap;
use std::sync::Arc;

use sealane_policy::Flow;
use sealane_protocol::connection::{
    BulkError, BulkOpened, BulkRecord, Connection, LinkTerms, SendError, Sink,
};
use sealane_protocol::frame::{Frame, Open, Sequences, StreamId, Taken, TensorHeader};
use sealane_protocol::limits::STREAMS_MAX;
use sealane_protocol::record::Rekey;
use sealane_protocol::transfer::Reply;
use sealane_types::{PeerName, Reason};
use tokio::sync::Notify;

use super::Receiving;
use super::stream::{Answer, Attachment, Over, Stream};
use super::stripes::Stripes;
use crate::desired::TransportChoice;
use crate::session::arrival::{Arrival, Connected, SenderKey};
use crate::session::inbound::{Accepted, Accepting};
use crate::session::joins::{Joinable, Registered};
use crate::session::stop::Stop;

impl Accepting for Receiving {
    fn expects(&self, peer: &PeerName) -> bool {
        self.lock().is_for(peer)
    }

    fn flow(&self) -> Flow {
        self.lock().session.flow()
    }

    fn transport(&self) -> TransportChoice {
        self.lock().session.transport()
    }

    fn rekey(&self) -> Rekey {
        self.lock().session.rekey.into()
    }

    fn attach(self: Arc<Self>, arrival: Arrival, wake: Arc<Notify>) -> Result<Box<dyn Accepted>, Reason> {
        Ok(Box::new(Attached::new(self, arrival, wake)?))
    }
}

/// A verified connection within its session.
pub(super) struct Attached {
    session: Arc<Receiving>,
    sender: SenderKey,
    connection: u64,
    streams: HashMap<StreamId, (Arc<Stream>, Attachment)>,
    wake: Arc<Notify>,
    stop: Stop,
    /// What further links bring bytes of.
    stripes: Arc<Stripes>,
    joinable: Option<Registered>,
}

impl Attached {
    pub(super) fn new(session: Arc<Receiving>, arrival: Arrival, wake: Arc<Notify>) -> Result<Self, Reason> {
        let (sender, stop) = (arrival.sender(), arrival.stop.clone());
        let connection = session.admit(arrival)?;
        let stripes = Arc::new(Stripes::new(Arc::clone(&session)));
        Ok(Self { session, sender, connection, streams: HashMap::new(), wake, stop, stripes, joinable: None })
    }

    pub(super) fn stream(&self, id: StreamId) -> Result<&(Arc<Stream>, Attachment), Reason> {
        self.streams.get(&id).ok_or(Reason::FrameMalformed)
    }

    fn announce(&self, header: &TensorHeader<'_>, over: Over) -> Result<(), Reason> {
        let (stream, attachment) = self.stream(header.stream)?;
        if let Some(waiting) = stream.announce(*attachment, header, over, &self.session.announced)? {
            self.session.request(stream, waiting);
        }
        Ok(())
    }

    fn open(&mut self, open: &Open) -> Result<(), Reason> {
        if self.streams.contains_key(&open.stream) {
            return Err(Reason::FrameMalformed);
        }
        // A lane that is opened again under another number counts as well.
        if self.streams.len() >= STREAMS_MAX {
            return Err(Reason::LimitExceeded);
        }
        let wake = Arc::clone(&self.wake);
        let (stream, attachment) = self.session.open_stream(&self.sender, self.connection, open, wake)?;
        self.streams.insert(open.stream, (stream, attachment));
        Ok(())
    }
}

impl Sink for Attached {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        match frame {
            Frame::Chunk(chunk) => {
                let (stream, attachment) = self.stream(chunk.stream)?;
                if stream.write(*attachment, &chunk)? {
                    self.session.deliver(stream);
                }
                Ok(())
            }
            Frame::Tensor(header) => self.announce(&header, Over::OwnLink),
            Frame::Striped(header) => {
                if self.joinable.is_none() {
                    return Err(Reason::FrameMalformed);
                }
                let (stream, attachment) = self.stream(header.stream)?;
                self.stripes.open(header.stream, stream, *attachment);
                self.announce(&header, Over::FurtherLink)
            }
            Frame::Open(open) => self.open(&open),
            Frame::End(end) => {
                let (stream, attachment) = self.stream(end.stream)?;
                stream.end(*attachment, &end)?;
                self.session.ended(&self.sender, false);
                Ok(())
            }
            Frame::Abort(id) => {
                let (stream, attachment) = self.streams.remove(&id).ok_or(Reason::FrameMalformed)?;
                self.stripes.close(id);
                if stream.abort(attachment)? {
                    self.session.ended(&self.sender, true);
                }
                Ok(())
            }
            Frame::Credit(_) | Frame::Taken(_) | Frame::Lost(_) | Frame::Ended(_) | Frame::Placed { .. } => {
                Err(Reason::FrameMalformed)
            }
            // A session of streams carries no pipe.
            Frame::PipeOpen(_)
            | Frame::PipeData { .. }
            | Frame::PipeCredit { .. }
            | Frame::PipeEnd { .. }
            | Frame::PipeReset { .. } => Err(Reason::FrameMalformed),
        }
    }

    fn on_bulk(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        let (stream, attachment) = self.stream(record.range().stream)?;
        let (whole, opened) = stream.open(*attachment, record)?;
        if whole {
            self.session.deliver(stream);
        }
        Ok(opened)
    }
}

impl Accepted for Attached {
    fn established(&mut self, known: Connected) {
        self.session.established(&self.sender, self.connection, known);
    }

    fn degraded(&mut self, reasons: &[Reason]) {
        self.session.judged_again(&self.sender, self.connection, reasons);
    }

    fn fill(&mut self, connection: &mut Connection) -> Result<(), Reason> {
        let mut over = Vec::new();
        for (id, (stream, attachment)) in &self.streams {
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
            self.streams.remove(&id);
            self.stripes.close(id);
        }
        Ok(())
    }

    fn link(&mut self, terms: Option<Arc<LinkTerms>>) {
        // Links of the keys before end by and by.
        self.joinable = terms.map(|terms| {
            let (stripes, stop) = (Arc::clone(&self.stripes), self.stop.clone());
            let rekey = self.session.rekey();
            Arc::clone(&self.session.context.joins).register(Joinable::new(terms, rekey, stripes, stop))
        });
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(joinable) = self.joinable.take() {
            joinable.end();
        }
        self.session.detach(&self.sender, self.connection);
    }
}

/// Queues an answer; false when the output is full.
fn answered(connection: &mut Connection, stream: StreamId, answer: &Answer) -> Result<bool, Reason> {
    let taken = |sequences| Taken { stream, sequences: Sequences::new(sequences) };
    let sent = match answer {
        Answer::Plain(Reply::Credit(credit)) => connection.send(&Frame::Credit(*credit)),
        Answer::Plain(Reply::Taken(sequences)) => connection.send(&Frame::Taken(taken(sequences))),
        Answer::Plain(Reply::Ended(stream)) => connection.send(&Frame::Ended(*stream)),
        Answer::Plain(Reply::Placed(stream, sequence)) => {
            connection.send(&Frame::Placed { stream: *stream, sequence: *sequence })
        }
        Answer::Lost(sequences) => connection.send(&Frame::Lost(taken(sequences))),
    };
    match sent {
        Ok(()) => Ok(true),
        Err(SendError::NoRoom) => Ok(false),
        Err(SendError::Misuse(misuse)) => {
            tracing::error!(%misuse, "an answer was not accepted");
            Err(Reason::Internal)
        }
    }
}
