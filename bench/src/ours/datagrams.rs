//! The same connection in datagrams, with the engine that a sidecar has, over a UDP socket or over AF_XDP.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use sealane_protocol::Moment;
use sealane_protocol::connection::{Connection, Sink};
use sealane_protocol::datagram::{Engine, Greeter, Greeting, Tuning};
use sealane_sidecar::link::udp::datagram_bytes_max;
use sealane_types::CongestionChoice;

use super::clock::Clock;
use super::line::{Connected, Line, Queued, Room};
use super::mover::Mover;
use super::{Nothing, Ours, Sealed};
use crate::carrier::Plug;
use crate::random::SystemRandom;
use crate::wire::{Side, Start};

/// Longer than an acknowledgement waits for company.
const DELAY_MICROS: u64 = 2_000;
/// How long to wait where nothing is due.
const LONG: Duration = Duration::from_secs(10);
/// Who hears nothing for so long of what it said never will.
const SILENCE_MICROS: u64 = 20_000_000;

/// Our protocol over UDP.
#[derive(Debug, Clone)]
pub(crate) struct OverUdp {
    ours: Ours,
    /// Whether the kernel cuts and joins datagrams.
    segmented: bool,
    /// How long a handshake may take over a network that need not let datagrams pass.
    answer: Duration,
    congestion: CongestionChoice,
}

/// Our protocol over AF_XDP.
#[derive(Debug, Clone)]
pub(crate) struct OverXdp(pub(crate) Ours);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Datagrams<L> {
    line: L,
    engine: Engine,
}

impl OverUdp {
    pub(crate) const fn new(ours: Ours, segmented: bool, answer: Duration) -> Self {
        Self { ours, segmented, answer, congestion: CongestionChoice::Cubic }
    }

    pub(crate) fn under(self, congestion: CongestionChoice) -> Self {
        Self { congestion, ..self }
    }
}

impl Start for OverUdp {
    type Wire = Sealed<Datagrams<Connected>>;

    async fn start(&self, plug: Plug, side: Side) -> Result<Self::Wire> {
        let Plug::Udp { socket, remote } = plug else { bail!("it needs a UDP socket") };
        if let Side::Dialler = side {
            // As a sidecar that dials: its socket hears the remote alone.
            socket.connect(remote)?;
        }
        let line = Connected::new(socket, self.segmented)?;
        let tuning = Tuning { congestion: self.congestion, datagram_bytes_max: datagram_bytes_max(remote) };
        let started = start(&self.ours, line, remote, tuning, side);
        let silence = || anyhow!("nobody answered over UDP within {} s", self.answer.as_secs());
        tokio::time::timeout(self.answer, started).await.map_err(|_| silence())?
    }
}

impl Start for OverXdp {
    type Wire = Sealed<Datagrams<Queued>>;

    async fn start(&self, plug: Plug, side: Side) -> Result<Self::Wire> {
        let Plug::Queue(queue) = plug else { bail!("it needs a queue of AF_XDP") };
        let line = Queued::new(queue);
        let (remote, datagram_bytes_max) = (line.peer(), line.datagram_bytes_max());
        let tuning = Tuning { congestion: CongestionChoice::Cubic, datagram_bytes_max };
        start(&self.0, line, remote, tuning, side).await
    }
}

async fn start<L: Line>(
    ours: &Ours,
    mut line: L,
    remote: SocketAddr,
    tuning: Tuning,
    side: Side,
) -> Result<Sealed<Datagrams<L>>> {
    let mut connection = ours.begin(side)?.over_datagrams();
    let engine = match side {
        Side::Dialler => Engine::initiate(&mut connection, remote, tuning, &mut SystemRandom, ours.now())?,
        Side::Accepter => accept(ours, &mut line, &mut connection, tuning).await?,
    };
    ours.establish(Datagrams { line, engine }, side, connection).await
}

/// Greets who comes, until somebody came back with a cookie.
async fn accept(
    ours: &Ours,
    line: &mut impl Line,
    connection: &mut Connection,
    tuning: Tuning,
) -> Result<Engine> {
    let greeter = Greeter::new(&mut SystemRandom)?;
    let (mut begun, mut space) = (None, [0; 64]);
    loop {
        line.ready(Room::Left, LONG).await?;
        let mut answers: Vec<(SocketAddr, Vec<u8>)> = Vec::new();
        let mut failed = None;
        line.take(|from, datagram| {
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
            line.answer(to, &answer);
        }
        if let Some(fail) = failed {
            return Err(fail.into());
        }
        if let Some(engine) = begun.take() {
            return Ok(engine?);
        }
    }
}

impl<L: Line> Datagrams<L> {
    /// Sends what may leave now. Whether there was room for all of it.
    fn transmit(&mut self, connection: &mut Connection, now: Moment) -> Room {
        let Self { line, engine } = self;
        loop {
            match line.put(|space, most| engine.poll_transmit(connection, now, space, most)) {
                Some(Room::Left) => {}
                Some(Room::None) => return Room::None,
                None => return Room::Left,
            }
        }
    }

    /// Whether there was anything.
    fn receive(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        sink: &mut (dyn Sink + Send),
    ) -> Result<bool> {
        let Self { line, engine } = self;
        let mut failed = None;
        let taken = line.take(|from, datagram| {
            let handled = engine.handle_datagram(connection, now, from, datagram, sink);
            failed = failed.take().or(handled.err());
        });
        match failed {
            Some(fail) => Err(fail.into()),
            None => Ok(taken),
        }
    }

    /// Waits for datagrams, for room, or for what is due.
    async fn wait(&mut self, connection: &mut Connection, clock: Clock, room: Room) -> Result<()> {
        let at = clock.now();
        let due = self.engine.poll_timeout(at);
        let wait = due.map_or(LONG, |due| Duration::from_micros(due.micros_since(at)));
        if !self.line.ready(room, wait).await? {
            self.engine.handle_timeout(connection, clock.now());
        }
        Ok(())
    }
}

impl<L: Line> Mover for Datagrams<L> {
    async fn put(&mut self, connection: &mut Connection, clock: Clock, everything: bool) -> Result<()> {
        let mut heard = clock.now();
        loop {
            let room = self.transmit(connection, clock.now());
            if if everything { self.engine.is_settled() } else { connection.has_room() } {
                return Ok(());
            }
            if self.receive(connection, clock.now(), &mut Nothing)? {
                heard = clock.now();
            } else if clock.now().micros_since(heard) > SILENCE_MICROS {
                bail!("the other end is silent");
            } else {
                self.wait(connection, clock, room).await?;
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
        if !self.receive(connection, clock.now(), sink)? {
            self.wait(connection, clock, Room::Left).await?;
        }
        Ok(())
    }

    /// The other end waits for the last acknowledgement, which would wait for company.
    async fn rest(&mut self, connection: &mut Connection, clock: Clock) -> Result<()> {
        self.transmit(connection, clock.now().plus_micros(DELAY_MICROS));
        Ok(())
    }
}
