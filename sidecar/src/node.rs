//! A running sidecar: everything that `run` starts, apart from the door.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sealane_collateral::Fetcher;
use sealane_protocol::connection::Places;
use sealane_protocol::datagram::Greeter;
use sealane_protocol::keys::{MlKem768, RandomFailed, StaticKey};
use sealane_types::{InvalidName, Namespace, PeerName, Provider, RootSource};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_util::task::TaskTracker;

use crate::admin::Health;
use crate::collateral::{CollateralKeeper, Directory};
use crate::config::Config;
use crate::context::{Context, SystemRandom};
use crate::control;
use crate::control::report::Reporter;
use crate::desired::Desired;
use crate::evidence::completed::Completed;
use crate::evidence::judge::Judge;
use crate::evidence::measured::Measured;
use crate::evidence::own::{Appraisal, Own};
use crate::evidence::prover::{NoEvidence, Prover};
use crate::evidence::{Platforms, ProviderInput};
use crate::gauges::Gauges;
use crate::handoff::{LaneError, Lanes, Sessions, lanes};
use crate::link::endpoint::Endpoint;
use crate::link::gate::Gate;
use crate::link::ports::Ports;
use crate::link::reset_key;
use crate::link::udp::Socket;
use crate::metrics::{self, Metrics};
use crate::policy::PolicyKeeper;
use crate::route::Router;
use crate::session::accept::Acceptor;
use crate::session::audits::Audits;
use crate::session::clock::Clock;
pub use crate::session::clock::WallClock;
use crate::session::externals::Externals;
use crate::session::forward::premises::Premises;
use crate::session::silences::Silences;
use crate::throttling::Throttling;
use crate::trace::{TraceError, Tracer};

