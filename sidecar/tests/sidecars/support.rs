//! Policies to sign, sidecars to start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use futures::future::BoxFuture;
use sealane_collateral::Sources;
use sealane_fixtures::keys::MATERIAL;
use sealane_policy::{SigningKey, Timestamp, canonical, sign};
use sealane_sidecar::config::initdata::Initdata;
use sealane_sidecar::config::{Anchors, CollateralSources, Config, Control, Traces};
use sealane_sidecar::desired::{
    Desired, Direction, Forward, Kind, Listing, PolicyProposal, Preferred, Rekey, Remote, Replica, Session,
};
use sealane_sidecar::evidence::{
    Format, KeyFile, Platforms, Provider, ProviderError, ProviderInput, Quote, QuoteRequest,
};
use sealane_sidecar::handoff::Lanes;
use sealane_sidecar::link::xdp::Device;
use sealane_sidecar::node::{Node, NodeError};
use sealane_simulated::{Guest, Installation, MEASUREMENT, Material, Request, host_data};
use sealane_types::{
    Carrier, Cipher, CongestionChoice, Delivery, PodIdentity, Provider as ProviderWord, RootSource, Roots,
    SignedChain, SimulatedForm, UnixSeconds,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

// By name, because other programs include this file from their own folders.
#[path = "addresses.rs"]
pub(crate) mod addresses;
#[path = "wall_clock.rs"]
pub(crate) mod wall_clock;

pub(crate) use addresses::loopback;
use wall_clock::{TestClock, now};

/// Longest wait for anything; generous, because machines that run tests are busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Waits for `future`, and fails the test after [`LIMIT`].
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LIMIT, future).await {
        Ok(value) => value,
        Err(_) => panic!("not within {LIMIT:?}: {what}"),
    }
}

/// Asks again until `condition` holds.
pub(crate) async fn until(what: &str, condition: impl FnMut() -> bool) {
    until_or(condition, || what.to_owned()).await;
}

/// As [`until`]; if it fails, `what` tells how things stand then.
pub(crate) async fn until_or(mut condition: impl FnMut() -> bool, what: impl FnOnce() -> String) {
    let holds = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(LIMIT, holds).await.is_err() {
        panic!("not within {LIMIT:?}: {}", what());
    }
}

/// Waits until `figure` stays as it is for a second; what it is then.
pub(crate) async fn at_rest(what: &str, figure: impl Fn() -> u64) -> u64 {
    within(what, async {
        loop {
            let before = figure();
            tokio::time::sleep(Duration::from_secs(1)).await;
            if figure() == before {
                return before;
            }
        }
    })
    .await
}

/// Prints a figure beside a test's result.
#[expect(clippy::print_stdout, reason = "how long something took is for whoever reads the output")]
pub(crate) fn tell(figure: &str) {
    println!("{figure}");
}

#[derive(Debug)]
struct Simulated(Guest);

impl Provider for Simulated {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        let format = match self.0.form() {
            SimulatedForm::SevSnp => Format::SimulatedSevSnp,
            SimulatedForm::Tdx => Format::SimulatedTdx,
            SimulatedForm::Nitro => Format::SimulatedNitro,
        };
        std::future::ready(Ok(format)).boxed()
    }

    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        let QuoteRequest { report_data, tree_root, own_static, .. } = request;
        let quote = self.0.quote(&Request { report_data, tree_root, own_static }).unwrap();
        let sealane_simulated::Quote { report, certificates } = quote;
        std::future::ready(Ok(Quote { report, certificates, workload: None })).boxed()
    }
}

fn open(input: &ProviderInput) -> Result<Arc<dyn Provider>, ProviderError> {
    Ok(guest(&Installation::from_json(input.simulated.as_deref().unwrap()).unwrap(), input))
}

fn guest(installation: &Installation, input: &ProviderInput) -> Arc<dyn Provider> {
    Arc::new(Simulated(
        Guest::new(installation, input.form, input.initdata.as_ref().map(Initdata::measured)).unwrap(),
    ))
}

/// A guest on the chip of `material`.
pub(crate) fn provider(material: &Material, input: &ProviderInput) -> Arc<dyn Provider> {
    guest(&Installation::from_json(&material.to_json().unwrap()).unwrap(), input)
}

