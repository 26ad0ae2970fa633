//! Configuration: parsed once into typed values before any port opens.
//!
//! An injected pod is configured by its environment ([`environment`]), a sidecar outside a cluster by a file
//! ([`file`]); both give the same [`Config`].

pub mod environment;
pub mod file;
pub mod initdata;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use sealane_collateral::Sources;
use sealane_protocol::limits::LINKS_MAX;
use sealane_types::{InvalidName, InvalidPort, PodIdentity, RootSource, Roots};

use crate::desired::Desired;
use crate::evidence::{KeyFileError, ProviderInput};
use crate::link::xdp::Device;

/// Data port of an injected pod, TCP and UDP.
pub const DATA_PORT: u16 = 14710;
/// Admin port of an injected pod.
pub const ADMIN_PORT: u16 = 14711;
/// The door's socket.
pub const DOOR: &str = "/run/sealane/door.sock";
/// The gRPC door's socket.
pub const GRPC: &str = "/run/sealane/grpc.sock";
/// Shared memory for all clients of a pod.
pub const ARENA_BYTES: u64 = 512 << 20;
/// How long draining may take: the default grace period of pods less five seconds.
pub const DRAIN: Duration = Duration::from_secs(25);

/// Threads that move bytes, at most: half of the cores, since more would fight the application for its own, and pass
/// tensors from thread to thread.
const WORKERS_MAX: usize = 4;

/// Threads that move bytes.
#[must_use]
pub fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, WORKERS_MAX))
}

/// Links of a connection where nothing else is said: one for each of these threads, so that there are further ones from four
/// cores on.
#[must_use]
pub fn default_links() -> u8 {
    u8::try_from(workers()).unwrap_or(LINKS_MAX).min(LINKS_MAX)
}

/// Everything that a sidecar is told when it starts.
#[derive(Debug, Clone)]
pub struct Config {
    pub pod: PodIdentity,
    pub node: String,
    /// The pod's own addresses, told to the operator.
    pub addresses: Vec<IpAddr>,
    /// Where other sidecars dial.
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    /// A port that is tried before `admin`'s, and left to whoever has it.
    pub admin_preferred: Option<u16>,
    pub door: PathBuf,
    /// None: there is no gRPC door.
    pub grpc: Option<PathBuf>,
    /// Bytes of shared memory for all clients.
    pub arena_bytes: u64,
    pub drain: Duration,
    /// The pod's loopback is the node's: forwards use unix sockets beside the door.
    pub host_network: bool,
    /// The network device past which datagrams go by the kernel; none unless it is asked for.
    pub device: Option<Device>,
    /// Links of a connection that carries tensors over TCP, its own included. None is dialled but that one unless both sides
    /// have more.
    pub links: u8,
    /// None outside a cluster.
    pub control: Option<Control>,
    pub roots: Anchors,
    /// The desired state of a sidecar without an operator.
    pub fixed: Option<Desired>,
    pub platform: ProviderInput,
    /// Where spans go; none are made without.
    pub traces: Option<Traces>,
    pub collateral: CollateralSources,
    /// A directory for this process alone, in which what it saw survives a restart. None: it is forgotten.
    pub state: Option<PathBuf>,
}

/// Where collateral comes from.
#[derive(Debug, Clone, Default)]
pub struct CollateralSources {
    /// A directory of bundles, which need not be there yet.
    pub directory: Option<PathBuf>,
    /// None: no service is asked.
    pub fetch: Option<Sources>,
}

/// An OTLP collector.
#[derive(Debug, Clone)]
pub struct Traces {
    /// `http://…` or `https://…`, gRPC.
    pub endpoint: String,
    /// PEM of the certificates that may have signed the collector's; needed for `https://`.
    pub authorities: Option<String>,
}

/// How to reach the operator.
#[derive(Debug, Clone)]
pub struct Control {
    /// `https://…`.
    pub address: String,
    /// The name that the operator's certificate is for, where `address` holds another or none.
    pub server_name: Option<String>,
    /// PEM of the certificates that may have signed the operator's.
    pub authorities: String,
    /// Projected service account token; read again for every connection, because it rotates.
    pub token: PathBuf,
}

/// Trust anchors that this sidecar was started with. Those of `Initdata` count once own evidence shows that the guest was
/// started with [`ProviderInput::initdata`].
#[derive(Debug, Clone)]
pub struct Anchors {
    /// Empty: the first ones that the operator sends are kept for the life of the process.
    pub roots: Vec<Roots>,
    pub source: RootSource,
}

/// What is wrong with the configuration, and where.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "{name} is not set; the injecting webhook sets it, and `run --config FILE` needs none of the environment"
    )]
    Missing { name: &'static str },
    #[error("{name} is not {expected}: `{found}`")]
    Malformed { name: &'static str, expected: &'static str, found: String },
    #[error("{name} is not a valid name")]
    Name {
        name: &'static str,
        #[source]
        source: InvalidName,
    },
    #[error("{name} is not valid JSON of the expected form")]
    Json {
        name: &'static str,
        #[source]
        source: serde_json::Error,
    },
    #[error("{name} lists no roots, so no policy could ever be followed")]
    NoRoots { name: &'static str },
    #[error(transparent)]
    Initdata(#[from] initdata::InitdataError),
    #[error("{path} cannot be read")]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// `problem` names the line and shows it.
    #[error("{path} is not a valid configuration: {problem}")]
    Yaml { path: PathBuf, problem: String },
    #[error("{name} cannot be {found} (an example is `forward: {{listen: 18001, target: 8001}}`)")]
    Port {
        name: &'static str,
        found: u32,
        #[source]
        source: InvalidPort,
    },
    #[error(
        "a session with `forward`: {name} {problem} (an example is `forward: {{listen: 18001, target: 8001}}`)"
    )]
    Forward { name: &'static str, problem: &'static str },
    #[error("{problem} (an example is `provider: Key` with `keyFile: key.pem`)")]
    Key { problem: &'static str },
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    #[error("{name} has more than {max} entries")]
    TooMany { name: &'static str, max: usize },
}

/// Reads a whole small file.
pub(crate) fn read(path: &std::path::Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })
}
