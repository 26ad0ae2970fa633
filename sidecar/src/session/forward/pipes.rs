//! The pipes of one connection: frames in, turns out.

use std::collections::VecDeque;
use std::sync::Arc;

use sealane_attestation::binding::Role;
use sealane_protocol::connection::{Connection, SendError};
use sealane_protocol::frame::{Frame, PipeId};
use sealane_protocol::limits::PIPES_MAX;
use sealane_protocol::transfer::pipe::{PipeError, PipeTable};
use sealane_types::Reason;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::task::AbortOnDropHandle;

use super::address::Address;
use super::budget::{Held, Share};
use super::pipe::{Pipe, Trouble, Turn};
use super::premises::Premises;
use super::ready::{News, Ready};
use super::socket::Socket;
use super::tally::{Counted, Tally};

/// Resets that wait for room: a remote that makes more of them without taking any is cut off.
const RESETS_WAITING_MAX: usize = 2 * PIPES_MAX;
/// Pipes that wait, those that are over included: a remote that takes nothing may open and reset any number meanwhile.
const QUEUE_MAX: usize = 2 * PIPES_MAX;

/// A pipe and what ends with it.
#[derive(Debug)]
struct Open {
    pipe: Pipe,
    /// Among those of this process.
    permit: Option<OwnedSemaphorePermit>,
    /// Among those of its replica, on the listening side.
    _place: Option<Place>,
    /// Its local socket is there.
    counted: Option<Counted>,
    reaching: Option<AbortOnDropHandle<()>>,
    /// It waits for its turn.
    queued: bool,
    /// Its application took something since credit was given.
    noted: bool,
}

impl Open {
    const fn new(pipe: Pipe) -> Self {
        Self { pipe, permit: None, _place: None, counted: None, reaching: None, queued: false, noted: false }
    }
}

/// Something that is held as long as a pipe is.
pub(super) type Place = Box<dyn std::fmt::Debug + Send>;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Pipes {
    table: PipeTable<Open>,
    ready: Arc<Ready>,
    premises: Arc<Premises>,
    share: Arc<Share>,
    tally: Arc<Tally>,
    /// Those that the other side has to hear of, in the order of their numbers.
    begun: VecDeque<PipeId>,
    /// Those that may have something to send, in the order of their turns.
    turns: VecDeque<PipeId>,
    /// Those whose applications took something.
    taken: VecDeque<PipeId>,
    resets: VecDeque<(PipeId, Reason)>,
}

