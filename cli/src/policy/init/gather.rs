//! What a namespace declares.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use sealane_operator_api::{Peer, Stream, TransferSession, TransferSessionSpec, TrustPolicy};
use sealane_policy::{SessionKind, SessionRule};
use sealane_types::{
    Digest, ForwardPort, Measurement, Namespace, PeerName, PolicyName, Provider, PublicKey, SessionName,
    SimulatedForm,
};

use super::flags::KeyFlag;
use crate::cluster::{Connection, demand_namespace, explain};
use crate::objects::{self, Objects, UPDATE};
use crate::output;
use crate::source::Source;

/// ConfigMap of a simulated installation.
const SIMULATION: &str = "sealane-simulation";

/// Everything that a draft is made of and the author did not say.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) namespace: Namespace,
    pub(super) name: PolicyName,
    pub(super) peers: BTreeSet<PeerName>,
    /// Of Peers without a TEE.
    pub(super) keys: BTreeMap<PeerName, BTreeSet<PublicKey>>,
    /// Peers in the cluster that prove themselves by a key, which no object there states.
    pub(super) keyed: BTreeSet<PeerName>,
    pub(super) sessions: Vec<SessionRule>,
    pub(super) existing: Option<Source>,
    /// Peers whose evidence is simulated, as they say themselves.
    pub(super) simulated: BTreeSet<PeerName>,
    pub(super) simulation: Option<Simulation>,
}

impl Declared {
    /// Adds the keys that the command line names.
    ///
    /// # Errors
    /// When one is of no Peer, or a Peer that proves itself by a key is left without.
    pub(super) fn pin(&mut self, flags: &[KeyFlag]) -> Result<()> {
        for KeyFlag { peer, key } in flags {
            ensure!(self.peers.contains(peer), "--public-key names {peer}, which is not one of the Peers");
            self.keys.entry(peer.clone()).or_default().insert(*key);
        }
        match self.keyed.iter().find(|peer| !self.keys.contains_key(*peer)) {
            Some(peer) => bail!("Peer {peer} proves itself by a key: name it with --public-key {peer}=HEX"),
            None => Ok(()),
        }
    }
}

/// What a simulated installation says about itself.
#[derive(Debug)]
pub(super) struct Simulation {
    /// Older installations have SEV-SNP's alone.
    pub(super) roots: BTreeMap<SimulatedForm, Digest>,
    pub(super) measurement: Measurement,
}

