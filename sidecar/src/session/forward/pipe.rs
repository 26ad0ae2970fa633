//! One pipe: a local socket, and what the protocol knows of its two directions.

use std::task::Waker;

use sealane_protocol::connection::{Connection, FillError, SendError};
use sealane_protocol::frame::{Frame, PipeId};
use sealane_protocol::transfer::pipe::{PipeError, PipeReceiver, PipeSender};
use sealane_types::Reason;

use super::budget::Held;
use super::socket::{Moved, Socket};

/// Why a pipe, or with it its whole connection, cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// This pipe alone is reset.
    Pipe(Reason),
    /// The other sidecar broke a rule.
    Connection(Reason),
}

impl From<PipeError> for Trouble {
    fn from(error: PipeError) -> Self {
        Self::Connection(error.reason())
    }
}

/// What a turn of a pipe came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// So many bytes were queued; there may be more.
    Sent(u64),
    /// Nothing to send until the socket or the other side has news.
    Idle,
    /// The output is full.
    Full,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Pipe {
    /// None while the target is being reached.
    socket: Option<Socket>,
    readable: Waker,
    writable: Waker,
    sender: PipeSender,
    receiver: PipeReceiver,
    held: Held,
    /// Taking from the socket is worth an attempt.
    may_take: bool,
    /// The application has ended its direction.
    ended: bool,
    /// The application was told of the end of the other direction.
    told: bool,
}

impl Pipe {
    pub(super) fn new(socket: Option<Socket>, held: Held) -> Self {
        Self {
            socket,
            readable: Waker::noop().clone(),
            writable: Waker::noop().clone(),
            sender: PipeSender::new(),
            receiver: PipeReceiver::new(),
            held,
            may_take: true,
            ended: false,
            told: false,
        }
    }

    /// Whom the socket wakes when it can be read and written.
    pub(super) fn wake(&mut self, (readable, writable): (Waker, Waker)) {
        (self.readable, self.writable) = (readable, writable);
    }

    /// The target was reached: what arrived meanwhile goes on.
    pub(super) fn reached(&mut self, socket: Socket) -> Result<u64, Trouble> {
        self.socket = Some(socket);
        self.may_take = true;
        self.flush()
    }

    /// There may be bytes to take.
    pub(super) fn on_readable(&mut self) {
        self.may_take = true;
    }

    /// Whether a turn may send something.
    pub(super) fn has_something(&self) -> bool {
        let data = self.may_take && self.sender.room() > 0;
        self.socket.is_some() && !self.sender.is_ended() && (data || self.ended)
    }

    /// Bytes from the other side; the number that the application took at once.
    pub(super) fn on_data(&mut self, bytes: &[u8]) -> Result<u64, Trouble> {
        self.receiver.on_data(bytes)?;
        let mut rest = bytes;
        if self.held.is_empty() {
            let taken = self.put(bytes)?;
            rest = bytes.get(taken..).unwrap_or_default();
        }
        if !rest.is_empty() {
            self.held.push(rest).map_err(|_| Trouble::Pipe(Reason::LimitExceeded))?;
        }
        Ok(count(bytes.len() - rest.len()))
    }

    pub(super) fn on_credit(&mut self, bytes_through: u64) -> Result<(), Trouble> {
        Ok(self.sender.on_credit(bytes_through)?)
    }

    pub(super) fn on_end(&mut self, bytes: u64) -> Result<(), Trouble> {
        self.receiver.on_end(bytes)?;
        self.tell_end()
    }

    /// Gives the application what waits for it; the number of bytes that it took.
    pub(super) fn flush(&mut self) -> Result<u64, Trouble> {
        let mut all = 0;
        while !self.held.is_empty() {
            let front = self.held.front();
            let (length, taken) = (front.len(), self.offer(front)?);
            self.held.pop(taken);
            self.receiver.taken(count(taken));
            all += count(taken);
            if taken < length {
                break;
            }
        }
        self.tell_end()?;
        Ok(all)
    }

