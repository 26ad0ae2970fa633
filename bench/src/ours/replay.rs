//! A datagram that was taken and comes again, between two connections in one thread.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result, bail, ensure};
use sealane_protocol::Moment;
use sealane_protocol::connection::{Connection, Sink};
use sealane_protocol::datagram::{Engine, Greeter, Greeting, Tuning};
use sealane_protocol::frame::{Frame, Sequence, TensorHeader};
use sealane_types::{CongestionChoice, Reason};

use super::{Nothing, Ours, STREAM};
use crate::micro::Operation;
use crate::random::SystemRandom;
use crate::wire::Side;

/// Bytes of a datagram: what every path carries.
const DATAGRAM_BYTES: u16 = 1_200;
/// What a header is unmasked with lies within so many bytes; the rest of a datagram that comes again is never touched.
const TOUCHED_BYTES: usize = 64;
/// Rounds of a handshake after which it leads nowhere.
const ROUNDS_MAX: u32 = 64;
/// Longer than an acknowledgement or a repetition waits.
const ROUND_MICROS: u64 = 50_000;
/// Longer than a datagram waits for the one before it.
const PACE_MICROS: u64 = 5_000;
const DIALLER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const ACCEPTER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 2);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Replay {
    end: End,
    now: Moment,
    /// As it came the first time, and the same again, whose header the other end unmasks in place.
    original: Vec<u8>,
    again: Vec<u8>,
    failed: Option<String>,
}

/// One end.
#[derive(Debug)]
struct End {
    connection: Connection,
    engine: Engine,
}

/// Counts frames.
#[derive(Debug, Default)]
struct Frames(u64);

impl Ours {
    /// What an end does that took every other one of the datagrams before: it knows of so many `gaps`.
    pub(crate) fn replay(&self, gaps: u64) -> Result<Replay> {
        let mut now = self.now();
        let (mut dialler, mut accepter) = self.meet(&mut now)?;
        let mut frames = Frames::default();
        let mut original = Vec::new();
        for number in 0..=2 * gaps {
            now = now.plus_micros(PACE_MICROS);
            let length = 0;
            let header = TensorHeader::of_bytes(STREAM, Sequence(number), &length);
            dialler.connection.send(&Frame::Tensor(header))?;
            original = dialler.next(now).context("a frame that does not leave")?;
            if number % 2 == 0 {
                accepter.take(DIALLER, now, &mut original.clone(), &mut frames)?;
            }
        }
        ensure!(frames.0 > 0, "nothing was opened");
        now = now.plus_micros(ROUND_MICROS);
        while accepter.next(now).is_some() {}
        let again = original.clone();
        Ok(Replay { end: accepter, now, original, again, failed: None })
    }

