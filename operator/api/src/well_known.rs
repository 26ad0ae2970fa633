//! Labels, annotations, ports, paths and condition types. Users, charts and tests rely on them; they change
//! only with a migration note.

/// Label on a namespace: `enabled` sends its pods to the webhook.
pub const INJECTION_LABEL: &str = "sealane.dev/injection";
/// Label on a pod: `true` asks for the sidecar, `false` keeps the pod away from the webhook.
pub const INJECT_LABEL: &str = "sealane.dev/inject";
/// Label that the webhook puts on a pod it injected, always `true`.
pub const INJECTED_LABEL: &str = "sealane.dev/injected";
/// Label on the operator pod that serves the control channel, always `true`.
pub const LEADER_LABEL: &str = "sealane.dev/leader";

/// Annotation whose text becomes the simulated platform's initdata.
pub const INITDATA_ANNOTATION: &str = "sealane.dev/initdata";
/// Annotation that says which real platform a simulated one resembles: `SevSnp` (the default), `Tdx` or `Nitro`.
pub const SIMULATED_FORM_ANNOTATION: &str = "sealane.dev/simulated-form";
/// Annotations that set the sidecar's resources, as Kubernetes quantities.
pub const CPU_REQUEST_ANNOTATION: &str = "sealane.dev/cpu-request";
pub const CPU_LIMIT_ANNOTATION: &str = "sealane.dev/cpu-limit";
pub const MEMORY_REQUEST_ANNOTATION: &str = "sealane.dev/memory-request";
pub const MEMORY_LIMIT_ANNOTATION: &str = "sealane.dev/memory-limit";

/// Annotation of a pod template: the version whose sidecars its pods were made again for.
pub const RESTARTED_ANNOTATION: &str = "sealane.dev/restarted-for";
/// Annotation on a Benchmark: a text that differs from the last one asks for a run now.
pub const RUN_ANNOTATION: &str = "sealane.dev/run";
/// Labels of what a Benchmark's run is made of: the name of the Benchmark, and the run.
pub const BENCHMARK_LABEL: &str = "sealane.dev/benchmark";
pub const RUN_LABEL: &str = "sealane.dev/benchmark-run";
/// Name of the container that measures.
pub const BENCHMARK_CONTAINER: &str = "bench";
/// Environment of that container.
pub const BENCHMARK_KEY_ENV: &str = "SEALANE_BENCH_KEY";
pub const BENCHMARK_RUN_ENV: &str = "SEALANE_BENCH_RUN";
pub const BENCHMARK_POOL_ENV: &str = "SEALANE_BENCH_POOL";
pub const BENCHMARK_NODE_ENV: &str = "SEALANE_BENCH_NODE";
pub const BENCHMARK_SERVER_ENV: &str = "SEALANE_BENCH_SERVER";
pub const BENCHMARK_SERVER_POOL_ENV: &str = "SEALANE_BENCH_SERVER_POOL";
pub const BENCHMARK_SERVER_NODE_ENV: &str = "SEALANE_BENCH_SERVER_NODE";
pub const BENCHMARK_RESULT_ENV: &str = "SEALANE_BENCH_RESULT";

/// The ConfigMap with the results of a Benchmark.
#[must_use]
pub fn benchmark_results(benchmark: &str) -> String {
    format!("{benchmark}-results")
}

/// Name of the injected native sidecar.
pub const SIDECAR_CONTAINER: &str = "sealane";
/// Where the door volume is mounted, in every container.
pub const DOOR_DIRECTORY: &str = "/run/sealane";
/// On the host's network: where servers of a pod put their sockets, the one place there that they can write to.
pub const TARGETS_DIRECTORY: &str = "/run/sealane/target";
/// The door's socket.
pub const DOOR_SOCKET: &str = "/run/sealane/door.sock";
/// The door for other languages: gRPC, package `sealane.door.v1`.
pub const GRPC_SOCKET: &str = "/run/sealane/grpc.sock";
/// ConfigMap of a namespace with bundles of collateral, which `kubectl sealane collateral import` writes and injected
/// pods mount.
pub const COLLATERAL_CONFIG_MAP: &str = "sealane-collateral";
/// Its key.
pub const COLLATERAL_KEY: &str = "bundle.json";
/// Where the sidecar finds it.
pub const COLLATERAL_DIRECTORY: &str = "/etc/sealane/collateral";
/// Kubernetes' label with the ordinal of a StatefulSet's pod.
pub const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
/// Audience of the sidecar's projected token.
pub const CONTROL_AUDIENCE: &str = "sealane.dev/control";

/// The Secret with the operator's own authorities and serving certificate; made by the operator.
pub const CERTIFICATES_SECRET: &str = "sealane-certificates";
/// Key in [`CERTIFICATES_SECRET`] with the bundle that clients trust, for people and tools.
pub const AUTHORITIES_KEY: &str = "ca.crt";

/// The Service of the control channel in the release namespace.
pub const CONTROL_SERVICE: &str = "sealane-control";

/// The name under which sidecars dial the control channel, and which its certificate has.
#[must_use]
pub fn control_name(namespace: &str) -> String {
    format!("{CONTROL_SERVICE}.{namespace}.svc")
}

/// The sidecar's ports.
pub const DATA_PORT: u16 = 14710;
pub const SIDECAR_ADMIN_PORT: u16 = 14711;
/// The operator's ports.
pub const CONTROL_PORT: u16 = 14712;
pub const WEBHOOK_PORT: u16 = 14713;
pub const OPERATOR_ADMIN_PORT: u16 = 14714;

/// Condition types, `Ready` first in every status.
pub mod condition {
    pub const READY: &str = "Ready";

    /// Peer.
    pub const POLICY_VERIFIED: &str = "PolicyVerified";
    pub const EVIDENCE_VERIFIED: &str = "EvidenceVerified";
    pub const COLLATERAL_FRESH: &str = "CollateralFresh";
    pub const TCB_UP_TO_DATE: &str = "TCBUpToDate";
    pub const DEGRADED: &str = "Degraded";

    /// TransferSession, which has `Ready` and `Degraded` too.
    pub const PEERS_ATTESTED: &str = "PeersAttested";
    pub const ESTABLISHED: &str = "Established";
    pub const COMPLETE: &str = "Complete";
    pub const FAILED: &str = "Failed";

    /// Benchmark, which has `Complete` too.
    pub const SCHEDULED: &str = "Scheduled";
    pub const RUNNING: &str = "Running";
    pub const REGRESSED: &str = "Regressed";
    pub const RECOMMENDED: &str = "Recommended";

    /// TrustPolicy, which has `Ready` too.
    pub const VERIFIED: &str = "Verified";
    pub const EXPIRING: &str = "Expiring";
}
