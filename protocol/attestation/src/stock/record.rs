//! What is held, in a form that outlives the process.
//!
//! Pieces are their vendors' own signed bytes and are verified again when a record is read, so that a record proves nothing
//! and needs no proof. Whoever can write it can take away what was seen, and can put nothing in its place that no vendor
//! signed.

use sealane_types::{Digest, UnixSeconds};
use serde::{Deserialize, Serialize};

use crate::bundle::JsonPiece;
use crate::limits::{RECORD_BYTES_MAX, RECORD_PIECES_MAX};
use crate::piece::Piece;

/// Of the form.
const VERSION: u64 = 1;

/// Why a record is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    #[error("it has more than {RECORD_BYTES_MAX} bytes or {RECORD_PIECES_MAX} pieces")]
    TooLarge,
    #[error("it is no record of collateral: {0}")]
    Malformed(String),
    #[error("it is of version {0}, and this release reads version {VERSION}")]
    Version(u64),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Record {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bundle: Option<AdoptedBundle>,
    pieces: Vec<JsonPiece>,
    version: u64,
}

/// The newest bundle that was adopted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AdoptedBundle {
    pub(super) issued: UnixSeconds,
    /// Of the exact bytes that its owner signed.
    pub(super) digest: Digest,
    /// What it said of statements that are too old; zero where it said nothing.
    pub(super) min_tcb_evaluation: u32,
}

impl Record {
    pub(super) fn new<'a>(bundle: Option<AdoptedBundle>, pieces: impl Iterator<Item = &'a Piece>) -> Self {
        Self { bundle, pieces: pieces.map(JsonPiece::from).collect(), version: VERSION }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Writing plain data into memory cannot fail; an empty record would be refused when it is read.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// # Errors
    /// [`RecordError`]; nothing is read of what is too large.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(RecordError::TooLarge);
        }
        let record: Self =
            serde_json::from_slice(bytes).map_err(|error| RecordError::Malformed(error.to_string()))?;
        if record.version != VERSION {
            return Err(RecordError::Version(record.version));
        }
        if record.pieces.len() > RECORD_PIECES_MAX {
            return Err(RecordError::TooLarge);
        }
        Ok(record)
    }

    /// # Errors
    /// [`RecordError::Malformed`].
    pub(super) fn pieces(&self) -> Result<Vec<Piece>, RecordError> {
        let read =
            |piece: &JsonPiece| piece.read().map_err(|error| RecordError::Malformed(error.to_string()));
        self.pieces.iter().map(read).collect()
    }
}