/// How long the last report may take, and the last spans.
const FAREWELL: Duration = Duration::from_millis(500);
/// How long connections may say goodbye after the time to drain is over; each of them gives up after a second.
const GOODBYES: Duration = Duration::from_secs(3);
/// Policies taken at one time from replicas that have proved nothing yet, of some megabytes each.
const PLACES: usize = 8;
/// The same, from addresses that the configuration does not name.
const PLACES_OF_STRANGERS: usize = 2;
/// How often draining looks whether anything is left.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// Why a sidecar does not start. The environment is at fault.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("cannot listen on {address} for other sidecars; set SEALANE_DATA_PORT to a free port")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("no random numbers are available")]
    Random(#[from] RandomFailed),
    #[error("the pod's namespace is not a valid name")]
    Namespace(#[from] InvalidName),
    #[error(transparent)]
    Control(#[from] control::ControlError),
    #[error(transparent)]
    Traces(#[from] TraceError),
}

/// A running sidecar. Dropping it does not stop it; [`Node::drain`] does.
#[derive(Debug)]
pub struct Node {
    shared: Arc<Shared>,
    health: Arc<Health>,
    gauges: Arc<Gauges>,
    address: SocketAddr,
    drain: Duration,
    draining: watch::Sender<bool>,
}

/// What configuration reaches.
#[derive(Debug)]
pub(crate) struct Shared {
    context: Arc<Context>,
    router: Arc<Router>,
    gate: Arc<Gate>,
    platforms: Platforms,
    collateral: Arc<CollateralKeeper>,
    input: ProviderInput,
    peer: watch::Sender<Option<PeerName>>,
    applied: Mutex<Option<Desired>>,
    pub(crate) reporter: Arc<Reporter>,
}

impl Node {
    /// Starts everything but the door, which gets the [`Lanes`]. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn start(config: &Config, platforms: Platforms) -> Result<(Self, Lanes), NodeError> {
        Self::start_at(open_ports(config)?, config, platforms, None)
    }

    /// As [`Self::start`], at ports that are open, and with `wall` in place of the machine's clock where there is one.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn start_at(
        ports: Ports,
        config: &Config,
        platforms: Platforms,
        wall: Option<Arc<dyn WallClock>>,
    ) -> Result<(Self, Lanes), NodeError> {
        Self::assemble(ports, config, platforms, wall.map_or_else(Clock::new, Clock::following))
    }

    /// As [`Self::start`], with `wall` in place of the machine's clock: no test waits for a date. No configuration leads
    /// here.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn start_with_clock(
        config: &Config,
        platforms: Platforms,
        wall: Arc<dyn WallClock>,
    ) -> Result<(Self, Lanes), NodeError> {
        Self::start_at(open_ports(config)?, config, platforms, Some(wall))
    }

    fn assemble(
        ports: Ports,
        config: &Config,
        platforms: Platforms,
        clock: Clock,
    ) -> Result<(Self, Lanes), NodeError> {
        let clock = Arc::new(clock);
        let namespace = Namespace::new(config.pod.namespace())?;
        let policy = Arc::new(PolicyKeeper::new(
            Arc::clone(&clock),
            namespace,
            config.roots.clone(),
            platforms.simulated(),
        ));
        let static_key = Arc::new(StaticKey::generate(&mut SystemRandom)?);
        let own_static = *static_key.public();
        let changed = Arc::new(Notify::new());
        let metrics = Arc::new(Metrics::new(clock.unix()));
        let collateral = keeper(config, &platforms, &clock, &metrics);
        let (peer, own_peer) = watch::channel(None);
        let (address, listener, endpoint) = listen(ports, config.state.as_deref())?;
        let context = Arc::new(Context {
            pod: config.pod.clone(),
            static_key,
            kem: Arc::new(MlKem768),
            clock: Arc::clone(&clock),
            policy: Arc::clone(&policy),
            prover: Prover::start(config.pod.clone(), own_static, metrics.proofs.clone()),
            judge: Arc::new(Judge::new(Arc::clone(&collateral), metrics.proofs.clone())),
            connections: TaskTracker::new(),
            tracer: Tracer::start(
                config.traces.as_ref(),
                &config.pod,
                Arc::clone(&clock),
                metrics.spans.clone(),
            )?,
            metrics,
            reattest: AtomicU64::new(crate::desired::REATTEST_SECONDS),
            peer: own_peer.clone(),
            places: Places::new(PLACES),
            places_of_strangers: Places::new(PLACES_OF_STRANGERS),
            tickets: Arc::default(),
            silences: Silences::default(),
            audits: Audits::default(),
            links: config.links,
            joins: Arc::default(),
            endpoint: Arc::clone(&endpoint),
            forward: Arc::new(premises(config, address)),
            externals: Arc::new(Externals::new(Arc::clone(&changed))),
            throttling: Throttling::start(Arc::clone(&changed)),
            changed: Arc::clone(&changed),
        });
        let (lanes, requests) = lanes();
        let router = Router::start(Arc::clone(&context), requests);
        let own = Arc::new(Own::new(Arc::clone(&changed)));
        let reporter = Arc::new(Reporter::new(Arc::clone(&context), Arc::clone(&router), Arc::clone(&own)));
        let (draining, drained) = watch::channel(false);
        let gate = Arc::new(Gate::default());
        let gauges =
            Gauges::new(Arc::clone(&context), Arc::clone(&router), Arc::clone(&own), Arc::clone(&gate));
        let acceptor = Acceptor {
            context: Arc::clone(&context),
            sessions: Arc::clone(&router) as Arc<_>,
            gate: Arc::clone(&gate),
            draining: drained,
        };
        for inlet in endpoint.inlets() {
            tokio::spawn(acceptor.clone().run_datagrams(Arc::clone(&endpoint), inlet));
        }
        tokio::spawn(acceptor.run(listener));
        let appraisal = Appraisal {
            own_static,
            clock,
            policy: Arc::clone(&policy),
            prover: context.prover.clone(),
            judge: Arc::clone(&context.judge),
            peer: own_peer,
            collateral: collateral.subscribe(),
        };
        if let Some(directory) = &config.collateral.directory {
            let directory = Directory::new(directory.clone());
            tokio::spawn(directory.watch(Arc::clone(&collateral), Arc::clone(&policy)));
        }
        if let (RootSource::Initdata, Some(initdata)) = (config.roots.source, &config.platform.initdata) {
            let measured = Measured {
                initdata: initdata.clone(),
                pod: config.pod.clone(),
                appraisal: appraisal.clone(),
            };
            tokio::spawn(measured.prove());
        }
        tokio::spawn(Arc::clone(&collateral).renew());
        tokio::spawn(async move { own.keep_fresh(appraisal).await });
        tokio::spawn(Arc::clone(&context.tickets).follow(Arc::clone(&policy), Arc::clone(&context.clock)));
        tokio::spawn(async move { policy.watch_expiry().await });
        let shared = Arc::new(Shared {
            context,
            router,
            gate,
            platforms,
            collateral,
            input: config.platform.clone(),
            peer,
            applied: Mutex::new(None),
            reporter,
        });
        if let Some(fixed) = &config.fixed {
            shared.apply(fixed.clone());
        }
        if let Some(control) = &config.control {
            control::start(config, control, address.port(), Arc::clone(&shared))?;
        }
        let health = Arc::new(Health::default());
        Ok((Self { shared, health, gauges: Arc::new(gauges), address, drain: config.drain, draining }, lanes))
    }

    /// Where other sidecars dial.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn health(&self) -> Arc<Health> {
        Arc::clone(&self.health)
    }

    pub(crate) fn gauges(&self) -> Arc<Gauges> {
        Arc::clone(&self.gauges)
    }

    /// What clients may know of the sessions.
    #[must_use]
    pub fn sessions(&self) -> Arc<dyn Sessions> {
        Arc::clone(&self.shared.router) as Arc<_>
    }

    /// What doors count in.
    pub(crate) fn door_metrics(&self) -> metrics::Door {
        self.shared.context.metrics.door.clone()
    }

    /// What `/metrics` serves.
    ///
    /// # Errors
    /// When a value cannot be written, which would be a fault of the library.
    pub fn render_metrics(&self) -> Result<String, std::fmt::Error> {
        self.gauges.render()
    }

    /// Follows another desired state; what the operator and the configuration file do.
    pub fn apply(&self, desired: Desired) {
        self.shared.apply(desired);
    }

    /// Whether a policy is in force, and its epoch.
    #[must_use]
    pub fn policy_epoch(&self) -> Option<u64> {
        self.shared.context.policy.standing().held().ok().map(|held| held.policy.epoch())
    }

    /// Accepts no more connections, lets lanes and forwarded connections finish until the deadline, then says goodbye to every peer.
    pub async fn drain(self) {
        self.health.draining.store(true, Ordering::Release);
        self.draining.send_replace(true);
        let router = &self.shared.router;
        router.drain();
        let (reason, message) = (sealane_types::Reason::Draining, "the sidecar is shutting down");
        let idle = async {
            while !router.is_idle() {
                tokio::time::sleep(DRAIN_LOOK).await;
            }
            // Applications exit right after their last tensor. Its sender waits for the word that it was taken, which
            // may still be in the door's socket.
            router.stop_receiving(&LaneError::closed(reason, message));
            while !router.is_acknowledged() {
                tokio::time::sleep(DRAIN_LOOK).await;
            }
        };
        let deadline = tokio::time::Instant::now() + self.drain;
        if tokio::time::timeout_at(deadline, idle).await.is_err() {
            tracing::warn!("the drain deadline passed with tensors or forwarded connections under way");
        }
        self.shared.reporter.finish();
        self.shared.context.tickets.close();
        router.close(reason, message);
        let connections = &self.shared.context.connections;
        connections.close();
        // Connections say goodbye and the last report goes out meanwhile; nobody is waited for any longer.
        let goodbyes = tokio::time::timeout_at(deadline + GOODBYES, connections.wait());
        let _ = tokio::join!(goodbyes, tokio::time::sleep(FAREWELL));
        let _ = tokio::time::timeout(FAREWELL, self.shared.context.tracer.flush()).await;
    }
}

