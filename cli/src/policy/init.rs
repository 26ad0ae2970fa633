//! `policy init`: drafts the next document.

mod advise;
mod before;
mod evidence;
mod flags;
mod gather;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use sealane_policy::limits::DEFAULT_LIFETIME_SECONDS;
use sealane_policy::{Auditors, Authorities, Entry, Reference, SessionRule, Timestamp};
use sealane_types::{
    Assurance, Measurement, Namespace, PeerName, PolicyName, Product, PublicKey, SimulatedForm,
};

use self::advise::advise;
use self::before::Before;
use self::evidence::{EvidenceFlags, Shown};
use self::flags::{FormFlag, ForwardFlag, HostDataFlag, KeyFlag, RootFlag, SessionFlag, TcbFlag};
use self::gather::{Declared, Installation};
use super::draft::{Draft, Proof};
use super::owner::{OwnerKey, authorities_of};
use super::simulated;
use crate::auditor::AuditorKey;
use crate::clock;
use crate::cluster::{Connection, RELEASE_NAMESPACE};
use crate::lifetime::Lifetime;
use crate::output;
use crate::source::Source;

/// How far clocks may be behind the author's before they refuse a fresh document.
const CLOCK_SKEW_SECONDS: u64 = 60;

/// Drafts an unsigned document and prints it in its signed form (RFC 8785).
///
/// Peers, TransferSessions and the epoch come from the namespace; with --peer, --session or --forward from the
/// flags alone, without a cluster. Read the draft (`policy show`), edit it if need be, then let the owners sign it.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of the TrustPolicy; by default the one that the Peers of the namespace name.
    #[arg(long, value_name = "NAME")]
    name: Option<PolicyName>,
    /// An owner: the file of a key, or a public key in hex. Repeat it, or separate with commas. By default
    /// the owners of the policy in effect.
    #[arg(long, visible_alias = "keys", value_name = "FILE|HEX", value_delimiter = ',')]
    owner_key: Vec<OwnerKey>,
    /// How many owners must sign; by default more than half of them.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    threshold: Option<u32>,
    /// Epoch of the document; by default one more than that of the policy in effect, or 1.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    epoch: Option<u64>,
    /// The policy in effect, from a file instead of the cluster: a bundle or TrustPolicy.
    #[arg(long, value_name = "FILE")]
    after: Option<PathBuf>,
    /// Do not name the document before this one.
    #[arg(long)]
    no_previous: bool,
    /// An auditor, who may ask sidecars for their evidence: the file of a key, or a public key in hex. Repeat it, or
    /// separate with commas. By default the auditors of the policy in effect.
    #[arg(long, value_name = "FILE|HEX", value_delimiter = ',')]
    auditor: Vec<AuditorKey>,
    /// Nobody may ask for evidence without a session.
    #[arg(long, conflicts_with = "auditor")]
    no_auditors: bool,
    /// How long the document is in force; by default 7d.
    #[arg(long, value_name = "SPAN")]
    expires_in: Option<Lifetime>,
    /// From when on it is in force; by default one minute ago, for clocks that are behind.
    #[arg(long, value_name = "TIME")]
    not_before: Option<Timestamp>,
    /// Print the draft indented, for editing; `policy sign` makes the signed form of it.
    #[arg(long)]
    pretty: bool,

    /// A Peer that takes part. Repeat it.
    #[arg(long, value_name = "NAME", help_heading = "Without a cluster")]
    peer: Vec<PeerName>,
    /// A permitted stream of tensors: FROM:TO, FROM:TO,TO or SESSION=FROM:TO. Repeat it.
    #[arg(long, value_name = "FLOW", help_heading = "Without a cluster")]
    session: Vec<SessionFlag>,
    /// Permitted TCP ports of TO: FROM:TO:PORT, FROM:TO:PORT,PORT or SESSION=FROM:TO:PORT. Repeat it.
    #[arg(long, value_name = "FORWARD", help_heading = "Without a cluster")]
    forward: Vec<ForwardFlag>,

    /// Accepted launch measurement of the guest image. Repeat it.
    #[arg(long, value_name = "HEX", help_heading = "What replicas must prove")]
    measurement: Vec<Measurement>,
    /// Accepted HOST_DATA of a Peer, the SHA-256 of its initdata: PEER=HEX. Repeat it.
    #[arg(long, value_name = "PEER=HEX", help_heading = "What replicas must prove")]
    host_data: Vec<HostDataFlag>,
    /// The pinned key of a Peer without a TEE, as `sealane-sidecar keygen` prints it: PEER=HEX. Repeat it. Peers outside of
    /// the cluster declare theirs.
    #[arg(long, value_name = "PEER=HEX", help_heading = "What replicas must prove")]
    public_key: Vec<KeyFlag>,
    /// TCB floor: bootloader=4,tee=0,snp=24,microcode=219.
    #[arg(
        long,
        value_name = "FLOOR",
        help_heading = "What replicas must prove",
        conflicts_with = "simulated"
    )]
    min_tcb: Option<TcbFlag>,
    /// Accepted AMD processor family: Genoa, Turin, or Milan, whose evidence may be forged. Repeat it.
    #[arg(
        long,
        value_name = "FAMILY",
        help_heading = "What replicas must prove",
        conflicts_with = "simulated"
    )]
    product: Vec<Product>,
    /// Pod: the pod itself is the guest. Node: the node is.
    #[arg(long, value_name = "WORD", help_heading = "What replicas must prove", conflicts_with = "simulated",
        default_value = "Pod", value_parser = ["Pod", "Node"])]
    assurance: String,

    #[command(flatten)]
    evidence: EvidenceFlags,

    /// Accept simulated evidence, which proves nothing, of every Peer: for machines without a TEE. Without it, of those
    /// Peers of the namespace whose provider is Simulated.
    #[arg(long, help_heading = "Simulation")]
    simulated: bool,
    /// Fingerprint of the simulated root, of another form than SEV-SNP's as FORM=HEX. By default those in ConfigMap
    /// sealane-simulation of the release.
    #[arg(long, value_name = "[FORM=]HEX", help_heading = "Simulation", requires = "simulated")]
    simulated_root: Vec<RootFlag>,
    /// The platform that the simulated one of a Peer's pods resembles, as their annotation sealane.dev/simulated-form
    /// says: PEER=SevSnp (the default), PEER=Tdx or PEER=Nitro. Repeat it.
    #[arg(long, value_name = "PEER=FORM", help_heading = "Simulation")]
    simulated_form: Vec<FormFlag>,
    /// Namespace of the release.
    #[arg(long, value_name = "NAMESPACE", help_heading = "Simulation", default_value = RELEASE_NAMESPACE)]
    release_namespace: String,
}