/// Whether the release of this namespace is asked what its simulation is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Installation<'a> {
    /// No: flags or evidence say what replicas prove.
    Unasked,
    /// Yes: the author accepts simulated evidence.
    Asked(&'a str),
    /// Where a Peer says that its evidence is simulated.
    AsPeersSay(&'a str),
}

/// Reads Peers, TransferSessions, the TrustPolicy and, where it is asked for, the simulation of an installation.
pub(super) fn everything(
    connection: &Connection,
    name: Option<&PolicyName>,
    installation: Installation<'_>,
) -> Result<Declared> {
    connection.with_client(async |client, namespace| {
        let peers = objects::list::<Peer>(&client, Some(&namespace)).await;
        let peers = understood(peers.map_err(|error| explain(&error, "Peers"))?);
        if peers.is_empty() {
            demand_namespace(&client, &namespace).await?;
        }
        let sessions = objects::list::<TransferSession>(&client, Some(&namespace)).await;
        let sessions = understood(sessions.map_err(|error| explain(&error, "TransferSessions"))?);
        let name = match name {
            Some(name) => name.clone(),
            None => named_by(&peers, &namespace)?,
        };
        let existing =
            objects::named::<TrustPolicy>(&client, &namespace, name.as_str(), "TrustPolicies").await?;
        let simulated = match installation {
            Installation::Unasked => BTreeSet::new(),
            Installation::Asked(_) | Installation::AsPeersSay(_) => {
                members(peers.iter().filter(|peer| is_simulated(peer)), &name)?
            }
        };
        let simulation = match installation {
            Installation::Asked(release) => Some(simulation(client, release).await?),
            Installation::AsPeersSay(release) if !simulated.is_empty() => {
                Some(simulation(client, release).await?)
            }
            Installation::AsPeersSay(_) | Installation::Unasked => None,
        };
        let keys = keys(&peers, &name)?;
        let keyed = members(peers.iter().filter(|peer| is_keyed(peer)), &name)?;
        let peers = members(&peers, &name)?;
        if peers.is_empty() {
            bail!(
                "no Peer of namespace {namespace} has trustPolicyRef {name}; apply the Peers first, or name them with --peer"
            );
        }
        let sessions = rules(&sessions, &peers)?;
        let existing = existing.as_ref().map(Source::from_manifest).transpose()?;
        Ok(Declared {
            namespace: Namespace::new(namespace)?,
            name,
            peers,
            keys,
            keyed,
            sessions,
            existing,
            simulated,
            simulation,
        })
    })
}

/// Objects without those that cannot be read, which are told.
fn understood<K>(objects: Objects<K>) -> Vec<K> {
    for strange in &objects.strange {
        output::say(&format!("note: {}", strange.text()));
    }
    objects.readable
}

/// Reads only what a simulated installation says about itself.
pub(super) fn simulation_alone(connection: &Connection, release: &str) -> Result<Simulation> {
    connection
        .with_client(async |client, _| simulation(client, release).await)
        .context("without --simulated-root the fingerprint is read from the cluster")
}

async fn simulation(client: Client, release: &str) -> Result<Simulation> {
    let map = Api::<ConfigMap>::namespaced(client, release).get_opt(SIMULATION).await;
    let map = map.map_err(|error| explain(&error, "ConfigMaps"))?.with_context(|| {
        format!("there is no ConfigMap {SIMULATION} in namespace {release}: this installation is not simulated (`make install SIMULATED=1`), or --release-namespace is another")
    })?;
    let data = map.data.unwrap_or_default();
    let value = |key: &str| {
        data.get(key).with_context(|| format!("ConfigMap {release}/{SIMULATION} has no key {key}"))
    };
    let mut roots: BTreeMap<_, _> =
        [(SimulatedForm::SevSnp, value("fingerprint")?.trim().parse().context("key fingerprint")?)].into();
    for (form, key) in [(SimulatedForm::Tdx, "fingerprintTdx"), (SimulatedForm::Nitro, "fingerprintNitro")] {
        if let Some(root) = data.get(key) {
            roots.insert(form, root.trim().parse().with_context(|| format!("key {key}"))?);
        }
    }
    Ok(Simulation { roots, measurement: value("measurement")?.trim().parse().context("key measurement")? })
}

/// The one TrustPolicy that the Peers name.
fn named_by(peers: &[Peer], namespace: &str) -> Result<PolicyName> {
    let names: BTreeSet<&str> = peers.iter().map(|peer| peer.spec.trust_policy_ref.name.as_str()).collect();
    match names.iter().copied().collect::<Vec<_>>()[..] {
        [name] => Ok(name.parse()?),
        [] => bail!("namespace {namespace} has no Peers; apply them first, or name them with --peer"),
        _ => bail!(
            "the Peers of namespace {namespace} name several TrustPolicies ({}); choose one with --name",
            names.into_iter().collect::<Vec<_>>().join(", ")
        ),
    }
}

fn members<'a>(peers: impl IntoIterator<Item = &'a Peer>, policy: &PolicyName) -> Result<BTreeSet<PeerName>> {
    let members = peers.into_iter().filter(|peer| peer.spec.trust_policy_ref.name == policy.as_str());
    members.map(|peer| Ok(PeerName::new(peer.metadata.name.clone().unwrap_or_default())?)).collect()
}

/// Whether the pods of a Peer prove themselves by a key.
fn is_keyed(peer: &Peer) -> bool {
    peer.spec.external.is_none() && peer.spec.attestation.provider == Provider::Key
}

/// Whether the pods of a Peer prove themselves by simulated evidence, which no Peer does unless its spec says so.
fn is_simulated(peer: &Peer) -> bool {
    peer.spec.external.is_none() && peer.spec.attestation.provider == Provider::Simulated
}

