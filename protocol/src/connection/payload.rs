//! Payload that goes straight into a record: of tensors and of pipes.

use super::core::Core;
use super::keyed::{Keyed, refused};
use super::{ApiMisuse, Connection, FillError, SendError, State};
use crate::codec::CodecError;
use crate::frame::{
    ByteRange, CHUNK_OVERHEAD_BYTES, PIPE_DATA_OVERHEAD_BYTES, PipeId, Sequence, StreamId, encode, put_chunk,
    put_pipe_data,
};
use crate::limits::{BULK_BYTES_MIN, CHUNK_BYTES_MIN};
use crate::record::{LengthDiffers, Level, Plaintext};

impl Connection {
    /// Queues bytes of a tensor from `offset` on, as many as there is room for: many in records of their own, sealed straight from
    /// where they lie, few or for packets as a chunk. Whoever writes them meanwhile changes what the remote gets, and nothing
    /// else. Returns how many were queued: at least one.
    ///
    /// # Errors
    /// [`SendError::NoRoom`] until the output is drained.
    pub fn send_bytes<'b>(
        &mut self,
        stream: StreamId,
        sequence: Sequence,
        offset: u64,
        bytes: impl Into<Plaintext<'b>>,
    ) -> Result<usize, SendError> {
        let bytes = bytes.into();
        let Self { core, state } = self;
        let State::Keyed(keyed) = state else { return Err(ApiMisuse::NotEstablished.into()) };
        if core.level == Level::Records && bytes.len() >= BULK_BYTES_MIN {
            let range = ByteRange { stream, sequence, offset, length: bytes.len() };
            return put_bulk(keyed, core, range, bytes);
        }
        let put = put(keyed, core, CHUNK_OVERHEAD_BYTES, bytes.len() as u64, |data, space| {
            put_chunk((stream, sequence, offset), data, space, |space| {
                bytes.slice(0, space.len()).ok_or(LengthDiffers)?.copy_to(space)
            })
        });
        put.map_err(|error| match error {
            FillError::Send(error) => error,
            FillError::Source(LengthDiffers) => ApiMisuse::InvalidFrame.into(),
        })
    }

    /// Queues up to `length_max` bytes of a pipe, as far as [`PipeSender::room`](crate::transfer::pipe::PipeSender::room)
    /// permits. `fill` puts them straight into the record and says how many it had: at least one, or an error. It is called
    /// at most once. Returns how many were queued.
    ///
    /// # Errors
    /// [`SendError::NoRoom`] until the output is drained; `fill`'s own error, with nothing queued.
    pub fn send_pipe_data<E>(
        &mut self,
        pipe: PipeId,
        length_max: u64,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, FillError<E>> {
        let Self { core, state } = self;
        let State::Keyed(keyed) = state else { return Err(misuse(ApiMisuse::NotEstablished)) };
        put(keyed, core, PIPE_DATA_OVERHEAD_BYTES, length_max, |data, space| {
            put_pipe_data(pipe, data, space, fill)
        })
    }
}

/// Makes room for a frame of at most `length_max` bytes of payload and lets `write` put it there, given how many
/// fit. Returns how many were put.
fn put<E>(
    keyed: &mut Keyed,
    core: &mut Core,
    overhead: usize,
    length_max: u64,
    write: impl FnOnce(usize, &mut [u8]) -> Result<Result<usize, E>, CodecError>,
) -> Result<usize, FillError<E>> {
    if !keyed.carries_data() {
        return Err(misuse(ApiMisuse::NotEstablished));
    }
    if length_max == 0 {
        return Err(misuse(ApiMisuse::InvalidFrame));
    }
    keyed.flush(core)?;
    let length_max = usize::try_from(length_max).unwrap_or(usize::MAX);
    let wanted = length_max.min(CHUNK_BYTES_MIN).saturating_add(overhead);
    let space = core.output.space_for(wanted, &mut keyed.sealer, core.now).map_err(refused)?;
    let payload = space.len().saturating_sub(overhead).min(length_max);
    let put = write(payload, space);
    let used = match &put {
        Ok(Ok(used)) => *used,
        _ => 0,
    };
    core.output.advance(used);
    match put {
        Ok(Ok(used)) => Ok(used.saturating_sub(overhead)),
        Ok(Err(source)) => Err(FillError::Source(source)),
        Err(_) => Err(misuse(ApiMisuse::InvalidFrame)),
    }
}

/// Makes room for a frame that announces bulk records and for as many of `range` as there is room for. Returns how many bytes
/// were put.
fn put_bulk(
    keyed: &mut Keyed,
    core: &mut Core,
    range: ByteRange,
    bytes: Plaintext<'_>,
) -> Result<usize, SendError> {
    if !keyed.carries_data() {
        return Err(ApiMisuse::NotEstablished.into());
    }
    keyed.flush(core)?;
    let write = |length, space: &mut [u8]| encode(ByteRange { length, ..range }, space);
    core.output.put_bulk(&mut keyed.sealer, core.now, bytes, write).map_err(refused)
}

fn misuse<E>(misuse: ApiMisuse) -> FillError<E> {
    FillError::Send(SendError::Misuse(misuse))
}
