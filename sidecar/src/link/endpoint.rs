//! One UDP port that many connections share: the side that is dialled hears all of them there, through the kernel's
//! socket and the queues of a network device. Connections that send past the kernel are dialled from it too.
//!
//! What arrives is given to the connection that it names, in the buffers that the kernel filled. A connection that does
//! not empty its own inbox loses datagrams, as anywhere on the way, and holds up nobody else.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use sealane_protocol::Moment;
use sealane_protocol::datagram::{Beginning, ConnectionId, Greeter, Greeting, Route, Transmit, route};
use tokio::sync::{Notify, mpsc};

use super::udp::{self, JOINED_BYTES_MAX, Moved, Put, Socket, Unsent};
use super::xdp::{DeviceError, OpenDevice, Path, Xdp};

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
    /// Why there is none is for people.
    device: Result<Arc<Xdp>, String>,
    greeter: Greeter,
    spare: Arc<Spare>,
    table: Arc<Table>,
}

/// Where datagrams come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inlet {
    Socket,
    Queue(usize),
}

/// Datagrams of one source for one connection.
#[derive(Debug)]
pub(crate) struct Batch {
    from: SocketAddr,
    /// This machine's address that they were sent to.
    to: Option<IpAddr>,
    buffer: Vec<u8>,
    length: usize,
    stride: usize,
    spare: Arc<Spare>,
    /// What waits for its connection, as long as it is counted there.
    waiting: Option<Arc<AtomicUsize>>,
}

/// What a connection of this endpoint sends and receives with. Dropping it makes the endpoint forget the connection.
pub(crate) struct Subscription {
    socket: Arc<Socket>,
    /// Past the kernel, if that is how it is carried.
    path: Option<Box<Path>>,
    /// Where its remote sends to, which is where answers come from.
    local: Option<IpAddr>,
    inbox: mpsc::Receiver<Batch>,
    /// Taken out of the inbox by whoever waited for it.
    next: Option<Batch>,
    /// Many wait for room of the one socket, so each has a place of its own in the line.
    room: Option<Room>,
    table: Arc<Table>,
    id: ConnectionId,
    /// How the remote calls it.
    opening: Option<(SocketAddr, ConnectionId)>,
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
    /// How remotes call connections while they do not know how this side calls them, or have forgotten it.
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
    /// Of a socket and the device beside it, within a runtime.
    pub(crate) fn new(socket: Socket, device: Result<OpenDevice, DeviceError>, greeter: Greeter) -> Self {
        let device = match device.and_then(Xdp::new) {
            Ok(xdp) => {
                tracing::info!(
                    device = xdp.device(),
                    mode = xdp.mode(),
                    queues = xdp.queues(),
                    "AF_XDP is open"
                );
                Ok(Arc::new(xdp))
            }
            Err(error) => {
                let asked = !matches!(error, DeviceError::NotAsked);
                let why = error.told();
                if asked {
                    tracing::warn!("AF_XDP cannot be had: {why}");
                }
                Err(why)
            }
        };
        Self { socket: Arc::new(socket), device, greeter, spare: Arc::default(), table: Arc::default() }
    }

    /// The device beside the socket, or why there is none.
    pub(crate) fn device(&self) -> Result<&Arc<Xdp>, &str> {
        self.device.as_ref().map_err(String::as_str)
    }

    /// All that have to be looked at.
    pub(crate) fn inlets(&self) -> impl Iterator<Item = Inlet> + use<> {
        let queues = self.device.as_ref().map_or(0, |xdp| xdp.queues());
        std::iter::once(Inlet::Socket).chain((0..queues).map(Inlet::Queue))
    }

