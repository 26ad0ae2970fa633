//! Our own protocol, driven over a carrier as a sidecar drives it: what it asks is answered, batches leave when they are
//! full or there is nothing more to add, records are opened where they were read, and tensors go straight to the
//! application's memory.

mod buffers;
mod clock;
mod datagrams;
mod direct;
mod line;
mod mover;
mod party;
mod replay;
mod resumed;
mod tensors;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use sealane_protocol::connection::{Connection, Event, SendError, Sink};
use sealane_protocol::frame::{Frame, Sequence, StreamId, TensorHeader};
use sealane_protocol::handshake::Suite;
use sealane_types::Reason;

use crate::carrier::{Carrier, Path};
use crate::message::Inbox;
use crate::wire::{Open, Side, Wire};
use crate::world::{Who, World};
use clock::Clock;
use mover::{Mover, Stream};
use party::Party;
use tensors::Tensors;

pub(crate) use buffers::OverBuffers;
pub(crate) use datagrams::{OverUdp, OverXdp};
pub(crate) use direct::{Carry, Direct, Memory, drain};
pub(crate) use resumed::Resumed;

const STREAM: StreamId = StreamId(1);

/// Both parties of connections with one suite.
#[derive(Debug, Clone)]
pub(crate) struct Ours {
    sender: Arc<Party>,
    receiver: Arc<Party>,
    suite: Suite,
    /// How long the dialling side's platform takes.
    quote_takes: Duration,
    clock: Clock,
}

/// One end of an established connection.
#[derive(Debug)]
pub(crate) struct Sealed<M = Stream> {
    mover: M,
    connection: Connection,
    clock: Clock,
    sent: u64,
    tensors: Tensors,
}

impl Ours {
    /// Parties that quote and appraise in every handshake.
    pub(crate) fn new(world: &Arc<World>, suite: Suite) -> Result<Self> {
        let party = |who| Party::new(who, world, suite).map(Arc::new);
        Ok(Self {
            sender: party(Who::Sender)?,
            receiver: party(Who::Receiver)?,
            suite,
            quote_takes: Duration::ZERO,
            clock: Clock::start(),
        })
    }

    /// The same parties, whose sender is another replica of its Peer with a key of its own.
    pub(crate) fn replica(self, number: u32) -> Result<Self> {
        let sender = Arc::new(self.sender.replica(number, self.suite)?);
        Ok(Self { sender, ..self })
    }

    /// The same parties, whose sender's platform takes `takes` for a quote.
    pub(crate) fn quoting_for(self, takes: Duration) -> Self {
        Self { quote_takes: takes, ..self }
    }

    /// The same parties with a null appraiser: evidence has the size of the mock peer's document, nobody looks at it,
    /// and the verdicts of one real handshake stand for all that follow.
    pub(crate) async fn with_null_appraiser(self) -> Result<Self> {
        let (dialled, accepted) = self.connect().await?;
        let verdict = |sealed: &Sealed| sealed.connection.peer().cloned();
        let (of_receiver, of_sender) = (verdict(&dialled), verdict(&accepted));
        let Self { sender, receiver, suite, quote_takes, clock } = self;
        Ok(Self {
            sender: Arc::new(sender.trusting(of_receiver)?),
            receiver: Arc::new(receiver.trusting(of_sender)?),
            suite,
            quote_takes,
            clock,
        })
    }

    fn party(&self, side: Side) -> &Arc<Party> {
        match side {
            Side::Dialler => &self.sender,
            Side::Accepter => &self.receiver,
        }
    }

    fn begin(&self, side: Side) -> Result<Connection> {
        self.party(side).begin(side, self.clock.now())
    }