pub(crate) fn run(arguments: &Arguments, connection: &Connection) -> Result<()> {
    let declared = declared(arguments, connection)?;
    label(arguments, &declared);
    let before = match declared.existing.as_ref().map(Before::read).transpose() {
        Err(error) if arguments.epoch.is_some() => {
            output::say(&format!("note: the policy in effect cannot be read: {}", output::causes(&error)));
            None
        }
        read => read.context("the policy in effect cannot be read; --epoch drafts without it")?,
    };
    let rotates = before.clone();
    let document = draft(arguments, declared, before)?.document();
    let bytes = document.to_bytes();
    if arguments.pretty {
        output::print_json(&serde_json::from_slice::<serde_json::Value>(&bytes).context("cannot indent")?)?;
    } else {
        output::print(&String::from_utf8(bytes).context("the draft is not text")?)?;
    }
    advise(&document, rotates.as_ref());
    Ok(())
}

/// Peers, sessions and the policy in effect, from the flags or from the cluster.
fn declared(arguments: &Arguments, connection: &Connection) -> Result<Declared> {
    let after = arguments.after.as_deref().map(Source::read).transpose()?;
    let Arguments { peer, session, forward, .. } = arguments;
    let mut declared = if peer.is_empty() && session.is_empty() && forward.is_empty() {
        gather::everything(connection, arguments.name.as_ref(), installation(arguments))?
    } else {
        from_flags(arguments, connection)?
    };
    if after.is_some() {
        declared.existing = after;
    }
    declared.pin(&arguments.public_key)?;
    Ok(declared)
}

