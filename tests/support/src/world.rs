//! Names, policies and a simulated platform: everything around the two connections is real.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::binding::{Leaf, ReportSubject, Tree, report_data};
use sealane_attestation::{
    Collateral, Evidence, EvidenceMessage, Format, Rejection, TrustConfiguration, VerifiedPeer, judge,
};
use sealane_fixtures::keys::{MATERIAL, OTHER_MATERIAL};
use sealane_policy::{
    Authorities, Document, Entry, Floors, Limits, PolicyPeer, Reference, SessionKind, SessionRule,
    SigningKey, SnpReference, VerifiedPolicy, sign, verify,
};
use sealane_protocol::connection::{EvidenceReceived, Local, Places, PolicyView, Timing};
use sealane_protocol::handshake::{Floor, Suite};
use sealane_protocol::keys::{MlKem768, Random, RandomFailed, StaticKey};
use sealane_protocol::record::Rekey;
use sealane_simulated::{MEASUREMENT, Platform as Simulation, host_data};
use sealane_types::{
    Assurance, Cipher, PeerName, PodIdentity, RootSource, Roots, SessionName, SignedChain, UnixSeconds,
};

/// Bytes that look random and are the same in every run.
#[derive(Debug, Clone)]
pub struct Counter(pub u64);

impl Counter {
    pub fn draw(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() % bound as u64) as usize
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.fill(&mut bytes).unwrap();
        bytes
    }
}

impl Random for Counter {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.draw().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// The two workloads of every test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Embedder,
    Ranker,
}

impl Who {
    pub fn peer(self) -> PeerName {
        PeerName::new(match self {
            Self::Embedder => "embedder",
            Self::Ranker => "ranker",
        })
        .unwrap()
    }

    pub fn pod(self) -> PodIdentity {
        PodIdentity::new("demo", &format!("{}-0", self.peer()), "6f1c").unwrap()
    }

    fn initdata(self) -> Vec<u8> {
        format!("sealane simulated initdata\nnamespace: demo\npeer: {}\n", self.peer()).into_bytes()
    }
}

pub fn session() -> SessionName {
    SessionName::new("activations").unwrap()
}

/// One reading for all tests: the same policy asked for twice has the same digest.
static WALL_CLOCK: LazyLock<UnixSeconds> =
    LazyLock::new(|| UnixSeconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 5));

pub fn wall_clock() -> UnixSeconds {
    *WALL_CLOCK
}

fn entry(who: Who) -> Entry {
    Entry {
        assurance: Assurance::Simulated,
        root: Some(MATERIAL.fingerprint()),
        workload: None,
        unverified_workload: false,
        reference: Reference::SevSnp(SnpReference {
            measurements: [MEASUREMENT].into(),
            host_data: [host_data(Some(&who.initdata()))].into(),
            ..SnpReference::default()
        }),
    }
}

fn owner() -> SigningKey {
    SigningKey::from_seed(&[7; 32]).unwrap()
}

pub fn roots() -> Roots {
    Roots {
        namespace: "demo".parse().unwrap(),
        policy: "demo".parse().unwrap(),
        threshold: 1,
        keys: vec![owner().public_key()],
        minimum_epoch: 1,
    }
}

/// What each side states of its trust.
pub fn trust() -> Arc<TrustConfiguration> {
    Arc::new(TrustConfiguration { source: RootSource::File, roots: roots(), simulation: true })
}

/// The signed policy of `epoch`, as it travels.
pub fn chain(epoch: u64, floors: &Floors, lifetime: u64) -> SignedChain {
    chain_with(epoch, floors, lifetime, |_| {})
}