    /// Brings a connection that has begun to its verdicts.
    async fn establish<M: Mover>(&self, mover: M, side: Side, connection: Connection) -> Result<Sealed<M>> {
        let (clock, tensors) = (self.clock, Tensors::default());
        let mut sealed = Sealed { mover, connection, clock, sent: 0, tensors };
        sealed.establish(self.party(side), self.quote_takes).await?;
        let agreed = sealed.connection.suite();
        ensure!(agreed == Some(self.suite), "the handshake agreed on {agreed:?}");
        Ok(sealed)
    }

    /// A whole handshake in memory, both ends in this task.
    pub(crate) async fn connect(&self) -> Result<(Sealed, Sealed)> {
        let (one, other) = Path::Memory.connect()?;
        let dialling = self.open(one.open()?, Side::Dialler);
        let accepting = self.open(other.open()?, Side::Accepter);
        tokio::try_join!(dialling, accepting)
    }
}

impl Open for Ours {
    type Wire = Sealed;

    async fn open(&self, carrier: Carrier, side: Side) -> Result<Sealed> {
        let connection = self.begin(side)?;
        self.establish(Stream::new(carrier), side, connection).await
    }
}

impl<M: Mover> Wire for Sealed<M> {
    async fn put(&mut self, message: &Bytes) -> Result<()> {
        self.send(message).await
    }

    async fn flush(&mut self) -> Result<()> {
        self.drain(true).await
    }

    async fn take(&mut self, inbox: &mut Inbox, count: u64) -> Result<()> {
        while inbox.count() < count {
            let mut sink = self.tensors.filling(inbox);
            self.mover.take(&mut self.connection, self.clock, &mut sink).await?;
        }
        self.mover.rest(&mut self.connection, self.clock).await
    }

    async fn echo(&mut self, inbox: &mut Inbox) -> Result<()> {
        self.take(inbox, inbox.count() + 1).await?;
        self.send(inbox.last()).await?;
        self.drain(true).await
    }
}

impl<M: Mover> Sealed<M> {
    /// Shakes hands: bytes and answers until both sides have their verdict.
    async fn establish(&mut self, party: &Party, quote_takes: Duration) -> Result<()> {
        loop {
            while let Some(event) = self.connection.poll_event() {
                if matches!(event, Event::EvidenceWanted(_)) && !quote_takes.is_zero() {
                    tokio::time::sleep(quote_takes).await;
                }
                party.answer(event, &mut self.connection, self.clock.now())?;
            }
            self.drain(false).await?;
            if self.connection.is_established() {
                self.mover.widen();
                return Ok(());
            }
            self.hear(&mut Nothing).await?;
        }
    }

    /// Waits for the other end, and hands on what it said.
    async fn hear(&mut self, sink: &mut (dyn Sink + Send)) -> Result<()> {
        self.mover.take(&mut self.connection, self.clock, sink).await
    }

    /// Queues a tensor of bytes; drains whenever there is no room.
    async fn send(&mut self, message: &[u8]) -> Result<()> {
        let length = message.len() as u64;
        let sequence = Sequence(self.sent);
        self.sent += 1;
        let header = TensorHeader::of_bytes(STREAM, sequence, &length);
        while let Err(error) = self.connection.send(&Frame::Tensor(header)) {
            match error {
                SendError::NoRoom => self.drain(false).await?,
                misuse => return Err(misuse.into()),
            }
        }
        let mut rest = message;
        while !rest.is_empty() {
            if !self.connection.has_room() {
                self.drain(false).await?;
            }
            match self.connection.send_bytes(STREAM, sequence, length - rest.len() as u64, rest) {
                Ok(queued) => rest = &rest[queued..],
                Err(SendError::NoRoom) => self.drain(false).await?,
                Err(misuse) => return Err(misuse.into()),
            }
        }
        Ok(())
    }

    async fn drain(&mut self, everything: bool) -> Result<()> {
        self.mover.put(&mut self.connection, self.clock, everything).await
    }
}

/// Nothing of a stream comes before a connection is established.
pub(crate) struct Nothing;

impl Sink for Nothing {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        Err(Reason::Unspecified)
    }
}