fn from_flags(arguments: &Arguments, connection: &Connection) -> Result<Declared> {
    let name =
        arguments.name.clone().context("--name is needed without a cluster, for example --name demo")?;
    let namespace = connection.namespace.as_deref();
    let namespace =
        namespace.context("--namespace is needed without a cluster, for example --namespace demo")?;
    let streams = arguments.session.iter().map(|SessionFlag(rule)| rule);
    let forwards = arguments.forward.iter().map(|ForwardFlag(rule)| rule);
    let sessions: Vec<SessionRule> = streams.chain(forwards).cloned().collect();
    let mentioned = sessions.iter().flat_map(|rule| std::iter::once(&rule.from).chain(&rule.to));
    let peers: BTreeSet<PeerName> = arguments.peer.iter().chain(mentioned).cloned().collect();
    let simulation = match installation(arguments) {
        Installation::Asked(release) => Some(gather::simulation_alone(connection, release)?),
        Installation::AsPeersSay(_) | Installation::Unasked => None,
    };
    Ok(Declared {
        namespace: Namespace::new(namespace)?,
        name,
        peers,
        keys: BTreeMap::new(),
        keyed: BTreeSet::new(),
        sessions,
        existing: None,
        simulated: BTreeSet::new(),
        simulation,
    })
}

/// Whether a simulated root is pinned that neither a flag nor evidence names.
fn installation(arguments: &Arguments) -> Installation<'_> {
    let release = arguments.release_namespace.as_str();
    match arguments.simulated {
        _ if !arguments.simulated_root.is_empty() || arguments.evidence.is_given() => Installation::Unasked,
        true => Installation::Asked(release),
        false => Installation::AsPeersSay(release),
    }
}

fn draft(arguments: &Arguments, declared: Declared, before: Option<Before>) -> Result<Draft> {
    let shown = arguments.evidence.learn(assurance(arguments), arguments.simulated)?;
    let proofs = proofs(arguments, &declared, &shown)?;
    let Declared { namespace, name, sessions, .. } = declared;
    let epoch = match (arguments.epoch, &before) {
        (Some(epoch), _) => epoch,
        (None, Some(before)) => before.epoch + 1,
        (None, None) => 1,
    };
    let direct = before.as_ref().filter(|before| before.epoch + 1 == epoch && !arguments.no_previous);
    let not_before = arguments.not_before.unwrap_or_else(|| {
        let now = clock::now().unix();
        sealane_types::UnixSeconds(now.0.saturating_sub(CLOCK_SKEW_SECONDS)).into()
    });
    let lifetime = arguments.expires_in.map_or(DEFAULT_LIFETIME_SECONDS, |lifetime| lifetime.seconds);
    let from = not_before.max(clock::now());
    let mut host_data = BTreeMap::<PeerName, BTreeSet<_>>::new();
    for HostDataFlag { peer, value } in &arguments.host_data {
        let proof = proofs
            .get(peer)
            .with_context(|| format!("--host-data names {peer}, which is not one of the Peers"))?;
        ensure!(
            proof.has_host_data(),
            "--host-data names {peer}, whose evidence is not of SEV-SNP and has no HOST_DATA"
        );
        host_data.entry(peer.clone()).or_default().insert(*value);
    }
    Ok(Draft {
        namespace,
        name,
        epoch,
        previous: direct.map(|before| before.digest),
        not_before,
        expires: from.plus(lifetime),
        authorities: authorities(arguments, before.as_ref())?,
        rules: before.as_ref().map(|before| before.rules.clone()).unwrap_or_default(),
        auditors: auditors(arguments, before.as_ref())?,
        proofs,
        sessions,
        host_data,
    })
}

fn authorities(arguments: &Arguments, before: Option<&Before>) -> Result<Authorities> {
    let keys: Result<BTreeSet<PublicKey>> = arguments.owner_key.iter().map(OwnerKey::public_key).collect();
    let mut keys = keys?;
    if let (true, Some(before)) = (keys.is_empty(), before) {
        let threshold = arguments.threshold.unwrap_or(before.authorities.threshold);
        keys.clone_from(&before.authorities.keys);
        return authorities_of(threshold, keys);
    }
    if keys.is_empty() {
        bail!(
            "name the owners who must sign: --owner-key FILE for each (`kubectl sealane policy keygen --out FILE` makes one)"
        );
    }
    let majority = u32::try_from(keys.len() / 2 + 1).unwrap_or(u32::MAX);
    authorities_of(arguments.threshold.unwrap_or(majority), keys)
}

fn auditors(arguments: &Arguments, before: Option<&Before>) -> Result<Option<Auditors>> {
    let keys: Result<BTreeSet<PublicKey>> = arguments.auditor.iter().map(AuditorKey::public_key).collect();
    let public_keys = keys?;
    if public_keys.is_empty() {
        let kept = before.and_then(|before| before.auditors.clone());
        return Ok(kept.filter(|_| !arguments.no_auditors));
    }
    Ok(Some(Auditors { public_keys }))
}