    /// Waits until something may have arrived.
    pub(crate) async fn ready(&self, inlet: Inlet) -> io::Result<()> {
        match (inlet, &self.device) {
            (Inlet::Queue(queue), Ok(xdp)) => xdp.ready(queue).await,
            _ => self.socket.ready(false).await.map(drop),
        }
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

    /// Gives what has arrived to the connections that it is for. With `begin`, strangers are answered, and it is told of
    /// those who may begin a connection, with the datagrams that they came with.
    pub(crate) fn receive(
        &self,
        inlet: Inlet,
        now: Moment,
        mut begin: Option<impl FnMut(Beginning, Batch)>,
    ) -> Moved {
        match (inlet, &self.device) {
            (Inlet::Queue(queue), Ok(xdp)) => {
                // Handed on once the queue is free for those who send.
                let mut arrived = Vec::new();
                let moved =
                    xdp.receive(queue, |from, to, datagram| self.join(&mut arrived, from, to, datagram));
                for mut batch in arrived {
                    batch.buffer = self.compact(std::mem::take(&mut batch.buffer), batch.length);
                    self.pass_on(now, batch, &mut begin);
                }
                moved
            }
            _ => self.socket.take_buffers(
                || self.spare.get(),
                |arrival, buffer| {
                    let udp::Arrival { from, to, bytes, segment } = arrival;
                    let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                    let buffer = self.compact(buffer, bytes);
                    let spare = Arc::clone(&self.spare);
                    let to = to.map(|to| to.to_canonical());
                    let batch =
                        Batch { from, to, buffer, length: bytes, stride: segment, spare, waiting: None };
                    self.sort(now, batch, &mut begin);
                },
                |buffer| self.spare.put(buffer),
            ),
        }
    }

    /// Puts a datagram behind the one before it, as the kernel does, if both are for one connection.
    fn join(&self, arrived: &mut Vec<Batch>, from: SocketAddr, to: IpAddr, datagram: &[u8]) {
        if let Some(last) = arrived.last_mut()
            && (last.from, last.to) == (from, Some(to))
            && last.length.checked_rem(last.stride) == Some(0)
            && datagram.len() <= last.stride
            && is_of_one(last.first(), datagram)
            && let Some(place) = last.buffer.get_mut(last.length..last.length.saturating_add(datagram.len()))
        {
            place.copy_from_slice(datagram);
            last.length += datagram.len();
            return;
        }
        let mut buffer = self.spare.get();
        buffer.resize(JOINED_BYTES_MAX, 0);
        let Some(place) = buffer.get_mut(..datagram.len()) else { return };
        place.copy_from_slice(datagram);
        let (length, spare) = (datagram.len(), Arc::clone(&self.spare));
        arrived.push(Batch { from, to: Some(to), buffer, length, stride: length, spare, waiting: None });
    }

    /// What the kernel joins has one source, which may have several connections.
    fn sort(&self, now: Moment, batch: Batch, begin: &mut Option<impl FnMut(Beginning, Batch)>) {
        let stride = batch.stride.max(1);
        let datagrams = || batch.buffer.get(..batch.length).unwrap_or_default().chunks(stride);
        if datagrams().skip(1).all(|datagram| is_of_one(batch.first(), datagram)) {
            self.pass_on(now, batch, begin);
            return;
        }
        for datagram in datagrams() {
            let (buffer, length) = (datagram.to_vec(), datagram.len());
            let spare = Arc::clone(&self.spare);
            let (from, to) = (batch.from, batch.to);
            self.pass_on(
                now,
                Batch { from, to, buffer, length, stride: length, spare, waiting: None },
                begin,
            );
        }
    }

    fn pass_on(&self, now: Moment, batch: Batch, begin: &mut Option<impl FnMut(Beginning, Batch)>) {
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
        match (inbox, begin) {
            (Some(inbox), _) => inbox.put(batch),
            (None, Some(begin)) => self.greet(now, batch, begin),
            (None, None) => {}
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
                let _ = self.socket.send(batch.to, batch.from, answer);
            }
            Greeting::Begin(beginning) => begin(beginning, batch),
            Greeting::Ignore => {}
        }
    }

    /// Lets the connection `id` hear what is for it, beginning with `first`.
    pub(crate) fn subscribe(&self, beginning: &Beginning, id: ConnectionId, first: Batch) -> Subscription {
        let mut subscription = self.subscribed(id, Some((beginning.source(), beginning.id())));
        subscription.next = Some(first);
        subscription
    }

    /// Lets the connection `id`, which dials from here, hear what is for it.
    pub(crate) fn subscribe_dialling(&self, id: ConnectionId) -> Subscription {
        self.subscribed(id, None)
    }

    fn subscribed(&self, id: ConnectionId, opening: Option<(SocketAddr, ConnectionId)>) -> Subscription {
        let (sender, inbox) = mpsc::channel(INBOX_BATCHES);
        let mut connections = self.table.lock();
        connections.inboxes.insert(id, Inbox { batches: sender, bytes: Arc::default() });
        connections.openings.extend(opening.map(|opening| (opening, id)));
        drop(connections);
        let (socket, table) = (Arc::clone(&self.socket), Arc::clone(&self.table));
        Subscription { socket, path: None, local: None, inbox, next: None, room: None, table, id, opening }
    }
}

