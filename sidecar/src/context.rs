//! What every connection of this process shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::digest::{Context as Hash, SHA256};
use sealane_protocol::connection::{Local, Places, PolicyView, Timing};
use sealane_protocol::handshake::{Floor, Suite};
use sealane_protocol::keys::{Kem, Random, RandomFailed, StaticKey};
use sealane_types::{Cipher, PeerName, PodIdentity};
use tokio::sync::{Notify, watch};
use tokio_util::task::TaskTracker;

use crate::desired;
use crate::evidence::judge::Judge;
use crate::evidence::prover::Prover;
use crate::handoff::ReplicaId;
use crate::link::endpoint::Endpoint;
use crate::metrics::Metrics;
use crate::policy::{Held, PolicyKeeper};
use crate::session::audits::Audits;
use crate::session::clock::Clock;
use crate::session::externals::Externals;
use crate::session::forward::premises::Premises;
use crate::session::joins::Joins;
use crate::session::silences::Silences;
use crate::session::tickets::Tickets;
use crate::throttling::Throttling;
use crate::trace::Tracer;

const PROCESS_LABEL: &[u8] = b"sealane/1 process";

/// The operating system's random numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed> {
        aws_lc_rs::rand::fill(bytes).map_err(|_| RandomFailed)
    }
}

/// Names the process that holds a static key: keys are made afresh by every process, so this is its incarnation, and a
/// handshake proves it.
pub(crate) fn process(static_key: &[u8; 32]) -> ReplicaId {
    let mut hash = Hash::new(&SHA256);
    hash.update(PROCESS_LABEL);
    hash.update(static_key);
    let digest = hash.finish();
    let mut id = [0; 16];
    id.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
    // The last byte is left for the route that a tensor takes to the process.
    id[15] = 0;
    ReplicaId(id)
}

/// Shared by every connection.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) pod: PodIdentity,
    pub(crate) static_key: Arc<StaticKey>,
    pub(crate) kem: Arc<dyn Kem>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) policy: Arc<PolicyKeeper>,
    pub(crate) prover: Prover,
    pub(crate) judge: Arc<Judge>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tracer: Tracer,
    /// Connections that are not over yet, until they said goodbye.
    pub(crate) connections: TaskTracker,
    /// Seconds after which the sides of a session prove themselves again, as configured.
    pub(crate) reattest: AtomicU64,
    /// The Peer that this pod belongs to, as configured.
    pub(crate) peer: watch::Receiver<Option<PeerName>>,
    /// For newer policies of replicas that the configuration names, whichever side dialled.
    pub(crate) places: Places,
    /// For newer policies of everyone else: strangers cannot use up the places of those that are known.
    pub(crate) places_of_strangers: Places,
    /// For connections of a pair of replicas after its first.
    pub(crate) tickets: Arc<Tickets>,
    /// For sessions that prefer UDP.
    pub(crate) silences: Silences,
    /// How often auditors get evidence.
    pub(crate) audits: Audits,
    /// Links of a connection that carries tensors over TCP, its own included.
    pub(crate) links: u8,
    /// Connections that further links can be joined to.
    pub(crate) joins: Arc<Joins>,
    /// The data port for datagrams.
    pub(crate) endpoint: Arc<Endpoint>,
    /// What forwards share.
    pub(crate) forward: Arc<Premises>,
    /// What is known of replicas outside of the cluster.
    pub(crate) externals: Arc<Externals>,
    /// Whether this container is held back by its CPU limit.
    pub(crate) throttling: Arc<Throttling>,
    /// Told when something that the operator's status shows has changed.
    pub(crate) changed: Arc<Notify>,
}

impl Context {
    pub(crate) fn process(&self) -> ReplicaId {
        process(self.static_key.public())
    }

    /// How long a connection lives on one attestation: as configured, and never longer than the policy says.
    pub(crate) fn reattest_after(&self) -> Duration {
        let permitted = self
            .policy
            .standing()
            .held()
            .map_or(desired::REATTEST_SECONDS_MAX, |held| held.policy.document().limits.reattest_seconds);
        let seconds = self.reattest.load(Ordering::Relaxed).min(permitted);
        Duration::from_secs(seconds.clamp(desired::REATTEST_SECONDS_MIN, desired::REATTEST_SECONDS_MAX))
    }

    pub(crate) fn own_peer(&self) -> Option<PeerName> {
        self.peer.borrow().clone()
    }

    /// How this side speaks under `held`, with the ciphers that `wish` leaves in its order.
    pub(crate) fn local(&self, held: &Held, peer: PeerName, wish: Wish, rekey: desired::Rekey) -> Local {
        let policy = view(held);
        let ciphers = wish.of_listed(preferred(&policy.floor));
        Local {
            static_key: Arc::clone(&self.static_key),
            peer,
            pod: self.pod.clone(),
            suites: Suite::offer(&ciphers, !policy.floor.post_quantum),
            policy,
            trust: Arc::clone(&held.trust),
            rekey: rekey.into(),
            timing: Timing::default(),
            kem: Arc::clone(&self.kem),
            links: self.links > 1,
            places: self.places.clone(),
        }
    }
}