/// The same, with something else in it.
pub fn chain_with(
    epoch: u64,
    floors: &Floors,
    lifetime: u64,
    change: impl FnOnce(&mut Document),
) -> SignedChain {
    let peers = [Who::Embedder, Who::Ranker]
        .map(|who| (who.peer(), PolicyPeer { entries: vec![entry(who)], shared_evidence: false }));
    let keys = [owner().public_key()].into();
    let mut document = Document {
        version: 1,
        namespace: "demo".parse().unwrap(),
        name: "demo".parse().unwrap(),
        epoch,
        not_before: UnixSeconds(wall_clock().0 - 60).into(),
        expires: wall_clock().plus(lifetime).into(),
        previous: None,
        authorities: Authorities { threshold: 1, keys },
        peers: BTreeMap::from(peers),
        sessions: vec![SessionRule {
            name: None,
            from: Who::Embedder.peer(),
            to: [Who::Ranker.peer()].into(),
            kind: SessionKind::Stream { senders_min: 0 },
        }],
        floors: floors.clone(),
        limits: Limits::default(),
        collateral: sealane_policy::CollateralRules::default(),
        auditors: None,
    };
    change(&mut document);
    let bytes = document.to_bytes();
    let signatures = vec![sign(&bytes, &owner())];
    SignedChain { document: STANDARD.encode(&bytes), signatures, rotations: vec![] }
}

pub fn verified(chain: &SignedChain) -> Result<VerifiedPolicy, sealane_policy::PolicyError> {
    verify(chain, &roots(), wall_clock().into(), None)
}

pub fn policy(epoch: u64) -> VerifiedPolicy {
    verified(&chain(epoch, &Floors::default(), 3600)).unwrap()
}

pub fn view(policy: &VerifiedPolicy) -> PolicyView {
    let floors = &policy.document().floors;
    let floor =
        Floor { post_quantum: floors.post_quantum, ciphers: floors.ciphers.iter().copied().collect() };
    let life_micros = policy.document().limits.session_seconds * 1_000_000;
    PolicyView { epoch: policy.epoch(), digest: policy.digest(), floor, life_micros }
}

pub fn local(who: Who, policy: &VerifiedPolicy, random: &mut Counter) -> Local {
    Local {
        static_key: Arc::new(StaticKey::generate(random).unwrap()),
        peer: who.peer(),
        pod: who.pod(),
        policy: view(policy),
        trust: trust(),
        suites: Suite::offer(&[Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305], false),
        rekey: Rekey::default(),
        timing: Timing::default(),
        kem: Arc::new(MlKem768),
        links: false,
        places: Places::new(1),
    }
}

/// The guest that a side runs in.
#[derive(Debug)]
pub struct Guest(Simulation);

impl Guest {
    pub fn of(who: Who) -> Self {
        Self(Simulation::new(MATERIAL.clone(), Some(&who.initdata())).unwrap())
    }

    /// Genuine in form, under a root that no policy names.
    pub fn elsewhere(who: Who) -> Self {
        Self(Simulation::new(OTHER_MATERIAL.clone(), Some(&who.initdata())).unwrap())
    }

    pub fn prove(&self, leaf: Leaf, local: &Local, policy: &VerifiedPolicy) -> EvidenceMessage {
        self.prove_together(&[leaf], 0, local, policy)
    }

    /// One quote for several handshakes.
    pub fn prove_together(
        &self,
        leaves: &[Leaf],
        index: u32,
        local: &Local,
        policy: &VerifiedPolicy,
    ) -> EvidenceMessage {
        let tree = Tree::new(leaves).unwrap();
        let format = Format::SimulatedSevSnp;
        let subject = ReportSubject {
            platform: format.platform(),
            pod: &local.pod,
            own_static: local.static_key.public(),
            policy: &policy.digest(),
            trust: &local.trust.digest(),
            workload: None,
        };
        let data = report_data(&subject, tree.leaves(), tree.root());
        let quote = self.0.quote(data).unwrap();
        EvidenceMessage {
            pod: local.pod.clone(),
            policy: policy.digest(),
            path: tree.path(index).unwrap(),
            evidence: Evidence { format, report: quote.report, certificates: quote.certificates },
            workload: None,
        }
    }
}

/// What an honest shell makes of received evidence.
pub fn appraise(received: &EvidenceReceived, policy: &VerifiedPolicy) -> Result<VerifiedPeer, Rejection> {
    let policies = [policy.digest()];
    let collateral = Collateral::empty().allowing_simulated();
    let peer = &received.introduction.peer;
    judge(&received.message, &received.expected(&policies), peer, policy, &collateral, wall_clock())
}
