//! Frame → bytes.

use super::control::{Control, Fragment};
use super::decode::kind;
use super::{ByteRange, Frame, PipeId, Sequence, Sequences, StreamId, TensorHeader};
use crate::codec::{CodecError, Writer};
use crate::limits::{BULK_BYTES_MAX, FRAME_BODY_BYTES_MAX, FRAME_HEADER_BYTES};

/// Bytes of a chunk frame beside its data.
pub(crate) const CHUNK_OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + 4 + 8 + 8;
/// Bytes of a frame of pipe data beside its data.
pub(crate) const PIPE_DATA_OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + 4;

/// A frame of either family, to be written.
pub(crate) enum Outgoing<'a> {
    Data(&'a Frame<'a>),
    Bulk(ByteRange),
    Control(&'a Control<'a>),
}

impl From<ByteRange> for Outgoing<'_> {
    fn from(range: ByteRange) -> Self {
        Self::Bulk(range)
    }
}

impl<'a> From<&'a Frame<'a>> for Outgoing<'a> {
    fn from(frame: &'a Frame<'a>) -> Self {
        Self::Data(frame)
    }
}

impl<'a> From<&'a Control<'a>> for Outgoing<'a> {
    fn from(frame: &'a Control<'a>) -> Self {
        Self::Control(frame)
    }
}

/// Writes `frame` to the front of `output` and returns its length.
pub(crate) fn encode<'a>(frame: impl Into<Outgoing<'a>>, output: &mut [u8]) -> Result<usize, CodecError> {
    let (header, body) = output.split_first_chunk_mut::<FRAME_HEADER_BYTES>().ok_or(CodecError::NoRoom)?;
    let mut writer = Writer::new(body);
    let kind = match frame.into() {
        Outgoing::Data(frame) => data(frame, &mut writer)?,
        Outgoing::Bulk(range) => bulk(range, &mut writer)?,
        Outgoing::Control(frame) => control(frame, &mut writer)?,
    };
    finish(kind, header, writer.used())
}

