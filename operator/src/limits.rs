//! Every bound of the operator, units last.

use std::time::Duration;

use sealane_http::{Bounds, Caps, Timeouts};

/// Largest admission review: a pod or TrustPolicy of at most 3 MiB (the API server's limit) in an envelope.
pub const REVIEW_BYTES_MAX: usize = 4 << 20;
/// Memory that one review may take once it is decoded: a pod of thirty containers with two hundred variables each, or two copies
/// of a Benchmark as large as there are. Those that take more than a pod usually does are decoded one by one.
pub const REVIEW_MEMORY_BYTES_MAX: usize = 64 << 20;
pub const SMALL_REVIEW_BYTES_MAX: usize = 1 << 20;
/// What the others take together, of each kind.
pub const SMALL_REVIEWS_BYTES_MAX: usize = 16 << 20;
/// Webhook calls served at once; the API server waits at most 5 s for each. Pods and Sealane's own objects have a share
/// each, so that whoever floods one keeps nobody from the other.
pub const POD_REVIEWS_MAX: usize = 96;
pub const RESOURCE_REVIEWS_MAX: usize = 32;
/// A webhook answers within this time or not at all: a little less than the API server waits.
pub const REVIEW_TIME: Duration = Duration::from_millis(4_500);
/// Who connects to the webhooks. The API server has a connection for each review, all of them from one address or a few, and
/// gives one up after 90 s without a use: before this side does, lest a review meet a connection that is being closed.
pub const WEBHOOK_BOUNDS: Bounds = Bounds {
    connections: Caps { total: 160, per_source: POD_REVIEWS_MAX },
    bodies: Caps { total: REVIEW_BYTES_MAX >> 10, per_source: REVIEW_BYTES_MAX >> 10 },
    timeouts: Timeouts {
        header: Duration::from_secs(5),
        unused: Duration::from_secs(120),
        request: Duration::from_secs(5),
        idle: Duration::from_secs(120),
        stalled: Duration::from_secs(5),
    },
};
/// Connections to the control port whose sidecar is not registered: in all and of one address, which is a node's for pods on
/// its network.
pub const UNREGISTERED: Caps = Caps { total: 160, per_source: 96 };
/// How long such a connection may last: its handshake, its token's review and its registration.
pub const UNREGISTERED_TIME: Duration = Duration::from_secs(15);
/// How long a TLS handshake of the control port may take.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// Streams of one control connection, of which a sidecar has one, and what is read of each ahead.
pub const CONTROL_STREAMS_MAX: u32 = 2;
pub const CONTROL_WINDOW_BYTES: u32 = 32 << 10;
/// Longest header of a control stream: a token of a service account is the largest of it.
pub const CONTROL_HEADER_BYTES_MAX: u32 = 16 << 10;

/// Sidecars attached at once.
pub const SIDECARS_MAX: usize = 20_000;
/// Token reviews in progress at once.
pub const TOKEN_REVIEWS_MAX: usize = 32;
/// How long a sidecar may take from opening a stream to its registration.
pub const REGISTER_TIME: Duration = Duration::from_secs(10);
/// Largest message from a sidecar.
pub const SIDECAR_MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Configurations that are encoded and not sent yet, in all streams together.
pub const SENDING_KIB_MAX: u32 = 32 * 1024;
/// Changes towards one desired state that are kept encoded, each from another one: sidecars that are told slowly are few.
pub const RENDERED_CHANGES_MAX: usize = 4;
/// A sidecar that has not read its configuration by then gives its place to others.
pub const SENDING_TIME: Duration = Duration::from_secs(5);
/// Addresses of one pod.
pub const ADDRESSES_MAX: usize = 16;
/// Sessions whose totals are kept after a sidecar's process is gone, until their status has them, and such processes of one
/// session.
pub const RETIRED_SESSIONS_MAX: usize = 65_536;
pub const RETIRED_PROCESSES_MAX: usize = 1024;
/// Sessions in one report.
pub const REPORTED_SESSIONS_MAX: usize = 1024;
/// Replicas outside of the cluster, and Peers of which none is met, in one report.
pub const REPORTED_EXTERNALS_MAX: usize = 1024;
/// A pod's identity: three names of at most 253 bytes and two separators.
pub const POD_IDENTITY_BYTES_MAX: usize = 3 * 253 + 2;
/// Text in a report: a name or word, and a message.
pub const REPORTED_WORD_BYTES_MAX: usize = 256;
pub const REPORTED_MESSAGE_BYTES_MAX: usize = 1024;
/// Sessions that the sidecars of one Peer are told about: what a sidecar holds at most.
pub const PEER_SESSIONS_MAX: usize = 256;
/// Replicas of one Peer told to one sidecar; beyond it the session is Degraded `TooManyReplicas`.
pub const REMOTE_REPLICAS_MAX: usize = 1024;

/// Replicas in one Peer's status.
pub const STATUS_REPLICAS_MAX: usize = 50;
/// Processes that the status of a session counts one by one.
pub const STATUS_PROCESSES_MAX: usize = 256;
/// How long a status counts as up to date after it was written, and how long before the end of it it is written anew: a
/// minute more than an operator's clock may be behind those of its readers.
pub const STATUS_FRESH_SECONDS: u64 = 600;
pub const STATUS_RENEWAL_SECONDS: u64 = CLOCK_BEHIND_SECONDS_MAX + 60;
/// How far behind the operator's clock may be.
pub const CLOCK_BEHIND_SECONDS_MAX: u64 = 300;
/// Counters reach a status at most this often.
pub const COUNTERS_PERIOD: Duration = Duration::from_secs(15);
/// Statuses of which only counters changed that are written in a second, in all namespaces together: the API server
/// is not there to count tensors.
pub const COUNTER_WRITES_PER_SECOND_MAX: u32 = 20;
/// How soon to look again when that many have been written.
pub const COUNTERS_PAUSE: Duration = Duration::from_secs(1);
/// Status writes in flight for one namespace.
pub const WRITES_MAX: usize = 16;
/// A pass begins no status write after this time: what sidecars are to be told must not wait for what people read.
pub const WRITES_TIME: Duration = Duration::from_millis(500);
/// Changes within this time share one reconciliation.
pub const DEBOUNCE: Duration = Duration::from_millis(100);
/// Namespaces reconciled at once.
pub const RECONCILES_MAX: usize = 8;
/// A new leader waits this long for what makes pods.
pub const WORKLOADS_TIME: Duration = Duration::from_secs(30);
/// A reconciliation that failed is tried again after this time.
pub const RETRY: Duration = Duration::from_secs(5);
/// How long a sidecar without a control stream counts as present: a leader change takes about this long.
pub const DETACHED_GRACE: Duration = Duration::from_secs(30);
/// A policy is called expiring this long before it expires.
pub const EXPIRY_NOTICE_SECONDS: u64 = 24 * 60 * 60;

const _: () = assert!(STATUS_REPLICAS_MAX <= 50, "the schema of Peer.status.replicas admits 50");
const _: () = assert!(STATUS_PROCESSES_MAX <= 256, "the schema of TransferSession.status.counted admits 256");
const _: () = assert!(STATUS_RENEWAL_SECONDS < STATUS_FRESH_SECONDS);
const _: () = assert!(HANDSHAKE_TIME.as_millis() < REGISTER_TIME.as_millis());
