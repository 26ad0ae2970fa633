//! TransferSession: a declared flow from one Peer to others.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use sealane_types::{Carrier, Cipher, CongestionChoice, Delivery};
use serde::{Deserialize, Serialize};

use crate::emptied::{or_null, or_unknown};
use crate::recommendation::RecommendedTransport;
use crate::schema;
use crate::{ByteQuantity, DurationText};

/// A declared flow from one Peer to others. It takes effect only where both Peers' TrustPolicy permits it.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sealane.dev",
    version = "v1alpha1",
    kind = "TransferSession",
    namespaced,
    status = "TransferSessionStatus",
    derive = "PartialEq",
    shortname = "slt",
    category = "sealane",
    doc = "A declared flow from one Peer to others. It takes effect only where both Peers' TrustPolicy permits it.",
    annotation("helm.sh/resource-policy", "keep"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Connections", type_ = "integer", json_path = ".status.connections"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.connectionsDesired"),
    printcolumn(name = "Carrier", type_ = "string", json_path = ".status.carrier"),
    printcolumn(name = "Tensors", type_ = "integer", json_path = ".status.tensorsTransferred"),
    printcolumn(name = "Bytes", type_ = "integer", json_path = ".status.bytesTransferred"),
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
    {"rule": "!has(self.stream) || !has(self.forward)", "message": "a session has exactly one kind: set either stream, for example stream: {delivery: RoundRobin}, or forward, for example forward: {listen: 18001, target: 8001}"},
    {"rule": "self.from == oldSelf.from", "message": "from is immutable: make a new TransferSession", "fieldPath": ".from"},
    {"rule": "has(self.forward) == has(oldSelf.forward)", "message": "the kind of a session is immutable: make a new TransferSession"},
    {"rule": "self.to.all(entry, entry.peer != self.from.peer)", "message": "a Peer cannot send to itself: name another Peer, for example to: [{peer: ranker}]", "fieldPath": ".to"},
    {"rule": "!has(self.forward) || size(self.to) == 1", "message": "a forward leads to exactly one Peer, for example to: [{peer: triton}]; make one TransferSession for each other Peer", "fieldPath": ".to"},
]))]
pub struct TransferSessionSpec {
    /// The Peer whose replicas send. Immutable.
    pub from: PeerReference,
    /// The Peers that receive: every entry receives the whole stream. A forward has exactly one.
    #[schemars(
        length(min = 1, max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["peer"])
    )]
    pub to: Vec<PeerReference>,
    /// A stream of tensors.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_null")]
    #[schemars(with = "Option<Stream>")]
    pub stream: Option<Stream>,
    /// A TCP port of `to` that pods of `from` reach on 127.0.0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Forward>,
    /// What moves the sealed bytes. Auto takes what Benchmarks recommend for the session's nodes, Tcp or Udp, or Tcp where none
    /// does, among what the policy lists; Udp gives way to Tcp where nobody answers over it, and condition Degraded says so
    /// (CarrierFallback). With Udp the data port has to be open for UDP too, between the nodes and in every NetworkPolicy;
    /// nothing takes its place where it is not. AfXdp, which Auto never takes, is the same UDP past the kernel's stack, between
    /// pods on the host's network that were made after the session and so have the capabilities. Where it cannot be had, Udp
    /// takes its place if the policy lists Udp, and condition Degraded says so (CarrierFallback). A change reaches a
    /// connection when it is made anew.
    #[serde(default)]
    pub carrier: CarrierChoice,
    /// What decides how much of a path a connection over Udp or AfXdp takes. Cubic (RFC 9438) takes a loss for a full queue, and is
    /// fair to TCP. Bbr goes by what the path delivers, so that losses at random cost nothing. Auto begins as Cubic and becomes
    /// Bbr where the path is seen to lose at random, which a queue of a tenth of a round trip or less looks like: where others
    /// share such a path, it takes more than they do. The policy may list which it permits (floors.congestion). Over Tcp the
    /// node's kernel decides. A change reaches a connection when it is made anew.
    #[serde(default)]
    #[schemars(schema_with = "schema::congestion")]
    pub congestion: CongestionChoice,
    /// How records are sealed. Auto takes what Benchmarks recommend for the session's nodes, or follows the node's CPU where
    /// none does, and picks only among what the policy permits.
    #[serde(default)]
    pub cipher: CipherChoice,
    #[serde(default)]
    pub rekey: Rekey,
    /// Closes the session's connections until it is false again.
    #[serde(default)]
    pub suspend: bool,
}

/// A Peer of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeerReference {
    #[schemars(schema_with = "schema::name")]
    pub peer: String,
}

/// How tensors are spread over the receiving replicas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stream {
    /// RoundRobin: each tensor to the next attested replica with credit. Broadcast: to every connected replica.
    #[serde(default = "round_robin")]
    #[schemars(schema_with = "schema::delivery")]
    pub delivery: Delivery,
    /// How many receiving replicas each sending replica dials. Broadcast dials all of them.
    #[serde(default = "fanout")]
    #[schemars(range(min = 1, max = 256))]
    pub fanout: i32,
}

const fn round_robin() -> Delivery {
    Delivery::RoundRobin
}

const fn fanout() -> i32 {
    16
}

impl Default for Stream {
    fn default() -> Self {
        Self { delivery: round_robin(), fanout: fanout() }
    }
}

