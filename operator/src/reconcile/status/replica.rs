//! One replica: a pod of a Peer, its sidecar, and what the sidecar says about itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealane_operator_api::ReplicaStatus;
use sealane_policy::VerifiedPolicy;
use sealane_sidecar_api::control::{EvidenceReport, PolicyReport, Report};
use sealane_types::{
    PeerName, Platform, PolicyName, Reason, RootSource, SimulatedForm, TcbStatus, UnixSeconds,
};

use crate::condition::time;
use crate::control::registry::Registered;
use crate::limits::DETACHED_GRACE;
use crate::reconcile::resources::{self, Resources};
use crate::spec::{PodView, Problem, Valid, ValidPeer, word};

/// The TrustPolicy that a Peer refers to, as it is applied.
#[derive(Debug, Clone, Copy)]
enum Applied<'a> {
    /// There is none of this name.
    Missing(&'a PolicyName),
    /// The operator refuses it, as sidecars do, which go on by what they hold.
    Refused,
    Verified(&'a VerifiedPolicy),
}

impl<'a> Applied<'a> {
    fn of(valid: &'a Valid, peer: &'a ValidPeer) -> Self {
        match valid.policies.get(peer.policy.as_str()).map(|policy| &policy.verdict) {
            None => Self::Missing(&peer.policy),
            Some(Err(_)) => Self::Refused,
            Some(Ok(verified)) => Self::Verified(verified),
        }
    }
}

/// A replica as status sees it.
#[derive(Debug)]
pub(super) struct Replica<'a> {
    pub(super) pod: &'a PodView,
    policy: Applied<'a>,
    sidecar: Option<&'a Registered>,
    report: Option<&'a Arc<Report>>,
    /// Why there is no word from its sidecar.
    silence: Option<Problem>,
}

/// The wanted replicas of every Peer, in the order of pod names.
pub(super) fn by_peer<'a>(
    valid: &'a Valid,
    applied: &Resources<resources::Applied>,
) -> BTreeMap<&'a PeerName, Vec<Replica<'a>>> {
    let replicas = |(name, peer): (&'a PeerName, &'a ValidPeer)| {
        let policy = Applied::of(valid, peer);
        let pods = valid.pods_of(name).filter(|pod| pod.is_wanted());
        (name, pods.map(|pod| Replica::new(pod, policy, valid.sidecar_of(&pod.uid), applied)).collect())
    };
    valid.peers.iter().map(replicas).collect()
}

impl<'a> Replica<'a> {
    fn new(
        pod: &'a PodView,
        policy: Applied<'a>,
        sidecar: Option<&'a Registered>,
        applied: &Resources<resources::Applied>,
    ) -> Self {
        let silence = silence(pod, sidecar);
        // A report made under another Peer says nothing about this one.
        let told = applied.desired(&pod.uid).is_some();
        let report =
            sidecar.and_then(|sidecar| sidecar.report.as_ref()).filter(|_| told && silence.is_none());
        let waiting = || {
            Problem::new(
                Reason::NotConfigured,
                format!("the sidecar of pod `{}` has not reported yet", pod.name),
            )
        };
        let silence = silence.or_else(|| report.is_none().then(waiting));
        Self { pod, policy, sidecar, report, silence }
    }

    /// Why there is no word from the replica's sidecar.
    pub(super) const fn silence(&self) -> Option<&Problem> {
        self.silence.as_ref()
    }

    pub(super) fn policy(&self) -> Option<&PolicyReport> {
        self.report?.policy.as_ref()
    }

    /// The epoch that the replica acts by.
    pub(super) fn epoch(&self) -> Option<i64> {
        self.policy().filter(|policy| policy.verified).and_then(|policy| i64::try_from(policy.epoch).ok())
    }

    pub(super) fn evidence(&self) -> Option<&EvidenceReport> {
        self.report?.evidence.as_ref()
    }

    /// Evidence that the replica itself verified under the policy.
    pub(super) fn attested(&self) -> Option<&EvidenceReport> {
        self.evidence().filter(|evidence| evidence.verified)
    }

    pub(super) fn policy_problem(&self) -> Option<Problem> {
        if let Some(silence) = &self.silence {
            return Some(silence.clone());
        }
        match self.policy() {
            Some(policy) if policy.verified => self.acts_by_another(policy),
            Some(policy) => Some(self.said(&policy.reason, &policy.message)),
            None => Some(Problem::new(
                Reason::PolicyMissing,
                format!("pod `{}` has no policy: is the TrustPolicy there?", self.pod.name),
            )),
        }
    }

    /// Why what a replica verified is not what is applied: a sidecar goes on by what it holds when the TrustPolicy is
    /// deleted, and when it is made anew by others.
    fn acts_by_another(&self, policy: &PolicyReport) -> Option<Problem> {
        let (pod, epoch) = (&self.pod.name, policy.epoch);
        match self.policy {
            Applied::Missing(name) => Some(Problem::new(
                Reason::PolicyMissing,
                format!(
                    "there is no TrustPolicy `{name}`; pod `{pod}` goes on by epoch {epoch} of the one that was"
                ),
            )),
            Applied::Verified(applied)
                if !policy.reason.is_empty() && policy.digest != applied.digest().to_string() =>
            {
                let message = format!(
                    "pod `{pod}` refuses the applied document and goes on by epoch {epoch} of another one: {}; if the TrustPolicy was made anew, make the pod again",
                    policy.message
                );
                Some(Problem::new(reason(&policy.reason), message))
            }
            Applied::Verified(_) | Applied::Refused => None,
        }
    }