pub(crate) fn with_simulation() -> Platforms {
    Platforms::production().with_simulated(open)
}

/// One root for all tests.
pub(crate) fn material() -> &'static Material {
    &MATERIAL
}

/// The same, and platforms of the other forms.
pub(crate) fn installation() -> &'static Installation {
    static INSTALLATION: OnceLock<Installation> = OnceLock::new();
    let alone = || Installation::from_json(&material().to_json().unwrap()).unwrap();
    INSTALLATION.get_or_init(|| alone().completed().unwrap())
}

pub(crate) fn owner(index: u8) -> SigningKey {
    SigningKey::from_seed(&[index; 32]).unwrap()
}

pub(crate) fn roots() -> Roots {
    Roots {
        namespace: "demo".parse().unwrap(),
        policy: "demo".parse().unwrap(),
        threshold: 2,
        keys: vec![owner(1).public_key(), owner(2).public_key()],
        minimum_epoch: 1,
    }
}

pub(crate) fn initdata(peer: &str) -> Vec<u8> {
    format!("sealane simulated initdata\nnamespace: demo\npeer: {peer}\n").into_bytes()
}

/// One moment for all tests of this process, so that one epoch is one document.
fn start() -> u64 {
    static START: OnceLock<u64> = OnceLock::new();
    *START.get_or_init(|| now().as_secs())
}

pub(crate) fn clock() -> Timestamp {
    UnixSeconds(now().as_secs()).into()
}

fn written(seconds: u64) -> String {
    Timestamp::from(UnixSeconds(seconds)).to_string()
}

/// What the policy says of a Peer whose evidence is simulated.
pub(crate) fn entry(peer: &str) -> Value {
    json!({"entries": [{
        "kind": "Simulated",
        "root": material().fingerprint().to_string(),
        "measurements": [MEASUREMENT.to_string()],
        "hostData": [host_data(Some(&initdata(peer))).to_string()],
        "minTcb": {},
        "products": ["Genoa"],
    }]})
}

/// Embedders stream to rankers, `activations`, for an hour.
pub(crate) fn document(epoch: u64) -> Value {
    let mut keys: Vec<_> = roots().keys.iter().map(ToString::to_string).collect();
    keys.sort();
    json!({
        "version": 1,
        "namespace": "demo",
        "name": "demo",
        "epoch": epoch,
        "notBefore": "2026-11-01T00:00:00Z",
        "expires": written(start() + 3600),
        "authorities": {"threshold": 2, "keys": keys},
        "peers": {"embedder": entry("embedder"), "ranker": entry("ranker")},
        "sessions": [{"name": "activations", "from": "embedder", "to": "ranker", "stream": {}}],
    })
}

/// In force for `life` from now.
pub(crate) fn expiring(epoch: u64, life: Duration) -> Value {
    let mut document = document(epoch);
    document["expires"] = json!(written((now() + life).as_secs()));
    document
}

/// In force from `wait` after now.
pub(crate) fn beginning(epoch: u64, wait: Duration) -> Value {
    let mut document = document(epoch);
    document["notBefore"] = json!(written((now() + wait).as_secs()));
    document
}

pub(crate) fn signed(document: &Value, owners: &[u8]) -> SignedChain {
    let bytes = canonical(document.to_string().as_bytes()).unwrap();
    let signatures = owners.iter().map(|index| sign(&bytes, &owner(*index))).collect();
    SignedChain { document: STANDARD.encode(&bytes), signatures, rotations: Vec::new() }
}

pub(crate) fn proposal(chain: SignedChain) -> PolicyProposal {
    PolicyProposal { name: "demo".parse().unwrap(), chain, roots: None }
}

