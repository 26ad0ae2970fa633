//! One UDP socket that many connections share: the side that is dialled hears all of them on its one port.
//!
//! What arrives is given to the connection that it names, in the buffers that the kernel filled. A connection that does
//! not empty its own inbox loses datagrams, as anywhere on the way, and holds up nobody else.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use sealane_protocol::Moment;
use sealane_protocol::datagram::{Beginning, ConnectionId, Greeter, Greeting, Route, route};
use tokio::sync::{Notify, mpsc};

use super::udp::{JOINED_BYTES_MAX, Moved, Socket};

/// Batches of datagrams that wait for one connection, and bytes of memory that they take.
const INBOX_BATCHES: usize = 2_048;
const INBOX_BYTES_MAX: usize = 2 << 20;
/// A buffer that is filled to less than this share is given back at once, and what is in it moves.
const FILLED_SHARE: usize = 4;
/// Buffers that are kept for the next datagrams.
const SPARE_MAX: usize = 64;
/// The longest answer to a stranger.
const ANSWER_BYTES: usize = 64;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Endpoint {
    socket: Arc<Socket>,
    greeter: Greeter,
    spare: Arc<Spare>,
    table: Arc<Table>,
}

/// Datagrams of one source.
#[derive(Debug)]
pub(crate) struct Batch {
    from: SocketAddr,
    buffer: Vec<u8>,
    length: usize,
    stride: usize,
    spare: Arc<Spare>,
    /// What waits for its connection, as long as it is counted there.
    waiting: Option<Arc<AtomicUsize>>,
}

/// What a connection of this endpoint sends and receives with. Dropping it makes the endpoint forget the connection.
pub(crate) struct Subscription {
    pub(crate) socket: Arc<Socket>,
    inbox: mpsc::Receiver<Batch>,
    /// Taken out of the inbox by whoever waited for it.
    next: Option<Batch>,
    /// Many wait for room of the one socket, so each has a place of its own in the line.
    room: Option<Room>,
    table: Arc<Table>,
    id: ConnectionId,
    opening: (SocketAddr, ConnectionId),
}

type Room = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

#[derive(Debug, Default)]
struct Table {
    connections: Mutex<Connections>,
    /// Told when a connection is forgotten.
    forgotten: Notify,
}

#[derive(Debug, Default)]
struct Connections {
    inboxes: HashMap<ConnectionId, Inbox>,
    /// How remotes call handshakes before they know how this side calls them.
    openings: HashMap<(SocketAddr, ConnectionId), ConnectionId>,
}

#[derive(Debug, Clone)]
struct Inbox {
    batches: mpsc::Sender<Batch>,
    bytes: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Spare(Mutex<Vec<Vec<u8>>>);

impl Endpoint {
    pub(crate) fn new(socket: Socket, greeter: Greeter) -> Self {
        Self { socket: Arc::new(socket), greeter, spare: Arc::default(), table: Arc::default() }
    }

    /// Waits until something may have arrived.
    pub(crate) async fn ready(&self) -> io::Result<()> {
        self.socket.ready(false).await.map(drop)
    }

    /// Resolves when no connection is left.
    pub(crate) async fn deserted(&self) {
        loop {
            let forgotten = self.table.forgotten.notified();
            if self.table.lock().inboxes.is_empty() {
                return;
            }
            forgotten.await;
        }
    }

    /// Gives what has arrived to the connections that it is for, and answers strangers. `begin` is told of those who may
    /// begin a connection, with the datagrams that they came with.
    pub(crate) fn receive(&self, now: Moment, mut begin: impl FnMut(Beginning, Batch)) -> Moved {
        self.socket.take_buffers(
            || self.spare.get(),
            |meta, buffer| {
                let (from, length, stride) = (meta.from, meta.bytes, meta.segment);
                let buffer = self.compact(buffer, length);
                let spare = Arc::clone(&self.spare);
                let batch = Batch { from, buffer, length, stride, spare, waiting: None };
                self.pass_on(now, batch, &mut begin);
            },
            |buffer| self.spare.put(buffer),
        )
    }

