//! `kubectl sealane verify`: asks replicas themselves, and believes only what they can prove.
//!
//! Status is what a control plane says. Here the evidence comes from the replica, bound to the handshake of this very
//! command, and is judged in this process under a policy that its user trusts.

mod audit;
mod check;
mod examine;
mod held;
mod reach;
mod report;
mod seen;
mod target;
mod trust;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use sealane_attestation::{Collateral, VerifiedPeer};
use sealane_protocol::connection::{ClosedBy, EvidenceReceived, Local, Places, PolicyView, Setup, Timing};
use sealane_protocol::handshake::{Kind, Suite};
use sealane_protocol::keys::{MlKem768, StaticKey};
use sealane_protocol::record::Rekey;
use sealane_types::{PeerName, PodIdentity, PublicKey, Reason};

use self::audit::{Desk, Ended, Heard, audit};
use self::check::{Checks, Status};
use self::examine::{Bench, Examination, examine};
use self::reach::{Through, reach};
use self::report::{Asked, Report};
use self::target::{Target, Way};
use self::trust::{Files, Trust};
use crate::auditor;
use crate::clock;
use crate::cluster::Connection;
use crate::output::{self, Format};

/// What an auditor calls itself; its key is what counts.
const AUDITOR: &str = "auditor";
const SESSION: &str = "audit";

/// Asks the replicas of a Peer for their evidence, verifies it in this process, and says check by check what was found.
///
/// The auditor's key must be listed in the signed policy (`policy keygen --auditor`, `policy init --auditor`). What the
/// evidence has to show is the policy's: name one that you trust with --policy and --roots; otherwise it and its roots
/// come from the cluster, and the command says so. Exits with 0 only if every replica passes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The Peer.
    #[arg(value_name = "PEER", value_parser = target::named)]
    peer: PeerName,
    /// Only this replica, whether status lists it or not.
    #[arg(long, value_name = "POD")]
    pod: Option<String>,
    /// Where a replica's data port is reached directly, in place of a port forward through the API server.
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// The auditor's private key.
    #[arg(long, value_name = "FILE", env = "SEALANE_AUDITOR_KEY")]
    key: PathBuf,
    /// The signed policy to judge by: a bundle or TrustPolicy. By default the one that the Peer names in the cluster.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Whose signatures count: a TrustPolicy or the JSON of roots. By default the roots of the policy itself.
    #[arg(long, value_name = "FILE")]
    roots: Option<PathBuf>,
    /// Revocation lists and TCB information, as `collateral bundle` writes them and an owner of the policy signs: evidence of
    /// SEV-SNP and TDX hardware is judged by them.
    #[arg(long, value_name = "BUNDLE")]
    collateral: Option<PathBuf>,
    /// Judge simulated evidence, which proves nothing, instead of refusing it.
    #[arg(long)]
    simulated: bool,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(arguments: &Arguments, connection: &Connection) -> Result<()> {
    let key = Arc::new(auditor::read(&arguments.key)?);
    let files = Files { policy: arguments.policy.as_deref(), roots: arguments.roots.as_deref() };
    // With an address and a policy at hand nobody needs to be asked for either.
    let alone = arguments.address.is_some() && files.suffice();
    let (trust, asked) = if alone {
        let trust = files.read()?;
        let namespace = connection.namespace.clone().unwrap_or_else(|| namespace_of(&trust));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let plan = Plan { arguments, key, through: Through { flags: vec![], namespace } };
        let asked =
            runtime.context("cannot start the runtime")?.block_on(plan.ask(&trust, named(arguments)))?;
        (trust, asked)
    } else {
        connection.with_client(async |client, namespace| {
            let (trust, targets) = declared(arguments, files, client, &namespace).await?;
            let through = Through { flags: connection.kubectl_flags(), namespace };
            let asked = Plan { arguments, key, through }.ask(&trust, targets).await?;
            Ok((trust, asked))
        })?
    };
    let report = Report { peer: &arguments.peer, trust: &trust, asked };
    match arguments.output {
        Format::Text => output::print(&report.text())?,
        Format::Json => output::print_json(&report.value())?,
    }
    if report.verdict() == Status::Failed {
        bail!("{} of {} replicas of Peer {} failed", report.failed(), report.asked.len(), arguments.peer);
    }
    Ok(())
}

fn namespace_of(trust: &Trust) -> String {
    trust.policy.document().namespace.to_string()
}