/// Writes a chunk whose data `fill` puts straight into its place. On an error nothing counts as written.
pub(crate) fn put_chunk<E>(
    (stream, sequence, offset): (StreamId, Sequence, u64),
    data: usize,
    output: &mut [u8],
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Result<usize, E>, CodecError> {
    let fill = |space: &mut [u8]| fill(space).map(|()| data);
    put_filled(kind::CHUNK, data, output, fill, |writer| {
        writer.u32(stream.0)?;
        writer.u64(sequence.0)?;
        writer.u64(offset)
    })
}

/// Writes pipe data that `fill` puts straight into its place: at most `data` bytes, and how many it says. On an error
/// nothing counts as written.
pub(crate) fn put_pipe_data<E>(
    pipe: PipeId,
    data: usize,
    output: &mut [u8],
    fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
) -> Result<Result<usize, E>, CodecError> {
    put_filled(kind::PIPE_DATA, data, output, fill, |writer| writer.u32(pipe.0))
}

fn put_filled<E>(
    kind: u8,
    data: usize,
    output: &mut [u8],
    fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    fields: impl FnOnce(&mut Writer<'_>) -> Result<(), CodecError>,
) -> Result<Result<usize, E>, CodecError> {
    let (header, body) = output.split_first_chunk_mut::<FRAME_HEADER_BYTES>().ok_or(CodecError::NoRoom)?;
    let mut writer = Writer::new(body);
    fields(&mut writer)?;
    let unused = match fill(writer.gap(data)?) {
        Ok(0) => return Err(CodecError::Value),
        Ok(filled) => data.checked_sub(filled).ok_or(CodecError::Value)?,
        Err(refused) => return Ok(Err(refused)),
    };
    finish(kind, header, writer.used().saturating_sub(unused)).map(Ok)
}

fn finish(kind: u8, header: &mut [u8; FRAME_HEADER_BYTES], body: usize) -> Result<usize, CodecError> {
    if body > FRAME_BODY_BYTES_MAX {
        return Err(CodecError::TooLong);
    }
    let mut writer = Writer::new(header);
    writer.u8(kind)?;
    writer.u24(body)?;
    body.checked_add(FRAME_HEADER_BYTES).ok_or(CodecError::TooLong)
}

fn data(frame: &Frame<'_>, writer: &mut Writer<'_>) -> Result<u8, CodecError> {
    writer.u32(frame.subject().number())?;
    match frame {
        Frame::Open(open) => {
            writer.put(&open.incarnation.0)?;
            writer.u64(open.base_sequence.0)?;
            Ok(kind::OPEN)
        }
        Frame::Tensor(header) => {
            tensor(header, writer)?;
            Ok(if header.run { kind::RUN } else { kind::TENSOR })
        }
        Frame::Striped(header) => {
            if header.run || header.length == 0 {
                return Err(CodecError::Value);
            }
            tensor(header, writer)?;
            Ok(kind::STRIPED)
        }
        Frame::Placed { sequence, .. } => {
            writer.u64(sequence.0)?;
            Ok(kind::PLACED)
        }
        Frame::Chunk(chunk) => {
            writer.u64(chunk.sequence.0)?;
            writer.u64(chunk.offset)?;
            payload(chunk.bytes, writer)?;
            Ok(kind::CHUNK)
        }
        Frame::Credit(credit) => {
            writer.u64(credit.bytes_through)?;
            writer.u64(credit.tensors_through)?;
            Ok(kind::CREDIT)
        }
        Frame::Taken(taken) => {
            sequences(&taken.sequences, writer)?;
            Ok(kind::TAKEN)
        }
        Frame::End(end) => {
            writer.u64(end.tensors)?;
            writer.u64(end.bytes)?;
            Ok(kind::END)
        }
        Frame::Ended(_) => Ok(kind::ENDED),
        Frame::Abort(_) => Ok(kind::ABORT),
        Frame::Lost(lost) => {
            sequences(&lost.sequences, writer)?;
            Ok(kind::LOST)
        }
        Frame::PipeOpen(_) => Ok(kind::PIPE_OPEN),
        Frame::PipeData { bytes, .. } => {
            payload(bytes, writer)?;
            Ok(kind::PIPE_DATA)
        }
        Frame::PipeCredit { bytes_through, .. } => {
            writer.u64(*bytes_through)?;
            Ok(kind::PIPE_CREDIT)
        }
        Frame::PipeEnd { bytes, .. } => {
            writer.u64(*bytes)?;
            Ok(kind::PIPE_END)
        }
        Frame::PipeReset { reason, .. } => {
            writer.u16(reason.code())?;
            Ok(kind::PIPE_RESET)
        }
    }
}

fn tensor(header: &TensorHeader<'_>, writer: &mut Writer<'_>) -> Result<(), CodecError> {
    header.check().map_err(|_| CodecError::Value)?;
    writer.u64(header.sequence.0)?;
    writer.u64(header.length)?;
    writer.u8(header.dtype.code())?;
    writer.u8(u8::try_from(header.shape.rank()).map_err(|_| CodecError::TooLong)?)?;
    header.shape.dimensions().try_for_each(|dimension| writer.u64(dimension))?;
    writer.text(header.name)
}

fn bulk(range: ByteRange, writer: &mut Writer<'_>) -> Result<u8, CodecError> {
    if range.length == 0 {
        return Err(CodecError::Value);
    }
    if range.length > BULK_BYTES_MAX {
        return Err(CodecError::TooLong);
    }
    writer.u32(range.stream.0)?;
    writer.u64(range.sequence.0)?;
    writer.u64(range.offset)?;
    writer.u24(range.length)?;
    Ok(kind::BULK)
}

fn payload(bytes: &[u8], writer: &mut Writer<'_>) -> Result<(), CodecError> {
    if bytes.is_empty() { Err(CodecError::Value) } else { writer.put(bytes) }
}

fn sequences(sequences: &Sequences<'_>, writer: &mut Writer<'_>) -> Result<(), CodecError> {
    let mut count = 0_usize;
    for sequence in sequences.iter() {
        count = count.saturating_add(1);
        writer.u64(sequence.0)?;
    }
    if count == 0 || count > crate::limits::TAKEN_SEQUENCES_MAX {
        return Err(CodecError::TooLong);
    }
    Ok(())
}

fn control(frame: &Control<'_>, writer: &mut Writer<'_>) -> Result<u8, CodecError> {
    match frame {
        Control::Confirm(confirm) => confirm.write(writer).map(|()| kind::CONFIRM),
        Control::Policy(part) => fragment(part, writer).map(|()| kind::POLICY),
        Control::Evidence(part) => fragment(part, writer).map(|()| kind::EVIDENCE),
        Control::Ready => Ok(kind::READY),
        Control::Ping(token) => writer.u64(*token).map(|()| kind::PING),
        Control::Pong(token) => writer.u64(*token).map(|()| kind::PONG),
        Control::Pad => Ok(kind::PAD),
        Control::Close(reason) => writer.u16(reason.code()).map(|()| kind::CLOSE),
        Control::Renew { step, message } => {
            writer.u8(*step)?;
            writer.put(message).map(|()| kind::RENEW)
        }
        Control::Ticket { id, seconds } => {
            writer.put(&id.0)?;
            writer.u32(*seconds).map(|()| kind::TICKET)
        }
    }
}

fn fragment(part: &Fragment<'_>, writer: &mut Writer<'_>) -> Result<(), CodecError> {
    writer.u64(part.epoch)?;
    writer.u32(part.total)?;
    writer.u32(part.offset)?;
    writer.put(part.bytes)
}
