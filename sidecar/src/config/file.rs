//! `sealane-sidecar run --config FILE`: the same sidecar outside a cluster, with peers and policy from the file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sealane_collateral::Sources;
use sealane_protocol::limits::LINKS_MAX;
use sealane_types::{
    Carrier, Cipher, CongestionChoice, Delivery, ForwardPort, PeerName, PodIdentity, PolicyName, Provider,
    RootSource, Roots, SessionName, SignedChain, SimulatedForm,
};
use serde::Deserialize;

use super::initdata::Initdata;
use super::{ARENA_BYTES, Anchors, CollateralSources, Config, ConfigError, DRAIN, default_links, read};
use crate::desired::{
    Desired, Direction, FANOUT_MAX, Forward, Kind, Listing, PolicyProposal, Preferred, REATTEST_SECONDS,
    REKEY_SECONDS, REMOTES_MAX, REPLICAS_MAX, Rekey, Remote, Replica, SESSIONS_MAX, Session,
};
use crate::evidence::{KeyFile, ProviderInput};
use crate::link::xdp::Device;

/// Largest configuration file in bytes.
const FILE_BYTES_MAX: usize = 4 << 20;

/// The YAML form. Relative paths are relative to the file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    namespace: String,
    pod: String,
    /// Tells this run from earlier ones of the same name.
    uid: String,
    listen: SocketAddr,
    admin: SocketAddr,
    door: PathBuf,
    /// Without it there is no gRPC door.
    grpc: Option<PathBuf>,
    arena_bytes: Option<u64>,
    drain_seconds: Option<u64>,
    /// Forwards use unix sockets beside the door: loopback is the node's.
    #[serde(default)]
    host_network: bool,
    /// Name of the network device on which AF_XDP is to be used; opening it needs capabilities.
    af_xdp: Option<String>,
    /// Links of a connection over TCP, 1 to 4; as many as it has threads without.
    links: Option<u8>,
    peer: PeerName,
    #[serde(default = "auto")]
    provider: Provider,
    /// How often the sides of a session prove themselves again.
    reattest_seconds: Option<u64>,
    /// JSON array of roots.
    roots_file: PathBuf,
    policy: PolicyName,
    /// JSON of the signed chain.
    policy_file: PathBuf,
    /// JSON of the simulated platform's material.
    simulated_platform: Option<PathBuf>,
    /// Which real platform it resembles: SevSnp, Tdx or Nitro.
    #[serde(default)]
    simulated_form: SimulatedForm,
    initdata: Option<PathBuf>,
    /// The private key of a Peer without a TEE, as `keygen` makes it; with `provider: Key`.
    key_file: Option<PathBuf>,
    /// Where evidence of hardware finds what it is judged by.
    #[serde(default)]
    collateral: FileCollateral,
    /// A directory for this process alone, in which what it saw survives a restart.
    state: Option<PathBuf>,
    #[serde(default)]
    sessions: Vec<FileSession>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileCollateral {
    /// Of bundles, as `kubectl sealane collateral bundle` writes them.
    directory: Option<PathBuf>,
    /// Ask the vendors' services too.
    fetch: Option<FileFetch>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileFetch {
    kds: Option<String>,
    pcs: Option<String>,
    thim: Option<String>,
    /// PEM, in place of the system's authorities.
    authorities: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileSession {
    name: SessionName,
    direction: Direction,
    /// Of a stream of tensors.
    delivery: Option<Delivery>,
    fanout: Option<u32>,
    /// Makes it a forwarded TCP port.
    forward: Option<FileForward>,
    carrier: Option<Carrier>,
    /// Cubic unless it says otherwise.
    #[serde(default)]
    congestion: CongestionChoice,
    cipher: Option<Cipher>,
    /// How often keys are replaced; the remote refuses keys that are older than twice its own interval.
    rekey_seconds: Option<u64>,
    remotes: Vec<FileRemote>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileForward {
    listen: u32,
    target: u32,
    #[serde(default)]
    per_replica: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileRemote {
    peer: PeerName,
    /// One address per replica; a receiver needs none. With `forward.perReplica` in the order of ordinals.
    #[serde(default)]
    addresses: Vec<SocketAddr>,
}

const fn auto() -> Provider {
    Provider::Auto
}

/// Replicas that a stream's sender dials, unless the file says otherwise.
const FANOUT: u32 = 16;

/// Reads a whole file; that of the file system outside tests.
pub type Read<'a> = &'a dyn Fn(&Path) -> Result<Vec<u8>, ConfigError>;

/// Reads and checks a configuration file and the files that it names.
///
/// # Errors
/// [`ConfigError`] names the file or field.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let config = parse(&read(path)?, path, &read)?;
    if let Some(key) = &config.platform.key_file {
        // Whoever starts it by hand is better told now than in a log later.
        key.read()?;
    }
    Ok(config)
}

/// `yes` is a word and no truth value, as in YAML 1.2. By default the library bounds events, depth and what aliases make,
/// and refuses duplicate keys and a second document.
fn strict() -> serde_saphyr::Options {
    serde_saphyr::options! { strict_booleans: true }
}

/// Reads what stands in the file at `path`; `read` yields the files that it names.
///
/// # Errors
/// See [`load`].
pub fn parse(bytes: &[u8], path: &Path, read: Read<'_>) -> Result<Config, ConfigError> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(ConfigError::TooMany { name: "the configuration file's bytes", max: FILE_BYTES_MAX });
    }
    let file: File = serde_saphyr::from_slice_with_options(bytes, strict())
        .map_err(|error| ConfigError::Yaml { path: path.to_owned(), problem: error.to_string() })?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let beside = |name: &Path| directory.join(name);
    let pod = PodIdentity::new(&file.namespace, &file.pod, &file.uid)
        .map_err(|source| ConfigError::Name { name: "namespace, pod or uid", source })?;
    let roots: Vec<Roots> = serde_json::from_slice(&read(&beside(&file.roots_file))?)
        .map_err(|source| ConfigError::Json { name: "rootsFile", source })?;
    if roots.is_empty() {
        return Err(ConfigError::NoRoots { name: "rootsFile" });
    }
    let chain: SignedChain = serde_json::from_slice(&read(&beside(&file.policy_file))?)
        .map_err(|source| ConfigError::Json { name: "policyFile", source })?;
    let simulated = file.simulated_platform.as_deref().map(|name| text(&beside(name), read)).transpose()?;
    let initdata = file.initdata.as_deref().map(|name| read(&beside(name))).transpose()?;
    let initdata = initdata.map(|bytes| Initdata::read(&bytes)).transpose()?;
    let roots = match initdata.as_ref().map(Initdata::roots).transpose()?.flatten() {
        Some(roots) => Anchors { roots, source: RootSource::Initdata },
        None => Anchors { roots, source: RootSource::File },
    };
    let key_file = key_file(file.provider, file.key_file.as_deref().map(beside))?;
    let directory = file.collateral.directory.as_deref().map(beside);
    let state = file.state.as_deref().filter(|state| !state.as_os_str().is_empty()).map(beside);
    let fetch = file.collateral.fetch.map(|fetch| sources(fetch, &beside, read)).transpose()?;
    let collateral = CollateralSources { directory, fetch };
    let sessions = sessions(file.sessions)?;
    Ok(Config {
        pod,
        node: String::new(),
        addresses: vec![file.listen.ip()],
        listen: file.listen,
        admin: file.admin,
        admin_preferred: None,
        door: beside(&file.door),
        grpc: file.grpc.as_deref().map(beside),
        arena_bytes: file.arena_bytes.unwrap_or(ARENA_BYTES),
        drain: file.drain_seconds.map_or(DRAIN, Duration::from_secs),
        host_network: file.host_network,
        device: file.af_xdp.map(Device::Named),
        links: match file.links {
            None => default_links(),
            Some(links) if (1..=LINKS_MAX).contains(&links) => links,
            Some(links) => {
                let (name, expected) = ("links", "1 to 4");
                return Err(ConfigError::Malformed { name, expected, found: links.to_string() });
            }
        },
        control: None,
        roots,
        traces: None,
        collateral,
        state,
        fixed: Some(Desired {
            generation: 1,
            peer: Some(file.peer),
            reason: None,
            provider: file.provider,
            reattest_seconds: file.reattest_seconds.unwrap_or(REATTEST_SECONDS),
            policy: Some(PolicyProposal { name: file.policy, chain, roots: None }),
            sessions,
        }),
        platform: ProviderInput { simulated, form: file.simulated_form, initdata, key_file },
    })
}

/// A key without the provider that uses it would be a mistake that nobody notices, and so would a provider without a key.
fn key_file(provider: Provider, path: Option<PathBuf>) -> Result<Option<KeyFile>, ConfigError> {
    let problem = match (provider, &path) {
        (Provider::Key, None) => "provider is Key, and keyFile does not name the key",
        (Provider::Key, Some(_)) | (_, None) => return Ok(path.map(KeyFile::kept)),
        (_, Some(_)) => "keyFile names a key, and provider is not Key, which alone would use it",
    };
    Err(ConfigError::Key { problem })
}

fn sources(
    fetch: FileFetch,
    beside: &dyn Fn(&Path) -> PathBuf,
    read: Read<'_>,
) -> Result<Sources, ConfigError> {
    let FileFetch { kds, pcs, thim, authorities } = fetch;
    let authorities = authorities.as_deref().map(|name| text(&beside(name), read)).transpose()?;
    let default = Sources::default();
    Ok(Sources { kds: kds.unwrap_or(default.kds), pcs: pcs.unwrap_or(default.pcs), thim, authorities })
}

fn text(path: &Path, read: Read<'_>) -> Result<String, ConfigError> {
    String::from_utf8(read(path)?).map_err(|error| ConfigError::Unreadable {
        path: path.to_owned(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidData, error),
    })
}

fn sessions(sessions: Vec<FileSession>) -> Result<Vec<Session>, ConfigError> {
    if sessions.len() > SESSIONS_MAX {
        return Err(ConfigError::TooMany { name: "sessions", max: SESSIONS_MAX });
    }
    sessions.into_iter().map(session).collect()
}

fn session(session: FileSession) -> Result<Session, ConfigError> {
    if session.remotes.len() > REMOTES_MAX {
        return Err(ConfigError::TooMany { name: "remotes", max: REMOTES_MAX });
    }
    let kind = kind(&session)?;
    let remotes = session.remotes.into_iter().map(remote).collect::<Result<_, _>>()?;
    Ok(Session {
        uid: session.name.to_string(),
        name: session.name,
        direction: session.direction,
        kind,
        carrier: session.carrier,
        congestion: session.congestion,
        cipher: session.cipher,
        preferred: Preferred::default(),
        rekey: Rekey { seconds: session.rekey_seconds.unwrap_or(REKEY_SECONDS), ..Rekey::default() },
        suspend: false,
        remotes,
    })
}

fn kind(session: &FileSession) -> Result<Kind, ConfigError> {
    let FileSession { delivery, fanout, forward, remotes, .. } = session;
    let Some(forward) = forward else {
        let (delivery, fanout) = (delivery.unwrap_or(Delivery::RoundRobin), fanout.unwrap_or(FANOUT));
        if fanout == 0 || fanout > FANOUT_MAX {
            let found = fanout.to_string();
            return Err(ConfigError::Malformed { name: "fanout", expected: "between 1 and 256", found });
        }
        return Ok(Kind::Stream { delivery, fanout });
    };
    if delivery.is_some() || fanout.is_some() {
        return Err(ConfigError::Forward { name: "forward", problem: "goes without delivery and fanout" });
    }
    if remotes.len() != 1 {
        return Err(ConfigError::Forward { name: "remotes", problem: "must name exactly one Peer" });
    }
    let port = |name, number| {
        ForwardPort::new(number).map_err(|source| ConfigError::Port { name, found: number, source })
    };
    Ok(Kind::Forward(Forward {
        listen: port("forward.listen", forward.listen)?,
        target: port("forward.target", forward.target)?,
        per_replica: forward.per_replica,
    }))
}

fn remote(remote: FileRemote) -> Result<Remote, ConfigError> {
    if remote.addresses.len() > REPLICAS_MAX {
        return Err(ConfigError::TooMany { name: "addresses", max: REPLICAS_MAX });
    }
    let replica = |(ordinal, address): (u32, SocketAddr)| Replica {
        id: address.to_string(),
        addresses: vec![address],
        incarnation: None,
        ordinal: Some(ordinal),
    };
    Ok(Remote {
        peer: remote.peer,
        replicas: (0..).zip(remote.addresses).map(replica).collect(),
        listing: Listing::Open,
    })
}