/// What a session's configuration says about ciphers. Whatever it says, only those that the policy lists are used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wish {
    /// None other.
    only: Option<Cipher>,
    /// This one before the others.
    first: Option<Cipher>,
}

impl Wish {
    pub(crate) const fn of(session: &desired::Session) -> Self {
        Self { only: session.cipher, first: session.preferred.cipher }
    }

    /// Of `listed` those that are to be offered, the first choice first: the side that accepts takes the first that it has.
    fn of_listed(self, mut listed: Vec<Cipher>) -> Vec<Cipher> {
        listed.retain(|cipher| self.only.is_none_or(|only| only == *cipher));
        listed.sort_by_key(|cipher| self.first != Some(*cipher));
        listed
    }
}

/// What the protocol needs to know of a policy.
pub(crate) fn view(held: &Held) -> PolicyView {
    let floors = &held.policy.document().floors;
    PolicyView {
        epoch: held.policy.epoch(),
        digest: held.policy.digest(),
        floor: Floor { post_quantum: floors.post_quantum, ciphers: floors.ciphers.iter().copied().collect() },
        life_micros: held.policy.document().limits.session_seconds.saturating_mul(1_000_000),
    }
}

/// Listed ciphers, best first on this CPU: without AES instructions ChaCha20 is several times faster.
fn preferred(floor: &Floor) -> Vec<Cipher> {
    #[cfg(target_arch = "x86_64")]
    let fast = std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let fast = std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let fast = false;
    let mut ciphers: Vec<_> =
        Cipher::ALL.iter().copied().filter(|cipher| floor.ciphers.contains(cipher)).collect();
    if !fast {
        ciphers.sort_by_key(|cipher| *cipher != Cipher::ChaCha20Poly1305);
    }
    ciphers
}