/// Connections to `listen` in pods of `from` reach `target` in a pod of `to`. On the host's network, where
/// 127.0.0.1 is the node's, the sidecars use `/run/sealane/forward/SESSION.sock` (or `SESSION_ORDINAL.sock`) and
/// `/run/sealane/target/SESSION.sock` instead of the two ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Forward {
    /// The port on 127.0.0.1 in pods of `from`. Pods of one Peer listen on each port for one session only.
    #[schemars(schema_with = "schema::forward_port")]
    pub listen: i32,
    /// The port on 127.0.0.1 in pods of `to`. The signed policy has to permit it.
    #[schemars(schema_with = "schema::forward_port")]
    pub target: i32,
    /// `listen` + ordinal reaches the replica of that ordinal of a StatefulSet; otherwise a connection goes to the
    /// attested replica that carries the fewest.
    #[serde(default)]
    pub per_replica: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CarrierChoice {
    #[default]
    Auto,
    Tcp,
    Udp,
    AfXdp,
}

impl CarrierChoice {
    /// The word on the control channel.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "Auto",
            Self::Tcp => "Tcp",
            Self::Udp => "Udp",
            Self::AfXdp => "AfXdp",
        }
    }

    /// `None` for Auto.
    #[must_use]
    pub const fn named(self) -> Option<Carrier> {
        match self {
            Self::Auto => None,
            Self::Tcp => Some(Carrier::Tcp),
            Self::Udp => Some(Carrier::Udp),
            Self::AfXdp => Some(Carrier::AfXdp),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CipherChoice {
    #[default]
    Auto,
    Aes256Gcm,
    Aes128Gcm,
    ChaCha20Poly1305,
    Aegis256X4,
}

impl CipherChoice {
    /// The word on the control channel.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "Auto",
            Self::Aes256Gcm => "Aes256Gcm",
            Self::Aes128Gcm => "Aes128Gcm",
            Self::ChaCha20Poly1305 => "ChaCha20Poly1305",
            Self::Aegis256X4 => "Aegis256X4",
        }
    }

    /// `None` for Auto.
    #[must_use]
    pub const fn named(self) -> Option<Cipher> {
        match self {
            Self::Auto => None,
            Self::Aes256Gcm => Some(Cipher::Aes256Gcm),
            Self::Aes128Gcm => Some(Cipher::Aes128Gcm),
            Self::ChaCha20Poly1305 => Some(Cipher::ChaCha20Poly1305),
            Self::Aegis256X4 => Some(Cipher::Aegis256X4),
        }
    }
}

/// When record keys are replaced: whichever bound is reached first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rekey {
    /// Bytes sealed under one key, between 1Mi and 64Gi.
    #[serde(default = "rekey_bytes")]
    #[schemars(schema_with = "schema::rekey_bytes")]
    pub bytes: ByteQuantity,
    /// Records sealed under one key.
    #[serde(default = "rekey_messages")]
    #[schemars(range(min = 1_000, max = 1_000_000_000_000_i64))]
    pub messages: i64,
    /// Age of a key, between 10s and 1h.
    #[serde(default = "rekey_interval")]
    #[schemars(schema_with = "schema::rekey_interval")]
    pub interval: DurationText,
}

fn rekey_bytes() -> ByteQuantity {
    ByteQuantity::Text("64Gi".to_owned())
}

const fn rekey_messages() -> i64 {
    1_000_000_000
}

fn rekey_interval() -> DurationText {
    DurationText("10m".to_owned())
}

impl Default for Rekey {
    fn default() -> Self {
        Self { bytes: rekey_bytes(), messages: rekey_messages(), interval: rekey_interval() }
    }
}

/// Where a session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    Pending,
    Connecting,
    Active,
    Suspended,
    Complete,
    Failed,
}

/// What the replicas report. Counters are brought up to date at most every 15 seconds, conditions at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransferSessionStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_unknown")]
    #[schemars(with = "Option<Phase>")]
    pub phase: Option<Phase>,
    /// Attested connections between sending and receiving replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<i32>,
    /// Connections that the sending replicas want to have open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_desired: Option<i32>,
    /// Payload bytes that receiving applications have taken; of a forward, those carried both ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_transferred: Option<i64>,
    /// Tensors that receiving applications have taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensors_transferred: Option<i64>,
    /// TCP connections that a forward has carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded: Option<i64>,
    /// Carriers in use, joined by `+` when they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub carrier: Option<String>,
    /// How AfXdp reaches the network devices: ZeroCopy, Native (the driver copies) or Generic (the kernel does it for a
    /// driver that cannot), joined by `+` when they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub carrier_mode: Option<String>,
    /// Congestion controls in use where connections are dialled, joined by `+` when they differ: Cubic or Bbr over Udp and AfXdp; over Tcp what the node's
    /// kernel calls its own, such as cubic or bbr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub congestion: Option<String>,
    /// Ciphers in use, joined by `+` when they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub cipher: Option<String>,
    /// What is to be preferred where the spec says Auto, and beside what it names. `carrier` and `cipher` say what is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended: Option<RecommendedTransport>,
    /// True when every connection uses the hybrid post-quantum key exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_quantum: Option<bool>,
    /// Median time of the open connections' handshakes in microseconds, evidence of both sides included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_micros: Option<i64>,
    /// When the first connection was established.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the stream was complete or had failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The failure that a replica reports, until it is mended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub last_error: Option<String>,
    /// When that failure was reported first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_time: Option<Time>,
    /// What was counted by which process: where another operator goes on. The totals above are its sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// Until when this status is kept up to date. Past it, no operator has written it for too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_after: Option<Time>,
}

/// What processes have counted, those that are gone together and the others one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counted {
    pub tensors: i64,
    pub bytes: i64,
    pub forwarded: i64,
    /// Processes that may count on, at most 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub processes: Vec<ProcessCount>,
}

/// What one process of a sidecar has counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessCount {
    /// Uid of its pod.
    #[schemars(length(max = 64))]
    pub pod: String,
    /// Tells it from other processes of the pod, in hex.
    #[schemars(length(max = 32))]
    pub incarnation: String,
    pub tensors: i64,
    pub bytes: i64,
    pub forwarded: i64,
}