/// What a sidecar is started with; tests change what they are about.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) peer: &'static str,
    pub(crate) pod: &'static str,
    pub(crate) uid: &'static str,
    /// The Peer that its evidence is for.
    pub(crate) proves: &'static str,
    /// What it says its guest was started with, in place of what is usual for that Peer.
    pub(crate) initdata: Option<Vec<u8>>,
    /// The platform whose form its evidence has.
    pub(crate) form: SimulatedForm,
    pub(crate) listen: SocketAddr,
    pub(crate) chain: SignedChain,
    /// What it verifies policies from.
    pub(crate) anchors: Anchors,
    pub(crate) delivery: Delivery,
    /// Where the other side is; a receiver needs none.
    pub(crate) remotes: Vec<SocketAddr>,
    /// What carries its sessions.
    pub(crate) carrier: Option<Carrier>,
    pub(crate) congestion: CongestionChoice,
    /// What its sessions name.
    pub(crate) cipher: Option<Cipher>,
    /// Of a connection, its own included.
    pub(crate) links: u8,
    /// The network device that it passes the kernel by with.
    pub(crate) device: Option<Device>,
    pub(crate) platforms: Platforms,
    /// Where it asks for its configuration; without, it has one from the start.
    pub(crate) control: Option<Control>,
    pub(crate) door: PathBuf,
    /// In place of the stream `activations`: the forward `inference`.
    pub(crate) forward: Option<Forward>,
    /// Sessions besides, which are like it.
    pub(crate) more: &'static [&'static str],
    pub(crate) host_network: bool,
    pub(crate) reattest_seconds: u64,
    pub(crate) drain: Duration,
    /// Where its spans go.
    pub(crate) traces: Option<Traces>,
    /// A pinned key in place of the simulated platform.
    pub(crate) key: Option<PathBuf>,
    /// Where its bundles of collateral are.
    pub(crate) collateral: Option<PathBuf>,
    /// Which services it asks.
    pub(crate) fetch: Option<Sources>,
    /// Where what it saw of collateral survives it.
    pub(crate) state: Option<PathBuf>,
    /// The time of the day, by which what it rests on expires.
    pub(crate) clock: TestClock,
}

/// TCP, unless the environment names another carrier for all that these tests start.
pub(crate) fn carrier() -> Option<Carrier> {
    std::env::var("SEALANE_TEST_CARRIER").ok().map(|word| word.parse().unwrap())
}

impl Plan {
    pub(crate) fn receiver() -> Self {
        Self {
            peer: "ranker",
            pod: "ranker-0",
            uid: "r",
            proves: "ranker",
            initdata: None,
            form: SimulatedForm::SevSnp,
            listen: loopback(),
            chain: signed(&document(1), &[1, 2]),
            anchors: Anchors { roots: vec![roots()], source: RootSource::File },
            delivery: Delivery::RoundRobin,
            remotes: vec![],
            carrier: carrier(),
            congestion: CongestionChoice::default(),
            cipher: None,
            links: 1,
            device: None,
            traces: None,
            collateral: None,
            fetch: None,
            state: None,
            platforms: with_simulation(),
            control: None,
            door: "/nowhere/door.sock".into(),
            forward: None,
            more: &[],
            host_network: false,
            reattest_seconds: 600,
            drain: Duration::from_secs(1),
            key: None,
            clock: TestClock::default(),
        }
    }

    pub(crate) fn sender(to: &[SocketAddr]) -> Self {
        Self {
            peer: "embedder",
            pod: "embedder-0",
            uid: "e",
            proves: "embedder",
            remotes: to.to_vec(),
            ..Self::receiver()
        }
    }

    pub(crate) fn desired(&self) -> Desired {
        let (direction, remote) = match self.peer {
            "embedder" | "other" => (Direction::Sending, "ranker"),
            _ => (Direction::Receiving, "embedder"),
        };
        let replica = |(ordinal, address): (u32, &SocketAddr)| Replica {
            id: address.to_string(),
            addresses: vec![*address],
            incarnation: None,
            ordinal: Some(ordinal),
        };
        let remote = Remote {
            peer: remote.parse().unwrap(),
            replicas: (0..).zip(&self.remotes).map(replica).collect(),
            listing: Listing::Open,
        };
        let session = Session {
            name: if self.forward.is_some() { "inference" } else { "activations" }.parse().unwrap(),
            uid: "1".to_owned(),
            direction,
            kind: match self.forward {
                Some(forward) => Kind::Forward(forward),
                None => Kind::Stream { delivery: self.delivery, fanout: 16 },
            },
            carrier: self.carrier,
            congestion: self.congestion,
            cipher: self.cipher,
            preferred: Preferred::default(),
            rekey: Rekey::default(),
            suspend: false,
            remotes: vec![remote],
        };
        Desired {
            generation: 1,
            peer: Some(self.peer.parse().unwrap()),
            reason: None,
            provider: if self.key.is_some() { ProviderWord::Key } else { ProviderWord::Simulated },
            reattest_seconds: self.reattest_seconds,
            policy: Some(proposal(self.chain.clone())),
            sessions: self
                .more
                .iter()
                .map(|name| Session { name: name.parse().unwrap(), ..session.clone() })
                .chain([session.clone()])
                .collect(),
        }
    }

