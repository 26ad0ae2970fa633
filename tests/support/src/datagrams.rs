//! The two sides of a pair over datagrams, each with its engine, as a network sees them.

use std::collections::VecDeque;
use std::net::SocketAddr;

use sealane_protocol::Moment;
use sealane_protocol::datagram::{Engine, Greeter, Greeting, Route, Tuning, route};
use sealane_types::CongestionChoice;

use crate::endpoint::Endpoint;
use crate::pair::{Pair, STREAM, Side};
use crate::world::Counter;

/// What paths of tests carry when nothing else is said.
pub const TUNING: Tuning = Tuning { congestion: CongestionChoice::Cubic, datagram_bytes_max: 1_472 };

/// Largest datagram that a party sends.
pub const SPACE_BYTES: usize = 65_536;

/// One side with the engine that carries its connection. The one that is dialled has none until it was greeted.
pub struct Party {
    pub side: Side,
    pub engine: Option<Engine>,
    pub greeter: Greeter,
    tuning: Tuning,
    random: Counter,
    /// To strangers.
    answers: VecDeque<(SocketAddr, Vec<u8>)>,
    /// Connections that were begun: more than one is a fault of the network's making, and the first counts.
    pub begun: usize,
}

/// The two sides of `pair`: the one that dials, and the one at `responder` that waits.
pub fn parties(pair: Pair, tuning: Tuning, responder: SocketAddr) -> (Party, Party) {
    let Pair { initiator, responder: dialled, now, mut random, .. } = pair;
    let (mut initiator, dialled) = (over_datagrams(initiator), over_datagrams(dialled));
    let engine = Engine::initiate(&mut initiator.connection, responder, tuning, &mut random, now).unwrap();
    let mut party = |side, engine| Party {
        side,
        engine,
        greeter: Greeter::new(&mut random).unwrap(),
        tuning,
        random: Counter(random.draw()),
        answers: VecDeque::new(),
        begun: 0,
    };
    (party(initiator, Some(engine)), party(dialled, None))
}

impl Party {
    /// A datagram arrives.
    pub fn receive(&mut self, now: Moment, from: SocketAddr, datagram: &mut [u8]) {
        let Self { side, engine, .. } = self;
        match engine {
            Some(engine) if !is_for_strangers(datagram) => {
                let handled =
                    engine.handle_datagram(&mut side.connection, now, from, datagram, &mut side.seen);
                if let Err(fail) = handled {
                    side.fail.get_or_insert(fail);
                }
                side.answer(now);
            }
            _ => self.greet(now, from, datagram),
        }
    }

    fn greet(&mut self, now: Moment, from: SocketAddr, datagram: &mut [u8]) {
        let mut space = [0; 256];
        match self.greeter.greet(now, from, datagram, &mut space) {
            Greeting::Answer(length) => self.answers.push_back((from, space[..length].to_vec())),
            Greeting::Begin(beginning) if self.engine.is_none() => {
                self.begun += 1;
                let engine = Engine::accept(&beginning, self.tuning, &mut self.random).unwrap();
                self.engine = Some(engine.ended_by(&self.greeter));
                self.receive_first(now, from, datagram);
            }
            Greeting::Begin(_) | Greeting::Ignore => {}
        }
    }

    fn receive_first(&mut self, now: Moment, from: SocketAddr, datagram: &mut [u8]) {
        let (side, engine) = (&mut self.side, self.engine.as_mut().unwrap());
        let handled = engine.handle_datagram(&mut side.connection, now, from, datagram, &mut side.seen);
        side.fail = side.fail.take().or(handled.err());
        side.answer(now);
    }

    /// The next datagram, if there is one now.
    pub fn transmit(&mut self, now: Moment, space: &mut [u8]) -> Option<(SocketAddr, usize)> {
        if let Some((to, bytes)) = self.answers.pop_front() {
            space[..bytes.len()].copy_from_slice(&bytes);
            return Some((to, bytes.len()));
        }
        let Self { side, engine, .. } = self;
        side.answer(now);
        if side.established().is_some() && !side.connection.is_closed() {
            match &mut side.seen.1 {
                Some(Endpoint::Sender(sender)) => sender.pump(&mut side.connection),
                Some(Endpoint::Receiver(receiver)) => receiver.pump(&mut side.connection, STREAM),
                None => {}
            }
        }
        let transmit = engine.as_mut()?.poll_transmit(&mut side.connection, now, space, 1)?;
        assert_eq!(transmit.bytes, transmit.segment);
        Some((transmit.to, transmit.bytes))
    }

    pub fn timeout(&self, now: Moment) -> Option<Moment> {
        let engine = self.engine.as_ref()?;
        [engine.poll_timeout(now), self.side.connection.poll_timeout()].into_iter().flatten().min()
    }

    pub fn on_timeout(&mut self, now: Moment) {
        let Self { side, engine, .. } = self;
        if side.connection.poll_timeout().is_some_and(|due| due <= now) {
            side.connection.handle_timeout(now);
        }
        if let Some(engine) = engine {
            engine.handle_timeout(&mut side.connection, now);
        }
        side.answer(now);
    }
}

fn over_datagrams(side: Side) -> Side {
    Side { connection: side.connection.over_datagrams(), ..side }
}

fn is_for_strangers(datagram: &[u8]) -> bool {
    matches!(route(datagram), Some(Route::Stranger) | None)
}
