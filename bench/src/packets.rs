//! Tensors of one record each, from the sender's memory to the receiver's, on one core: what our record layer costs a
//! packet.

use anyhow::Result;
use sealane_protocol::Moment;
use sealane_protocol::connection::{BulkError, BulkOpened, BulkRecord, Connection, Sink};
use sealane_protocol::frame::{Frame, Sequence, StreamId, TensorHeader};
use sealane_protocol::record::Rekey;
use sealane_types::Reason;

use crate::message::Payloads;
use crate::micro::Operation;
use crate::ours::{Direct, Ours, drain};

const STREAM: StreamId = StreamId(1);
/// Sealed bytes that lie ready at once: as many as a batch of the product has.
const BATCH_BYTES: usize = 256 << 10;
/// Bytes of a record beside its payload, rounded up.
const OVERHEAD_BYTES: usize = 128;

/// What of a packet's way is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Frames are built, and sealed into what a carrier would take.
    Build,
    /// Records are opened where they were read, and their frames parsed, and the payload is put where it belongs.
    Parse,
    /// Both, packet by packet.
    Whole,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Packets {
    part: Part,
    direct: Direct,
    now: Moment,
    payloads: Payloads,
    sent: u64,
    sealed: Vec<u8>,
    /// Where the next record begins that is to be opened, and how long one is.
    at: usize,
    record: usize,
    taken: Taken,
}

impl Packets {
    pub(crate) fn new(ours: &Ours, rekey: Rekey, bytes: usize, part: Part) -> Result<Self> {
        let direct = ours.direct(rekey)?;
        let taken = Taken { count: 0, memory: vec![0; bytes], wrong: None };
        let (payloads, sealed) = (Payloads::new(bytes), Vec::with_capacity(2 * BATCH_BYTES));
        Ok(Self { part, direct, now: ours.now(), payloads, sent: 0, sealed, at: 0, record: 0, taken })
    }

    /// Lets another pair of connections carry its first message. What is wrong with it; none if all is right.
    pub(crate) fn exchange(&mut self, pair: &mut (Connection, Connection)) -> Option<String> {
        self.swap(pair);
        (self.sent, self.taken.count) = (0, 0);
        let made = self.run();
        let wrong = self.wrong(made);
        self.swap(pair);
        wrong
    }

    const fn swap(&mut self, (dialled, accepted): &mut (Connection, Connection)) {
        std::mem::swap(&mut self.direct.dialled, dialled);
        std::mem::swap(&mut self.direct.accepted, accepted);
    }

    fn build(&mut self) -> Result<()> {
        let Self { direct, now, payloads, sent, sealed, .. } = self;
        let message = payloads.message(*sent);
        let (sequence, length) = (Sequence(*sent), message.len() as u64);
        *sent += 1;
        let header = TensorHeader::of_bytes(STREAM, sequence, &length);
        direct.dialled.send(&Frame::Tensor(header))?;
        direct.dialled.send_bytes(STREAM, sequence, 0, &message[..])?;
        drain(&mut direct.dialled, *now, |bytes| {
            sealed.extend_from_slice(bytes);
            Ok(())
        })
    }

    /// Opens the next `bytes` that lie ready.
    fn parse(&mut self, bytes: usize) -> Result<()> {
        let Self { direct, now, sealed, at, taken, .. } = self;
        let sealed = &mut sealed[*at..*at + bytes];
        *at += direct.accepted.handle_input(*now, sealed, taken)?;
        Ok(())
    }

    fn clear(&mut self) {
        self.sealed.clear();
        self.at = 0;
    }
}

impl Operation for Packets {
    type Made = Result<()>;

    fn run_max(&self) -> u64 {
        match self.part {
            Part::Build | Part::Parse => {
                (BATCH_BYTES / (self.payloads.length() + OVERHEAD_BYTES)).max(1) as u64
            }
            Part::Whole => u64::MAX,
        }
    }

