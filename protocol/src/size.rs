//! Sizes as numbers of the protocol and as lengths of what lies in memory.

pub(crate) fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// What is kept fits memory.
pub(crate) fn index(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
