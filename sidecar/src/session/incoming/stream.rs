//! One lane of a sender as it arrives here, across its connections.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_protocol::Moment;
use sealane_protocol::frame::{
    Chunk, End, Incarnation, Open, Sequence as WireSequence, TensorHeader as WireHeader,
};
use sealane_protocol::limits::STAGING_BYTES;
use sealane_protocol::transfer::{Announced, Inbound, InboundError, Place as ChunkPlace, Reply};
use sealane_types::Reason;
use tokio::sync::Notify;

use super::arriving::{Arriving, Place};
use crate::handoff::{Sequence, TensorHeader};

/// A stream's place on one connection. A stream that was attached to another connection since answers nobody who
/// holds an older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attachment(u64);

/// A tensor that waits for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Of this arrival; a tensor that was cut off and comes again waits anew.
    pub(super) number: u64,
    pub(super) sequence: Sequence,
    pub(super) length: u64,
}

/// A tensor, all of whose bytes are in their place.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) sequence: Sequence,
    pub(super) header: TensorHeader,
    pub(super) length: u64,
    pub(super) place: Place,
}

/// What an answer to the sender consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Plain(Reply),
    Lost(Vec<WireSequence>),
}

/// How a stream stands with its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Attached to a connection, more may come.
    Open,
    /// Its connection is gone since then.
    Cut(Moment),
    /// The sender closed it; nothing more comes.
    Ended,
    /// The sender is gone for good, and the receivers were told.
    Interrupted,
}

#[derive(Debug)]
struct Inner {
    inbound: Inbound,
    arriving: BTreeMap<Sequence, Arriving>,
    /// Arrivals in the order in which they were announced, with their numbers; some are gone since.
    order: VecDeque<(u64, Sequence)>,
    /// Delivered to a client that is gone without saying whether it took them.
    lost: BTreeSet<WireSequence>,
    arrivals: u64,
    attachment: Attachment,
    standing: Standing,
    wake: Option<Arc<Notify>>,
    /// Answers that did not fit the output yet.
    owed: VecDeque<Answer>,
}

/// One lane of a sender.
#[derive(Debug)]
pub(super) struct Stream {
    /// `peer/pod`, for the application.
    pub(super) sender: String,
    inner: Mutex<Inner>,
    /// Held by whoever delivers.
    turn: Mutex<()>,
}

impl Stream {
    pub(super) fn new(sender: String, incarnation: [u8; 16]) -> Arc<Self> {
        let inner = Inner {
            inbound: Inbound::new(Incarnation(incarnation), STAGING_BYTES),
            arriving: BTreeMap::new(),
            order: VecDeque::new(),
            lost: BTreeSet::new(),
            arrivals: 0,
            attachment: Attachment(0),
            standing: Standing::Cut(Moment::default()),
            wake: None,
            owed: VecDeque::new(),
        };
        Arc::new(Self { sender, inner: Mutex::new(inner), turn: Mutex::new(()) })
    }

    /// Whether the sender closed it and everything in it was delivered.
    pub(super) fn has_ended(&self) -> bool {
        let inner = self.lock();
        inner.standing == Standing::Ended && inner.arriving.is_empty()
    }

    /// Whether nothing more comes: it ended, or its sender was given up.
    pub(super) fn is_over(&self) -> bool {
        let inner = self.lock();
        matches!(inner.standing, Standing::Ended | Standing::Interrupted) && inner.arriving.is_empty()
    }

    pub(super) fn standing(&self) -> Standing {
        self.lock().standing
    }

    /// The sender's client is gone without closing. False when it had ended or been given up before.
    pub(super) fn abort(&self, attachment: Attachment) -> Result<bool, Reason> {
        drop(self.attached(attachment)?);
        Ok(self.interrupt())
    }

    /// The sender is given up. False when it had ended or been given up before.
    pub(super) fn interrupt(&self) -> bool {
        let mut inner = self.lock();
        let open = matches!(inner.standing, Standing::Open | Standing::Cut(_));
        if open {
            inner.standing = Standing::Interrupted;
            inner.cut_off();
        }
        open
    }

    /// Continues on a connection. What was cut off comes again; its places are given back.
    pub(super) fn attach(&self, open: &Open, wake: Arc<Notify>) -> Result<Attachment, Reason> {
        let mut inner = self.lock();
        inner.inbound.attach(open).map_err(refused)?;
        inner.cut_off();
        inner.standing = Standing::Open;
        inner.wake = Some(wake);
        inner.attachment.0 += 1;
        Ok(inner.attachment)
    }

    /// The connection is gone.
    pub(super) fn detach(&self, now: Moment) {
        let mut inner = self.lock();
        inner.inbound.detach();
        inner.cut_off();
        inner.wake = None;
        if inner.standing == Standing::Open {
            inner.standing = Standing::Cut(now);
        }
    }

    /// A tensor is announced. Some: it needs a place.
    pub(super) fn announce(
        &self,
        attachment: Attachment,
        header: &WireHeader<'_>,
    ) -> Result<Option<Waiting>, Reason> {
        let mut inner = self.attached(attachment)?;
        if inner.inbound.on_tensor(header).map_err(refused)? == Announced::Repeat {
            return Ok(None);
        }
        let sequence = Sequence(header.sequence.0);
        let owned = TensorHeader {
            dtype: header.dtype,
            shape: header.shape.dimensions().to_vec(),
            name: header.name.to_owned(),
        };
        inner.arrivals += 1;
        let number = inner.arrivals;
        inner.arriving.insert(sequence, Arriving::new(number, owned, header.length));
        inner.order.push_back((number, sequence));
        Ok(Some(Waiting { number, sequence, length: header.length }))
    }

