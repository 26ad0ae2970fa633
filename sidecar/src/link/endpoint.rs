//! One UDP port that many connections share: the side that is dialled hears all of them there, through the kernel's
//! socket and the queues of a network device. Connections that send past the kernel are dialled from it too.
//!
//! What arrives is given to the connection that it names, in the buffers that the kernel filled. A connection that does
//! not empty its own inbox loses datagrams, as anywhere on the way, and holds up nobody else.

mod batch;
mod inbox;
mod subscription;
mod table;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sealane_protocol::Moment;
use sealane_protocol::datagram::{Beginning, ConnectionId, Greeter, Greeting, route};

use self::batch::{Batch, Spare};
pub(crate) use self::subscription::Subscription;
use self::table::{Opening, Table};
use super::udp::{self, JOINED_BYTES_MAX, Moved, Socket};
use super::xdp::{DeviceError, OpenDevice, Xdp};

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

    /// Who answers whatever is for no connection.
    pub(crate) const fn greeter(&self) -> &Greeter {
        &self.greeter
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
        self.table.deserted().await;
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
                    batch.buffer = self.spare.compact(std::mem::take(&mut batch.buffer), batch.length);
                    self.pass_on(now, batch, &mut begin);
                }
                moved
            }
            _ => self.socket.take_buffers(
                || self.spare.get(),
                |arrival, buffer| {
                    let udp::Arrival { from, to, bytes, segment } = arrival;
                    let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                    let buffer = self.spare.compact(buffer, bytes);
                    let spare = Arc::clone(&self.spare);
                    let to = to.map(|to| to.to_canonical());
                    let batch = Batch { from, to, buffer, length: bytes, stride: segment, spare };
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
        arrived.push(Batch { from, to: Some(to), buffer, length, stride: length, spare });
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
            self.pass_on(now, Batch { from, to, buffer, length, stride: length, spare }, begin);
        }
    }

    fn pass_on(&self, now: Moment, batch: Batch, begin: &mut Option<impl FnMut(Beginning, Batch)>) {
        let Some(for_whom) = route(batch.first()) else { return };
        match (self.table.find(batch.from, for_whom), begin) {
            (Some(inbox), _) => inbox.put(batch),
            (None, Some(begin)) => self.greet(now, batch, begin),
            (None, None) => {}
        }
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
        self.subscribed(id, Some((beginning.source(), beginning.id())), Some(first))
    }

    /// Lets the connection `id`, which dials from here, hear what is for it.
    pub(crate) fn subscribe_dialling(&self, id: ConnectionId) -> Subscription {
        self.subscribed(id, None, None)
    }

    fn subscribed(&self, id: ConnectionId, opening: Option<Opening>, first: Option<Batch>) -> Subscription {
        Subscription::new(Arc::clone(&self.socket), Arc::clone(&self.table), id, opening, first)
    }
}

/// Whether what goes for one datagram goes for another one of the same source.
fn is_of_one(first: &[u8], other: &[u8]) -> bool {
    route(first) == route(other)
}

#[cfg(test)]
mod tests {
    use sealane_protocol::datagram::Route;

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
        let batch = Batch { from: FROM.into(), to, buffer: joined, length, stride: 100, spare };
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
}
