//! The two ends of pipes, as sidecars drive them.

use std::collections::VecDeque;

use sealane_attestation::binding::Role;
use sealane_protocol::connection::{Connection, FillError, SendError, Sink};
use sealane_protocol::frame::{Frame, PipeId};
use sealane_protocol::transfer::pipe::{PipeError, PipeReceiver, PipeSender, PipeTable};
use sealane_types::Reason;

use super::support::Pair;
use super::world::Who;

/// What one side keeps for a pipe.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    pub(crate) sender: PipeSender,
    pub(crate) receiver: PipeReceiver,
    /// Handed in by the application and not sent.
    pub(crate) outgoing: VecDeque<u8>,
    pub(crate) closing: bool,
    /// Arrived and not taken.
    pub(crate) incoming: Vec<u8>,
    /// Taken by the application.
    pub(crate) took: Vec<u8>,
    /// The application takes nothing.
    pub(crate) stalled: bool,
}

/// The pipes of one side, as a sidecar drives them. Pipes that are over stay in the table, so that tests can look
/// at them.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) table: PipeTable<Pipe>,
    /// Pipes that the other side opened, in that order.
    pub(crate) opened: Vec<PipeId>,
    /// Resets that arrived, and resets owed for pipes beyond the limit.
    pub(crate) resets: Vec<(PipeId, Reason)>,
    pub(crate) refused: Vec<PipeId>,
}

impl Pipes {
    pub(crate) fn new(role: Role) -> Self {
        Self { table: PipeTable::new(role), opened: Vec::new(), resets: Vec::new(), refused: Vec::new() }
    }

    fn on(&mut self, id: PipeId, act: impl FnOnce(&mut Pipe) -> Result<(), PipeError>) -> Result<(), Reason> {
        match self.table.find(id) {
            Ok(Some(pipe)) => act(pipe).map_err(|fault| fault.reason()),
            Ok(None) => Ok(()),
            Err(fault) => Err(fault.reason()),
        }
    }

    pub(crate) fn pipe(&mut self, id: PipeId) -> &mut Pipe {
        self.table.find(id).unwrap().unwrap()
    }

    /// Takes what arrived, and queues what credit and room permit.
    pub(crate) fn pump(&mut self, connection: &mut Connection) {
        for id in self.refused.drain(..) {
            connection.send(&Frame::PipeReset { pipe: id, reason: Reason::LimitExceeded }).unwrap();
        }
        for (id, pipe) in self.table.iter_mut() {
            if !pipe.stalled {
                pipe.receiver.taken(pipe.incoming.len() as u64);
                pipe.took.append(&mut pipe.incoming);
            }
            if let Some(bytes_through) = pipe.receiver.credit_due() {
                connection.send(&Frame::PipeCredit { pipe: id, bytes_through }).unwrap();
                pipe.receiver.credit_sent(bytes_through);
            }
        }
        for (id, pipe) in self.table.iter_mut() {
            pipe.pump(id, connection);
        }
    }
}

impl Pipe {
    pub(crate) fn pump(&mut self, id: PipeId, connection: &mut Connection) {
        loop {
            let wanted = self.sender.room().min(self.outgoing.len() as u64);
            if wanted == 0 {
                break;
            }
            let outgoing = self.outgoing.make_contiguous();
            let fill = |space: &mut [u8]| {
                space.copy_from_slice(&outgoing[..space.len()]);
                Ok::<_, ()>(space.len())
            };
            match connection.send_pipe_data(id, wanted, fill) {
                Ok(queued) => {
                    self.sender.sent(queued as u64);
                    self.outgoing.drain(..queued);
                }
                Err(FillError::Send(SendError::NoRoom)) => return,
                Err(other) => panic!("{other:?}"),
            }
        }
        if self.closing && self.outgoing.is_empty() && !self.sender.is_ended() {
            match connection.send(&Frame::PipeEnd { pipe: id, bytes: self.sender.total() }) {
                Ok(()) => self.sender.end_sent(),
                Err(SendError::NoRoom) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

impl Sink for Pipes {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        match frame {
            Frame::PipeOpen(id) => {
                match self.table.on_open(id, Pipe::default).map_err(|fault| fault.reason())? {
                    Some(_) => self.opened.push(id),
                    None => self.refused.push(id),
                }
                Ok(())
            }
            Frame::PipeData { pipe, bytes } => self.on(pipe, |pipe| {
                pipe.receiver.on_data(bytes)?;
                pipe.incoming.extend_from_slice(bytes);
                Ok(())
            }),
            Frame::PipeCredit { pipe, bytes_through } => {
                self.on(pipe, |pipe| pipe.sender.on_credit(bytes_through))
            }
            Frame::PipeEnd { pipe, bytes } => self.on(pipe, |pipe| pipe.receiver.on_end(bytes)),
            Frame::PipeReset { pipe, reason } => {
                self.on(pipe, |_| Ok(()))?;
                self.table.remove(pipe);
                self.resets.push((pipe, reason));
                Ok(())
            }
            // A session that forwards carries no stream.
            _ => Err(Reason::FrameMalformed),
        }
    }
}

/// Two connected sides that carry pipes.
pub(crate) struct Forwarding {
    pub(crate) pair: Pair,
    pub(crate) client: Pipes,
    pub(crate) server: Pipes,
}

impl Forwarding {
    pub(crate) fn new() -> Self {
        Self {
            pair: Pair::connected(),
            client: Pipes::new(Role::Initiator),
            server: Pipes::new(Role::Responder),
        }
    }

    pub(crate) fn open(&mut self) -> PipeId {
        let id = self.client.table.open(Pipe::default()).unwrap();
        self.pair.initiator.connection.send(&Frame::PipeOpen(id)).unwrap();
        id
    }

    /// What `who` has queued reaches the other side. Returns whether it was anything.
    pub(crate) fn carry(&mut self, who: Who) -> bool {
        let mut bytes = self.pair.flight(who);
        let now = self.pair.now;
        let (side, pipes) = match who {
            Who::Embedder => (&mut self.pair.responder, &mut self.server),
            Who::Ranker => (&mut self.pair.initiator, &mut self.client),
        };
        if let Err(fail) = side.connection.handle_input(now, &mut bytes, pipes) {
            side.fail = Some(fail);
        }
        !bytes.is_empty()
    }

    pub(crate) fn round(&mut self) -> bool {
        self.client.pump(&mut self.pair.initiator.connection);
        let there = self.carry(Who::Embedder);
        self.server.pump(&mut self.pair.responder.connection);
        let back = self.carry(Who::Ranker);
        assert_eq!((self.pair.initiator.fail, self.pair.responder.fail), (None, None));
        there || back
    }

    pub(crate) fn run(&mut self) {
        while self.round() {}
    }
}
