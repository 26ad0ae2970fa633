//! Peers that all dial one sidecar, at the same moment or some at a time. Each has its own static key and a platform that
//! takes its time to quote; a sidecar of this process takes as long.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use sealane_protocol::handshake::{KeyExchange, Suite};
use sealane_sidecar::config::initdata::Initdata;
use sealane_sidecar::config::{ConfigError, file};
use sealane_sidecar::evidence::{
    Format, OpenProvider, Platforms, Provider, ProviderError, ProviderInput, Quote, QuoteRequest,
};
use sealane_sidecar::node::Node;
use sealane_simulated::{Material, Platform as Chip};
use sealane_types::Cipher;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

use crate::carrier::Carrier;
use crate::ours::{Ours, Sealed};
use crate::wire::{Open, Side};
use crate::world::{NAMESPACE, SESSION, Who, World};

/// How long a platform takes for a quote.
pub(crate) const QUOTE_TAKES: Duration = Duration::from_millis(50);
/// After a refusal, a peer waits as long as a sidecar does before it dials again.
const AGAIN: Duration = Duration::from_millis(100);
/// A fleet that has not arrived by then is stuck.
const PATIENCE: Duration = Duration::from_secs(600);
/// Threads of the sidecar and of the fleet, as many as a sidecar has.
const WORKERS: usize = 2;

/// Quotes that the sidecars of this process made.
static QUOTES: AtomicU32 = AtomicU32::new(0);

/// How a fleet arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    /// From the first dial until the last of them was established.
    pub(crate) took: Duration,
    pub(crate) established: u32,
    /// Quotes that the sidecar made for all of them.
    pub(crate) quotes: u32,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Fleet {
    world: Arc<World>,
    peers: Vec<(Ipv4Addr, Ours)>,
}

impl Fleet {
    /// `size` peers whose platforms take `quote_takes` each.
    pub(crate) fn new(world: &World, size: u32, quote_takes: Duration) -> Result<Self> {
        let world = Arc::new(world.clone());
        let suite = Suite::new(KeyExchange::Hybrid, Cipher::Aes256Gcm);
        let peer = |number: u32| {
            let ours = Ours::new(&world, suite)?.replica(number)?.quoting_for(quote_takes);
            Ok((source(number)?, ours))
        };
        let peers = (0..size).map(peer).collect::<Result<_>>()?;
        Ok(Self { world, peers })
    }

    /// Where each of them dials from.
    pub(crate) fn sources(&self) -> Vec<Ipv4Addr> {
        self.peers.iter().map(|(source, _)| *source).collect()
    }

    /// Lets the first of those that have not dialled yet dial `target`, `at_once` at a time, and returns their connections
    /// when all are established.
    pub(crate) async fn dial(
        &mut self,
        target: SocketAddr,
        first: usize,
        at_once: usize,
    ) -> Result<Vec<Sealed>> {
        let waiting = self.peers.drain(..first.min(self.peers.len()));
        let dialling = waiting.map(|(source, peer)| async move { dial(source, target, &peer).await });
        let all = stream::iter(dialling).buffer_unordered(at_once).try_collect();
        tokio::time::timeout(PATIENCE, all).await.context("the fleet is stuck")?
    }

    /// Starts a sidecar and lets everybody dial it.
    pub(crate) fn arrive(self) -> Result<Arrived> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
        runtime.block_on(async {
            let Self { world, peers } = self;
            let sources: Vec<_> = peers.iter().map(|(source, _)| *source).collect();
            let config = configuration(&world, &sources)?;
            let (node, _lanes) = Node::start(&config, Platforms::production().with_simulated(SLOW))?;
            let (target, before) = (node.address(), QUOTES.load(Ordering::Relaxed));
            let began = Instant::now();
            let mut dialling = JoinSet::new();
            for (source, peer) in peers {
                dialling.spawn(async move { dial(source, target, &peer).await });
            }
            // Held until everybody is there, as a fleet holds its connections.
            let mut held = Vec::new();
            let all = async {
                while let Some(connected) = dialling.join_next().await {
                    held.push(connected??);
                }
                anyhow::Ok(())
            };
            tokio::time::timeout(PATIENCE, all).await.context("the fleet is stuck")??;
            let took = began.elapsed();
            let quotes = QUOTES.load(Ordering::Relaxed).saturating_sub(before);
            ensure!(quotes > 0, "nobody asked for the sidecar's evidence");
            Ok(Arrived { took, established: u32::try_from(held.len())?, quotes })
        })
    }
}

