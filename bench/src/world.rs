//! A policy that one owner signs, two Peers, and a simulated platform: what connections of a measurement are verified
//! against. Everything is made afresh for a run and forgotten with it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::TrustConfiguration;
use sealane_policy::{SigningKey, Timestamp, VerifiedPolicy, canonical, sign, verify};
use sealane_protocol::connection::PolicyView;
use sealane_protocol::handshake::Floor;
use sealane_simulated::{MEASUREMENT, Material, host_data};
use sealane_types::{Cipher, PodIdentity, RootSource, Roots, SignedChain, UnixSeconds};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "bench";
pub(crate) const SESSION: &str = "measured";
const IN_PLACE: &str = "in-place";
const ASKED: &str = "asked";
const ANSWERED: &str = "answered";
const FORWARDED: &str = "forwarded";
const OWNER_SEED: [u8; 32] = [7; 32];
const LIFETIME_SECONDS: u64 = 86_400;
const EARLIER_SECONDS: u64 = 60;

/// The two ends of every session here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Sender,
    Receiver,
}

impl Who {
    pub(crate) const fn peer(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }

    pub(crate) fn pod_name(self) -> String {
        format!("{}-0", self.peer())
    }

    pub(crate) fn pod(self) -> Result<PodIdentity> {
        PodIdentity::new(NAMESPACE, &self.pod_name(), "1").context("a pod's name")
    }

    /// What the simulated platform measures of its configuration; the policy names its hash.
    pub(crate) fn initdata(self) -> Vec<u8> {
        format!("sealane simulated initdata\nnamespace: {NAMESPACE}\npeer: {}\n", self.peer()).into_bytes()
    }
}

/// A session between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Session {
    /// A stream from the sender to the receiver.
    Measured,
    /// Another one, for tensors that are put in place.
    InPlace,
    /// Another one, whose tensors are answered.
    Asked,
    /// A stream from the receiver to the sender.
    Answered,
    /// A TCP port of the receiver's, for the sender's side.
    Forwarded { target: u16 },
}

impl Session {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Measured => SESSION,
            Self::InPlace => IN_PLACE,
            Self::Asked => ASKED,
            Self::Answered => ANSWERED,
            Self::Forwarded { .. } => FORWARDED,
        }
    }

    /// Who sends, and dials.
    pub(crate) const fn from(self) -> Who {
        match self {
            Self::Measured | Self::InPlace | Self::Asked | Self::Forwarded { .. } => Who::Sender,
            Self::Answered => Who::Receiver,
        }
    }
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) material: Material,
    pub(crate) roots: Roots,
    pub(crate) chain: SignedChain,
    pub(crate) policy: VerifiedPolicy,
    pub(crate) now: UnixSeconds,
    pub(crate) sessions: Vec<Session>,
}

/// A [`World`] as it travels. Its key proves nothing and needs no protection.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SharedWorld {
    material: String,
    roots: Roots,
    chain: SignedChain,
}

impl World {
    /// With one session, a stream. With `classical`, the policy permits key exchange without its post-quantum half, which
    /// no default does.
    pub(crate) fn new(classical: bool) -> Result<Self> {
        Self::make(classical, &[Session::Measured])
    }

    /// With these sessions.
    pub(crate) fn with_sessions(sessions: &[Session]) -> Result<Self> {
        Self::make(false, sessions)
    }

    /// Makes keys (a second or two) and signs a policy.
    fn make(classical: bool, sessions: &[Session]) -> Result<Self> {
        let material = Material::generate().context("making a simulated platform")?;
        let owner = SigningKey::from_seed(&OWNER_SEED).context("making a policy owner's key")?;
        let roots = Roots {
            namespace: NAMESPACE.parse()?,
            policy: NAMESPACE.parse()?,
            threshold: 1,
            keys: vec![owner.public_key()],
            minimum_epoch: 1,
        };
        let now = UnixSeconds(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs());
        let document = document(&material, &owner, now, classical, sessions);
        let bytes = canonical(document.to_string().as_bytes())?;
        let signatures = vec![sign(&bytes, &owner)];
        let chain = SignedChain { document: STANDARD.encode(&bytes), signatures, rotations: Vec::new() };
        let policy = verify(&chain, &roots, now.into(), None).context("verifying the policy just signed")?;
        Ok(Self { material, roots, chain, policy, now, sessions: sessions.to_vec() })
    }

    /// What an end on another machine needs for connections with this one.
    pub(crate) fn share(&self) -> Result<SharedWorld> {
        let material = self.material.to_json().context("writing a simulated platform")?;
        Ok(SharedWorld { material, roots: self.roots.clone(), chain: self.chain.clone() })
    }

    /// What was shared.
    pub(crate) fn join(shared: SharedWorld) -> Result<Self> {
        let SharedWorld { material, roots, chain } = shared;
        let material = Material::from_json(&material).context("reading a simulated platform")?;
        let now = UnixSeconds(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs());
        let policy = verify(&chain, &roots, now.into(), None).context("verifying the policy of the run")?;
        Ok(Self { material, roots, chain, policy, now, sessions: vec![Session::Measured] })
    }

    /// What each side of a measurement states of its trust.
    pub(crate) fn trust(&self) -> Arc<TrustConfiguration> {
        let roots = self.roots.clone();
        Arc::new(TrustConfiguration { source: RootSource::File, roots, simulation: true })
    }

    /// The policy as a connection sees it.
    pub(crate) fn view(&self) -> PolicyView {
        let floors = &self.policy.document().floors;
        let ciphers = floors.ciphers.iter().copied().collect();
        let floor = Floor { post_quantum: floors.post_quantum, ciphers };
        let life_micros = self.policy.document().limits.session_seconds.saturating_mul(1_000_000);
        PolicyView { epoch: self.policy.epoch(), digest: self.policy.digest(), floor, life_micros }
    }
}

fn document(
    material: &Material,
    owner: &SigningKey,
    now: UnixSeconds,
    classical: bool,
    sessions: &[Session],
) -> Value {
    let entry = |who: Who| {
        json!({"entries": [{
            "kind": "Simulated",
            "root": material.fingerprint().to_string(),
            "measurements": [MEASUREMENT.to_string()],
            "hostData": [host_data(Some(&who.initdata())).to_string()],
            "minTcb": {},
            "products": ["Genoa"],
        }]})
    };
    let written = |seconds| Timestamp::from(UnixSeconds(seconds)).to_string();
    let mut document = json!({
        "version": 1,
        "namespace": NAMESPACE,
        "name": NAMESPACE,
        "epoch": 1,
        "notBefore": written(now.0 - EARLIER_SECONDS),
        "expires": written(now.0 + LIFETIME_SECONDS),
        "authorities": {"threshold": 1, "keys": [owner.public_key().to_string()]},
        "peers": {"sender": entry(Who::Sender), "receiver": entry(Who::Receiver)},
        "sessions": sessions.iter().map(|session| rule(*session)).collect::<Vec<_>>(),
    });
    if classical {
        let ciphers: Vec<_> = Cipher::ALL.iter().map(ToString::to_string).collect();
        document["floors"] = json!({"postQuantum": false, "ciphers": ciphers});
    }
    document
}

fn rule(session: Session) -> Value {
    let from = session.from();
    let mut rule = json!({"name": session.name(), "from": from.peer(), "to": from.other().peer()});
    match session {
        Session::Measured | Session::InPlace | Session::Asked | Session::Answered => {
            rule["stream"] = json!({})
        }
        Session::Forwarded { target } => rule["forward"] = json!({"targets": [target]}),
    }
    rule
}
