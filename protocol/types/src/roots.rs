//! What a sidecar starts its trust from, and the signed envelope that it checks against it.

use serde::{Deserialize, Serialize};

use crate::digest::hex_bytes;
use crate::platform::words;
use crate::{KeyId, Namespace, PolicyName};

hex_bytes!(
    /// An Ed25519 public key, of a policy owner or of a Peer without a TEE, or the X25519 key of an auditor.
    PublicKey,
    32
);

words!(
    /// Where the roots of a sidecar came from, weakest first. Shown in status, never counted as assurance.
    RootSource {
        /// Copied by the control plane.
        Injected,
        /// Part of the image or of a manifest rendered by the owner.
        File,
        /// Measured together with the guest.
        Initdata,
    }
);

/// The member of initdata's `data` that holds roots: a JSON list of [`Roots`].
pub const INITDATA_ROOTS: &str = "sealane-roots.json";

/// Bytes of an initdata that a sidecar reads at most, unpacked.
pub const INITDATA_BYTES_MAX: usize = 1 << 20;

/// The trust anchor of one policy: `threshold` of `keys` sign its documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Roots {
    pub namespace: Namespace,
    pub policy: PolicyName,
    pub threshold: u32,
    pub keys: Vec<PublicKey>,
    pub minimum_epoch: u64,
}

/// One owner's Ed25519 signature over DSSE PAE of the document's exact bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Signature {
    pub key_id: KeyId,
    /// Standard base64 of the 64 signature bytes.
    pub signature: String,
}

/// A policy document with its signatures, as TrustPolicy carries it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignedDocument {
    /// Standard base64 of the exact signed bytes.
    pub document: String,
    pub signatures: Vec<Signature>,
}

/// A document and the authority changes that lead to it from the roots, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignedChain {
    /// Standard base64 of the exact signed bytes.
    pub document: String,
    pub signatures: Vec<Signature>,
    /// Documents that changed `authorities`, signed by the thresholds of the old and the new set.
    #[serde(default)]
    pub rotations: Vec<SignedDocument>,
}
