//! Packets over UDP, and past the kernel's stack where a device is open: the side that dials has a socket for each
//! connection, the side that is dialled, and who passes by the kernel, one port for all.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sealane_protocol::Moment;
use sealane_protocol::connection::{Connection, Fail, Sink, StartError};
use sealane_protocol::datagram::{Engine, PathFigures, Tuning};
use sealane_types::CongestionChoice;

use super::Moved;
use crate::context::SystemRandom;
use crate::link::endpoint::{Endpoint, Subscription};
use crate::link::udp::{self, Put, Socket, Unsent, datagram_bytes_max};
use crate::link::xdp::Xdp;
use crate::session::carried::Hindrance;

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
    unsent: Option<Box<Unsent>>,
    /// How often in a row the network said that nobody listens at the other end, which anybody may say for it.
    refusals: u32,
    /// Whether the remote, or somebody in its name, ever sent anything.
    heard: bool,
    /// Until when it has to have.
    patience: Option<Moment>,
    /// What it can pass by the kernel with.
    device: Result<Arc<Xdp>, Hindrance>,
}

#[derive(Debug)]
enum Port {
    Own(Socket),
    Shared(Subscription),
}

/// Where a connection is dialled from.
#[derive(Debug)]
pub(in crate::session) enum Source {
    /// A socket that hears the remote alone.
    Own(Socket),
    /// The port that this sidecar is dialled at, which has a device.
    Shared(Arc<Endpoint>),
}

/// What a connection with `remote` can pass by the kernel with.
fn device(endpoint: &Endpoint, remote: SocketAddr) -> Result<Arc<Xdp>, Hindrance> {
    let xdp = endpoint.device().map_err(|_| Hindrance::NoDevice)?;
    if xdp.leads_to(remote) { Ok(Arc::clone(xdp)) } else { Err(Hindrance::AnotherDevice) }
}

/// How paths towards `remote` are used.
pub(in crate::session) fn tuning(remote: SocketAddr) -> Tuning {
    Tuning { congestion: CongestionChoice::default(), datagram_bytes_max: datagram_bytes_max(remote) }
}

impl Datagrams {
    /// Of the side that dials. A remote that is not heard until `patience` ends is gone.
    pub(in crate::session) fn dialling(
        source: Source,
        remote: SocketAddr,
        connection: &mut Connection,
        now: Moment,
        patience: Option<Moment>,
    ) -> Result<Self, StartError> {
        let engine = Engine::initiate(connection, remote, tuning(remote), &mut SystemRandom, now)?;
        let datagrams = match source {
            Source::Own(socket) => Self::new(engine, Port::Own(socket), Err(Hindrance::NoDevice)),
            Source::Shared(endpoint) => {
                let engine = engine.ended_by(endpoint.greeter());
                let port = Port::Shared(endpoint.subscribe_dialling(engine.id()));
                Self::new(engine, port, device(&endpoint, remote))
            }
        };
        Ok(Self { patience, ..datagrams })
    }

    /// Of the side that is dialled.
    pub(in crate::session) fn accepted(
        engine: Engine,
        subscription: Subscription,
        endpoint: &Endpoint,
    ) -> Self {
        let device = device(endpoint, engine.remote());
        Self::new(engine, Port::Shared(subscription), device)
    }

    const fn new(engine: Engine, port: Port, device: Result<Arc<Xdp>, Hindrance>) -> Self {
        Self { engine, port, unsent: None, refusals: 0, heard: false, patience: None, device }
    }

    /// Whether it can pass by the kernel.
    pub(super) fn pass(&self) -> Result<(), Hindrance> {
        self.device.as_ref().map(drop).map_err(|hindrance| *hindrance)
    }

    /// What decides from now on how much is on the path.
    pub(super) fn set_congestion(&mut self, congestion: CongestionChoice) {
        self.engine.set_congestion(congestion);
    }

    /// From now on it does.
    pub(super) fn pass_kernel(&mut self) {
        if let (Port::Shared(subscription), Ok(xdp)) = (&mut self.port, &self.device) {
            subscription.pass_kernel(Arc::clone(xdp));
        }
    }

    pub(super) const fn is_heard(&self) -> bool {
        self.heard
    }

    /// Nothing is dialled before the handshake.
    pub(super) const fn dialled(&self) -> Option<Duration> {
        match self.port {
            Port::Own(_) => Some(Duration::ZERO),
            Port::Shared(_) => None,
        }
    }

    pub(super) fn path_figures(&self) -> PathFigures {
        self.engine.path_figures()
    }

    /// When patience ends, until the remote is heard.
    fn silent_until(&self) -> Option<Moment> {
        self.patience.filter(|_| !self.heard)
    }

    pub(super) fn put(&mut self, connection: &mut Connection, now: Moment) -> Moved {
        let Self { engine, port, unsent, refusals, .. } = self;
        let mut moved = Moved::NOTHING;
        loop {
            let fill = |space: &mut [u8], most| engine.poll_transmit(connection, now, space, most);
            let put = match (&mut *port, unsent.take()) {
                (Port::Own(socket), Some(unsent)) => Some(socket.put_again(*unsent)),
                (Port::Own(socket), None) => socket.put(fill),
                (Port::Shared(subscription), Some(unsent)) => Some(subscription.put_again(now, *unsent)),
                (Port::Shared(subscription), None) => subscription.put(now, fill),
            };
            match put {
                None => return moved,
                Some(Put::Done) => moved.any = true,
                Some(Put::Blocked(rest)) => {
                    *unsent = Some(Box::new(rest));
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
        let Self { engine, port, refusals, heard, .. } = self;
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
                if !subscription.is_called()
                    && let Some(id) = engine.remote_id()
                {
                    subscription.called(engine.remote(), id);
                }
            }
        }
        if moved.any {
            (*refusals, *heard) = (0, true);
        } else if self.silent_until().is_some_and(|until| now >= until) {
            // Only now: what had come while this side stood still was read.
            moved.cut = true;
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
        [self.engine.poll_timeout(now), self.silent_until()].into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, connection: &mut Connection, now: Moment) {
        self.engine.handle_timeout(connection, now);
    }

    pub(super) fn is_settled(&self) -> bool {
        self.engine.is_settled()
    }

    pub(super) fn release(&mut self) {
        self.engine.release_memory();
        if let Port::Shared(subscription) = &self.port {
            subscription.release();
        }
    }
}
