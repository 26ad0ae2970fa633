//! Peer: a workload that takes part, and what it must prove.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use sealane_types::Provider;
use serde::{Deserialize, Serialize};

use crate::{DurationText, schema};

/// A workload that takes part in transfer sessions, and how it proves what it is.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sealane.dev",
    version = "v1alpha1",
    kind = "Peer",
    namespaced,
    status = "PeerStatus",
    derive = "PartialEq",
    shortname = "slp",
    category = "sealane",
    doc = "A workload that takes part in transfer sessions, and how it proves what it is.",
    annotation("helm.sh/resource-policy", "keep"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.ready"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.desired"),
    printcolumn(name = "Platform", type_ = "string", json_path = ".status.platform"),
    printcolumn(name = "Assurance", type_ = "string", json_path = ".status.assurance"),
    printcolumn(name = "TCB", type_ = "string", json_path = ".status.tcbStatus"),
    printcolumn(name = "Current until", type_ = "string", json_path = ".status.staleAfter", priority = 1),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#,
        priority = 1
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.sidecarVersion", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.selector) != has(self.external)", "message": "a Peer is either pods or something outside of the cluster: set either selector, for example selector: {matchLabels: {app: embedder}}, or external, for example external: {addresses: [\"203.0.113.7:14710\"], publicKey: 9f86d081 and 56 more digits}"},
    {"rule": "!has(self.external) || !has(self.attestation) || (self.attestation.provider in ['Auto', 'Key'] && !has(self.attestation.keySecretRef))", "message": "a Peer outside of the cluster proves itself by the key that its own configuration names: leave provider and keySecretRef out", "fieldPath": ".attestation"},
    {"rule": "!has(self.selector) || !has(self.attestation) || (self.attestation.provider == 'Key') == has(self.attestation.keySecretRef)", "message": "provider Key needs the Secret with the key, and no other provider uses one, for example attestation: {provider: Key, keySecretRef: {name: embedder-key}}", "fieldPath": ".attestation"},
]))]
pub struct PeerSpec {
    /// The pods of this namespace that are replicas of the Peer. A pod belongs to at most one Peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::selector")]
    pub selector: Option<LabelSelector>,
    /// Sidecars outside of the cluster that are the replicas of the Peer, in place of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    /// The signed policy that says what this Peer must prove and whom it may talk to.
    pub trust_policy_ref: TrustPolicyReference,
    #[serde(default)]
    pub attestation: Attestation,
}

/// A TrustPolicy of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustPolicyReference {
    #[schemars(schema_with = "schema::name")]
    pub name: String,
}

/// Replicas that are no pods: sidecars that somebody runs with `sealane-sidecar run --config`, without a TEE. They are
/// neither injected nor configured from here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct External {
    /// Where each replica listens, as seen from the pods: IP address and port.
    #[schemars(schema_with = "schema::addresses")]
    pub addresses: Vec<String>,
    /// The Ed25519 key by which the replicas prove themselves, as `sealane-sidecar keygen` prints it. What counts is
    /// that the signed policy lists it.
    #[schemars(schema_with = "schema::pinned_key")]
    pub public_key: String,
}

/// A Secret of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    #[schemars(schema_with = "schema::name")]
    pub name: String,
}

/// How the replicas obtain evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attestation {
    /// Where evidence comes from. Auto picks the strongest real provider that is present, never Simulated.
    #[serde(default = "auto")]
    #[schemars(schema_with = "schema::provider")]
    pub provider: Provider,
    /// With provider Key: the Secret whose `key.pem` is the private key of the replicas. The API server, etcd and the
    /// node know it too; the assurance is Key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_secret_ref: Option<SecretReference>,
    /// How often the replicas, and those that they have sessions with, prove themselves again while a session lives:
    /// between 10s and 24h. Of two Peers the shorter one counts.
    #[serde(default = "reattest_after")]
    #[schemars(schema_with = "schema::reattest_after")]
    pub reattest_after: DurationText,
}

const fn auto() -> Provider {
    Provider::Auto
}

fn reattest_after() -> DurationText {
    DurationText("10m".to_owned())
}

impl Default for Attestation {
    fn default() -> Self {
        Self { provider: auto(), key_secret_ref: None, reattest_after: reattest_after() }
    }
}

/// What the replicas report. Advisory: the data plane judges evidence by itself and never reads this.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeerStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Pods that the selector matches and that are not finished; of a Peer outside of the cluster its addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<i32>,
    /// Replicas that hold a verified policy and verified evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<i32>,
    /// Replicas whose evidence is verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attested: Option<i32>,
    /// Replicas that are accepted with a degradation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<i32>,
    /// Platforms of the replicas, joined by `+` when they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub platform: Option<String>,
    /// The weakest assurance of the attested replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub assurance: Option<String>,
    /// The weakest TCB status of the attested replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub tcb_status: Option<String>,
    /// The longest ago that one of the replicas appraised itself last; of a Peer outside of the cluster, that one proved
    /// itself to a pod. No age of what sessions rest on: those are attested again after `reattestAfter`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_evidence: Option<Time>,
    /// The earliest expiry among collateral and policy in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earliest_expiry: Option<Time>,
    /// The lowest policy epoch that a replica acts by; below that of the TrustPolicy while replicas still adopt it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_epoch: Option<i64>,
    /// At most 50 replicas, unready ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["pod"]))]
    pub replicas: Vec<ReplicaStatus>,
    /// Versions of the sidecars, joined by `+` when they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub sidecar_version: Option<String>,
    /// The version of the operator that wrote this, and of the sidecars that it gives to pods made now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub operator_version: Option<String>,
    /// Until when this status is kept up to date. Past it, no operator has written it for too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_after: Option<Time>,
}

/// One replica as it reported itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatus {
    #[schemars(length(max = 253))]
    pub pod: String,
    #[serde(default)]
    pub ready: bool,
    /// Why the replica is not ready, or how it is degraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,
    /// Address and data port of the sidecar. A replica outside of the cluster is known by what it proved to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub platform: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub assurance: Option<String>,
    /// Of simulated evidence: the real platform that it resembles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub simulated_form: Option<String>,
    /// Where the replica's trust roots came from. Never counted as assurance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub root_source: Option<String>,
    /// The policy epoch that the replica acts by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_epoch: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub measurement: Option<String>,
    /// The replica's X25519 public key in hex; of a replica outside of the cluster the pinned Ed25519 key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub public_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub tcb_status: Option<String>,
    /// The version of the sidecar, as it states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub version: Option<String>,
    /// When the replica appraised itself last, which it does every ten minutes and when policy or collateral change; of
    /// one outside of the cluster, when it proved itself to a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_time: Option<Time>,
    /// When the earliest of the collateral in use expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collateral_expires: Option<Time>,
}
