//! Bytes → frame, borrowed.

use sealane_types::{Dtype, Reason};

use super::control::{Confirm, Control, Fragment};
use super::tensor::{Shape, TensorHeader};
use super::{
    ByteRange, Chunk, Credit, End, Frame, Incarnation, InvalidTensor, Open, PipeId, Sequence, Sequences,
    Source, StreamId, Taken,
};
use crate::codec::{CodecError, Reader};
use crate::keys::TicketId;
use crate::limits::{
    BULK_BYTES_MAX, FRAGMENT_BYTES_MAX, FRAME_BODY_BYTES_MAX, HANDSHAKE_MESSAGE_BYTES_MAX,
    TAKEN_SEQUENCES_MAX, TENSOR_NAME_BYTES_MAX,
};

/// Frame types on the wire. The list only grows.
pub(crate) mod kind {
    pub(crate) const CONFIRM: u8 = 0x01;
    pub(crate) const POLICY: u8 = 0x02;
    pub(crate) const EVIDENCE: u8 = 0x03;
    pub(crate) const READY: u8 = 0x04;
    pub(crate) const PING: u8 = 0x05;
    pub(crate) const PONG: u8 = 0x06;
    pub(crate) const PAD: u8 = 0x07;
    pub(crate) const CLOSE: u8 = 0x08;
    pub(crate) const RENEW: u8 = 0x09;
    pub(crate) const TICKET: u8 = 0x0a;
    pub(crate) const OPEN: u8 = 0x10;
    pub(crate) const TENSOR: u8 = 0x11;
    pub(crate) const CHUNK: u8 = 0x12;
    pub(crate) const CREDIT: u8 = 0x13;
    pub(crate) const TAKEN: u8 = 0x14;
    pub(crate) const END: u8 = 0x15;
    pub(crate) const ENDED: u8 = 0x16;
    pub(crate) const ABORT: u8 = 0x17;
    pub(crate) const LOST: u8 = 0x18;
    pub(crate) const RUN: u8 = 0x19;
    pub(crate) const BULK: u8 = 0x1a;
    pub(crate) const STRIPED: u8 = 0x1b;
    pub(crate) const PLACED: u8 = 0x1c;
    pub(crate) const PIPE_OPEN: u8 = 0x20;
    pub(crate) const PIPE_DATA: u8 = 0x21;
    pub(crate) const PIPE_CREDIT: u8 = 0x22;
    pub(crate) const PIPE_END: u8 = 0x23;
    pub(crate) const PIPE_RESET: u8 = 0x24;
}

/// Authenticated bytes that are not a frame: the peer is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("the peer sent a frame of unknown type {0:#04x}")]
    UnknownKind(u8),
    #[error("the peer sent a malformed frame")]
    Malformed(#[from] CodecError),
    #[error("the peer announced a tensor of unknown element type {0}")]
    UnknownDtype(u8),
    #[error("the peer announced an impossible tensor")]
    Tensor(#[from] InvalidTensor),
}

/// A frame of either family.
#[derive(Debug, PartialEq)]
pub(crate) enum Decoded<'a> {
    Data(Frame<'a>),
    /// These bytes follow in bulk records.
    Bulk(ByteRange),
    Control(Control<'a>),
}

/// Takes the first frame off `bytes`, which must not be empty, and returns it with what follows it.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Decoded<'_>, &[u8]), FrameError> {
    let mut reader = Reader::new(bytes);
    let kind = reader.u8()?;
    let length = reader.u24()?;
    if length > FRAME_BODY_BYTES_MAX {
        return Err(CodecError::TooLong.into());
    }
    let mut body = Reader::new(reader.take(length)?);
    let frame = match kind {
        kind::BULK => Decoded::Bulk(bulk(&mut body)?),
        kind::OPEN..=kind::PLACED => Decoded::Data(stream(kind, &mut body)?),
        kind::PIPE_OPEN..=kind::PIPE_RESET => Decoded::Data(pipe(kind, &mut body)?),
        _ => Decoded::Control(control(kind, &mut body)?),
    };
    body.finish()?;
    Ok((frame, reader.rest()))
}

fn stream<'a>(kind: u8, body: &mut Reader<'a>) -> Result<Frame<'a>, FrameError> {
    let stream = StreamId(body.u32()?);
    Ok(match kind {
        kind::OPEN => Frame::Open(Open {
            stream,
            incarnation: Incarnation(body.array()?),
            base_sequence: Sequence(body.u64()?),
        }),
        kind::TENSOR => Frame::Tensor(tensor(stream, false, body)?),
        kind::RUN => Frame::Tensor(tensor(stream, true, body)?),
        kind::STRIPED => match tensor(stream, false, body)? {
            TensorHeader { length: 0, .. } => return Err(CodecError::Value.into()),
            header => Frame::Striped(header),
        },
        kind::PLACED => Frame::Placed { stream, sequence: Sequence(body.u64()?) },
        kind::CHUNK => {
            let (sequence, offset) = (Sequence(body.u64()?), body.u64()?);
            Frame::Chunk(Chunk { stream, sequence, offset, bytes: data(body)? })
        }
        kind::CREDIT => {
            Frame::Credit(Credit { stream, bytes_through: body.u64()?, tensors_through: body.u64()? })
        }
        kind::TAKEN => Frame::Taken(taken(stream, body)?),
        kind::END => Frame::End(End { stream, tensors: body.u64()?, bytes: body.u64()? }),
        kind::ENDED => Frame::Ended(stream),
        kind::ABORT => Frame::Abort(stream),
        kind::LOST => Frame::Lost(taken(stream, body)?),
        unknown => return Err(FrameError::UnknownKind(unknown)),
    })
}