    /// What the other side may send by now, if it is worth a frame.
    pub(super) fn credit_due(&mut self) -> Option<u64> {
        self.receiver.credit_due()?;
        if self.held.is_empty() {
            let window = self.held.widen();
            self.receiver.widen(window);
        }
        self.receiver.credit_due()
    }

    pub(super) fn credit_sent(&mut self, bytes_through: u64) {
        self.receiver.credit_sent(bytes_through);
    }

    /// Both directions have come to their ends.
    pub(super) fn is_over(&self) -> bool {
        self.sender.is_ended() && self.told
    }

    /// Ends the socket well, once the pipe is over.
    pub(super) fn close(self) {
        if let Some(socket) = self.socket {
            socket.close();
        }
    }

    /// Queues what the socket has, straight into the record, at most as much as one has room for.
    pub(super) fn send(&mut self, id: PipeId, connection: &mut Connection) -> Result<Turn, Trouble> {
        let Some(socket) = self.socket.as_ref().filter(|_| !self.sender.is_ended()) else {
            return Ok(Turn::Idle);
        };
        if !self.ended {
            let room = self.sender.room();
            if room == 0 || !self.may_take {
                return Ok(Turn::Idle);
            }
            let take = |space: &mut [u8]| match socket.take(space) {
                Moved::Bytes(bytes) => Ok(bytes),
                other => Err(other),
            };
            match connection.send_pipe_data(id, room, take) {
                Ok(bytes) => {
                    let bytes = count(bytes);
                    self.sender.sent(bytes);
                    return Ok(Turn::Sent(bytes));
                }
                Err(FillError::Source(Moved::Ended)) => self.ended = true,
                Err(FillError::Source(Moved::Blocked)) => {
                    self.may_take = socket.is_readable(&self.readable);
                    return Ok(if self.may_take { Turn::Sent(0) } else { Turn::Idle });
                }
                Err(FillError::Source(_)) => return Err(Trouble::Pipe(Reason::LinkLost)),
                Err(FillError::Send(error)) => return full(&error),
            }
        }
        match connection.send(&Frame::PipeEnd { pipe: id, bytes: self.sender.total() }) {
            Ok(()) => {
                self.sender.end_sent();
                Ok(Turn::Idle)
            }
            Err(error) => full(&error),
        }
    }

    /// Gives `bytes` to the application as far as it takes them, and counts them.
    fn put(&mut self, bytes: &[u8]) -> Result<usize, Trouble> {
        let taken = self.offer(bytes)?;
        self.receiver.taken(count(taken));
        Ok(taken)
    }

    fn offer(&self, bytes: &[u8]) -> Result<usize, Trouble> {
        let Some(socket) = &self.socket else { return Ok(0) };
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            match socket.put(rest) {
                Moved::Bytes(bytes) => taken += bytes,
                Moved::Blocked if socket.is_writable(&self.writable) => {}
                Moved::Blocked => break,
                Moved::Ended | Moved::Broken => return Err(Trouble::Pipe(Reason::LinkLost)),
            }
        }
        Ok(taken)
    }

    /// Ends the direction towards the application once it has everything.
    fn tell_end(&mut self) -> Result<(), Trouble> {
        if let Some(socket) = self.socket.as_ref().filter(|_| self.receiver.is_over() && !self.told) {
            socket.end().map_err(|_| Trouble::Pipe(Reason::LinkLost))?;
            self.told = true;
        }
        Ok(())
    }
}

/// Anything but a full output is a fault of ours.
fn full(error: &SendError) -> Result<Turn, Trouble> {
    match error {
        SendError::NoRoom => Ok(Turn::Full),
        SendError::Misuse(misuse) => {
            tracing::error!(%misuse, "a frame of a pipe was not accepted");
            Err(Trouble::Connection(Reason::Internal))
        }
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