    pub(super) fn evidence_problem(&self) -> Option<Problem> {
        if let Some(silence) = &self.silence {
            return Some(silence.clone());
        }
        match self.evidence() {
            Some(evidence) if evidence.verified => None,
            Some(evidence) => Some(self.said(&evidence.reason, &evidence.message)),
            None => Some(Problem::new(
                Reason::EvidenceMissing,
                format!("pod `{}` has not proved itself yet", self.pod.name),
            )),
        }
    }

    /// Why the replica is not ready.
    pub(super) fn problem(&self) -> Option<Problem> {
        self.policy_problem().or_else(|| self.evidence_problem())
    }

    /// How an accepted replica is less than it could be.
    pub(super) fn degradations(&self) -> Vec<&'static str> {
        let Some(evidence) = self.attested() else { return Vec::new() };
        let simulated = evidence.platform == Platform::Simulated.as_str();
        // A verified policy with a reason: a newer document was refused, and the older one stays in force.
        let stays = |policy: &&PolicyReport| self.acts_by_another(policy).is_none();
        let newer = self.policy().filter(|policy| policy.verified && !policy.reason.is_empty()).filter(stays);
        // What somebody has to mend comes first: the first word is the condition's, and so is its remedy. Where evidence is
        // simulated, all of it is, and nobody mends that: it must not stand before what can be mended.
        newer
            .map(|policy| reason(&policy.reason).as_str())
            .into_iter()
            .chain(evidence.degraded.iter().map(|word| reason(word).as_str()))
            .chain(simulated.then_some(word::SIMULATED_EVIDENCE))
            .collect()
    }

    fn said(&self, word: &str, message: &str) -> Problem {
        Problem::new(reason(word), format!("pod `{}`: {message}", self.pod.name))
    }

    /// The version of its sidecar, if what it states can be one.
    pub(super) fn version(&self) -> Option<&'a str> {
        let stated = self.sidecar?.registration.version.as_str();
        let part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+');
        ((1..=32).contains(&stated.len()) && stated.bytes().all(part)).then_some(stated)
    }

    pub(super) fn status(&self) -> ReplicaStatus {
        let problem = self.problem();
        let degradations = self.degradations();
        let (evidence, registration) = (self.attested(), self.sidecar.map(|sidecar| &sidecar.registration));
        let known = |word: &str, known: bool| (known && !word.is_empty()).then(|| word.to_owned());
        let when = |seconds: u64| (seconds > 0).then(|| time(UnixSeconds(seconds)));
        let address = registration.and_then(|stated| {
            let address = stated.addresses.iter().find(|address| self.pod.addresses.contains(address))?;
            Some(std::net::SocketAddr::new(*address, stated.data_port).to_string())
        });
        ReplicaStatus {
            pod: self.pod.name.clone(),
            ready: problem.is_none(),
            reason: problem
                .as_ref()
                .map(|problem| problem.reason.to_owned())
                .or_else(|| degradations.first().map(|word| (*word).to_owned())),
            message: problem.map(|problem| problem.message.chars().take(1024).collect()),
            node: self.pod.node.clone(),
            address,
            platform: evidence.and_then(|evidence| {
                known(&evidence.platform, evidence.platform.parse::<Platform>().is_ok())
            }),
            assurance: evidence.and_then(|evidence| {
                known(&evidence.assurance, evidence.assurance.parse::<sealane_types::Assurance>().is_ok())
            }),
            simulated_form: evidence
                .and_then(|evidence| known(&evidence.form, evidence.form.parse::<SimulatedForm>().is_ok())),
            root_source: self.policy().and_then(|policy| {
                known(&policy.root_source, policy.root_source.parse::<RootSource>().is_ok())
            }),
            policy_epoch: self.epoch(),
            measurement: evidence
                .and_then(|evidence| known(&evidence.measurement, is_hex(&evidence.measurement))),
            public_key: registration.map(|stated| hex::encode(stated.static_key)),
            tcb_status: evidence.and_then(|evidence| {
                known(&evidence.tcb_status, evidence.tcb_status.parse::<TcbStatus>().is_ok())
            }),
            version: self.version().map(str::to_owned),
            evidence_time: evidence.and_then(|evidence| when(evidence.evidence_time)),
            collateral_expires: evidence.and_then(|evidence| when(evidence.collateral_expires)),
        }
    }
}

/// Why nothing can be said about a pod's sidecar.
fn silence(pod: &PodView, sidecar: Option<&Registered>) -> Option<Problem> {
    if !pod.injected {
        return Some(Problem::new(
            Reason::PodsNotInjected,
            format!(
                "pod `{}` has no sidecar: it was made before its Peer or its namespace's label `sealane.dev/injection: enabled`, or it opted out; make it again",
                pod.name
            ),
        ));
    }
    let problem = |message| Problem { reason: word::NOT_ATTACHED, message };
    match sidecar {
        None => Some(problem(format!("the sidecar of pod `{}` has not reached the operator yet", pod.name))),
        Some(sidecar) => sidecar.detached.filter(|absent| *absent > DETACHED_GRACE).map(|absent| {
            problem(format!(
                "the sidecar of pod `{}` lost its control stream more than {} s ago",
                pod.name,
                // Coarse, so that the message does not change with every look.
                absent.as_secs() / 60 * 60 + if absent.as_secs() < 60 { DETACHED_GRACE.as_secs() } else { 0 }
            ))
        }),
    }
}

/// The reason word of a report; one that this release does not know is unspecified.
pub(super) fn reason(word: &str) -> Reason {
    word.parse().unwrap_or(Reason::Unspecified)
}

fn is_hex(text: &str) -> bool {
    text.len() <= 128 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