impl Pipes {
    pub(super) fn new(role: Role, premises: Arc<Premises>, tally: Arc<Tally>, wake: Arc<Notify>) -> Self {
        Self {
            table: PipeTable::new(role),
            ready: Ready::new(wake),
            share: Share::new(Arc::clone(&premises.budget)),
            premises,
            tally,
            begun: VecDeque::new(),
            turns: VecDeque::new(),
            taken: VecDeque::new(),
            resets: VecDeque::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Begins a pipe for an accepted connection, which the other side hears of when the output has room. False: this
    /// connection has no numbers left, and the accepted one is reset.
    pub(super) fn begin(
        &mut self,
        socket: Socket,
        permit: OwnedSemaphorePermit,
        place: Place,
    ) -> Result<bool, Reason> {
        let held = Held::new(Arc::clone(&self.share));
        let open = Open {
            permit: Some(permit),
            _place: Some(place),
            counted: Some(self.tally.open()),
            ..Open::new(Pipe::new(Some(socket), held))
        };
        let Ok(id) = self.table.open(open) else { return Ok(false) };
        if let Some(open) = find(&mut self.table, id)? {
            open.pipe.wake(self.ready.wakers(id));
        }
        self.begun.push_back(id);
        Ok(true)
    }

    /// The other side opened a pipe to `target`, or may not.
    pub(super) fn on_open(&mut self, id: PipeId, target: Result<Address, Reason>) -> Result<(), Reason> {
        let held = Held::new(Arc::clone(&self.share));
        let opened = self.table.on_open(id, || Open::new(Pipe::new(None, held)));
        let Some(open) = opened.map_err(PipeError::reason)? else {
            return self.refuse(id, Reason::LimitExceeded);
        };
        let permit = Arc::clone(&self.premises.pipes).try_acquire_owned().ok();
        let target =
            target.and_then(|target| if permit.is_some() { Ok(target) } else { Err(Reason::LimitExceeded) });
        let target = match target {
            Ok(target) => target,
            Err(reason) => return self.refuse(id, reason),
        };
        let ready = Arc::clone(&self.ready);
        open.pipe.wake(ready.wakers(id));
        open.permit = permit;
        let reach = async move {
            let socket = target.reach().await;
            ready.reached(
                id,
                socket.map_err(|error| format!("no server answers at {target} in this pod: {error}")),
            );
        };
        open.reaching = Some(AbortOnDropHandle::new(tokio::spawn(reach)));
        Ok(())
    }

    /// Any other frame of a pipe.
    pub(super) fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        let (id, outcome) = match frame {
            Frame::PipeData { pipe: id, bytes } => {
                let Some(open) = find(&mut self.table, id)? else { return Ok(()) };
                let taken = open.pipe.on_data(bytes);
                self.tally.received(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
                (id, self.note(id, taken))
            }
            Frame::PipeCredit { pipe: id, bytes_through } => {
                let Some(open) = find(&mut self.table, id)? else { return Ok(()) };
                let granted = open.pipe.on_credit(bytes_through);
                self.queue(id);
                (id, granted)
            }
            Frame::PipeEnd { pipe: id, bytes } => {
                let Some(open) = find(&mut self.table, id)? else { return Ok(()) };
                (id, open.pipe.on_end(bytes))
            }
            Frame::PipeReset { pipe: id, reason } => {
                if find(&mut self.table, id)?.is_some() {
                    self.drop_pipe(id, reason);
                }
                return Ok(());
            }
            // A session of forwarded connections carries no stream, and only the listening side opens pipes.
            _ => return Err(Reason::FrameMalformed),
        };
        self.settle(id, outcome)
    }

    /// Moves what can be moved.
    pub(super) fn fill(&mut self, connection: &mut Connection) -> Result<(), Reason> {
        self.collect()?;
        self.send_opens(connection)?;
        self.send_resets(connection)?;
        self.send_credits(connection)?;
        while let Some(id) = self.turns.pop_front() {
            let Some(open) = find(&mut self.table, id)? else { continue };
            match open.pipe.send(id, connection) {
                Ok(Turn::Full) => {
                    self.turns.push_front(id);
                    return Ok(());
                }
                Ok(Turn::Sent(bytes)) => {
                    open.queued = false;
                    self.tally.sent(bytes);
                    self.queue(id);
                }
                Ok(Turn::Idle) => {
                    open.queued = false;
                    self.settle(id, Ok(()))?;
                }
                Err(trouble) => self.settle(id, Err(trouble))?,
            }
        }
        self.send_resets(connection)
    }

    /// What happened to sockets since the last look.
    fn collect(&mut self) -> Result<(), Reason> {
        let News { readable, writable, reached } = self.ready.news();
        for (id, socket) in reached {
            let Some(open) = find(&mut self.table, id)? else { continue };
            open.reaching = None;
            match socket {
                Ok(socket) => {
                    open.counted = Some(self.tally.open());
                    self.tally.tell_problem(None);
                    let taken = open.pipe.reached(socket);
                    self.queue(id);
                    let outcome = self.note(id, taken);
                    self.settle(id, outcome)?;
                }
                Err(error) => {
                    let reason = Reason::TargetUnreachable;
                    self.tally.tell_problem(Some((reason, error)));
                    self.refuse(id, reason)?;
                }
            }
        }
        for id in writable {
            let Some(open) = find(&mut self.table, id)? else { continue };
            let taken = open.pipe.flush();
            let outcome = self.note(id, taken);
            self.settle(id, outcome)?;
        }
        for id in readable {
            let Some(open) = find(&mut self.table, id)? else { continue };
            open.pipe.on_readable();
            self.queue(id);
        }
        Ok(())
    }

    /// A pipe has its first turn once the other side can know of it.
    fn send_opens(&mut self, connection: &mut Connection) -> Result<(), Reason> {
        while let Some(id) = self.begun.front().copied() {
            if !queued(connection, &Frame::PipeOpen(id))? {
                return Ok(());
            }
            self.begun.pop_front();
            self.queue(id);
        }
        Ok(())
    }

    fn send_resets(&mut self, connection: &mut Connection) -> Result<(), Reason> {
        while let Some((pipe, reason)) = self.resets.front().copied() {
            if !queued(connection, &Frame::PipeReset { pipe, reason })? {
                return Ok(());
            }
            self.resets.pop_front();
        }
        Ok(())
    }

    fn send_credits(&mut self, connection: &mut Connection) -> Result<(), Reason> {
        while let Some(id) = self.taken.front().copied() {
            if let Some(open) = find(&mut self.table, id)? {
                if let Some(bytes_through) = open.pipe.credit_due() {
                    if !queued(connection, &Frame::PipeCredit { pipe: id, bytes_through })? {
                        return Ok(());
                    }
                    open.pipe.credit_sent(bytes_through);
                }
                open.noted = false;
            }
            self.taken.pop_front();
        }
        Ok(())
    }

    /// Notes that an application took something, so that its pipe may be owed credit.
    fn note(&mut self, id: PipeId, taken: Result<u64, Trouble>) -> Result<(), Trouble> {
        if taken? > 0
            && let Ok(Some(open)) = self.table.find(id)
            && !std::mem::replace(&mut open.noted, true)
        {
            enqueue(&mut self.taken, &mut self.table, id);
        }
        Ok(())
    }

    /// Gives a pipe its turn if there is something to send.
    fn queue(&mut self, id: PipeId) {
        if let Ok(Some(open)) = self.table.find(id)
            && !open.queued
            && open.pipe.has_something()
        {
            open.queued = true;
            enqueue(&mut self.turns, &mut self.table, id);
        }
    }

    /// Ends a pipe that is over, well or not.
    fn settle(&mut self, id: PipeId, outcome: Result<(), Trouble>) -> Result<(), Reason> {
        match outcome {
            Ok(()) => {
                if find(&mut self.table, id)?.is_some_and(|open| open.pipe.is_over())
                    && let Some(open) = self.table.remove(id)
                {
                    open.pipe.close();
                }
                Ok(())
            }
            Err(Trouble::Pipe(reason)) => {
                if reason == Reason::LimitExceeded {
                    tracing::debug!(
                        "too much waits for applications of this pod to take it; a connection is cut"
                    );
                }
                self.drop_pipe(id, reason);
                self.owe_reset(id, reason)
            }
            Err(Trouble::Connection(reason)) => Err(reason),
        }
    }

    /// Resets the local socket.
    fn drop_pipe(&mut self, id: PipeId, reason: Reason) {
        if let Some(open) = self.table.remove(id) {
            tracing::debug!(%reason, "a forwarded connection is reset");
            if open.counted.is_some() { self.tally.reset(reason) } else { self.tally.refused(reason) }
        }
    }

    /// A pipe that the other side opened does not come about.
    fn refuse(&mut self, id: PipeId, reason: Reason) -> Result<(), Reason> {
        // The remote decides how often this happens: what a person should know is in the counter and in the status.
        tracing::debug!(%reason, "a forwarded connection is refused");
        self.table.remove(id);
        self.tally.refused(reason);
        self.owe_reset(id, reason)
    }

    fn owe_reset(&mut self, id: PipeId, reason: Reason) -> Result<(), Reason> {
        if self.resets.len() >= RESETS_WAITING_MAX {
            return Err(Reason::LimitExceeded);
        }
        self.resets.push_back((id, reason));
        Ok(())
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        for (_, open) in self.table.take_all() {
            if open.counted.is_some() {
                self.tally.reset(Reason::LinkLost);
            }
        }
    }
}

/// The pipe that a frame is about; None when it is over here.
fn find(table: &mut PipeTable<Open>, id: PipeId) -> Result<Option<&mut Open>, Reason> {
    table.find(id).map_err(PipeError::reason)
}

/// Puts a pipe into a queue, from which those that are over vanish before it grows.
fn enqueue(queue: &mut VecDeque<PipeId>, table: &mut PipeTable<Open>, id: PipeId) {
    if queue.len() >= QUEUE_MAX {
        queue.retain(|waiting| matches!(table.find(*waiting), Ok(Some(_))));
    }
    queue.push_back(id);
}

/// Queues a frame; false when the output is full.
fn queued(connection: &mut Connection, frame: &Frame<'_>) -> Result<bool, Reason> {
    match connection.send(frame) {
        Ok(()) => Ok(true),
        Err(SendError::NoRoom) => Ok(false),
        Err(SendError::Misuse(misuse)) => {
            tracing::error!(%misuse, "a frame of a pipe was not accepted");
            Err(Reason::Internal)
        }
    }
}

#[cfg(test)]
mod tests;
