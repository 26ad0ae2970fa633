//! A change cut to the length of messages.

use prost::bytes::Bytes;

use super::limits::PART_BYTES_MAX;

/// A part of an encoded change. Cutting copies nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub changes: Bytes,
    pub offset: u64,
    pub more: bool,
}

/// The parts of a change in their order; one, without bytes, of an empty change.
pub fn parts(changes: &Bytes) -> impl Iterator<Item = Part> + Send + use<> {
    let changes = changes.clone();
    (0..changes.len().max(1)).step_by(PART_BYTES_MAX).map(move |start| {
        let end = changes.len().min(start.saturating_add(PART_BYTES_MAX));
        Part { changes: changes.slice(start..end), offset: start as u64, more: end < changes.len() }
    })
}
