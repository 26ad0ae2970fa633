//! Behind the keys of a connection over datagrams: whatever parts a rogue seals, before the verdict and after it.

use std::net::{Ipv4Addr, SocketAddr};

use sealane_protocol::connection::{Event, Fail, Sink};
use sealane_protocol::frame::Frame;
use sealane_support::rogue::{Posted, RogueIs, source};
use sealane_types::Reason;

use crate::script::Script;

/// Lengths that are operations.
pub(crate) const UPDATE: u16 = 0xffff;
pub(crate) const SKIP: u16 = 0xfffe;
pub(crate) const WAIT: u16 = 0xfffd;
pub(crate) const ELSEWHERE: u16 = 0xfffc;
pub(crate) const FRAMES: u16 = 0xfffb;
pub(crate) const AGAIN: u16 = 0xfffa;
/// Operations of one input.
const OPERATIONS_MAX: usize = 400;
/// What goes to an address that was not shown to receive, for what came from it.
const AMPLIFICATION_MAX: usize = 3;

#[derive(Default)]
struct Heard {
    frames: usize,
    bytes: usize,
}

impl Sink for Heard {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        self.frames += 1;
        if let Frame::Chunk(chunk) = frame {
            self.bytes += chunk.bytes.len();
        }
        Ok(())
    }
}

/// Where the rogue may be, or somebody who has nothing to do with it.
fn elsewhere() -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, 9), 14_710).into()
}

struct Run {
    posted: Posted,
    heard: Heard,
    last: Vec<u8>,
    /// Bytes that came from elsewhere, and that went there.
    came: usize,
    went: usize,
    given: usize,
}

impl Run {
    fn deliver(&mut self, packet: Vec<u8>, from: SocketAddr) -> Result<(), Fail> {
        if from != source() {
            self.came += packet.len();
        }
        self.given += packet.len();
        let delivered = self.posted.deliver(&packet, from, &mut self.heard);
        self.last = packet;
        delivered
    }

    fn operate(&mut self, length: u16, script: &mut Script<'_>) -> Result<(), Fail> {
        match length {
            UPDATE => self.posted.packets.update(),
            SKIP => self.posted.packets.skip(script.word().unwrap_or_default().into()),
            WAIT => {
                let Posted { opposed, engine, .. } = &mut self.posted;
                let micros = u64::from(script.word().unwrap_or_default()) * 16;
                opposed.now = opposed.now.plus_micros(micros);
                if opposed.honest.poll_timeout().is_some_and(|due| due <= opposed.now) {
                    opposed.honest.handle_timeout(opposed.now);
                }
                engine.handle_timeout(&mut opposed.honest, opposed.now);
            }
            ELSEWHERE => {
                let packet = self.posted.packets.seal(script.part().unwrap_or_default());
                return self.deliver(packet, elsewhere());
            }
            FRAMES => {
                let frames = script.part().unwrap_or_default();
                self.given += frames.len();
                return self.posted.say(frames, &mut self.heard);
            }
            AGAIN => {
                let packet = self.last.clone();
                return self.deliver(packet, source());
            }
            _ => {
                let packet = self.posted.packets.seal(script.bytes(length.into()));
                return self.deliver(packet, source());
            }
        }
        Ok(())
    }

    fn check(&mut self) {
        let events = &self.posted.opposed.events;
        let established = events.iter().any(|event| matches!(event, Event::Established { .. }));
        assert!(self.heard.frames == 0 || established, "data came up before the verdict");
        assert!(self.heard.bytes <= self.given, "more bytes than came");
        let moved = self.posted.engine.remote() != source();
        for (to, datagram) in self.posted.hear() {
            match to {
                to if to == source() => {}
                to if to == elsewhere() => self.went += datagram.len(),
                to => panic!("to {to}, which nobody spoke of"),
            }
        }
        let allowed = AMPLIFICATION_MAX * self.came;
        assert!(moved || self.went <= allowed, "{} bytes for {} of anybody", self.went, self.came);
    }
}

/// First byte: the rogue's role, and whether it was believed. Then packets, each the plaintext behind its length, or
/// operations in place of a length.
pub(super) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let first = script.byte().unwrap_or_default();
    let rogue_is = if first & 1 == 1 { RogueIs::Responder } else { RogueIs::Initiator };
    let posted = if first & 2 == 0 { Posted::keyed(rogue_is) } else { Posted::established(rogue_is) };
    let mut run = Run { posted, heard: Heard::default(), last: Vec::new(), came: 0, went: 0, given: 0 };
    for _ in 0..OPERATIONS_MAX {
        let Some(length) = script.word() else { break };
        let operated = run.operate(length, &mut script);
        let closed = run.posted.opposed.honest.is_closed();
        if let Err(fail) = operated {
            assert!(closed, "{fail} and still open");
        }
        run.check();
        if closed {
            let ends = run.posted.opposed.events.iter().filter(|event| matches!(event, Event::Closed { .. }));
            assert_eq!(ends.count(), 1, "{:?}", run.posted.opposed.events);
            break;
        }
    }
}