fn bulk(body: &mut Reader<'_>) -> Result<ByteRange, FrameError> {
    let (stream, sequence) = (StreamId(body.u32()?), Sequence(body.u64()?));
    let (offset, length) = (body.u64()?, body.u24()?);
    if length == 0 {
        return Err(CodecError::Value.into());
    }
    if length > BULK_BYTES_MAX {
        return Err(CodecError::TooLong.into());
    }
    Ok(ByteRange { stream, sequence, offset, length })
}

fn pipe<'a>(kind: u8, body: &mut Reader<'a>) -> Result<Frame<'a>, FrameError> {
    let pipe = PipeId(body.u32()?);
    Ok(match kind {
        kind::PIPE_OPEN => Frame::PipeOpen(pipe),
        kind::PIPE_DATA => Frame::PipeData { pipe, bytes: data(body)? },
        kind::PIPE_CREDIT => Frame::PipeCredit { pipe, bytes_through: body.u64()? },
        kind::PIPE_END => Frame::PipeEnd { pipe, bytes: body.u64()? },
        kind::PIPE_RESET => Frame::PipeReset { pipe, reason: Reason::from_code(body.u16()?) },
        unknown => return Err(FrameError::UnknownKind(unknown)),
    })
}

fn renew<'a>(body: &mut Reader<'a>) -> Result<Control<'a>, CodecError> {
    let step = body.u8()?;
    let message = data(body)?;
    if !(1..=3).contains(&step) {
        return Err(CodecError::Value);
    }
    if message.len() > HANDSHAKE_MESSAGE_BYTES_MAX {
        return Err(CodecError::TooLong);
    }
    Ok(Control::Renew { step, message })
}

fn ticket<'a>(body: &mut Reader<'a>) -> Result<Control<'a>, CodecError> {
    match (TicketId(body.array()?), body.u32()?) {
        (_, 0) => Err(CodecError::Value),
        (id, seconds) => Ok(Control::Ticket { id, seconds }),
    }
}

/// The rest of the body: payload, at least one byte of it.
fn data<'a>(body: &mut Reader<'a>) -> Result<&'a [u8], CodecError> {
    let bytes = body.take(body.remaining())?;
    if bytes.is_empty() { Err(CodecError::Value) } else { Ok(bytes) }
}

fn taken<'a>(stream: StreamId, body: &mut Reader<'a>) -> Result<Taken<'a>, FrameError> {
    let bytes = body.take(body.remaining())?;
    let (numbers, rest) = bytes.as_chunks::<8>();
    if numbers.is_empty() || numbers.len() > TAKEN_SEQUENCES_MAX || !rest.is_empty() {
        return Err(CodecError::Value.into());
    }
    Ok(Taken { stream, sequences: Sequences(Source::Wire(bytes)) })
}

fn tensor<'a>(stream: StreamId, run: bool, body: &mut Reader<'a>) -> Result<TensorHeader<'a>, FrameError> {
    let sequence = Sequence(body.u64()?);
    let length = body.u64()?;
    let code = body.u8()?;
    let dtype = Dtype::from_code(code).ok_or(FrameError::UnknownDtype(code))?;
    let rank = usize::from(body.u8()?);
    let (dimensions, _) = body.take(rank.saturating_mul(8))?.as_chunks::<8>();
    let shape = Shape::from_wire(dimensions).map_err(|_| CodecError::TooLong)?;
    let name = body.text(TENSOR_NAME_BYTES_MAX)?;
    let header = TensorHeader { stream, sequence, dtype, shape, run, name, length };
    header.check()?;
    Ok(header)
}

fn control<'a>(kind: u8, body: &mut Reader<'a>) -> Result<Control<'a>, FrameError> {
    Ok(match kind {
        kind::CONFIRM => Control::Confirm(Confirm::read(body)?),
        kind::POLICY => Control::Policy(fragment(body)?),
        kind::EVIDENCE => Control::Evidence(fragment(body)?),
        kind::READY => Control::Ready,
        kind::PING => Control::Ping(body.u64()?),
        kind::PONG => Control::Pong(body.u64()?),
        kind::PAD => {
            if body.take(body.remaining())?.iter().any(|byte| *byte != 0) {
                return Err(CodecError::Value.into());
            }
            Control::Pad
        }
        kind::CLOSE => Control::Close(Reason::from_code(body.u16()?)),
        kind::RENEW => renew(body)?,
        kind::TICKET => ticket(body)?,
        unknown => return Err(FrameError::UnknownKind(unknown)),
    })
}

fn fragment<'a>(body: &mut Reader<'a>) -> Result<Fragment<'a>, FrameError> {
    let (epoch, total, offset) = (body.u64()?, body.u32()?, body.u32()?);
    let bytes = body.take(body.remaining())?;
    if bytes.is_empty() || bytes.len() > FRAGMENT_BYTES_MAX {
        return Err(CodecError::Value.into());
    }
    Ok(Fragment { epoch, total, offset, bytes })
}