    fn pass_on(&self, now: Moment, batch: Batch, begin: &mut impl FnMut(Beginning, Batch)) {
        // What the kernel joins has one source; a connection looks at each datagram itself.
        let Some(for_whom) = route(batch.first()) else { return };
        let inbox = {
            let connections = self.table.lock();
            let id = match for_whom {
                Route::To(id) => Some(id),
                Route::Opening(id) => connections.openings.get(&(batch.from, id)).copied(),
                Route::Stranger => None,
            };
            id.and_then(|id| connections.inboxes.get(&id).cloned())
        };
        match inbox {
            Some(inbox) => inbox.put(batch),
            None => self.greet(now, batch, begin),
        }
    }

    /// Lets a few bytes not hold a whole buffer while they wait.
    fn compact(&self, buffer: Vec<u8>, length: usize) -> Vec<u8> {
        if length.saturating_mul(FILLED_SHARE) > buffer.len() {
            return buffer;
        }
        let few = buffer.get(..length).unwrap_or_default().to_vec();
        self.spare.put(buffer);
        few
    }

    fn greet(&self, now: Moment, batch: Batch, begin: &mut impl FnMut(Beginning, Batch)) {
        let mut answer = [0; ANSWER_BYTES];
        match self.greeter.greet(now, batch.from, batch.first(), &mut answer) {
            Greeting::Answer(length) => {
                let answer = answer.get(..length).unwrap_or_default();
                let _ = self.socket.send(batch.from, answer, length);
            }
            Greeting::Begin(beginning) => begin(beginning, batch),
            Greeting::Ignore => {}
        }
    }

    /// Lets the connection `id` hear what is for it, beginning with `first`.
    pub(crate) fn subscribe(&self, beginning: &Beginning, id: ConnectionId, first: Batch) -> Subscription {
        let (sender, inbox) = mpsc::channel(INBOX_BATCHES);
        let opening = (beginning.source(), beginning.id());
        let mut connections = self.table.lock();
        connections.inboxes.insert(id, Inbox { batches: sender, bytes: Arc::default() });
        connections.openings.insert(opening, id);
        drop(connections);
        let (socket, table) = (Arc::clone(&self.socket), Arc::clone(&self.table));
        Subscription { socket, inbox, next: Some(first), room: None, table, id, opening }
    }
}

impl Inbox {
    fn put(&self, mut batch: Batch) {
        let bytes = batch.buffer.len();
        if self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= INBOX_BYTES_MAX {
            batch.waiting = Some(Arc::clone(&self.bytes));
            // Full or gone: as if it were lost on the way.
            let _ = self.batches.try_send(batch);
        } else {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Batch {
    fn first(&self) -> &[u8] {
        self.buffer.get(..self.length.min(self.stride)).unwrap_or_default()
    }

    /// Each datagram, with where it came from.
    pub(crate) fn each(&mut self, mut take: impl FnMut(SocketAddr, &mut [u8])) {
        let datagrams = self.buffer.get_mut(..self.length).unwrap_or_default();
        for datagram in datagrams.chunks_mut(self.stride.max(1)) {
            take(self.from, datagram);
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(waiting) = &self.waiting {
            waiting.fetch_sub(self.buffer.len(), Ordering::Relaxed);
        }
        self.spare.put(std::mem::take(&mut self.buffer));
    }
}

impl Subscription {
    /// The next datagrams; none: there are none now.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        self.next.take().or_else(|| self.inbox.try_recv().ok())
    }

    /// Whether something has arrived, or there is room if `writing`.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>, writing: bool) -> Poll<io::Result<()>> {
        if self.next.is_some() {
            return Poll::Ready(Ok(()));
        }
        if let Poll::Ready(batch) = self.inbox.poll_recv(context) {
            self.next = batch;
            let heard = if self.next.is_some() { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) };
            return Poll::Ready(heard);
        }
        if !writing {
            self.room = None;
            return Poll::Pending;
        }
        let room = self.room.get_or_insert_with(|| {
            let socket = Arc::clone(&self.socket);
            Box::pin(async move { socket.writable().await })
        });
        let ready = room.as_mut().poll(context);
        if ready.is_ready() {
            self.room = None;
        }
        ready
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut connections = self.table.lock();
        connections.inboxes.remove(&self.id);
        connections.openings.remove(&self.opening);
        drop(connections);
        self.table.forgotten.notify_waiters();
    }
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spare {
    fn get(&self) -> Vec<u8> {
        self.lock().pop().unwrap_or_default()
    }

    fn put(&self, buffer: Vec<u8>) {
        let mut spare = self.lock();
        if spare.len() < SPARE_MAX && buffer.len() == JOINED_BYTES_MAX {
            spare.push(buffer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
