//! Which signatures on one document count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_types::{KeyId, PublicKey, Signature};

use crate::limits::INVALID_SIGNATURES_MAX;
use crate::sign::{PAYLOAD_TYPE, key_id, pae_as};

const SIGNATURE_BYTES: usize = 64;

/// What became of the signatures on a document under one set of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Distinct registered keys with a valid signature.
    pub counted: BTreeSet<KeyId>,
    /// Registered keys whose signature does not verify.
    pub invalid: BTreeSet<KeyId>,
    /// Keys that are not registered.
    pub unknown: BTreeSet<KeyId>,
}

impl Tally {
    /// Counts the signatures over the exact bytes of a policy document.
    pub(crate) fn count(document: &[u8], signatures: &[Signature], keys: &BTreeSet<PublicKey>) -> Self {
        Self::count_as(PAYLOAD_TYPE, document, signatures, keys)
    }

    /// Counts the signatures over the exact bytes of a document of this type. The caller bounds their number.
    #[must_use]
    pub fn count_as(
        payload_type: &str,
        document: &[u8],
        signatures: &[Signature],
        keys: &BTreeSet<PublicKey>,
    ) -> Self {
        let registered: BTreeMap<KeyId, &PublicKey> = keys.iter().map(|key| (key_id(key), key)).collect();
        let signed = pae_as(payload_type, document);
        let mut tally = Self::default();
        let mut failed: BTreeMap<KeyId, usize> = BTreeMap::new();
        for signature in signatures {
            let Some(key) = registered.get(&signature.key_id) else {
                tally.unknown.insert(signature.key_id);
                continue;
            };
            let failures = failed.entry(signature.key_id).or_default();
            if tally.counted.contains(&signature.key_id) || *failures >= INVALID_SIGNATURES_MAX {
                continue;
            }
            if verifies(key, &signed, &signature.signature) {
                tally.invalid.remove(&signature.key_id);
                tally.counted.insert(signature.key_id);
            } else {
                *failures += 1;
                tally.invalid.insert(signature.key_id);
            }
        }
        tally
    }

    pub(crate) fn reaches(&self, threshold: u32) -> bool {
        u64::try_from(self.counted.len()).is_ok_and(|counted| counted >= u64::from(threshold))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut write = |what: &str, keys: &BTreeSet<KeyId>| {
            let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
            if keys.is_empty() { Ok(()) } else { write!(f, "; {what}: {}", keys.join(", ")) }
        };
        write("counted", &self.counted)?;
        write("does not verify", &self.invalid)?;
        write("not one of these owners", &self.unknown)
    }
}

fn verifies(key: &PublicKey, signed: &[u8], signature: &str) -> bool {
    // The length is known, so nothing longer is decoded.
    if signature.len() != SIGNATURE_BYTES.div_ceil(3) * 4 {
        return false;
    }
    let Ok(signature) = STANDARD.decode(signature) else { return false };
    UnparsedPublicKey::new(&ED25519, key.as_bytes()).verify(signed, &signature).is_ok()
}
