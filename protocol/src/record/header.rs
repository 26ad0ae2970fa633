//! The four bytes before every message but the hello.

use super::{Level, RecordError};
use crate::limits::{HANDSHAKE_MESSAGE_BYTES_MAX, RECORD_HEADER_BYTES, RECORD_PLAINTEXT_BYTES_MAX};

/// What follows a header. The value is the byte on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// A Noise message.
    Handshake = 1,
    /// A reason, in clear, instead of a handshake message: a hint, since anyone on the path can write it.
    Refusal = 2,
    /// Sealed frames.
    Data = 3,
    /// Sealed, empty: the next record of this direction is under the next key.
    KeyUpdate = 4,
    /// Sealed, empty: the next record of this direction is under the first key of a new handshake.
    Renewed = 5,
    /// Sealed bytes of a tensor and nothing else. A frame before it says which.
    Bulk = 6,
}

/// Type and length of what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: RecordKind,
    /// Bytes after the header, tag included.
    pub(crate) length: usize,
}

const REFUSAL_BYTES: usize = 2;

impl Header {
    /// Reads a header and holds its length against the limits of its type at `level`.
    pub(crate) fn parse(bytes: [u8; RECORD_HEADER_BYTES], level: Level) -> Result<Self, RecordError> {
        let [kind, high, middle, low] = bytes;
        let tag = level.tag_bytes();
        let (kind, range) = match kind {
            1 => (RecordKind::Handshake, 1..=HANDSHAKE_MESSAGE_BYTES_MAX),
            2 => (RecordKind::Refusal, REFUSAL_BYTES..=REFUSAL_BYTES),
            3 => (RecordKind::Data, tag..=tag.saturating_add(RECORD_PLAINTEXT_BYTES_MAX)),
            // Packets say by themselves under which key they are.
            4 if level == Level::Records => (RecordKind::KeyUpdate, tag..=tag),
            5 => (RecordKind::Renewed, tag..=tag),
            // Packets are opened before anybody knows what is in them.
            6 if level == Level::Records => {
                (RecordKind::Bulk, tag.saturating_add(1)..=tag.saturating_add(RECORD_PLAINTEXT_BYTES_MAX))
            }
            _ => return Err(RecordError::Kind),
        };
        let length = usize::try_from(u32::from_be_bytes([0, high, middle, low]));
        let length = length.map_err(|_| RecordError::Length)?;
        if !range.contains(&length) {
            return Err(RecordError::Length);
        }
        Ok(Self { kind, length })
    }

    pub(crate) fn encode(self) -> Result<[u8; RECORD_HEADER_BYTES], RecordError> {
        match u32::try_from(self.length).map(u32::to_be_bytes) {
            Ok([0, high, middle, low]) => Ok([self.kind as u8, high, middle, low]),
            _ => Err(RecordError::Length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_and_refuses_lengths_out_of_range() {
        for (level, kind, length) in [
            (Level::Records, RecordKind::Data, RECORD_PLAINTEXT_BYTES_MAX + 16),
            (Level::Records, RecordKind::KeyUpdate, 16),
            (Level::Records, RecordKind::Renewed, 16),
            (Level::Records, RecordKind::Bulk, 17),
            (Level::Records, RecordKind::Bulk, RECORD_PLAINTEXT_BYTES_MAX + 16),
            (Level::Records, RecordKind::Refusal, 2),
            (Level::Packets, RecordKind::Data, RECORD_PLAINTEXT_BYTES_MAX),
            (Level::Packets, RecordKind::Renewed, 0),
            (Level::Packets, RecordKind::Refusal, 2),
        ] {
            let header = Header { kind, length };
            assert_eq!(Header::parse(header.encode().unwrap(), level), Ok(header));
        }
        let parse = |bytes| Header::parse(bytes, Level::Records);
        for bytes in [
            [3, 0, 0, 15],
            [3, 1, 0, 17],
            [4, 0, 0, 17],
            [5, 0, 0, 17],
            [2, 0, 0, 3],
            [1, 0, 0, 0],
            [1, 1, 0, 0],
            [6, 0, 0, 16],
            [6, 1, 0, 17],
        ] {
            assert_eq!(parse(bytes), Err(RecordError::Length), "{bytes:?}");
        }
        assert_eq!(parse([0, 0, 0, 16]), Err(RecordError::Kind));
        assert_eq!(parse([7, 0, 0, 16]), Err(RecordError::Kind));
        for (bytes, error) in [
            ([3, 1, 0, 1], RecordError::Length),
            ([5, 0, 0, 16], RecordError::Length),
            ([4, 0, 0, 0], RecordError::Kind),
            ([4, 0, 0, 16], RecordError::Kind),
            ([6, 0, 0, 17], RecordError::Kind),
        ] {
            assert_eq!(Header::parse(bytes, Level::Packets), Err(error), "{bytes:?}");
        }
    }
}
