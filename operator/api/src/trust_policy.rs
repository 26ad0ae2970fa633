//! TrustPolicy: the quorum-signed document, its signatures and the roots it is checked against.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use sealane_types::{
    InvalidName, Namespace, ParseHexError, PolicyName, Roots, Signature, SignedChain, SignedDocument,
};
use serde::{Deserialize, Serialize};

use crate::schema;

/// A policy document signed by a quorum of its owners. The data plane verifies it; the cluster only carries it.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sealane.dev",
    version = "v1alpha1",
    kind = "TrustPolicy",
    plural = "trustpolicies",
    namespaced,
    status = "TrustPolicyStatus",
    derive = "PartialEq",
    shortname = "slpol",
    category = "sealane",
    doc = "A policy document signed by a quorum of its owners. The data plane verifies it; the cluster only carries it.",
    annotation("helm.sh/resource-policy", "keep"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.adopted"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Epoch", type_ = "integer", json_path = ".status.epoch"),
    printcolumn(name = "Expires", type_ = "string", json_path = ".status.expires"),
    printcolumn(name = "Current until", type_ = "string", json_path = ".status.staleAfter", priority = 1),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#,
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.roots == oldSelf.roots", "message": "roots are immutable: sign a rotation, or make a new TrustPolicy", "fieldPath": ".roots"},
]))]
pub struct TrustPolicySpec {
    /// Whose signatures count, from the first epoch on. Immutable.
    pub roots: RootsSpec,
    /// Base64 of the exact signed bytes.
    #[schemars(schema_with = "schema::document")]
    pub document: String,
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["keyId"]))]
    pub signatures: Vec<SignatureSpec>,
    /// Documents that changed the authorities, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub rotations: Vec<SignedDocumentSpec>,
}

/// The trust anchor: `threshold` of `keys` sign the documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.threshold <= size(self.keys)", "message": "threshold exceeds the number of keys: with two keys it is 1 or 2", "fieldPath": ".threshold"},
]))]
pub struct RootsSpec {
    #[schemars(range(min = 1, max = 16))]
    pub threshold: i32,
    /// Ed25519 public keys in lower-case hex.
    #[schemars(schema_with = "schema::hex32_set")]
    pub keys: Vec<String>,
    /// Documents of lower epochs are refused.
    #[serde(default = "first_epoch")]
    #[schemars(range(min = 1))]
    pub minimum_epoch: i64,
}

const fn first_epoch() -> i64 {
    1
}

/// One owner's Ed25519 signature over the DSSE encoding of the exact document bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignatureSpec {
    /// SHA-256 of the public key, in lower-case hex.
    #[schemars(schema_with = "schema::hex32")]
    pub key_id: String,
    /// Base64 of the 64 signature bytes.
    #[schemars(schema_with = "schema::signature")]
    pub signature: String,
}

/// A document with its signatures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedDocumentSpec {
    /// Base64 of the exact signed bytes.
    #[schemars(schema_with = "schema::document")]
    pub document: String,
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["keyId"]))]
    pub signatures: Vec<SignatureSpec>,
}

/// A field of a TrustPolicy that cannot be what it says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidField {
    #[error("{field}: {source}")]
    Hex { field: String, source: ParseHexError },
    #[error("{field}: {source}")]
    Name { field: &'static str, source: InvalidName },
    #[error("{field}: must be at least 1")]
    NotPositive { field: &'static str },
}

impl TrustPolicySpec {
    /// The roots as the data plane reads them.
    ///
    /// # Errors
    /// [`InvalidField`] names the field that the schema should have refused.
    pub fn roots(&self, namespace: &str, policy: &str) -> Result<Roots, InvalidField> {
        let name = |field| move |source| InvalidField::Name { field, source };
        let positive = |field| InvalidField::NotPositive { field };
        let RootsSpec { threshold, keys, minimum_epoch } = &self.roots;
        let mut parsed = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            let field = format!("spec.roots.keys[{index}]");
            parsed.push(key.parse().map_err(|source| InvalidField::Hex { field, source })?);
        }
        Ok(Roots {
            namespace: Namespace::new(namespace).map_err(name("metadata.namespace"))?,
            policy: PolicyName::new(policy).map_err(name("metadata.name"))?,
            threshold: u32::try_from(*threshold)
                .ok()
                .filter(|threshold| *threshold > 0)
                .ok_or(positive("spec.roots.threshold"))?,
            keys: parsed,
            minimum_epoch: u64::try_from(*minimum_epoch).map_err(|_| positive("spec.roots.minimumEpoch"))?,
        })
    }

    /// The signed chain as the data plane reads it.
    ///
    /// # Errors
    /// [`InvalidField`] names the field that the schema should have refused.
    pub fn chain(&self) -> Result<SignedChain, InvalidField> {
        let mut rotations = Vec::with_capacity(self.rotations.len());
        for (index, rotation) in self.rotations.iter().enumerate() {
            rotations.push(SignedDocument {
                document: rotation.document.clone(),
                signatures: signatures(&format!("spec.rotations[{index}].signatures"), &rotation.signatures)?,
            });
        }
        Ok(SignedChain {
            document: self.document.clone(),
            signatures: signatures("spec.signatures", &self.signatures)?,
            rotations,
        })
    }
}

fn signatures(field: &str, signatures: &[SignatureSpec]) -> Result<Vec<Signature>, InvalidField> {
    let mut parsed = Vec::with_capacity(signatures.len());
    for (index, SignatureSpec { key_id, signature }) in signatures.iter().enumerate() {
        let field = format!("{field}[{index}].keyId");
        let key_id = key_id.parse().map_err(|source| InvalidField::Hex { field, source })?;
        parsed.push(Signature { key_id, signature: signature.clone() });
    }
    Ok(parsed)
}

/// What the operator found when it verified the document as a sidecar would.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustPolicyStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// SHA-256 of the exact document bytes, in lower-case hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub digest: Option<String>,
    /// How many owners must sign, as the document states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<i32>,
    /// Key ids of the owners whose signatures were counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 64)))]
    pub signers: Vec<String>,
    /// Replicas of the Peers that follow this policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Those of them that act by this epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<i32>,
    /// First moment at which the document is no longer in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Time>,
    /// Until when this status is kept up to date. Past it, no operator has written it for too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_after: Option<Time>,
}