#[cfg(test)]
pub(crate) mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use sealane_attestation::{TrustConfiguration, VendorRoots};
    use sealane_policy::{SigningKey, canonical, sign};
    use sealane_protocol::datagram::Greeter;
    use sealane_protocol::keys::MlKem768;
    use sealane_types::{Namespace, RootSource, Roots, SignedChain, UnixSeconds};
    use serde_json::{Value, json};

    use super::*;
    use crate::collateral::CollateralKeeper;
    use crate::config::Anchors;
    use crate::link::udp::Socket;
    use crate::link::xdp::DeviceError;

    /// Puts a policy of so many `peers` and `sessions` in force.
    pub(crate) fn permit(context: &Context, epoch: u64, peers: &Value, sessions: &Value) {
        permit_under(context, epoch, peers, sessions, &json!({}));
    }

    /// As [`permit`], with floors.
    pub(crate) fn permit_under(
        context: &Context,
        epoch: u64,
        peers: &Value,
        sessions: &Value,
        floors: &Value,
    ) {
        publish(context, epoch, &json!({"peers": peers, "sessions": sessions, "floors": floors}));
    }

    /// Has `context` take a document with these members.
    fn publish(context: &Context, epoch: u64, members: &Value) {
        let owner = SigningKey::from_seed(&[1; 32]).unwrap();
        let mut document = json!({
            "version": 1, "namespace": "demo", "name": "demo", "epoch": epoch,
            "notBefore": "2026-11-01T00:00:00Z", "expires": "2126-11-01T00:00:00Z",
            "authorities": {"threshold": 1, "keys": [owner.public_key().to_string()]},
            "peers": {}, "sessions": [], "floors": {},
        });
        for (name, member) in members.as_object().unwrap() {
            document[name] = member.clone();
        }
        let bytes = canonical(document.to_string().as_bytes()).unwrap();
        let signatures = vec![sign(&bytes, &owner)];
        let chain = SignedChain { document: STANDARD.encode(&bytes), signatures, rotations: vec![] };
        let (namespace, policy) = ("demo".parse().unwrap(), "demo".parse().unwrap());
        let roots =
            Roots { namespace, policy, threshold: 1, keys: vec![owner.public_key()], minimum_epoch: 1 };
        context.policy.propose(&roots.policy, &chain, Some(&roots)).unwrap();
    }

    /// What any side may state of its trust.
    pub(crate) fn stated() -> Arc<TrustConfiguration> {
        let (namespace, policy) = ("demo".parse().unwrap(), "demo".parse().unwrap());
        let roots = Roots { namespace, policy, threshold: 1, keys: vec![], minimum_epoch: 1 };
        Arc::new(TrustConfiguration { source: RootSource::File, roots, simulation: false })
    }

    #[tokio::test]
    async fn a_preferred_cipher_comes_first_and_only_if_the_policy_lists_it() {
        let context = context(Some("ranker"));
        let listing = |epoch, ciphers: Value| {
            let floors = json!({"ciphers": ciphers, "postQuantum": true});
            permit_under(&context, epoch, &json!({}), &json!([]), &floors);
        };
        let offered = |wish: Wish| -> Vec<Cipher> {
            let standing = context.policy.standing();
            let peer = "ranker".parse().unwrap();
            let local = context.local(standing.held().unwrap(), peer, wish, desired::Rekey::default());
            local.suites.iter().map(|suite| suite.cipher).collect()
        };
        let first = |cipher| Wish { first: Some(cipher), only: None };
        listing(1, json!(["Aes256Gcm", "ChaCha20Poly1305"]));
        let own = offered(Wish::default());
        assert_eq!(own.len(), 2);
        for unlisted in [Cipher::Aes128Gcm, Cipher::Aegis256X4] {
            assert_eq!(offered(first(unlisted)), own, "the policy does not list it");
        }
        for cipher in own.clone() {
            let offered = offered(first(cipher));
            assert_eq!((offered[0], offered.len()), (cipher, 2), "the other one is offered all the same");
        }
        listing(2, json!(["Aes256Gcm", "ChaCha20Poly1305", "Aes128Gcm"]));
        assert_eq!(offered(first(Cipher::Aes128Gcm))[0], Cipher::Aes128Gcm);
        listing(3, json!(["Aes256Gcm", "Aegis256X4"]));
        assert_eq!(offered(Wish::default())[0], Cipher::Aes256Gcm, "a draft is for those who ask for it");
        assert_eq!(offered(first(Cipher::Aegis256X4))[0], Cipher::Aegis256X4);
        // What the session names counts more than what is preferred.
        let named = Wish { only: Some(Cipher::Aes256Gcm), first: Some(Cipher::Aes128Gcm) };
        assert_eq!(offered(named), [Cipher::Aes256Gcm]);
    }

    #[tokio::test]
    async fn nobody_switches_re_attestation_off() {
        let context = context(None);
        for (configured, counts) in
            [(0, 10), (600, 600), (86_400, 86_400), (86_401, 86_400), (u64::MAX, 86_400)]
        {
            context.reattest.store(configured, Ordering::Relaxed);
            assert_eq!(context.reattest_after(), Duration::from_secs(counts), "{configured}");
        }
    }

    #[tokio::test]
    async fn an_attestation_counts_no_longer_than_the_policy_says() {
        let context = context(None);
        let after = |configured| {
            context.reattest.store(configured, Ordering::Relaxed);
            context.reattest_after().as_secs()
        };
        publish(&context, 1, &json!({"limits": {"reattestSeconds": 60}}));
        assert_eq!([10, 60, 600, 86_400].map(after), [10, 60, 60, 60]);
        publish(&context, 2, &json!({}));
        assert_eq!(after(600), 600);
    }

    /// Without a device, at any port.
    pub(crate) fn endpoint() -> Endpoint {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let greeter = Greeter::new(&mut SystemRandom).unwrap();
        Endpoint::new(Socket::new(socket).unwrap(), Err(DeviceError::NotAsked), greeter)
    }

    /// Of a pod that belongs to `peer` and has no policy.
    pub(crate) fn context(peer: Option<&str>) -> Context {
        let clock = Arc::new(Clock::new());
        let anchors = Anchors { roots: vec![], source: RootSource::File };
        let namespace = Namespace::new("demo").unwrap();
        let policy = Arc::new(PolicyKeeper::new(Arc::clone(&clock), namespace, anchors, false));
        let static_key = Arc::new(StaticKey::generate(&mut SystemRandom).unwrap());
        let pod = PodIdentity::new("demo", "ranker-0", "r").unwrap();
        let metrics = Arc::new(Metrics::new(UnixSeconds(0)));
        let roots = VendorRoots::pinned();
        let collateral = CollateralKeeper::new(roots, Arc::clone(&clock), None, metrics.collateral.clone());
        let collateral = Arc::new(collateral);
        Context {
            prover: Prover::start(pod.clone(), *static_key.public(), metrics.proofs.clone()),
            pod,
            static_key,
            kem: Arc::new(MlKem768),
            clock,
            policy,
            judge: Arc::new(Judge::new(collateral, metrics.proofs.clone())),
            metrics,
            tracer: Tracer::default(),
            connections: TaskTracker::new(),
            reattest: AtomicU64::new(desired::REATTEST_SECONDS),
            peer: watch::channel(peer.map(|peer| peer.parse().unwrap())).1,
            places: Places::new(1),
            places_of_strangers: Places::new(1),
            tickets: Arc::default(),
            silences: Silences::default(),
            audits: Audits::default(),
            links: 2,
            joins: Arc::default(),
            endpoint: Arc::new(endpoint()),
            forward: Arc::new(Premises::new(vec![], None, 0)),
            externals: Arc::new(Externals::new(Arc::default())),
            throttling: Arc::default(),
            changed: Arc::default(),
        }
    }
}