    fn prepare(&mut self, count: u64) -> Result<()> {
        self.clear();
        if self.part == Part::Parse {
            for _ in 0..count {
                self.build()?;
            }
            self.record = self.sealed.len() / usize::try_from(count)?;
        }
        Ok(())
    }

    fn run(&mut self) -> Result<()> {
        match self.part {
            Part::Build => self.build(),
            Part::Parse => self.parse(self.record),
            Part::Whole => {
                self.clear();
                self.build()?;
                self.parse(self.sealed.len())
            }
        }
    }

    fn wrong(&mut self, made: Result<()>) -> Option<String> {
        if let Err(error) = made.and_then(|()| self.parse(self.sealed.len() - self.at)) {
            return Some(format!("{error:#}"));
        }
        let Self { sent, payloads, taken, .. } = self;
        if taken.count != *sent {
            return Some(format!("{} of {sent} packets arrived", taken.count));
        }
        let same = taken.memory == **payloads.message(sent.saturating_sub(1));
        taken.wrong.take().or_else(|| (!same).then(|| "the last packet's bytes are wrong".to_owned()))
    }
}

/// The receiver's memory.
#[derive(Debug)]
struct Taken {
    count: u64,
    memory: Vec<u8>,
    wrong: Option<String>,
}

impl Sink for Taken {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        let right = match frame {
            Frame::Tensor(header) => {
                header.sequence.0 == self.count && header.length == self.memory.len() as u64
            }
            Frame::Chunk(chunk) if chunk.bytes.len() == self.memory.len() => {
                self.memory.copy_from_slice(chunk.bytes);
                self.arrived(chunk.sequence, chunk.offset)
            }
            _ => false,
        };
        self.note(right);
        Ok(())
    }

    fn on_bulk(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        let range = record.range();
        let opened = record.open_into((&mut self.memory[..]).into())?;
        let right = self.arrived(range.sequence, range.offset);
        self.note(right);
        Ok(opened)
    }
}

impl Taken {
    /// A whole packet came; yields whether it is the one that comes next.
    const fn arrived(&mut self, sequence: Sequence, offset: u64) -> bool {
        let expected = self.count;
        self.count += 1;
        sequence.0 == expected && offset == 0
    }

    fn note(&mut self, right: bool) {
        if !right {
            self.wrong = Some(format!("packet {}: not what was sent", self.count));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sealane_protocol::handshake::{KeyExchange, Suite};
    use sealane_types::Cipher;

    use super::*;
    use crate::world::World;

    fn packets(part: Part) -> Packets {
        let world = Arc::new(World::new(false).unwrap());
        let ours = Ours::new(&world, Suite::new(KeyExchange::Hybrid, Cipher::Aes256Gcm)).unwrap();
        Packets::new(&ours, Rekey::default(), 1_456, part).unwrap()
    }

    #[test]
    fn a_packet_allocates_nothing_once_all_is_warm() {
        let mut packets = packets(Part::Whole);
        let run = |packets: &mut Packets| (0..64).try_for_each(|_| packets.run());
        run(&mut packets).unwrap();
        let mut last = Ok(());
        let used = allocation_counter::measure(|| last = run(&mut packets));
        assert_eq!((used.count_total, used.bytes_total), (0, 0));
        assert_eq!(packets.wrong(last), None);
    }

    #[test]
    fn a_packet_that_is_changed_or_lost_is_noticed() {
        let mut lost = packets(Part::Build);
        lost.build().unwrap();
        lost.clear();
        assert!(lost.wrong(Ok(())).is_some());
        let mut changed = packets(Part::Build);
        changed.build().unwrap();
        changed.sealed[100] ^= 1;
        assert!(changed.wrong(Ok(())).is_some());
        let mut right = packets(Part::Parse);
        right.prepare(3).unwrap();
        let made = (0..3).try_for_each(|_| right.run());
        assert_eq!(right.wrong(made), None);
    }
}
