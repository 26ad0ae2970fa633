//! Packets over UDP: the side that dials has a socket for each connection, the side that is dialled one for all.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use sealane_protocol::Moment;
use sealane_protocol::connection::{Connection, Fail, Sink, StartError};
use sealane_protocol::datagram::{Congestion, Engine, Tuning};

use super::Moved;
use crate::context::SystemRandom;
use crate::link::endpoint::Subscription;
use crate::link::udp::{self, Put, Socket, Unsent, datagram_bytes_max};

/// Batches of datagrams that are handed on before others have their turn.
const BATCHES_MAX: u32 = 8;

/// Refusals in a row, without a datagram between them, that are believed before both sides are verified. Afterwards the
/// remote is, whose silence tells.
const REFUSALS_MAX: u32 = 3;

/// See the module's documentation.
#[derive(Debug)]
pub(in crate::session) struct Datagrams {
    engine: Engine,
    port: Port,
    /// What the kernel had no room for.
    unsent: Option<Unsent>,
    /// How often in a row the network said that nobody listens at the other end, which anybody may say for it.
    refusals: u32,
}

#[derive(Debug)]
enum Port {
    Own(Socket),
    Shared(Subscription),
}

/// How paths towards `remote` are used.
pub(in crate::session) fn tuning(remote: SocketAddr) -> Tuning {
    Tuning { congestion: Congestion::default(), datagram_bytes_max: datagram_bytes_max(remote) }
}

impl Datagrams {
    /// Of the side that dials.
    pub(in crate::session) fn dialling(
        socket: Socket,
        remote: SocketAddr,
        connection: &mut Connection,
        now: Moment,
    ) -> Result<Self, StartError> {
        let engine = Engine::initiate(connection, remote, tuning(remote), &mut SystemRandom, now)?;
        Ok(Self { engine, port: Port::Own(socket), unsent: None, refusals: 0 })
    }

    /// Of the side that is dialled.
    pub(in crate::session) const fn accepted(engine: Engine, subscription: Subscription) -> Self {
        Self { engine, port: Port::Shared(subscription), unsent: None, refusals: 0 }
    }

    /// Nothing is dialled before the handshake.
    pub(super) const fn dialled(&self) -> Option<Duration> {
        match self.port {
            Port::Own(_) => Some(Duration::ZERO),
            Port::Shared(_) => None,
        }
    }

    pub(super) fn put(&mut self, connection: &mut Connection, now: Moment) -> Moved {
        let Self { engine, port, unsent, refusals } = self;
        let socket = match port {
            Port::Own(socket) => socket,
            Port::Shared(subscription) => &*subscription.socket,
        };
        let mut moved = Moved::NOTHING;
        loop {
            let put = match unsent.take() {
                Some(unsent) => Some(socket.put_again(unsent)),
                None => socket.put(|space, most| engine.poll_transmit(connection, now, space, most)),
            };
            match put {
                None => return moved,
                Some(Put::Done) => moved.any = true,
                Some(Put::Blocked(rest)) => {
                    *unsent = Some(rest);
                    return Moved { blocked: true, ..moved };
                }
                Some(Put::Refused) => {
                    *refusals = refusals.saturating_add(1);
                    if *refusals >= REFUSALS_MAX && !connection.is_established() {
                        return Moved { cut: true, ..moved };
                    }
                }
            }
        }
    }

    pub(super) fn take(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        sink: &mut dyn Sink,
    ) -> (Moved, Result<(), Fail>) {
        let Self { engine, port, refusals, .. } = self;
        let is_established = connection.is_established();
        let mut handled = Ok(());
        let mut each = |from, datagram: &mut [u8]| {
            if handled.is_ok() {
                handled = engine.handle_datagram(connection, now, from, datagram, sink);
            }
        };
        let mut moved = Moved::NOTHING;
        match port {
            Port::Own(socket) => match socket.take(each) {
                udp::Moved::Done => moved.any = true,
                udp::Moved::Blocked => {}
                udp::Moved::Refused => {
                    *refusals = refusals.saturating_add(1);
                    moved.cut = *refusals >= REFUSALS_MAX && !is_established;
                }
            },
            Port::Shared(subscription) => {
                for _ in 0..BATCHES_MAX {
                    let Some(mut batch) = subscription.take() else { break };
                    batch.each(&mut each);
                    moved.any = true;
                }
            }
        }
        if moved.any {
            *refusals = 0;
        }
        (moved, handled)
    }

    /// A question in place of a future, for which every connection would have to keep room.
    pub(super) fn poll_ready(&mut self, context: &mut Context<'_>, writing: bool) -> Poll<io::Result<()>> {
        match &mut self.port {
            Port::Own(socket) => socket.poll_ready(context, writing),
            Port::Shared(subscription) => subscription.poll_ready(context, writing),
        }
    }

    pub(super) fn poll_timeout(&self, now: Moment) -> Option<Moment> {
        self.engine.poll_timeout(now)
    }

    pub(super) fn handle_timeout(&mut self, connection: &mut Connection, now: Moment) {
        self.engine.handle_timeout(connection, now);
    }

    pub(super) fn is_settled(&self) -> bool {
        self.engine.is_settled()
    }

    pub(super) fn release(&mut self) {
        self.engine.release_memory();
    }
}
