//! Evidence or policy as it arrives in fragments.

use super::Fail;
use crate::frame::control::Fragment;

/// Fragments so far. Memory grows with what has arrived, never with what was announced.
#[derive(Debug)]
pub(super) struct Assembly {
    epoch: u64,
    total: usize,
    bytes: Vec<u8>,
}

/// Adds `fragment` to what is in `slot` and yields the whole with its epoch when it is complete.
pub(super) fn assemble(
    slot: &mut Option<Assembly>,
    fragment: &Fragment<'_>,
    bytes_max: usize,
) -> Result<Option<(u64, Vec<u8>)>, Fail> {
    const LIMIT: Fail = Fail::Limit("evidence or policy");
    let total = usize::try_from(fragment.total).map_err(|_| LIMIT)?;
    if total > bytes_max {
        return Err(LIMIT);
    }
    let mut assembly = slot.take().unwrap_or(Assembly { epoch: fragment.epoch, total, bytes: Vec::new() });
    let continues = assembly.epoch == fragment.epoch
        && assembly.total == total
        && usize::try_from(fragment.offset) == Ok(assembly.bytes.len());
    if !continues {
        return Err(Fail::Order("a fragment does not continue the one before it"));
    }
    if fragment.bytes.len() > total.saturating_sub(assembly.bytes.len()) {
        return Err(LIMIT);
    }
    assembly.bytes.extend_from_slice(fragment.bytes);
    if assembly.bytes.len() == total {
        return Ok(Some((assembly.epoch, assembly.bytes)));
    }
    *slot = Some(assembly);
    Ok(None)
}