/// The one replica that an address leads to.
fn named(arguments: &Arguments) -> Vec<Target> {
    let way = arguments.address.clone().map_or_else(|| Way::None("no address".to_owned()), Way::Direct);
    vec![Target { pod: arguments.pod.clone(), way }]
}

/// Policy and replicas, with the cluster's help.
async fn declared(
    arguments: &Arguments,
    files: Files<'_>,
    client: Client,
    namespace: &str,
) -> Result<(Trust, Vec<Target>)> {
    let peer = target::peer(client.clone(), namespace, &arguments.peer).await?;
    let trust = files.read_with(client, namespace, &peer.spec.trust_policy_ref.name).await?;
    let targets = match &arguments.address {
        Some(_) => named(arguments),
        None => target::targets(&peer, arguments.pod.as_deref())?,
    };
    Ok((trust, targets))
}

/// How replicas are asked.
struct Plan<'a> {
    arguments: &'a Arguments,
    key: Arc<StaticKey>,
    through: Through,
}

impl Plan<'_> {
    /// Asks one replica after the other.
    async fn ask(&self, trust: &Trust, targets: Vec<Target>) -> Result<Vec<Asked>> {
        let namespace = namespace_of(trust);
        ensure!(
            namespace == self.through.namespace,
            "the policy is for namespace {namespace}, and the Peer is asked for in {}; --namespace names another",
            self.through.namespace
        );
        let Arguments { policy, collateral, simulated, .. } = self.arguments;
        if let Some(warning) = trust.vouched.warning(policy.is_some()) {
            output::say(&format!("warning: {warning}"));
        }
        let collateral = held::collateral(collateral.as_deref(), &trust.policy, *simulated)?;
        let mut asked = Vec::new();
        for Target { pod, way } in targets {
            let name = pod.clone().unwrap_or_else(|| shown(&way));
            let mut checks = Checks::default();
            match reach(&way, &self.through).await {
                Err(error) => checks.failed("reached", output::causes(&error), Reason::Unreachable),
                Ok(reached) => {
                    checks.ok("reached", shown(&way));
                    let mut desk = Judge {
                        plan: self,
                        trust: trust.clone(),
                        collateral: &collateral,
                        found: None,
                        policy: None,
                    };
                    let heard = audit(reached.stream, self.setup(trust)?, &mut desk).await?;
                    checks.append(desk.checks(heard, pod.as_deref()));
                }
            }
            asked.push(Asked { name, checks });
        }
        Ok(asked)
    }

    fn setup(&self, trust: &Trust) -> Result<Setup> {
        let policy = trust.view();
        let suites = Suite::offer(&policy.floor.ciphers, !policy.floor.post_quantum);
        let local = Local {
            static_key: Arc::clone(&self.key),
            peer: AUDITOR.parse()?,
            pod: PodIdentity::new(&self.through.namespace, AUDITOR, AUDITOR)?,
            policy,
            trust: trust.configuration(),
            suites,
            rekey: Rekey::default(),
            timing: Timing::default(),
            kem: Arc::new(MlKem768),
            links: false,
            places: Places::new(1),
        };
        Ok(Setup {
            local,
            kind: Kind::Audit,
            expected: self.arguments.peer.clone(),
            session: SESSION.parse()?,
        })
    }
}

fn shown(way: &Way) -> String {
    match way {
        Way::Direct(address) => address.clone(),
        Way::Forward { pod, port } => format!("pod/{pod}, port {port}, through the API server"),
        Way::None(message) => message.clone(),
    }
}

/// Answers one audit.
struct Judge<'a> {
    plan: &'a Plan<'a>,
    /// The newest policy known: a replica may hand over a newer one.
    trust: Trust,
    collateral: &'a Collateral,
    found: Option<Examination>,
    policy: Option<Turn>,
}

/// Who was behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Replica,
    Auditor,
}

impl Desk for Judge<'_> {
    fn policy(&mut self) -> Result<(u64, Vec<u8>), Reason> {
        self.policy = Some(Turn::Replica);
        let chain = serde_json::to_vec(self.trust.policy.chain()).map_err(|_| Reason::PolicyMalformed)?;
        Ok((self.trust.policy.epoch(), chain))
    }

    fn adopt(&mut self, chain: &[u8]) -> Result<PolicyView, Reason> {
        self.policy = Some(Turn::Auditor);
        self.trust.adopt(chain)
    }

    fn judge(&mut self, received: &EvidenceReceived) -> Result<VerifiedPeer, Reason> {
        let bench =
            Bench { peer: &self.plan.arguments.peer, collateral: self.collateral, now: clock::now().unix() };
        let Examination { checks, verdict } = examine(received, &self.trust.policy, &bench);
        self.found = Some(Examination { checks, verdict: verdict.clone() });
        verdict
    }
}

