//! Signed bundles: collateral for verifiers that cannot reach the vendors.
//!
//! A bundle is a JSON document in its only form (RFC 8785: members sorted, no spaces), signed by an owner of the policy
//! over DSSE PAE with a payload type of its own. Every piece in it is signed by its vendor and verified again when it is
//! taken, so one owner suffices: the signature says how old the whole is, so that whoever delivers bundles cannot go back
//! to an earlier one that is still in date. `COLLATERAL.md` beside this crate is the format.

mod document;
mod error;
mod json_piece;

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_policy::{SigningKey, Tally, digest_of, sign_as};
use sealane_types::{Digest, KeyId, PublicKey, Signature, SignedDocument, UnixSeconds};

use crate::limits::{
    BUNDLE_AHEAD_SECONDS_MAX, BUNDLE_BYTES_MAX, BUNDLE_FILE_BYTES_MAX, BUNDLE_SIGNATURES_MAX,
};
use document::check_size;

pub use document::Bundle;
pub use error::BundleError;
pub(crate) use json_piece::JsonPiece;

/// The DSSE payload type under which bundles are signed.
pub const PAYLOAD_TYPE: &str = "application/vnd.sealane.collateral.v1+json";

impl Bundle {
    /// The file that verifiers read, signed by `key`.
    ///
    /// # Errors
    /// As [`Self::to_bytes`].
    pub fn sign(&self, key: &SigningKey) -> Result<Vec<u8>, BundleError> {
        let bytes = self.to_bytes()?;
        let signatures = vec![sign_as(PAYLOAD_TYPE, &bytes, key)];
        let envelope = SignedDocument { document: STANDARD.encode(&bytes), signatures };
        serde_json::to_vec(&envelope).map_err(|error| BundleError::NotEnvelope { problem: error.to_string() })
    }
}

/// A bundle that an owner signed. Comes only from [`open`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedBundle {
    bundle: Bundle,
    digest: Digest,
    signers: Vec<KeyId>,
}

impl VerifiedBundle {
    #[must_use]
    pub const fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// SHA-256 of the exact signed bytes.
    #[must_use]
    pub const fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The owners whose signatures verify.
    #[must_use]
    pub fn signers(&self) -> &[KeyId] {
        &self.signers
    }
}

/// Reads a bundle's file that at least one of `owners` signed. Nothing of it is parsed before that is certain.
///
/// # Errors
/// [`BundleError`].
pub fn open(
    file: &[u8],
    owners: &BTreeSet<PublicKey>,
    now: UnixSeconds,
) -> Result<VerifiedBundle, BundleError> {
    let (bytes, signatures) = envelope(file)?;
    let tally = Tally::count_as(PAYLOAD_TYPE, &bytes, &signatures, owners);
    if tally.counted.is_empty() {
        return Err(BundleError::Unsigned(tally));
    }
    let bundle = Bundle::from_bytes(&bytes)?;
    let issued = bundle.issued;
    if issued > now.plus(BUNDLE_AHEAD_SECONDS_MAX) {
        return Err(BundleError::FromTheFuture { issued });
    }
    Ok(VerifiedBundle { bundle, digest: digest_of(&bytes), signers: tally.counted.into_iter().collect() })
}

/// Reads a bundle's file without asking who signed it, and names those who say they did: for whoever looks at it.
///
/// # Errors
/// [`BundleError`].
pub fn read(file: &[u8]) -> Result<(Bundle, Vec<KeyId>), BundleError> {
    let (bytes, signatures) = envelope(file)?;
    let signers = signatures.iter().map(|signature| signature.key_id).collect();
    Ok((Bundle::from_bytes(&bytes)?, signers))
}

fn envelope(file: &[u8]) -> Result<(Vec<u8>, Vec<Signature>), BundleError> {
    check_size(file, BUNDLE_FILE_BYTES_MAX)?;
    let SignedDocument { document, signatures } = serde_json::from_slice(file)
        .map_err(|error| BundleError::NotEnvelope { problem: error.to_string() })?;
    if signatures.len() > BUNDLE_SIGNATURES_MAX {
        return Err(BundleError::TooManySignatures { found: signatures.len() });
    }
    let bytes = STANDARD.decode(document).map_err(|_| BundleError::NotBase64)?;
    check_size(&bytes, BUNDLE_BYTES_MAX)?;
    Ok((bytes, signatures))
}