    /// Whether a place is still wanted.
    pub(super) fn wants(&self, waiting: &Waiting) -> bool {
        let inner = self.lock();
        let tensor = inner.arriving.get(&waiting.sequence);
        tensor.is_some_and(|tensor| tensor.number == waiting.number && tensor.place.is_none())
    }

    /// A place was found; the tensor may be whole with it.
    pub(super) fn place(&self, waiting: &Waiting, place: Place) {
        let mut inner = self.lock();
        let Some(tensor) = inner.arriving.get_mut(&waiting.sequence) else { return };
        if tensor.number != waiting.number {
            return;
        }
        if let Err(error) = tensor.settle(place) {
            tracing::error!(%error, "a client's memory cannot be written");
        }
        inner.inbound.reserved(WireSequence(waiting.sequence.0));
        inner.tell();
    }

    /// Bytes of an announced tensor. True: it is whole.
    pub(super) fn write(&self, attachment: Attachment, chunk: &Chunk<'_>) -> Result<bool, Reason> {
        let mut inner = self.attached(attachment)?;
        let ChunkPlace::Write { complete } = inner.inbound.on_chunk(chunk).map_err(refused)? else {
            return Ok(false);
        };
        let sequence = Sequence(chunk.sequence.0);
        let Some(tensor) = inner.arriving.get_mut(&sequence) else { return Ok(false) };
        if let Err(error) = tensor.write(chunk.offset, chunk.bytes) {
            tracing::error!(%error, "a client's memory cannot be written");
            return Err(Reason::Unspecified);
        }
        tensor.whole |= complete;
        Ok(tensor.whole)
    }

    /// Who holds this delivers, so that two that find tensors whole at once keep their order.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next tensor in the order of announcement, if it is whole and in its place. One without bytes is whole from
    /// the start and would overtake those before it.
    pub(super) fn next_whole(&self) -> Option<Arrived> {
        self.lock().take_whole()
    }

    /// The sender ended the stream.
    pub(super) fn end(&self, attachment: Attachment, end: &End) -> Result<(), Reason> {
        let mut inner = self.attached(attachment)?;
        inner.inbound.on_end(end).map_err(refused)?;
        inner.standing = Standing::Ended;
        inner.inbound.end_seen();
        inner.tell();
        Ok(())
    }

    /// The application has taken a delivered tensor.
    pub(super) fn taken(&self, sequence: Sequence) {
        let mut inner = self.lock();
        inner.inbound.taken(WireSequence(sequence.0));
        inner.inbound.end_seen();
        inner.tell();
    }

    /// The client is gone with a tensor.
    pub(super) fn lost(&self, sequence: Sequence) {
        self.lock().lost.insert(WireSequence(sequence.0));
        self.taken(sequence);
    }

    /// The state, for whoever holds the current attachment.
    fn attached(&self, attachment: Attachment) -> Result<MutexGuard<'_, Inner>, Reason> {
        let inner = self.lock();
        if inner.attachment == attachment { Ok(inner) } else { Err(Reason::LinkLost) }
    }

    /// The next thing to tell the sender; [`Stream::owe`] puts it back if it does not fit.
    pub(super) fn next_answer(&self, attachment: Attachment) -> Option<Answer> {
        let mut inner = self.attached(attachment).ok()?;
        if let Some(owed) = inner.owed.pop_front() {
            return Some(owed);
        }
        let sequences = match inner.inbound.poll_reply()? {
            Reply::Taken(sequences) if !inner.lost.is_empty() => sequences,
            other => return Some(Answer::Plain(other)),
        };
        let (lost, taken): (Vec<_>, Vec<_>) =
            sequences.into_iter().partition(|sequence| inner.lost.contains(sequence));
        if taken.is_empty() {
            return Some(Answer::Lost(lost));
        }
        if !lost.is_empty() {
            inner.owed.push_back(Answer::Lost(lost));
        }
        Some(Answer::Plain(Reply::Taken(taken)))
    }

    pub(super) fn owe(&self, answer: Answer) {
        self.lock().owed.push_front(answer);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn take_whole(&mut self) -> Option<Arrived> {
        let arriving = &self.arriving;
        let is_gone = |(number, sequence): &mut (u64, Sequence)| {
            arriving.get(sequence).is_none_or(|tensor| tensor.number != *number)
        };
        while self.order.pop_front_if(is_gone).is_some() {}
        let (_, sequence) = self.order.front()?;
        if !self.arriving.get(sequence)?.is_ready() {
            return None;
        }
        let (_, sequence) = self.order.pop_front()?;
        let Arriving { header, length, place, .. } = self.arriving.remove(&sequence)?;
        Some(Arrived { sequence, header, length, place: place? })
    }

    /// Forgets tensors that are not whole: they come again. Whole ones are known to the inbound state and do not.
    fn cut_off(&mut self) {
        self.arriving.retain(|_, tensor| tensor.whole);
        self.owed.clear();
    }

    fn tell(&self) {
        if let Some(wake) = &self.wake {
            wake.notify_one();
        }
    }
}

fn refused(error: InboundError) -> Reason {
    tracing::warn!("a sender broke the order of its stream: {error}");
    match error {
        InboundError::CreditExceeded => Reason::LimitExceeded,
        _ => Reason::FrameMalformed,
    }
}
