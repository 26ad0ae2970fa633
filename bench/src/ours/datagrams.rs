//! The same connection over UDP, with the engine and the socket that a sidecar has.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use sealane_protocol::Moment;
use sealane_protocol::connection::{Connection, Sink};
use sealane_protocol::datagram::{Congestion, Engine, Greeter, Greeting, Tuning};
use sealane_sidecar::link::udp::{Moved, Put, Socket, Unsent, datagram_bytes_max};

use super::clock::Clock;
use super::mover::Mover;
use super::{Nothing, Ours, Sealed};
use crate::carrier::Plug;
use crate::random::SystemRandom;
use crate::wire::{Side, Start};

/// Longer than an acknowledgement waits for company.
const DELAY_MICROS: u64 = 2_000;

/// Our protocol over UDP.
#[derive(Debug, Clone)]
pub(crate) struct OverUdp {
    ours: Ours,
    /// Whether the kernel cuts and joins datagrams.
    segmented: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Datagrams {
    socket: Socket,
    engine: Engine,
    segmented: bool,
    unsent: Option<Unsent>,
}

impl OverUdp {
    pub(crate) const fn new(ours: Ours, segmented: bool) -> Self {
        Self { ours, segmented }
    }
}

impl Start for OverUdp {
    type Wire = Sealed<Datagrams>;

    async fn start(&self, plug: Plug, side: Side) -> Result<Self::Wire> {
        let Plug::Udp { socket, remote } = plug else { bail!("it needs a UDP socket") };
        let socket = Socket::new(socket)?;
        let tuning =
            Tuning { congestion: Congestion::default(), datagram_bytes_max: datagram_bytes_max(remote) };
        let mut connection = self.ours.begin(side)?.over_datagrams();
        let engine = match side {
            Side::Dialler => {
                Engine::initiate(&mut connection, remote, tuning, &mut SystemRandom, self.ours.now())?
            }
            Side::Accepter => accept(&self.ours, &socket, &mut connection, tuning).await?,
        };
        let mover = Datagrams { socket, engine, segmented: self.segmented, unsent: None };
        self.ours.establish(mover, side, connection).await
    }
}

/// Greets who comes, until somebody came back with a cookie.
async fn accept(ours: &Ours, socket: &Socket, connection: &mut Connection, tuning: Tuning) -> Result<Engine> {
    let greeter = Greeter::new(&mut SystemRandom)?;
    let (mut begun, mut space) = (None, [0; 64]);
    loop {
        socket.ready(false).await?;
        let mut answers: Vec<(SocketAddr, Vec<u8>)> = Vec::new();
        let mut failed = None;
        socket.take(|from, datagram| {
            let now = ours.now();
            if begun.is_none() {
                match greeter.greet(now, from, datagram, &mut space) {
                    Greeting::Answer(length) => answers.push((from, space[..length].to_vec())),
                    Greeting::Begin(beginning) => {
                        begun = Some(Engine::accept(&beginning, tuning, &mut SystemRandom));
                    }
                    Greeting::Ignore => {}
                }
            }
            if let Some(Ok(engine)) = &mut begun {
                let handled = engine.handle_datagram(connection, now, from, datagram, &mut Nothing);
                failed = failed.take().or(handled.err());
            }
        });
        for (to, answer) in answers {
            socket.send(to, &answer, answer.len());
        }
        if let Some(fail) = failed {
            return Err(fail.into());
        }
        if let Some(engine) = begun.take() {
            return Ok(engine?);
        }
    }
}

impl Datagrams {
    /// Sends what may leave now. Whether the kernel had room for all of it.
    fn transmit(&mut self, connection: &mut Connection, now: Moment) -> bool {
        loop {
            let Self { socket, engine, segmented, unsent } = self;
            let put = match unsent.take() {
                Some(unsent) => Some(socket.put_again(unsent)),
                None => socket.put(|space, most| {
                    let most = if *segmented { most } else { 1 };
                    engine.poll_transmit(connection, now, space, most)
                }),
            };
            match put {
                Some(Put::Blocked(rest)) => {
                    *unsent = Some(rest);
                    return false;
                }
                Some(Put::Done | Put::Refused) => {}
                None => return true,
            }
        }
    }

    fn receive(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        sink: &mut (dyn Sink + Send),
    ) -> Result<Moved> {
        let Self { socket, engine, .. } = self;
        let mut failed = None;
        let moved = socket.take(|from, datagram| {
            let handled = engine.handle_datagram(connection, now, from, datagram, sink);
            failed = failed.take().or(handled.err());
        });
        match failed {
            Some(fail) => Err(fail.into()),
            None => Ok(moved),
        }
    }

    /// Waits for datagrams, for room, or for what is due.
    async fn wait(&mut self, connection: &mut Connection, clock: Clock, writing: bool) -> Result<()> {
        let at = clock.now();
        let due = self.engine.poll_timeout(at);
        let wait = due.map_or(Duration::from_secs(10), |due| Duration::from_micros(due.micros_since(at)));
        if tokio::time::timeout(wait, self.socket.ready(writing)).await.is_err() {
            self.engine.handle_timeout(connection, clock.now());
        }
        Ok(())
    }
}

impl Mover for Datagrams {
    async fn put(&mut self, connection: &mut Connection, clock: Clock, everything: bool) -> Result<()> {
        loop {
            let room = self.transmit(connection, clock.now());
            if if everything { self.engine.is_settled() } else { connection.has_room() } {
                return Ok(());
            }
            if self.receive(connection, clock.now(), &mut Nothing)? != Moved::Done {
                self.wait(connection, clock, !room).await?;
            }
        }
    }

    async fn take(
        &mut self,
        connection: &mut Connection,
        clock: Clock,
        sink: &mut (dyn Sink + Send),
    ) -> Result<()> {
        self.transmit(connection, clock.now());
        if self.receive(connection, clock.now(), sink)? != Moved::Done {
            self.wait(connection, clock, false).await?;
        }
        Ok(())
    }

    /// The other end waits for the last acknowledgement, which would wait for company.
    async fn rest(&mut self, connection: &mut Connection, clock: Clock) -> Result<()> {
        self.transmit(connection, clock.now().plus_micros(DELAY_MICROS));
        Ok(())
    }
}
