//! The sending end of a stream, whose receiver holds genuine keys and no promise.

use std::collections::BTreeSet;

use sealane_protocol::frame::{Credit, Incarnation, Sequence, Sequences, StreamId, Taken};
use sealane_protocol::transfer::{Outbound, Step};

use crate::script::Script;

const STREAM: StreamId = StreamId(1);

#[derive(Default)]
struct Model {
    next: u64,
    pushed: BTreeSet<Sequence>,
    settled: BTreeSet<Sequence>,
    bytes_through: u64,
    tensors_through: u64,
    bytes: u64,
    tensors: u64,
    attached: bool,
    ended: bool,
}

pub(super) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let mut outbound = Outbound::new(STREAM, Incarnation([5; 16]));
    let mut model = Model::default();
    while let Some(kind) = script.byte() {
        let value = u64::from(script.word().unwrap_or_default());
        match kind % 8 {
            0 => model.push(&mut outbound, value),
            1 | 2 => model.step(&mut outbound, value),
            3 => {
                let credit = Credit { stream: STREAM, bytes_through: value, tensors_through: value % 64 };
                outbound.on_credit(credit);
                if model.attached {
                    model.bytes_through = model.bytes_through.max(credit.bytes_through);
                    model.tensors_through = model.tensors_through.max(credit.tensors_through);
                }
            }
            4 => {
                let sequences = [Sequence(value % 64), Sequence(value / 64 % 64)];
                let taken = Taken { stream: STREAM, sequences: Sequences::new(&sequences) };
                // A receiver that lies about the first may be believed about nothing; the connection ends.
                if outbound.on_taken(&taken).is_err() {
                    model.cut(&mut outbound);
                }
            }
            5 => {
                let open = outbound.attach();
                model.attach();
                let below = outbound.unacknowledged().any(|sequence| sequence < open.base_sequence);
                assert!(!below, "what is below the base is settled");
            }
            6 => {
                if outbound.on_ended().is_ok() {
                    assert!(model.ended && outbound.is_settled(), "ended before its end");
                }
            }
            _ => outbound.finish(),
        }
        model.settle(&mut outbound);
    }
}

impl Model {
    fn push(&mut self, outbound: &mut Outbound, length: u64) {
        let sequence = Sequence(self.next);
        if outbound.push(sequence, 1, length % 5_000).is_ok() {
            self.pushed.insert(sequence);
            self.next += 1;
            assert!(outbound.push(sequence, 1, 1).is_err(), "one number, one tensor");
        }
    }

    fn step(&mut self, outbound: &mut Outbound, value: u64) {
        match outbound.next_step() {
            Some(Step::Announce { sequence }) => {
                assert!(self.pushed.contains(&sequence));
                assert!(!self.settled.contains(&sequence), "what was taken goes out no more");
                outbound.announced();
                self.tensors += 1;
                assert!(self.tensors <= self.tensors_through, "announced without credit");
            }
            Some(Step::Data { length_max, .. }) => {
                let sent = 1 + value % length_max;
                outbound.sent(sent);
                self.bytes += sent;
                assert!(self.bytes <= self.bytes_through, "sent without credit");
            }
            Some(Step::End(end)) => {
                assert_eq!((end.tensors, end.bytes), (self.tensors, self.bytes), "totals are the truth");
                outbound.end_sent();
                self.ended = true;
            }
            None => {}
        }
        assert!(self.attached || outbound.next_step().is_none(), "there is nowhere to send");
    }

    fn attach(&mut self) {
        *self = Self {
            next: self.next,
            pushed: std::mem::take(&mut self.pushed),
            settled: std::mem::take(&mut self.settled),
            attached: true,
            ..Self::default()
        };
    }

    fn cut(&mut self, outbound: &mut Outbound) {
        outbound.detach();
        self.attach();
        self.attached = false;
    }

    fn settle(&mut self, outbound: &mut Outbound) {
        while let Some(sequence) = outbound.poll_settled() {
            assert!(self.pushed.contains(&sequence));
            assert!(self.settled.insert(sequence), "{sequence:?} settles once");
        }
    }
}