fn assurance(arguments: &Arguments) -> Assurance {
    if arguments.assurance == "Node" { Assurance::Node } else { Assurance::Pod }
}

/// What each Peer proves: what its evidence showed, or else what the flags say.
fn proofs(arguments: &Arguments, declared: &Declared, shown: &Shown) -> Result<BTreeMap<PeerName, Proof>> {
    if let Some(stranger) = shown.named.keys().find(|peer| !declared.peers.contains(*peer)) {
        bail!("--from-evidence names {stranger}, which is not one of the Peers");
    }
    if let Some(stranger) = arguments.simulated_form.iter().find(|flag| !declared.peers.contains(&flag.peer))
    {
        bail!("--simulated-form names {}, which is not one of the Peers", stranger.peer);
    }
    let real = |peer: &PeerName| !arguments.simulated && !declared.simulated.contains(peer);
    if let Some(flag) = arguments.simulated_form.iter().find(|flag| real(&flag.peer)) {
        bail!(
            "--simulated-form names {}, whose evidence is not simulated: set its provider to Simulated, or add --simulated",
            flag.peer
        );
    }
    let of = |peer: &PeerName| match (shown.named.get(peer), declared.keys.get(peer), &shown.others) {
        (Some(_), Some(_), _) => {
            bail!(
                "Peer {peer} has a pinned key; --from-evidence {peer}=FILE would have it prove something else"
            )
        }
        (None, Some(keys), _) => Ok(Proof::Shown(Box::new(pinning(keys.clone())))),
        (Some(learned), None, _) | (None, None, Some(learned)) => {
            Ok(Proof::Shown(Box::new(learned.entry.clone())))
        }
        (None, None, None) => proof(arguments, declared, peer),
    };
    declared.peers.iter().map(|peer| Ok((peer.clone(), of(peer)?))).collect()
}

/// What a Peer without a TEE proves.
fn pinning(keys: BTreeSet<PublicKey>) -> Entry {
    Entry {
        assurance: Assurance::Key,
        root: None,
        workload: None,
        unverified_workload: false,
        reference: Reference::Key(keys),
    }
}

fn proof(arguments: &Arguments, declared: &Declared, peer: &PeerName) -> Result<Proof> {
    let mut measurements: BTreeSet<Measurement> = arguments.measurement.iter().copied().collect();
    let said = declared.simulated.contains(peer);
    if !arguments.simulated && !said {
        let assurance = assurance(arguments);
        let products = arguments.product.iter().copied().collect();
        let min_tcb = arguments.min_tcb.map(|TcbFlag(tcb)| tcb).unwrap_or_default();
        return Ok(Proof::SevSnp { assurance, measurements, products, min_tcb });
    }
    if !arguments.simulated {
        // Those of the command line are of the Peers whose evidence is real.
        measurements.clear();
    }
    let simulation = declared.simulation.as_ref();
    let form = form(arguments, peer);
    let given = arguments.simulated_root.iter().find(|flag| flag.form == form).map(|flag| flag.root);
    let root = given.or_else(|| simulation?.roots.get(&form).copied()).with_context(|| {
        format!("no simulated root in the form of {form} is known: install again, or name it with --simulated-root {form}=HEX")
    })?;
    if measurements.is_empty() {
        measurements.insert(match simulation {
            Some(simulation) => simulation.measurement,
            None => simulated::MEASUREMENT.parse().context("the simulated measurement")?,
        });
    }
    Ok(Proof::Simulated { form, root, measurements })
}

/// Says that evidence proves nothing, and whose: nobody is to sign that without having read it.
fn label(arguments: &Arguments, declared: &Declared) {
    if arguments.simulated {
        output::say(
            "SIMULATED: this draft accepts simulated evidence, which proves nothing, as --simulated asks.",
        );
    } else if !declared.simulated.is_empty() {
        let peers: Vec<&str> = declared.simulated.iter().map(PeerName::as_str).collect();
        output::say(&format!(
            "SIMULATED: this draft accepts simulated evidence, which proves nothing, of {}: their Peers have provider Simulated.",
            peers.join(", ")
        ));
    }
}

fn form(arguments: &Arguments, peer: &PeerName) -> SimulatedForm {
    let flag = arguments.simulated_form.iter().find(|flag| flag.peer == *peer);
    flag.map_or_else(SimulatedForm::default, |flag| flag.form)
}
