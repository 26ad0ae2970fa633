//! What the sidecar says.

use sealane_types::Reason;

use super::super::limits;
use super::{HEADER_BYTES, VERSION};
use crate::handoff::{DIMENSIONS_MAX, LaneFailure, ReplicaId, Span, TensorHeader};

/// The exception that a client raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(in super::super) enum Failure {
    NotReady = 1,
    Refused = 2,
    Closed = 3,
    /// The client broke a rule of the wire.
    Misuse = 4,
}

impl From<LaneFailure> for Failure {
    fn from(failure: LaneFailure) -> Self {
        match failure {
            LaneFailure::NotReady => Self::NotReady,
            LaneFailure::Refused => Self::Refused,
            LaneFailure::Closed => Self::Closed,
        }
    }
}

/// One tensor of a `DELIVER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Entry<'a> {
    pub(in super::super) delivery: u64,
    pub(in super::super) sequence: u64,
    pub(in super::super) offset: u64,
    pub(in super::super) length: u64,
    pub(in super::super) segment: u32,
    pub(in super::super) sender: u32,
    pub(in super::super) header: &'a TensorHeader,
}

/// A message to a client. Lists are short enough for one message: the callers gather them by encoded size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Reply<'a> {
    Welcome { put_bytes_max: u64, process: [u8; 16] },
    Segment { lane: u32, segment: u32, bytes: u64, take: bool },
    NoSegment { lane: u32, bytes: u64, reason: Reason, message: &'a str },
    Opened { lane: u32, window: u32 },
    Failed { lane: u32, failure: Failure, reason: Reason, message: &'a str },
    Assigned { lane: u32, entries: &'a [(Span, Vec<ReplicaId>)] },
    Taken { lane: u32, ranges: &'a [(u64, u64)] },
    Uncertain { lane: u32, ranges: &'a [(u64, u64)] },
    Closed { lane: u32 },
    Sender { lane: u32, number: u32, name: &'a str },
    Deliver { lane: u32, entries: &'a [Entry<'a>] },
    Interrupted { lane: u32, sender: &'a str },
    Ended { lane: u32 },
    Dropped { lane: u32, segment: u32 },
}

impl Reply<'_> {
    /// Replaces what `message` holds.
    pub(in super::super) fn encode(&self, message: &mut Vec<u8>) {
        message.clear();
        match *self {
            Self::Welcome { put_bytes_max, process } => {
                header(message, 65, 0, 0, 0);
                message.extend_from_slice(&VERSION.to_le_bytes());
                message.extend_from_slice(&(DIMENSIONS_MAX as u16).to_le_bytes());
                message.extend_from_slice(&(limits::MESSAGE_BYTES_MAX as u32).to_le_bytes());
                message.extend_from_slice(&limits::SEGMENT_BYTES.to_le_bytes());
                message.extend_from_slice(&put_bytes_max.to_le_bytes());
                message.extend_from_slice(&process);
            }
            Self::Segment { lane, segment, bytes, take } => {
                header(message, 66, u8::from(take), 0, lane);
                message.extend_from_slice(&segment.to_le_bytes());
                message.extend_from_slice(&bytes.to_le_bytes());
            }
            Self::NoSegment { lane, bytes, reason, message: words } => {
                header(message, 67, 0, 0, lane);
                message.extend_from_slice(&bytes.to_le_bytes());
                text(message, reason.as_str());
                long_text(message, words);
            }
            Self::Opened { lane, window } => {
                header(message, 68, 0, 0, lane);
                message.extend_from_slice(&window.to_le_bytes());
            }
            Self::Failed { lane, failure, reason, message: words } => {
                header(message, 69, failure as u8, 0, lane);
                text(message, reason.as_str());
                long_text(message, words);
            }
            Self::Assigned { lane, entries } => assigned(message, lane, entries),
            Self::Taken { lane, ranges } => spans(message, 71, lane, ranges),
            Self::Uncertain { lane, ranges } => spans(message, 72, lane, ranges),
            Self::Closed { lane } => header(message, 73, 0, 0, lane),
            Self::Sender { lane, number, name } => {
                header(message, 74, 0, 0, lane);
                message.extend_from_slice(&number.to_le_bytes());
                long_text(message, name);
            }
            Self::Deliver { lane, entries } => deliver(message, lane, entries),
            Self::Interrupted { lane, sender } => {
                header(message, 76, 0, 0, lane);
                long_text(message, sender);
            }
            Self::Ended { lane } => header(message, 77, 0, 0, lane),
            Self::Dropped { lane, segment } => {
                header(message, 78, 0, 0, lane);
                message.extend_from_slice(&segment.to_le_bytes());
            }
        }
        debug_assert!(message.len() <= limits::MESSAGE_BYTES_MAX && message.len() >= HEADER_BYTES);
    }
}

fn header(message: &mut Vec<u8>, kind: u8, flags: u8, count: usize, lane: u32) {
    message.extend_from_slice(&[kind, flags]);
    message.extend_from_slice(&(count as u16).to_le_bytes());
    message.extend_from_slice(&lane.to_le_bytes());
}

fn text(message: &mut Vec<u8>, words: &str) {
    let words = shortened(words, usize::from(u8::MAX));
    message.push(words.len() as u8);
    message.extend_from_slice(words.as_bytes());
}

fn long_text(message: &mut Vec<u8>, words: &str) {
    let words = shortened(words, limits::MESSAGE_BYTES_MAX / 2);
    message.extend_from_slice(&(words.len() as u16).to_le_bytes());
    message.extend_from_slice(words.as_bytes());
}

/// At most `bytes` of `words`, cut between characters.
fn shortened(words: &str, bytes: usize) -> &str {
    words.get(..words.floor_char_boundary(bytes)).unwrap_or_default()
}

fn spans(message: &mut Vec<u8>, kind: u8, lane: u32, ranges: &[(u64, u64)]) {
    header(message, kind, 0, ranges.len(), lane);
    for (first, last) in ranges {
        message.extend_from_slice(&first.to_le_bytes());
        message.extend_from_slice(&last.to_le_bytes());
    }
}

/// Bytes of one assignment. A session never names more than [`limits::REPLICAS_MAX`] replicas.
pub(in super::super) fn assigned_bytes(replicas: usize) -> usize {
    12 + 16 * replicas.min(limits::REPLICAS_MAX)
}

fn assigned(message: &mut Vec<u8>, lane: u32, entries: &[(Span, Vec<ReplicaId>)]) {
    header(message, 70, 0, entries.len(), lane);
    for (span, replicas) in entries {
        let replicas = replicas.get(..limits::REPLICAS_MAX).unwrap_or(replicas);
        message.extend_from_slice(&span.first.0.to_le_bytes());
        message.extend_from_slice(&(span.tensors() as u16).to_le_bytes());
        message.extend_from_slice(&(replicas.len() as u16).to_le_bytes());
        replicas.iter().for_each(|replica| message.extend_from_slice(&replica.0));
    }
}

fn deliver(message: &mut Vec<u8>, lane: u32, entries: &[Entry<'_>]) {
    header(message, 75, 0, entries.len(), lane);
    for entry in entries {
        for number in [entry.delivery, entry.sequence, entry.offset, entry.length] {
            message.extend_from_slice(&number.to_le_bytes());
        }
        message.extend_from_slice(&entry.segment.to_le_bytes());
        message.extend_from_slice(&entry.sender.to_le_bytes());
        let TensorHeader { dtype, shape, run, name } = entry.header;
        message.extend_from_slice(&[dtype.code(), shape.len() as u8, name.len() as u8, u8::from(*run)]);
        shape.iter().for_each(|dimension| message.extend_from_slice(&dimension.to_le_bytes()));
        message.extend_from_slice(name.as_bytes());
    }
}