/// What forwards may use: none of the ports of this process, and unix sockets where loopback is the node's.
fn premises(config: &Config, data: SocketAddr) -> Premises {
    let beside_door = || config.door.parent().map(Path::to_owned).unwrap_or_default();
    let own = vec![data.port(), config.admin.port()];
    Premises::new(own, config.host_network.then(beside_door), config.arena_bytes)
}

/// Holds what `platforms` trusts, and fetches where `config` says so.
fn keeper(
    config: &Config,
    platforms: &Platforms,
    clock: &Arc<Clock>,
    metrics: &Metrics,
) -> Arc<CollateralKeeper> {
    let roots = platforms.roots();
    let fetcher = config.collateral.fetch.as_ref().and_then(|sources| {
        let fetcher = Fetcher::new(sources, roots.clone());
        // Without it evidence of hardware is refused for want of collateral, and everything else goes on.
        fetcher.inspect_err(|error| tracing::error!("no service is asked for collateral: {error}")).ok()
    });
    let keeper = CollateralKeeper::new(roots, Arc::clone(clock), fetcher, metrics.collateral.clone());
    Arc::new(match &config.state {
        Some(directory) => keeper.remembering(directory.clone()),
        None => keeper,
    })
}

/// Opens the data port. This comes before any thread is started if what opening a device needs is to be dropped.
///
/// # Errors
/// [`NodeError::Listen`].
pub fn open_ports(config: &Config) -> Result<Ports, NodeError> {
    Ports::open(config.listen, config.device.as_ref(), &config.addresses)
        .map_err(|source| NodeError::Listen { address: config.listen, source })
}

