//! One lane of a sender as it arrives here, across its connections.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_protocol::Moment;
use sealane_protocol::connection::{BulkError, BulkOpened, BulkRecord};
use sealane_protocol::frame::{
    Chunk, End, Incarnation, Open, Sequence as WireSequence, TensorHeader as WireHeader,
};
use sealane_protocol::limits::{STAGING_BYTES, WINDOW_TENSORS};
use sealane_protocol::transfer::{Inbound, InboundError, Place as ChunkPlace, Reply, Stripe};
use sealane_types::Reason;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::announced::{AnnouncedMemory, SenderAnnounced};
use super::arriving::{Arriving, Place};
use super::hub::ReceiverId;
use crate::handoff::{Sequence, TensorHeader};

/// A stream's place on one connection. A stream that was attached to another connection since answers nobody who
/// holds an older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attachment(u64);

/// What a record over a further link brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brought {
    Part,
    /// The last part of a tensor, which is whole now.
    Tensor,
    /// The last part of one that is not to be delivered.
    Nothing,
}

/// Over what the bytes of a tensor come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    OwnLink,
    FurtherLink,
}

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
    /// None: no client can hold it, or its bytes could not be written there; it is lost.
    pub(super) outcome: Result<Place, Option<ReceiverId>>,
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
    /// The session was suspended since; known only so that nothing is delivered twice.
    Past,
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
    /// Held while bytes may lie here without a place.
    staging: Option<OwnedSemaphorePermit>,
    /// Whether the sender dropped the stream, or was told that it ended: nothing of it comes again.
    settled: bool,
    /// Whether a tensor is on its way to a client.
    delivering: bool,
}

/// One lane of a sender.
#[derive(Debug)]
pub(super) struct Stream {
    /// `peer/pod`, for the application.
    pub(super) sender: String,
    /// What the sender has announced, in all of its streams.
    announced: SenderAnnounced,
    inner: Mutex<Inner>,
    /// Held by whoever delivers.
    turn: Mutex<()>,
}

impl Stream {
    pub(super) fn new(sender: String, announced: SenderAnnounced, incarnation: [u8; 16]) -> Arc<Self> {
        let inner = Inner {
            inbound: Inbound::new(Incarnation(incarnation), 0),
            arriving: BTreeMap::new(),
            order: VecDeque::new(),
            lost: BTreeSet::new(),
            arrivals: 0,
            attachment: Attachment(0),
            standing: Standing::Cut(Moment::default()),
            wake: None,
            owed: VecDeque::new(),
            staging: None,
            settled: false,
            delivering: false,
        };
        Arc::new(Self { sender, announced, inner: Mutex::new(inner), turn: Mutex::new(()) })
    }

    /// Whether the sender closed it and everything in it was delivered.
    pub(super) fn has_ended(&self) -> bool {
        let inner = self.lock();
        inner.standing == Standing::Ended && inner.arriving.is_empty() && !inner.delivering
    }

    /// Whether nothing more comes: it ended, or its sender was given up.
    pub(super) fn is_over(&self) -> bool {
        let inner = self.lock();
        matches!(inner.standing, Standing::Ended | Standing::Interrupted | Standing::Past)
            && inner.arriving.is_empty()
            && !inner.delivering
    }

    /// Whether it is over for its sender as well, which will not repeat anything of it.
    pub(super) fn is_settled(&self) -> bool {
        self.is_over() && self.lock().settled
    }

    pub(super) fn standing(&self) -> Standing {
        self.lock().standing
    }