/// Whether what goes for one datagram goes for another one of the same source.
fn is_of_one(first: &[u8], other: &[u8]) -> bool {
    route(first) == route(other)
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
        let batch = self.next.take().or_else(|| self.inbox.try_recv().ok())?;
        self.local = batch.to.or(self.local);
        Some(batch)
    }

    /// From now on datagrams leave past the kernel.
    pub(crate) fn pass_kernel(&mut self, xdp: Arc<Xdp>) {
        self.path = Some(Box::new(Path::new(xdp)));
    }

    /// Its remote, at `source`, calls the connection `id`.
    pub(crate) fn called(&mut self, source: SocketAddr, id: ConnectionId) {
        if self.opening.is_none() {
            self.table.lock().openings.insert((source, id), self.id);
            self.opening = Some((source, id));
        }
    }

    pub(crate) const fn is_called(&self) -> bool {
        self.opening.is_some()
    }

    /// See [`Socket::put`].
    pub(crate) fn put(
        &mut self,
        now: Moment,
        fill: impl FnOnce(&mut [u8], usize) -> Option<Transmit>,
    ) -> Option<Put> {
        match &mut self.path {
            Some(path) => path.put(&self.socket, self.local, now, fill),
            None => self.socket.put_from(self.local, fill),
        }
    }

    /// See [`Socket::put_again`].
    pub(crate) fn put_again(&mut self, now: Moment, unsent: Unsent) -> Put {
        match &mut self.path {
            Some(path) => path.put_again(&self.socket, now, unsent),
            None => self.socket.put_again(unsent),
        }
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
        let room = self.room.get_or_insert_with(|| match &self.path {
            Some(path) => Box::pin(path.room()),
            None => {
                let socket = Arc::clone(&self.socket);
                Box::pin(async move { socket.writable().await })
            }
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
        if let Some(opening) = &self.opening {
            connections.openings.remove(opening);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::tests::endpoint;

    /// A packet for the connection that calls itself so; its first bit tells a packet from a flight.
    fn packet(to: u8, bytes: usize) -> Vec<u8> {
        let mut packet = vec![to; bytes];
        packet[0] = 0b0100_0000;
        assert!(matches!(route(&packet), Some(Route::To(_))));
        packet
    }

    fn id(to: u8) -> ConnectionId {
        match route(&packet(to, 100)) {
            Some(Route::To(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    fn heard(subscription: &mut Subscription) -> Vec<usize> {
        let mut sizes = Vec::new();
        while let Some(mut batch) = subscription.take() {
            batch.each(|_, datagram| sizes.push(datagram.len()));
        }
        sizes
    }

    const FROM: ([u8; 4], u16) = ([10, 0, 0, 2], 9);

    #[tokio::test]
    async fn what_the_kernel_joined_is_sorted_by_connections() {
        let endpoint = endpoint();
        let (mut one, mut two) = (endpoint.subscribe_dialling(id(1)), endpoint.subscribe_dialling(id(2)));
        let joined = [packet(1, 100), packet(2, 100), packet(1, 100), packet(2, 50)].concat();
        let to = Some(IpAddr::from([10, 0, 0, 1]));
        let (length, spare) = (joined.len(), Arc::clone(&endpoint.spare));
        let batch =
            Batch { from: FROM.into(), to, buffer: joined, length, stride: 100, spare, waiting: None };
        endpoint.sort(Moment::from_micros(0), batch, &mut None::<fn(Beginning, Batch)>);
        assert_eq!((heard(&mut one), heard(&mut two)), (vec![100, 100], vec![100, 50]));
        assert_eq!(one.local, to, "answers come from where the remote sends to");
    }

    #[tokio::test]
    async fn packets_of_one_connection_wait_together() {
        let endpoint = endpoint();
        let to = IpAddr::from([10, 0, 0, 1]);
        let mut arrived = Vec::new();
        let mut arrive = |packet: Vec<u8>| endpoint.join(&mut arrived, FROM.into(), to, &packet);
        for bytes in [100, 100, 60, 100] {
            arrive(packet(1, bytes));
        }
        arrive(packet(2, 100));
        arrive(packet(2, 101));
        let shapes: Vec<_> = arrived.iter().map(|batch| (batch.length, batch.stride)).collect();
        assert_eq!(shapes, [(260, 100), (100, 100), (100, 100), (101, 101)]);
    }

    #[tokio::test]
    async fn a_remote_that_forgot_a_connection_names_it_by_its_own_word() {
        let endpoint = endpoint();
        let mut dialled = endpoint.subscribe_dialling(id(1));
        assert!(!dialled.is_called());
        dialled.called(FROM.into(), id(7));
        assert!(dialled.is_called());
        assert_eq!(endpoint.table.lock().openings.get(&(FROM.into(), id(7))), Some(&id(1)));
        drop(dialled);
        let left = endpoint.table.lock();
        assert!(left.openings.is_empty() && left.inboxes.is_empty());
    }
}