/// The keys that Peers outside of the cluster declare.
fn keys(peers: &[Peer], policy: &PolicyName) -> Result<BTreeMap<PeerName, BTreeSet<PublicKey>>> {
    let members = peers.iter().filter(|peer| peer.spec.trust_policy_ref.name == policy.as_str());
    let external = members.filter_map(|peer| Some((peer, peer.spec.external.as_ref()?)));
    external
        .map(|(peer, external)| {
            let name = PeerName::new(peer.metadata.name.clone().unwrap_or_default())?;
            let key = external.public_key.parse();
            let key = key.with_context(|| format!("Peer {name}: spec.external.publicKey"))?;
            Ok((name, [key].into()))
        })
        .collect()
}

/// Sessions whose Peers all follow this policy.
fn rules(sessions: &[TransferSession], peers: &BTreeSet<PeerName>) -> Result<Vec<SessionRule>> {
    let mut rules = Vec::new();
    for session in sessions {
        let name = SessionName::new(session.metadata.name.clone().unwrap_or_default())?;
        let from = PeerName::new(session.spec.from.peer.clone())?;
        let to = session.spec.to.iter().map(|to| PeerName::new(to.peer.clone()));
        let to: BTreeSet<PeerName> = to.collect::<Result<_, _>>()?;
        if peers.contains(&from) && to.is_subset(peers) {
            match kind(&session.spec).with_context(|| format!("TransferSession {name}"))? {
                Some(kind) => rules.push(SessionRule { name: Some(name), from, to, kind }),
                None => output::say(&format!(
                    "note: TransferSession {name} is left out: it is of a kind that this release does not know; {UPDATE}"
                )),
            }
        } else {
            output::say(&format!(
                "note: TransferSession {name} is left out: not all of its Peers follow this policy"
            ));
        }
    }
    Ok(rules)
}

