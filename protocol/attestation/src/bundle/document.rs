//! The JSON form of a bundle. Fields stand in the order of their names and all text is ASCII, so that what serde_json
//! writes is RFC 8785's form.

use sealane_policy::Timestamp;
use sealane_types::UnixSeconds;
use serde::{Deserialize, Serialize};

use super::error::{BundleError, VERSION, malformed};
use super::json_piece::JsonPiece;
use crate::limits::{BUNDLE_BYTES_MAX, BUNDLE_PIECES_MAX};
use crate::piece::Piece;

/// What an owner vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// When it was put together. Of two, the later one counts.
    pub issued: UnixSeconds,
    /// Statements of Intel's with a lower tcbEvaluationDataNumber are not taken, wherever they come from.
    pub min_tcb_evaluation: Option<u32>,
    pub pieces: Vec<Piece>,
}

impl Bundle {
    /// The exact bytes that are signed.
    ///
    /// # Errors
    /// [`BundleError`] when it is larger than any verifier takes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, BundleError> {
        check_count(self.pieces.len())?;
        let bytes = Json::from(self).to_bytes()?;
        check_size(&bytes, BUNDLE_BYTES_MAX)?;
        Ok(bytes)
    }

    /// Reads exact bytes; says nothing about who signed them.
    ///
    /// # Errors
    /// [`BundleError`] for anything that [`Self::to_bytes`] does not write.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BundleError> {
        check_size(bytes, BUNDLE_BYTES_MAX)?;
        let json = Json::read(bytes)?;
        check_count(json.pieces())?;
        let bundle = Self::try_from(&json)?;
        // What is not written back the same would mean the same to nobody else.
        if json.to_bytes()? != bytes {
            return Err(BundleError::NotCanonical);
        }
        Ok(bundle)
    }
}

pub(super) fn check_size(bytes: &[u8], most: usize) -> Result<(), BundleError> {
    if bytes.len() > most { Err(BundleError::TooLarge { most }) } else { Ok(()) }
}

fn check_count(found: usize) -> Result<(), BundleError> {
    if found > BUNDLE_PIECES_MAX { Err(BundleError::TooManyPieces { found }) } else { Ok(()) }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Json {
    issued: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_tcb_evaluation: Option<u32>,
    pieces: Vec<JsonPiece>,
    version: u64,
}

impl Json {
    fn read(bytes: &[u8]) -> Result<Self, BundleError> {
        let json: Self = serde_json::from_slice(bytes).map_err(|error| malformed(&error))?;
        if json.version != VERSION {
            return Err(BundleError::Version { found: json.version });
        }
        Ok(json)
    }

    fn to_bytes(&self) -> Result<Vec<u8>, BundleError> {
        serde_json::to_vec(self).map_err(|error| malformed(&error))
    }

    fn pieces(&self) -> usize {
        self.pieces.len()
    }
}

impl From<&Bundle> for Json {
    fn from(bundle: &Bundle) -> Self {
        let Bundle { issued, min_tcb_evaluation, pieces } = bundle;
        Self {
            issued: Timestamp::from(*issued).to_string(),
            min_tcb_evaluation: *min_tcb_evaluation,
            pieces: pieces.iter().map(JsonPiece::from).collect(),
            version: VERSION,
        }
    }
}

impl TryFrom<&Json> for Bundle {
    type Error = BundleError;
    fn try_from(json: &Json) -> Result<Self, BundleError> {
        let Json { issued, min_tcb_evaluation, pieces, version: _ } = json;
        let issued: Timestamp = issued.parse().map_err(|error| malformed(&error))?;
        let pieces = pieces.iter().map(JsonPiece::read).collect::<Result<_, _>>()?;
        Ok(Self { issued: issued.unix(), min_tcb_evaluation: *min_tcb_evaluation, pieces })
    }
}
