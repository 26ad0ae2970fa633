//! Both ends of one stream, which hand each other what they would put into frames.

use anyhow::{Result, bail, ensure};
use sealane_protocol::frame::{Chunk, Incarnation, Sequence, Sequences, StreamId, Taken, TensorHeader};
use sealane_protocol::transfer::{Announced, Inbound, Outbound, Place, Reply, Step};

use crate::micro::Operation;

const STREAM: StreamId = StreamId(1);
const INCARNATION: Incarnation = Incarnation([1; 16]);
/// What a tensor is said to hold: ends look at lengths alone, and count what they are handed.
const TENSOR: [u8; 64] = [7; 64];

struct Stream {
    out: Outbound,
    inward: Inbound,
    /// The next to be pushed, to be taken, and to settle.
    next: u64,
    oldest: u64,
    settled: u64,
}

/// A tensor from push to settled, while others are in flight.
pub(super) struct Way(Stream);

/// A stream on another connection.
pub(super) struct Resend {
    stream: Stream,
    count: usize,
}

impl Stream {
    fn new(in_flight: u64) -> Result<Self> {
        let mut out = Outbound::new(STREAM, INCARNATION);
        let mut inward = Inbound::new(INCARNATION, 0);
        inward.attach(&out.attach())?;
        let mut stream = Self { out, inward, next: 0, oldest: 0, settled: 0 };
        stream.replies()?;
        for _ in 0..in_flight {
            stream.send()?;
        }
        Ok(stream)
    }

    /// One more tensor, until all of it arrived.
    fn send(&mut self) -> Result<()> {
        let (sequence, length) = (Sequence(self.next), TENSOR.len() as u64);
        self.next += 1;
        self.out.push(sequence, 1, length)?;
        let announce = self.out.next_step();
        ensure!(announce == Some(Step::Announce { sequence }), "not announced but {announce:?}");
        self.out.announced();
        let announced = self.inward.on_tensor(&TensorHeader::of_bytes(STREAM, sequence, &length))?;
        ensure!(announced == Announced::New, "a new tensor is {announced:?}");
        self.inward.reserved(sequence);
        self.replies()?;
        let data = self.out.next_step();
        ensure!(
            data == Some(Step::Data { sequence, offset: 0, length_max: length }),
            "not sent but {data:?}"
        );
        self.out.sent(length);
        let place = self.inward.on_chunk(&Chunk { stream: STREAM, sequence, offset: 0, bytes: &TENSOR })?;
        ensure!(place == Place::Write { complete: true }, "what arrived is {place:?}");
        Ok(())
    }

    /// The application takes the oldest, and the sender hears of it.
    fn take(&mut self) -> Result<()> {
        let sequence = Sequence(self.oldest);
        self.oldest += 1;
        self.inward.taken(sequence);
        self.replies()?;
        let settled = self.out.poll_settled();
        ensure!(settled == Some(sequence), "settled {settled:?}, not {sequence:?}");
        self.settled += 1;
        Ok(())
    }

    /// What the receiving end owes reaches the sending one.
    fn replies(&mut self) -> Result<()> {
        while let Some(reply) = self.inward.poll_reply() {
            match reply {
                Reply::Credit(credit) => self.out.on_credit(credit),
                Reply::Taken(sequences) => {
                    self.out.on_taken(&Taken { stream: STREAM, sequences: Sequences::new(&sequences) })?;
                }
                Reply::Ended(_) => bail!("a stream that goes on has ended"),
                Reply::Placed(..) => bail!("nothing was striped"),
            }
        }
        Ok(())
    }
}

impl Way {
    pub(super) fn new(in_flight: u64) -> Result<Self> {
        Stream::new(in_flight).map(Self)
    }
}

impl Operation for Way {
    type Made = Result<()>;

    fn run(&mut self) -> Result<()> {
        self.0.send()?;
        self.0.take()
    }

    fn wrong(&mut self, made: Result<()>) -> Option<String> {
        let Stream { settled, oldest, .. } = &self.0;
        let counted = (settled != oldest).then(|| format!("{settled} of {oldest} settled"));
        made.err().map(|error| format!("{error:#}")).or(counted)
    }
}

impl Resend {
    pub(super) fn new(in_flight: u64) -> Result<Self> {
        Ok(Self { stream: Stream::new(in_flight)?, count: usize::try_from(in_flight)? })
    }
}

impl Operation for Resend {
    type Made = Result<(usize, usize)>;

    /// How many go out again, and how many arrivals were cut off.
    fn run(&mut self) -> Self::Made {
        let Stream { out, inward, .. } = &mut self.stream;
        let open = out.attach();
        let cut_off = inward.attach(&open)?;
        Ok((out.unacknowledged().count(), cut_off.len()))
    }

    /// All go out again, none was cut off, and the receiving end knows the last of them for a repeat.
    fn wrong(&mut self, made: Self::Made) -> Option<String> {
        let last = Sequence(self.stream.next.saturating_sub(1));
        match made {
            Err(error) => Some(format!("{error:#}")),
            Ok(found) if found != (self.count, 0) => {
                Some(format!("{found:?} of {} go out again", self.count))
            }
            Ok(_) if !self.stream.inward.knows(last) => Some("what arrived was forgotten".to_owned()),
            Ok(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_settle_in_order_and_go_out_again_until_then() {
        let mut way = Way::new(100).unwrap();
        let made = (0..10_000).try_for_each(|_| way.run());
        assert_eq!(way.wrong(made), None);
        let mut resend = Resend::new(100).unwrap();
        let made = resend.run();
        assert_eq!(resend.wrong(made), None);
        resend.count = 99;
        let made = resend.run();
        assert!(resend.wrong(made).is_some());
    }
}