/// Takes the open data port into the runtime.
fn listen(ports: Ports, state: Option<&Path>) -> Result<(SocketAddr, TcpListener, Arc<Endpoint>), NodeError> {
    let Ports { address, listener, socket, device } = ports;
    let refused = |source| NodeError::Listen { address, source };
    let listener = TcpListener::from_std(listener).map_err(refused)?;
    let socket = Socket::new(socket).map_err(refused)?;
    let greeter = Greeter::new(&mut SystemRandom)?;
    let greeter = match state {
        Some(directory) => greeter.with_resets(reset_key::of(directory, address.port(), &mut SystemRandom)?),
        None => greeter,
    };
    let endpoint = Endpoint::new(socket, device, greeter);
    Ok((address, listener, Arc::new(endpoint)))
}

impl Shared {
    /// Makes `desired` the state that this sidecar works towards. Nothing in it is trusted: the policy is verified, and
    /// sessions are checked against it connection by connection.
    pub(crate) fn apply(&self, desired: Desired) {
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        let before = applied.as_ref();
        let policy = &self.context.policy;
        match &desired.policy {
            // One that was refused is looked at again: the clock, or what is held, may have changed.
            Some(proposal)
                if before.and_then(|before| before.policy.as_ref()) == Some(proposal)
                    && policy.refusal().is_none() => {}
            Some(proposal) => {
                match policy.propose(&proposal.name, &proposal.chain, proposal.roots.as_ref()) {
                    Ok(adoption) => tracing::info!(?adoption, "policy proposed"),
                    Err(problem) => tracing::error!(reason = %problem.reason(), "policy refused: {problem}"),
                }
            }
            None => policy.none_proposed(),
        }
        self.context.reattest.store(desired.reattest_seconds, Ordering::Relaxed);
        if before.is_none_or(|before| before.provider != desired.provider) {
            self.select(desired.provider);
        }
        let another = before.is_some_and(|before| before.peer.is_some() && before.peer != desired.peer);
        if another {
            // Connections speak for the Peer that this pod was; none of them may go on.
            self.router.apply(&[]);
            self.context.tickets.clear();
        }
        self.peer.send_if_modified(|peer| std::mem::replace(peer, desired.peer.clone()) != desired.peer);
        let remotes = || desired.sessions.iter().flat_map(|session| &session.remotes);
        let external = remotes().filter(|remote| remote.is_external());
        self.context.externals.follow(&external.map(|remote| &remote.peer).collect());
        let replicas = remotes().flat_map(|remote| &remote.replicas);
        let known: HashSet<_> = replicas
            .flat_map(|replica| &replica.addresses)
            .map(|address| address.ip().to_canonical())
            .collect();
        self.gate.know(known);
        self.router.apply(&desired.sessions);
        self.reporter.applied(desired.generation);
        *applied = Some(desired);
    }

    fn select(&self, word: Provider) {
        let opened = self.platforms.open(word, &self.input);
        let completed = |provider| Arc::new(Completed::new(provider, Arc::clone(&self.collateral))) as Arc<_>;
        let source = opened.map(completed).map_err(|error| {
            tracing::error!(reason = %error.reason(), "no evidence can be had: {error}");
            NoEvidence::from(&error)
        });
        self.context.prover.select(source);
        // The Peer's watch doubles as the sign that the provider changed.
        self.peer.send_modify(|_| {});
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}
