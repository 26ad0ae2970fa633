//! Frames of a verified peer: strict, and each has one encoding.

use sealane_protocol::connection::Sink;
use sealane_protocol::frame::{
    Chunk, End, Frame, PipeId, Sequence, Sequences, Shape, StreamId, Taken, TensorHeader,
};
use sealane_protocol::limits::RECORD_PLAINTEXT_BYTES_MAX;
use sealane_support::rogue::{Opposed, RogueIs, split};
use sealane_types::{Dtype, Reason};

/// A frame that outlives its record.
enum Kept {
    Plain(Frame<'static>),
    Tensor {
        stream: StreamId,
        sequence: Sequence,
        length: u64,
        dtype: Dtype,
        shape: Vec<u64>,
        run: bool,
        name: String,
        striped: bool,
    },
    Chunk {
        stream: StreamId,
        sequence: Sequence,
        offset: u64,
        bytes: Vec<u8>,
    },
    Pipe {
        pipe: PipeId,
        bytes: Vec<u8>,
    },
    Sequences {
        stream: StreamId,
        sequences: Vec<Sequence>,
        lost: bool,
    },
}

#[derive(Default)]
struct Heard(Vec<Kept>);

impl Sink for Heard {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        self.0.push(match frame {
            Frame::Open(open) => Kept::Plain(Frame::Open(open)),
            Frame::Credit(credit) => Kept::Plain(Frame::Credit(credit)),
            Frame::End(End { stream, tensors, bytes }) => {
                Kept::Plain(Frame::End(End { stream, tensors, bytes }))
            }
            Frame::Ended(stream) => Kept::Plain(Frame::Ended(stream)),
            Frame::PipeOpen(pipe) => Kept::Plain(Frame::PipeOpen(pipe)),
            Frame::PipeCredit { pipe, bytes_through } => {
                Kept::Plain(Frame::PipeCredit { pipe, bytes_through })
            }
            Frame::PipeEnd { pipe, bytes } => Kept::Plain(Frame::PipeEnd { pipe, bytes }),
            Frame::PipeReset { pipe, reason } => Kept::Plain(Frame::PipeReset { pipe, reason }),
            Frame::PipeData { pipe, bytes } => Kept::Pipe { pipe, bytes: bytes.to_vec() },
            Frame::Abort(stream) => Kept::Plain(Frame::Abort(stream)),
            Frame::Placed { stream, sequence } => Kept::Plain(Frame::Placed { stream, sequence }),
            Frame::Tensor(header) => Kept::tensor(header, false),
            Frame::Striped(header) => Kept::tensor(header, true),
            Frame::Chunk(Chunk { stream, sequence, offset, bytes }) => {
                Kept::Chunk { stream, sequence, offset, bytes: bytes.to_vec() }
            }
            Frame::Taken(Taken { stream, sequences }) => {
                Kept::Sequences { stream, sequences: sequences.iter().collect(), lost: false }
            }
            Frame::Lost(Taken { stream, sequences }) => {
                Kept::Sequences { stream, sequences: sequences.iter().collect(), lost: true }
            }
        });
        Ok(())
    }
}

impl Kept {
    fn tensor(header: TensorHeader<'_>, striped: bool) -> Self {
        let TensorHeader { stream, sequence, dtype, shape, run, name, length } = header;
        let (shape, name) = (shape.dimensions().collect(), name.to_owned());
        Self::Tensor { stream, sequence, length, dtype, shape, run, name, striped }
    }

    fn send(&self, opposed: &mut Opposed) {
        let frame = match self {
            Self::Plain(frame) => *frame,
            Self::Tensor { stream, sequence, length, dtype, shape, run, name, striped } => {
                let header = TensorHeader {
                    stream: *stream,
                    sequence: *sequence,
                    dtype: *dtype,
                    shape: Shape::new(shape).unwrap(),
                    run: *run,
                    name,
                    length: *length,
                };
                if *striped { Frame::Striped(header) } else { Frame::Tensor(header) }
            }
            Self::Chunk { stream, sequence, offset, bytes } => {
                Frame::Chunk(Chunk { stream: *stream, sequence: *sequence, offset: *offset, bytes })
            }
            Self::Pipe { pipe, bytes } => Frame::PipeData { pipe: *pipe, bytes },
            Self::Sequences { stream, sequences, lost } => {
                let taken = Taken { stream: *stream, sequences: Sequences::new(sequences) };
                if *lost { Frame::Lost(taken) } else { Frame::Taken(taken) }
            }
        };
        opposed.honest.send(&frame).expect("what was accepted can be said");
    }
}

pub(super) fn run(data: &[u8]) {
    let data = &data[..data.len().min(RECORD_PLAINTEXT_BYTES_MAX)];
    let mut opposed = Opposed::established(RogueIs::Initiator);
    let mut heard = Heard::default();
    let result = opposed.say(data, &mut heard);
    // What says that bulk records follow is the connection's own.
    let is_heard = |frame: &&[u8]| frame[0] >= 0x10 && frame[0] != 0x1a;
    let streams: Vec<&[u8]> = split(data).into_iter().filter(is_heard).collect();
    assert!(heard.0.len() <= streams.len(), "more frames than there are");
    if result.is_err() || opposed.honest.is_closed() {
        return;
    }
    assert_eq!(heard.0.len(), streams.len(), "a frame was passed over");
    opposed.hear();
    for (kept, bytes) in heard.0.iter().zip(streams) {
        let one_way = match kept {
            // Only the side that dialled says this, and a reason of a later version reads as 0.
            Kept::Plain(Frame::PipeOpen(_) | Frame::PipeReset { reason: Reason::Unspecified, .. }) => true,
            _ => false,
        };
        if one_way {
            continue;
        }
        kept.send(&mut opposed);
        assert_eq!(opposed.hear().concat(), bytes, "it encodes as it came");
    }
}