    /// Two ends with their verdicts.
    fn meet(&self, now: &mut Moment) -> Result<(End, End)> {
        let tuning = Tuning { congestion: CongestionChoice::Cubic, datagram_bytes_max: DATAGRAM_BYTES };
        let mut connection = self.begin(Side::Dialler)?.over_datagrams();
        let engine = Engine::initiate(&mut connection, ACCEPTER, tuning, &mut SystemRandom, *now)?;
        let mut dialler = End { connection, engine };
        let greeter = Greeter::new(&mut SystemRandom)?;
        let mut waiting = Some(self.begin(Side::Accepter)?.over_datagrams());
        let (mut accepter, mut space): (Option<End>, _) = (None, [0; 64]);
        for _ in 0..ROUNDS_MAX {
            while let Some(mut datagram) = dialler.next(*now) {
                if accepter.is_none() {
                    match greeter.greet(*now, DIALLER, &datagram, &mut space) {
                        Greeting::Answer(length) => {
                            dialler.take(ACCEPTER, *now, &mut space[..length], &mut Nothing)?;
                        }
                        Greeting::Begin(beginning) => {
                            let engine = Engine::accept(&beginning, tuning, &mut SystemRandom)?;
                            accepter = waiting.take().map(|connection| End { connection, engine });
                        }
                        Greeting::Ignore => {}
                    }
                }
                if let Some(end) = &mut accepter {
                    end.take(DIALLER, *now, &mut datagram, &mut Nothing)?;
                }
                self.answer(Side::Dialler, &mut dialler, *now)?;
            }
            if let Some(end) = &mut accepter {
                self.answer(Side::Accepter, end, *now)?;
                while let Some(mut datagram) = end.next(*now) {
                    dialler.take(ACCEPTER, *now, &mut datagram, &mut Nothing)?;
                }
            }
            self.answer(Side::Dialler, &mut dialler, *now)?;
            let settled = |end: &End| end.connection.is_established() && end.engine.is_settled();
            if let Some(end) = accepter.take_if(|end| settled(end) && settled(&dialler)) {
                return Ok((dialler, end));
            }
            *now = now.plus_micros(ROUND_MICROS);
            dialler.engine.handle_timeout(&mut dialler.connection, *now);
            if let Some(end) = &mut accepter {
                end.engine.handle_timeout(&mut end.connection, *now);
            }
        }
        bail!("a handshake leads nowhere")
    }

    fn answer(&self, side: Side, end: &mut End, now: Moment) -> Result<()> {
        while let Some(event) = end.connection.poll_event() {
            self.party(side).answer(event, &mut end.connection, now)?;
        }
        Ok(())
    }
}

impl End {
    /// The next datagram that may leave.
    fn next(&mut self, now: Moment) -> Option<Vec<u8>> {
        let mut space = vec![0; usize::from(DATAGRAM_BYTES)];
        let sent = self.engine.poll_transmit(&mut self.connection, now, &mut space, 1)?;
        space.truncate(sent.bytes);
        Some(space)
    }

    fn take(
        &mut self,
        from: SocketAddr,
        now: Moment,
        datagram: &mut [u8],
        sink: &mut dyn Sink,
    ) -> Result<()> {
        Ok(self.engine.handle_datagram(&mut self.connection, now, from, datagram, sink)?)
    }
}

impl Sink for Frames {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        self.0 += 1;
        Ok(())
    }
}

impl Operation for Replay {
    type Made = ();

    fn run(&mut self) {
        let Self { end, now, original, again, failed } = self;
        let touched = TOUCHED_BYTES.min(original.len());
        again[..touched].copy_from_slice(&original[..touched]);
        if let Err(error) = end.take(DIALLER, *now, again, &mut Nothing) {
            *failed = Some(error.to_string());
        }
    }

    fn wrong(&mut self, (): ()) -> Option<String> {
        // One that is taken asks for an acknowledgement.
        let taken = self.end.next(self.now).map(|_| "a datagram that came again was taken again".to_owned());
        self.failed.take().or(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sealane_protocol::handshake::{KeyExchange, Suite};
    use sealane_types::Cipher;

    use super::*;
    use crate::world::World;

    #[test]
    fn a_datagram_that_is_taken_is_no_replay() {
        let world = Arc::new(World::new(false).unwrap());
        let ours = Ours::new(&world, Suite::new(KeyExchange::Hybrid, Cipher::Aes256Gcm)).unwrap();
        let mut replay = ours.replay(2).unwrap();
        replay.run();
        assert_eq!(replay.wrong(()), None);
        let mut now = ours.now();
        let (mut dialler, accepter) = ours.meet(&mut now).unwrap();
        dialler.connection.send(&Frame::Tensor(TensorHeader::of_bytes(STREAM, Sequence(0), &0))).unwrap();
        let original = dialler.next(now).unwrap();
        let mut fresh = Replay { end: accepter, now, again: original.clone(), original, failed: None };
        fresh.now = now.plus_micros(ROUND_MICROS);
        fresh.run();
        assert!(fresh.wrong(()).is_some());
    }
}
