//! The JSON form of a bundle. Fields stand in the order of their names and all text is ASCII, so that what serde_json
//! writes is RFC 8785's form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_policy::Timestamp;
use sealane_types::UnixSeconds;
use serde::{Deserialize, Serialize};

use super::error::{BundleError, VERSION};
use crate::limits::{BUNDLE_BYTES_MAX, BUNDLE_PIECES_MAX};
use crate::piece::{Piece, SignedStatement};

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

/// Certificates and lists in base64 of their DER, signatures too.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields)]
enum JsonPiece {
    SnpList { list: String },
    Vcek { vcek: String },
    TcbInfo { signature: String, signer: String, text: String },
    QeIdentity { signature: String, signer: String, text: String },
    TdxRootList { list: String },
    TdxList { list: String, signer: String },
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

impl From<&Piece> for JsonPiece {
    fn from(piece: &Piece) -> Self {
        match piece {
            Piece::SnpList(list) => Self::SnpList { list: STANDARD.encode(list) },
            Piece::Vcek(vcek) => Self::Vcek { vcek: STANDARD.encode(vcek) },
            Piece::TcbInfo(SignedStatement { text, signature, signer }) => Self::TcbInfo {
                signature: STANDARD.encode(signature),
                signer: STANDARD.encode(signer),
                text: text.clone(),
            },
            Piece::QeIdentity(SignedStatement { text, signature, signer }) => Self::QeIdentity {
                signature: STANDARD.encode(signature),
                signer: STANDARD.encode(signer),
                text: text.clone(),
            },
            Piece::TdxRootList(list) => Self::TdxRootList { list: STANDARD.encode(list) },
            Piece::TdxList { list, authority } => {
                Self::TdxList { list: STANDARD.encode(list), signer: STANDARD.encode(authority) }
            }
        }
    }
}

impl JsonPiece {
    fn read(&self) -> Result<Piece, BundleError> {
        Ok(match self {
            Self::SnpList { list } => Piece::SnpList(decode(list)?),
            Self::Vcek { vcek } => Piece::Vcek(decode(vcek)?),
            Self::TcbInfo { signature, signer, text } => Piece::TcbInfo(statement(signature, signer, text)?),
            Self::QeIdentity { signature, signer, text } => {
                Piece::QeIdentity(statement(signature, signer, text)?)
            }
            Self::TdxRootList { list } => Piece::TdxRootList(decode(list)?),
            Self::TdxList { list, signer } => {
                Piece::TdxList { list: decode(list)?, authority: decode(signer)? }
            }
        })
    }
}

fn statement(signature: &str, signer: &str, text: &str) -> Result<SignedStatement, BundleError> {
    // Intel's are ASCII, and then there is one way to write them.
    if !text.is_ascii() {
        return Err(BundleError::Malformed { problem: "a statement is not ASCII".to_owned() });
    }
    Ok(SignedStatement { text: text.to_owned(), signature: decode(signature)?, signer: decode(signer)? })
}

/// Standard base64 with padding, which has one form for each value.
fn decode(text: &str) -> Result<Vec<u8>, BundleError> {
    STANDARD.decode(text).map_err(|error| malformed(&error))
}

fn malformed(error: &impl ToString) -> BundleError {
    BundleError::Malformed { problem: error.to_string() }
}