    /// The sender's client is gone without closing. False when it had ended or been given up before.
    pub(super) fn abort(&self, attachment: Attachment) -> Result<bool, Reason> {
        self.attached(attachment)?.settled = true;
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

    /// Continues on a connection. What was cut off comes again; its places are given back. `staging` is the session's
    /// share of memory for bytes without a place; without any left, the sender waits for places.
    pub(super) fn attach(
        &self,
        open: &Open,
        wake: Arc<Notify>,
        staging: &Arc<Semaphore>,
    ) -> Result<Attachment, Reason> {
        let mut inner = self.lock();
        inner.cut_off();
        if inner.staging.is_none() {
            inner.staging = Arc::clone(staging).try_acquire_owned().ok();
        }
        let lies: u64 = inner.arriving.values().map(Arriving::staged).sum();
        let bytes = if inner.staging.is_some() { STAGING_BYTES.saturating_sub(lies) } else { 0 };
        inner.inbound.set_staging(bytes);
        inner.inbound.attach(open).map_err(refused)?;
        inner.lost.retain(|sequence| *sequence >= open.base_sequence);
        inner.standing = Standing::Open;
        inner.settled = false;
        inner.wake = Some(wake);
        inner.attachment.0 += 1;
        Ok(inner.attachment)
    }

    /// The connection is gone, or another one takes over.
    pub(super) fn detach(&self, now: Moment) {
        let mut inner = self.lock();
        if inner.standing == Standing::Open {
            inner.standing = Standing::Cut(now);
        }
        inner.detach();
    }

    /// The session is suspended. Should it go on, this sender may repeat what was delivered before.
    pub(super) fn rest(&self) {
        let mut inner = self.lock();
        inner.standing = Standing::Past;
        inner.detach();
    }

    /// A tensor is announced. Some: it needs a place. `announced` is the session's memory for those.
    pub(super) fn announce(
        &self,
        attachment: Attachment,
        header: &WireHeader<'_>,
        over: Over,
        announced: &AnnouncedMemory,
    ) -> Result<Option<Waiting>, Reason> {
        let mut inner = self.attached(attachment)?;
        let owned = TensorHeader {
            dtype: header.dtype,
            shape: header.shape.dimensions().collect(),
            run: header.run,
            name: header.name.to_owned(),
        };
        // What comes again is dropped and takes no memory, or else a sender at its limit could never finish repeating. The rest
        // is admitted before it is noted: what was noted would be taken for arrived when the sender comes again.
        let room = match inner.inbound.knows(header.sequence) {
            true => None,
            false => Some(announced.admit(&self.announced, &owned).ok_or(Reason::LimitExceeded)?),
        };
        match over {
            Over::OwnLink => inner.inbound.on_tensor(header),
            Over::FurtherLink => inner.inbound.on_striped(header),
        }
        .map_err(refused)?;
        let Some(room) = room else { return Ok(None) };
        let sequence = Sequence(header.sequence.0);
        inner.arrivals += 1;
        let number = inner.arrivals;
        inner.arriving.insert(sequence, Arriving::new(number, owned, header.length, room));
        inner.order.push_back((number, sequence));
        Ok(Some(Waiting { number, sequence, length: header.length }))
    }

    /// Whether a place is still wanted.
    pub(super) fn wants(&self, waiting: &Waiting) -> bool {
        let inner = self.lock();
        let tensor = inner.arriving.get(&waiting.sequence);
        tensor.is_some_and(|tensor| tensor.number == waiting.number && tensor.wants_place())
    }

    /// A place was found, or (None) there will never be one; the tensor may be whole with it.
    pub(super) fn place(&self, waiting: &Waiting, place: Option<Place>) {
        let mut inner = self.lock();
        let Some(tensor) = inner.arriving.get_mut(&waiting.sequence) else { return };
        if tensor.number != waiting.number {
            return;
        }
        match place {
            Some(place) => tensor.settle(place),
            None => tensor.discard(),
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
        tensor.write(chunk.offset, chunk.bytes);
        tensor.whole |= complete;
        Ok(tensor.whole)
    }

    /// Opens a record of bytes of an announced tensor. True: it is whole.
    pub(super) fn open(
        &self,
        attachment: Attachment,
        record: BulkRecord<'_>,
    ) -> Result<(bool, BulkOpened), BulkError> {
        let mut inner = self.attached(attachment)?;
        let Inner { inbound, arriving, .. } = &mut *inner;
        let range = record.range();
        // Nothing is noted before it is opened: what was noted would be taken for arrived when the sender comes again.
        let place = inbound.place_of(range).map_err(refused)?;
        let tensor = arriving.get_mut(&Sequence(range.sequence.0));
        let (ChunkPlace::Write { complete }, Some(tensor)) = (place, tensor) else {
            let (_, opened) = record.open()?;
            inbound.on_bytes(range).map_err(refused)?;
            return Ok((false, opened));
        };
        let opened = tensor.open(record)?;
        inbound.on_bytes(range).map_err(refused)?;
        tensor.whole |= complete;
        Ok((tensor.whole, opened))
    }

    /// As [`Self::open`] for a record that came over the further link `by`.
    pub(super) fn open_stripe(
        &self,
        attachment: Attachment,
        by: Stripe,
        record: BulkRecord<'_>,
    ) -> Result<(Brought, BulkOpened), BulkError> {
        let range = record.range();
        let sequence = Sequence(range.sequence.0);
        let place = {
            let mut inner = self.attached(attachment)?;
            let Inner { inbound, arriving, .. } = &mut *inner;
            match inbound.stripe_place_of(by, range).map_err(refused)? {
                ChunkPlace::Write { .. } => arriving.get(&sequence).and_then(Arriving::usable_place),
                ChunkPlace::Drop => None,
            }
        };
        // Others open theirs meanwhile.
        let (opened, given) = match place {
            Some(place) => place.open(record)?,
            None => (record.open()?.1, Ok(())),
        };
        let mut inner = self.attached(attachment)?;
        let Inner { inbound, arriving, .. } = &mut *inner;
        let place = inbound.on_stripe(by, range).map_err(refused)?;
        let is_part = inbound.awaits_stripe(range.sequence);
        let brought = match arriving.get_mut(&sequence) {
            Some(tensor) if place != ChunkPlace::Drop => {
                tensor.note(given);
                tensor.whole |= !is_part;
                if is_part { Brought::Part } else { Brought::Tensor }
            }
            _ if is_part => Brought::Part,
            _ => Brought::Nothing,
        };
        Ok((brought, opened))
    }

    /// Who holds this delivers, so that two that find tensors whole at once keep their order.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next tensor in the order of announcement, if it is whole and in its place. One without bytes is whole from
    /// the start and would overtake those before it.
    /// It counts as delivered when this is asked again.
    pub(super) fn next_whole(&self) -> Option<Arrived> {
        let mut inner = self.lock();
        let next = inner.take_whole();
        inner.delivering = next.is_some();
        next
    }

    /// The sender ended the stream.
    pub(super) fn end(&self, attachment: Attachment, end: &End) -> Result<(), Reason> {
        let mut inner = self.attached(attachment)?;
        inner.inbound.on_end(end).map_err(refused)?;
        inner.standing = Standing::Ended;
        inner.release_staging();
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
        {
            let Inner { lost, inbound, .. } = &mut *self.lock();
            lost.insert(WireSequence(sequence.0));
            if lost.len() as u64 > 2 * WINDOW_TENSORS {
                // What is not known any more is not acknowledged again.
                lost.retain(|sequence| inbound.knows(*sequence));
            }
        }
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
            ended @ Reply::Ended(_) => {
                inner.settled = true;
                return Some(Answer::Plain(ended));
            }
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

    /// Puts an answer back. One for an older connection has nobody to hear it.
    pub(super) fn owe(&self, attachment: Attachment, answer: Answer) {
        if let Ok(mut inner) = self.attached(attachment) {
            inner.owed.push_front(answer);
        }
    }

    /// Whether the sender was told what became of everything that clients are done with.
    pub(super) fn is_acknowledged(&self) -> bool {
        let inner = self.lock();
        let is_credit = |answer: &Answer| matches!(answer, Answer::Plain(Reply::Credit(_)));
        inner.inbound.is_acknowledged() && inner.owed.iter().all(is_credit)
    }

    #[cfg(test)]
    pub(super) fn remembered_as_lost(&self) -> usize {
        self.lock().lost.len()
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
        let Arriving { header, length, place, broken, .. } = self.arriving.remove(&sequence)?;
        self.release_staging();
        let outcome = match place {
            // Nobody else has it any more: a tensor is whole when its last record is opened.
            Some(place) if !broken => {
                let receiver = place.receiver;
                Arc::into_inner(place).ok_or(Some(receiver))
            }
            place => Err(place.map(|place| place.receiver)),
        };
        Some(Arrived { sequence, header, length, outcome })
    }

    /// Nothing comes on this attachment any more, and nothing is told to whoever held it.
    fn detach(&mut self) {
        self.inbound.detach();
        self.cut_off();
        self.wake = None;
        self.attachment.0 += 1;
        self.release_staging();
    }

    /// Gives back the share of memory that nothing lies in and nothing will.
    fn release_staging(&mut self) {
        if self.standing != Standing::Open && self.arriving.is_empty() {
            self.staging = None;
        }
    }

    /// Forgets tensors that are not whole, and those without bytes that were announced after them: they come again, in
    /// their order. Other whole ones are known to the inbound state and do not.
    fn cut_off(&mut self) {
        let Self { arriving, inbound, .. } = self;
        let mut behind = false;
        // Sequences grow in the order of announcement.
        arriving.retain(|sequence, tensor| {
            behind |= !tensor.whole;
            if behind && tensor.whole {
                inbound.forget(WireSequence(sequence.0));
            }
            !behind
        });
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