/// What a session carries; of a forward, the one port that it reaches. None of a kind of a newer release.
fn kind(spec: &TransferSessionSpec) -> Result<Option<SessionKind>> {
    // Null, which a change of its field manager leaves beside a forward, is read as an empty stream.
    let stream =
        spec.stream.as_ref().filter(|stream| spec.forward.is_none() || **stream != Stream::default());
    match (stream, &spec.forward) {
        (Some(_), None) => Ok(Some(SessionKind::Stream { senders_min: 0 })),
        (None, Some(forward)) => {
            let target = u32::try_from(forward.target).unwrap_or(0);
            let target = ForwardPort::new(target).context("spec.forward.target")?;
            Ok(Some(SessionKind::Forward { targets: [target].into() }))
        }
        (None, None) => Ok(None),
        (Some(_), Some(_)) => bail!("only one of spec.stream and spec.forward may be set"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, policy: &str) -> Peer {
        let spec = serde_json::json!({"selector": {}, "trustPolicyRef": {"name": policy}});
        Peer::new(name, serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn a_peer_outside_of_the_cluster_brings_its_key() {
        let mut laptop = peer("laptop", "demo");
        let key = "0a".repeat(32);
        laptop.spec.selector = None;
        let external = serde_json::json!({"addresses": ["203.0.113.7:14710"], "publicKey": key});
        laptop.spec.external = Some(serde_json::from_value(external).unwrap());
        let found = keys(&[peer("embedder", "demo"), laptop.clone()], &"demo".parse().unwrap()).unwrap();
        assert_eq!(found, [("laptop".parse().unwrap(), [key.parse().unwrap()].into())].into());
        assert!(keys(&[laptop], &"else".parse().unwrap()).unwrap().is_empty());
    }

    #[test]
    fn a_peer_that_proves_itself_by_a_key_is_not_drafted_without_one() {
        let mut desk = peer("desk", "demo");
        desk.spec.attestation.provider = Provider::Key;
        let (peers, name) = ([peer("embedder", "demo"), desk], "demo".parse().unwrap());
        let mut declared = Declared {
            namespace: "demo".parse().unwrap(),
            peers: members(&peers, &name).unwrap(),
            keys: keys(&peers, &name).unwrap(),
            keyed: members(peers.iter().filter(|peer| is_keyed(peer)), &name).unwrap(),
            name,
            sessions: vec![],
            existing: None,
            simulated: BTreeSet::new(),
            simulation: None,
        };
        let refused = declared.pin(&[]).unwrap_err().to_string();
        assert!(refused.contains("Peer desk proves itself by a key"), "{refused}");
        assert!(refused.contains("--public-key desk=HEX"), "{refused}");
        let key = "0a".repeat(32);
        declared.pin(&[format!("desk={key}").parse().unwrap()]).unwrap();
        assert_eq!(declared.keys, [("desk".parse().unwrap(), [key.parse().unwrap()].into())].into());
        assert!(declared.pin(&[format!("else={key}").parse().unwrap()]).is_err());
    }

    fn session(name: &str, from: &str, to: &str) -> TransferSession {
        let spec = serde_json::json!({"from": {"peer": from}, "to": [{"peer": to}], "stream": {}});
        TransferSession::new(name, serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn only_sessions_between_members_are_drafted() {
        let peers = [peer("embedder", "demo"), peer("ranker", "demo"), peer("other", "else")];
        let members = members(&peers, &"demo".parse().unwrap()).unwrap();
        assert_eq!(members.len(), 2);
        let sessions = [session("a", "embedder", "ranker"), session("b", "embedder", "other")];
        let rules = rules(&sessions, &members).unwrap();
        assert_eq!(rules.len(), 1);
        assert_eq!(rules[0].name.as_ref().unwrap().as_str(), "a");
        assert_eq!(rules[0].kind, SessionKind::Stream { senders_min: 0 });
    }

    #[test]
    fn a_forward_is_drafted_with_the_port_it_reaches() {
        let members = ["client", "triton"].map(|name| name.parse().unwrap()).into();
        let forward = |target: i32| {
            let spec = serde_json::json!({
                "from": {"peer": "client"}, "to": [{"peer": "triton"}],
                "forward": {"listen": 18001, "target": target},
            });
            TransferSession::new("grpc", serde_json::from_value(spec).unwrap())
        };
        let targets = [ForwardPort::new(8001).unwrap()].into();
        // As the API server has it after a move from client-side to server-side apply.
        let mut emptied = serde_json::to_value(forward(8001)).unwrap();
        emptied["spec"]["stream"] = serde_json::Value::Null;
        let emptied: TransferSession = serde_json::from_value(emptied).unwrap();
        assert!(emptied.spec.stream.is_some(), "null is read as an empty stream");
        assert_eq!(rules(&[emptied], &members).unwrap(), rules(&[forward(8001)], &members).unwrap());
        let drafted = rules(&[forward(8001)], &members).unwrap();
        assert_eq!(drafted[0].kind, SessionKind::Forward { targets });
        for target in [-1, 0, 65_536, 14_710] {
            let refused = rules(&[forward(target)], &members).unwrap_err();
            assert!(
                format!("{refused:#}").contains("TransferSession grpc: spec.forward.target"),
                "{refused:#}"
            );
        }
    }

    #[test]
    fn a_session_of_a_newer_kind_is_left_out() {
        let members = ["client", "triton"].map(|name| name.parse().unwrap()).into();
        let spec = serde_json::json!({"from": {"peer": "client"}, "to": [{"peer": "triton"}], "object": {}});
        let newer = TransferSession::new("newer", serde_json::from_value(spec).unwrap());
        assert!(rules(&[newer], &members).unwrap().is_empty());
    }

    #[test]
    fn peers_say_themselves_that_they_are_simulated() {
        let provider = |provider: Provider| {
            let mut peer = peer("a", "demo");
            peer.spec.attestation.provider = provider;
            is_simulated(&peer)
        };
        assert!(provider(Provider::Simulated));
        assert!(!provider(Provider::Auto) && !provider(Provider::Key));
    }

    #[test]
    fn the_policy_is_inferred_where_only_one_is_named() {
        assert_eq!(named_by(&[peer("a", "demo"), peer("b", "demo")], "ns").unwrap().as_str(), "demo");
        let error = named_by(&[peer("a", "demo"), peer("b", "else")], "ns").unwrap_err();
        assert!(error.to_string().contains("--name"), "{error}");
        assert!(named_by(&[], "ns").unwrap_err().to_string().contains("--peer"));
    }
}
