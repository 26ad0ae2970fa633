//! Payload that goes straight into a record: of tensors and of pipes.

use super::core::Core;
use super::keyed::{Keyed, refused};
use super::{ApiMisuse, ChunkError, SendError};
use crate::codec::CodecError;
use crate::limits::CHUNK_BYTES_MIN;

/// Makes room for a frame of at most `length_max` bytes of payload and lets `write` put it there, given how many
/// fit. Returns how many were put.
pub(super) fn put<E>(
    keyed: &mut Keyed,
    core: &mut Core,
    overhead: usize,
    length_max: u64,
    write: impl FnOnce(usize, &mut [u8]) -> Result<Result<usize, E>, CodecError>,
) -> Result<usize, ChunkError<E>> {
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
        Ok(Err(source)) => Err(ChunkError::Source(source)),
        Err(_) => Err(misuse(ApiMisuse::InvalidFrame)),
    }
}

pub(super) fn misuse<E>(misuse: ApiMisuse) -> ChunkError<E> {
    ChunkError::Send(SendError::Misuse(misuse))
}