impl Judge<'_> {
    /// Everything that was found out about a replica that should be `pod`.
    fn checks(self, heard: Heard, pod: Option<&str>) -> Checks {
        let Heard { introduction, suite, ended } = heard;
        let mut checks = Checks::default();
        let Some(suite) = suite else {
            refused(&mut checks, "handshake", &ended);
            return checks;
        };
        let key = introduction.as_ref().map_or_else(
            || "a static key is proved".to_owned(),
            |introduction| format!("static key {}", PublicKey::new(introduction.static_key)),
        );
        checks.ok("handshake", format!("Noise XX, {key}"));
        if suite.post_quantum() {
            checks.ok("key exchange", format!("X25519 and ML-KEM-768, {}", suite.cipher));
        } else {
            let reason = Some(Reason::PostQuantumRequired);
            checks.degraded("key exchange", format!("X25519 alone, {}", suite.cipher), reason);
        }
        let Some(introduction) = introduction else {
            refused(&mut checks, "confirmation", &ended);
            return checks;
        };
        identity(&mut checks, &introduction.pod, pod, &self.plan.through.namespace);
        let policy = &self.trust.policy;
        let held = format!("epoch {}, SHA-256 {}", introduction.epoch, introduction.digest);
        let Some(found) = self.found else {
            refused(&mut checks, "evidence", &ended);
            return checks;
        };
        match self.policy {
            Some(Turn::Replica) => checks.degraded(
                "policy",
                format!("it was behind ({held}) and took epoch {} now", policy.epoch()),
                Some(Reason::PolicyMismatch),
            ),
            Some(Turn::Auditor) => {
                checks.ok("policy", format!("{held}; newer than the given one, and signed on from it"));
            }
            None => checks.ok("policy", held),
        }
        checks.ok("admission", "the policy lists this auditor");
        checks.append(found.checks);
        let complete = ended.by == ClosedBy::Local && ended.reason == Reason::Finished;
        if found.verdict.is_ok() && !complete {
            refused(&mut checks, "end", &ended);
        }
        checks
    }
}

/// Whether the pod is the one that was asked for. Its uid is new to whoever asks by name.
fn identity(checks: &mut Checks, found: &PodIdentity, asked: Option<&str>, namespace: &str) {
    let named = asked.is_none_or(|asked| asked == found.pod());
    if named && found.namespace() == namespace {
        checks.ok("pod identity", found);
    } else {
        let asked = asked.unwrap_or("a pod");
        let seen = format!("{found} answered, and {namespace}/{asked} was asked");
        checks.failed("pod identity", seen, Reason::PeerUnknown);
    }
}

/// What a refusal is about, where its reason says so.
const fn about(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::AuditorUnknown | Reason::LimitExceeded => Some("admission"),
        Reason::PeerUnknown => Some("peer"),
        Reason::PolicyMissing
        | Reason::PolicyMalformed
        | Reason::PolicyUnsigned
        | Reason::PolicyUnderSigned
        | Reason::PolicyExpired
        | Reason::PolicyNotYetValid
        | Reason::PolicyRolledBack
        | Reason::PolicyConflict
        | Reason::PolicyMismatch
        | Reason::PolicyRootsMissing
        | Reason::RootsDiffer
        | Reason::RootSourceTooWeak => Some("policy"),
        _ => None,
    }
}

/// It ended before its end: at `step`, unless the reason says more.
fn refused(checks: &mut Checks, step: &str, ended: &Ended) {
    let Ended { by, reason, words } = ended;
    let who = match by {
        ClosedBy::Local => "this side ended it",
        ClosedBy::Remote => "the replica refused",
        ClosedBy::Unauthenticated => "somebody at the other end refused",
        ClosedBy::Cut => "the connection was cut",
    };
    let words = words.as_ref().map_or(String::new(), |words| format!(": {words}"));
    checks.failed(about(*reason).unwrap_or(step), format!("{who}{words}"), *reason);
}