/// An address of its own for each, as pods have: a sidecar limits what one source may do.
fn source(number: u32) -> Result<Ipv4Addr> {
    let [_, _, high, low] = number.checked_add(1).context("too many")?.to_be_bytes();
    Ok(Ipv4Addr::new(127, 88, high, low))
}

/// Dials until it is established.
async fn dial(source: Ipv4Addr, target: SocketAddr, peer: &Ours) -> Result<Sealed> {
    loop {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        if let Ok(stream) = socket.connect(target).await {
            stream.set_nodelay(true)?;
            if let Ok(established) = peer.open(Carrier::Tcp(stream), Side::Dialler).await {
                return Ok(established);
            }
        }
        // Only so many handshakes may be under way, and a sidecar has to be up first: whoever is too many or too early
        // comes again.
        tokio::time::sleep(AGAIN).await;
    }
}

/// Of a sidecar that receives, and knows where its senders are.
fn configuration(world: &World, sources: &[Ipv4Addr]) -> Result<sealane_sidecar::config::Config> {
    let who = Who::Receiver;
    let mut text = format!(
        "namespace: {NAMESPACE}\npod: {}\nuid: \"1\"\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndoor: door.sock\npeer: {}\n\
         provider: Simulated\nrootsFile: roots.json\npolicy: {NAMESPACE}\npolicyFile: policy.json\n\
         simulatedPlatform: platform.json\ninitdata: initdata\nsessions:\n- name: {SESSION}\n  direction: Receiving\n  \
         remotes:\n  - peer: {}\n    addresses:\n",
        who.pod_name(),
        who.peer(),
        who.other().peer(),
    );
    for source in sources {
        writeln!(text, "    - {source}:14710")?;
    }
    let read = |path: &Path| -> Result<Vec<u8>, ConfigError> {
        let name = path.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
        let bytes = match name {
            "roots.json" => serde_json::to_vec(&[&world.roots]).ok(),
            "policy.json" => serde_json::to_vec(&world.chain).ok(),
            "platform.json" => world.material.to_json().ok().map(String::into_bytes),
            "initdata" => Some(who.initdata()),
            _ => None,
        };
        bytes.ok_or_else(|| ConfigError::Unreadable {
            path: path.to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        })
    };
    Ok(file::parse(text.as_bytes(), Path::new("sidecar.yaml"), &read)?)
}

/// A simulated chip that takes its time, and does one thing at a time as every chip does.
#[derive(Debug)]
struct Slow {
    chip: Chip,
    turn: tokio::sync::Mutex<()>,
}

const SLOW: OpenProvider = |input: &ProviderInput| {
    const WHAT: &str = "simulated platform";
    let material = input.simulated.as_deref().ok_or(ProviderError::MaterialMissing { what: WHAT })?;
    let malformed = |source| ProviderError::MaterialMalformed {
        what: WHAT,
        source: Box::<SimulationProblem>::new(source),
    };
    let material = Material::from_json(material).map_err(malformed)?;
    let chip = Chip::new(material, input.initdata.as_ref().map(Initdata::measured)).map_err(malformed)?;
    Ok(Arc::new(Slow { chip, turn: tokio::sync::Mutex::default() }))
};

type SimulationProblem = sealane_simulated::SimulationError;

impl Provider for Slow {
    fn format(&self) -> futures::future::BoxFuture<'_, Result<Format, ProviderError>> {
        Box::pin(std::future::ready(Ok(Format::SimulatedSevSnp)))
    }

    fn quote(&self, request: QuoteRequest) -> futures::future::BoxFuture<'_, Result<Quote, ProviderError>> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            tokio::time::sleep(QUOTE_TAKES).await;
            QUOTES.fetch_add(1, Ordering::Relaxed);
            let quote = self
                .chip
                .quote(request.report_data)
                .map_err(|error| ProviderError::Refused(Box::new(error)))?;
            Ok(Quote { report: quote.report, certificates: quote.certificates, workload: None })
        })
    }
}