    /// Starts it on a runtime of its own, so that stopping it ends every task and socket as a crash would.
    pub(crate) fn start(self) -> Sidecar {
        // Shown for tests that fail, if `RUST_LOG` asks for it; the first test installs it for all.
        let log =
            tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env());
        let _ = log.with_test_writer().try_init();
        let config = Config {
            device: self.device.clone(),
            pod: PodIdentity::new("demo", self.pod, self.uid).unwrap(),
            node: String::new(),
            addresses: vec![],
            listen: self.listen,
            admin: loopback(),
            admin_preferred: None,
            door: self.door.clone(),
            grpc: None,
            arena_bytes: sealane_sidecar::config::ARENA_BYTES,
            drain: self.drain,
            host_network: self.host_network,
            links: self.links,
            control: self.control.clone(),
            roots: self.anchors.clone(),
            fixed: self.control.is_none().then(|| self.desired()),
            platform: ProviderInput {
                simulated: Some(installation().to_json().unwrap()),
                form: self.form,
                initdata: Some(
                    Initdata::read(&self.initdata.clone().unwrap_or_else(|| initdata(self.proves))).unwrap(),
                ),
                key_file: self.key.clone().map(KeyFile::kept),
            },
            traces: self.traces.clone(),
            collateral: CollateralSources { directory: self.collateral.clone(), fetch: self.fetch.clone() },
            state: self.state.clone(),
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (node, lanes) = {
            let _inside = runtime.enter();
            let began = Instant::now();
            loop {
                let clock = Arc::new(self.clock.clone());
                match Node::start_with_clock(&config, self.platforms.clone(), clock) {
                    // A process that another test starts holds copies of our sockets until it has replaced itself.
                    Err(NodeError::Listen { .. }) if began.elapsed() < LIMIT => {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    started => break started.unwrap(),
                }
            }
        };
        Sidecar { address: node.address(), node, lanes, plan: self, runtime: Runtime(Some(runtime)) }
    }
}

/// A running sidecar.
pub(crate) struct Sidecar {
    pub(crate) node: Node,
    pub(crate) lanes: Lanes,
    pub(crate) address: SocketAddr,
    pub(crate) plan: Plan,
    runtime: Runtime,
}

/// A sidecar's own runtime.
struct Runtime(Option<tokio::runtime::Runtime>);

impl Runtime {
    fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.0.as_ref().unwrap().enter()
    }
}

impl Sidecar {
    /// Kills it, and tells how to start it again at the same address.
    pub(crate) fn kill(mut self) -> Plan {
        let runtime = self.runtime.0.take().unwrap();
        // Waits until the sockets are closed, away from this test's own runtime.
        std::thread::spawn(move || runtime.shutdown_timeout(LIMIT)).join().unwrap();
        Plan { listen: self.address, ..self.plan }
    }

    /// Ends it as a pod's end does, in the background. What is returned resolves when it has ended.
    pub(crate) fn drain(self) -> oneshot::Receiver<()> {
        let Self { node, mut runtime, .. } = self;
        let runtime = runtime.0.take().unwrap();
        let (ended, end) = oneshot::channel();
        std::thread::spawn(move || {
            runtime.block_on(node.drain());
            // A test that does not wait for it has dropped the other half.
            let _ = ended.send(());
        });
        end
    }

    pub(crate) fn propose(&self, chain: SignedChain) {
        let mut desired = self.plan.desired();
        desired.policy = Some(proposal(chain));
        desired.generation = 2;
        // The sessions' tasks belong to the sidecar's runtime.
        let _inside = self.runtime.enter();
        self.node.apply(desired);
    }

    pub(crate) fn apply(&self, desired: Desired) {
        let _inside = self.runtime.enter();
        self.node.apply(desired);
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A receiver and a sender that dials it.
pub(crate) fn pair() -> (Sidecar, Sidecar) {
    let receiver = Plan::receiver().start();
    let sender = Plan::sender(&[receiver.address]).start();
    (sender, receiver)
}
