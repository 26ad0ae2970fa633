//! The JSON form of a piece, in bundles and in the record of what is held.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::error::{BundleError, malformed};
use crate::piece::{Piece, SignedStatement};

/// Certificates and lists in base64 of their DER, signatures too.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields)]
pub(crate) enum JsonPiece {
    SnpList { list: String },
    Vcek { vcek: String },
    TcbInfo { signature: String, signer: String, text: String },
    QeIdentity { signature: String, signer: String, text: String },
    TdxRootList { list: String },
    TdxList { list: String, signer: String },
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
    pub(crate) fn read(&self) -> Result<Piece, BundleError> {
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
