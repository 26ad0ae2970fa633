//! A Peer outside of the cluster: what the sidecars that meet its replicas say of it.

use std::collections::BTreeMap;

use sealane_operator_api::well_known::condition::{
    COLLATERAL_FRESH, DEGRADED, EVIDENCE_VERIFIED, POLICY_VERIFIED, READY, TCB_UP_TO_DATE,
};
use sealane_operator_api::{PeerStatus, ReplicaStatus};
use sealane_policy::Reference;
use sealane_sidecar_api::control::ExternalReport;
use sealane_types::{Assurance, PeerName, Platform, PublicKey, Reason, UnixSeconds};

use super::peer::{Standing, no_tcb, nothing_attested};
use super::replica::reason;
use super::summary::{count, joined, weakest};
use crate::condition::{Finding, conditions, time};
use crate::external::External;
use crate::limits::{DETACHED_GRACE, STATUS_REPLICAS_MAX};
use crate::names::OPERATOR_VERSION;
use crate::spec::{Problem, Valid, word};

/// Longest `pod` of a replica in status.
const POD_CHARS_MAX: usize = 253;

/// The replicas of one Peer outside of the cluster, as far as somebody has met them.
#[derive(Debug)]
pub(super) struct Replicas<'a> {
    external: &'a External,
    /// By the pod that a replica proved to be, its uid included: both are its own to choose, and tell no more than which
    /// one is meant.
    met: BTreeMap<&'a str, &'a ExternalReport>,
    problem: Option<Problem>,
}

impl<'a> Replicas<'a> {
    /// None: the Peer is in the cluster.
    pub(super) fn of(valid: &'a Valid, name: &'a PeerName) -> Option<Self> {
        let peer = valid.peers.get(name)?;
        let external = peer.external.as_ref()?;
        let mut met = BTreeMap::new();
        let mut missed = None;
        for (pod, report) in reports(valid, name) {
            if report.pod.is_empty() {
                let message = || format!("pod `{pod}`: {}", report.message);
                missed = missed.or_else(|| Some(Problem::new(reason(&report.reason), message())));
            } else if is_genuine(report, external) {
                met.insert(report.pod.as_str(), report);
            }
        }
        let problem = peer
            .problem
            .clone()
            .or_else(|| unlisted(valid, peer.policy.as_str(), name, &external.key))
            .or_else(|| deleted(valid, peer.policy.as_str()).filter(|_| !met.is_empty()));
        let problem = problem.or_else(|| {
            let all_met = met.len() >= external.addresses.len();
            (!all_met).then(|| missed.unwrap_or_else(|| not_connected(met.len(), external.addresses.len())))
        });
        Some(Self { external, met, problem })
    }

    pub(super) fn standing(&self) -> Standing {
        let problem = self.problem.clone();
        Standing { wanted: self.external.addresses.len(), attested: self.met.len(), problem }
    }

    fn degradations(&self) -> Vec<&'static str> {
        self.met.values().flat_map(|met| &met.degraded).map(|word| reason(word).as_str()).collect()
    }
}

/// What attached sidecars say of a Peer, with the pod of each.
fn reports<'a>(valid: &'a Valid, name: &'a PeerName) -> impl Iterator<Item = (&'a str, &'a ExternalReport)> {
    valid.snapshot.pods.iter().filter(|pod| pod.is_wanted()).flat_map(move |pod| {
        let sidecar = valid.sidecar_of(&pod.uid);
        let attached =
            sidecar.filter(|sidecar| sidecar.detached.is_none_or(|absent| absent <= DETACHED_GRACE));
        let report = attached.and_then(|sidecar| sidecar.report.as_ref());
        let externals = report.into_iter().flat_map(|report| &report.externals);
        externals
            .filter(move |external| external.peer == name.as_str())
            .map(|external| (pod.name.as_str(), external))
    })
}

/// Whether the replica proved itself by the key that the Peer declares.
fn is_genuine(report: &ExternalReport, external: &External) -> bool {
    report.public_key.parse::<PublicKey>() == Ok(external.key)
}

fn not_connected(met: usize, wanted: usize) -> Problem {
    let message = format!(
        "{met} of {wanted} replicas outside of the cluster have proved themselves to a pod; they do in a TransferSession that names this Peer, while pods of its other side run"
    );
    Problem { reason: word::NOT_CONNECTED, message }
}

/// Whoever was met was met under a policy that is there no more.
fn deleted(valid: &Valid, policy: &str) -> Option<Problem> {
    let message = format!("there is no TrustPolicy `{policy}`; pods go on by the one that was");
    (!valid.policies.contains_key(policy)).then(|| Problem::new(Reason::PolicyMissing, message))
}

/// The operator's reading of the policy; the sidecars' own is what counts.
fn unlisted(valid: &Valid, policy: &str, name: &PeerName, key: &PublicKey) -> Option<Problem> {
    let verified = valid.policies.get(policy)?.verdict.as_ref().ok()?;
    let Some(peer) = verified.document().peers.get(name) else {
        let message = format!("the policy names no Peer `{name}`");
        return Some(Problem::new(Reason::PeerNotInPolicy, message));
    };
    let lists = |reference: &Reference| matches!(reference, Reference::Key(keys) if keys.contains(key));
    if peer.entries.iter().any(|entry| lists(&entry.reference)) {
        return None;
    }
    let message = format!("no Key entry of the policy for Peer `{name}` lists spec.external.publicKey {key}");
    Some(Problem::new(Reason::KeyMismatch, message))
}

pub(super) fn status(valid: &Valid, name: &PeerName, replicas: &Replicas<'_>) -> PeerStatus {
    let object = valid.peers.get(name).and_then(|peer| valid.snapshot.peers.get(peer.index));
    let generation = object.and_then(|object| object.metadata.generation);
    let previous = object.and_then(|object| object.status.as_ref());
    let previous = previous.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let met = || replicas.met.values();
    let known = |word: &str| word.parse::<Platform>().is_ok();
    let assurance: Option<Assurance> = weakest(met().map(|met| met.assurance.as_str()));
    PeerStatus {
        observed_generation: generation,
        conditions: conditions(previous, findings(replicas), generation, valid.snapshot.now),
        desired: Some(count(replicas.external.addresses.len())),
        ready: Some(count(replicas.met.len())),
        attested: Some(count(replicas.met.len())),
        degraded: Some(count(met().filter(|met| !met.degraded.is_empty()).count())),
        platform: joined(met().map(|met| met.platform.as_str()).filter(|word| known(word))),
        assurance: assurance.map(|assurance| assurance.as_str().to_owned()),
        oldest_evidence: met()
            .map(|met| met.evidence_time)
            .filter(|seconds| *seconds > 0)
            .min()
            .map(|seconds| time(UnixSeconds(seconds))),
        earliest_expiry: expires(valid, name).map(time),
        replicas: listed(replicas),
        operator_version: Some(OPERATOR_VERSION.to_owned()),
        ..PeerStatus::default()
    }
}

/// When the policy by which its replicas are met ends. Nothing under a pinned key does.
fn expires(valid: &Valid, name: &PeerName) -> Option<UnixSeconds> {
    let policy = valid.policies.get(valid.peers.get(name)?.policy.as_str())?;
    Some(policy.verdict.as_ref().ok()?.expires().unix())
}

/// Name and uid of a pod as it is reported.
fn parts(pod: &str) -> (&str, &str) {
    let mut parts = pod.splitn(3, '/').skip(1);
    (parts.next().unwrap_or(pod), parts.next().unwrap_or_default())
}

/// The name of a replica, with its uid where another has the same: the list is a map by it.
fn shown(pod: &str, met: &BTreeMap<&str, &ExternalReport>) -> String {
    let (name, uid) = parts(pod);
    let namesakes = met.keys().filter(|other| parts(other).0 == name).count();
    let text = if namesakes > 1 { format!("{name}/{uid}") } else { name.to_owned() };
    // Its end tells more.
    text.chars().skip(text.chars().count().saturating_sub(POD_CHARS_MAX)).collect()
}

fn listed(replicas: &Replicas<'_>) -> Vec<ReplicaStatus> {
    let known = |word: &str, known: bool| known.then(|| word.to_owned());
    let replica = |(pod, met): (String, &ExternalReport)| ReplicaStatus {
        pod,
        ready: true,
        platform: known(&met.platform, met.platform.parse::<Platform>().is_ok()),
        assurance: known(&met.assurance, met.assurance.parse::<Assurance>().is_ok()),
        public_key: Some(replicas.external.key.to_string()),
        evidence_time: (met.evidence_time > 0).then(|| time(UnixSeconds(met.evidence_time))),
        ..ReplicaStatus::default()
    };
    let named: BTreeMap<String, &ExternalReport> =
        replicas.met.iter().map(|(pod, met)| (shown(pod, &replicas.met), *met)).collect();
    named.into_iter().map(replica).take(STATUS_REPLICAS_MAX).collect()
}

fn findings(replicas: &Replicas<'_>) -> Vec<Finding> {
    let Replicas { external, met, problem } = replicas;
    let wanted = external.addresses.len();
    let ready = match problem {
        Some(problem) => Finding::not(READY, problem),
        None => Finding::yes(READY, word::ALL_READY, format!("{} of {wanted} replicas", met.len())),
    };
    // A replica proves itself under the policy of whoever it proves itself to, or one just superseded.
    let policy = match problem {
        Some(problem) if met.is_empty() => {
            Finding::unknown(POLICY_VERIFIED, problem.reason, &problem.message)
        }
        Some(problem) if problem.reason == Reason::PolicyMissing.as_str() => {
            Finding::not(POLICY_VERIFIED, problem)
        }
        _ => Finding::yes(POLICY_VERIFIED, word::ALL_VERIFIED, "replicas are met under the policy in force"),
    };
    let evidence = match problem {
        Some(problem) if problem.reason == word::NOT_CONNECTED => {
            Finding::unknown(EVIDENCE_VERIFIED, problem.reason, &problem.message)
        }
        Some(problem) => Finding::not(EVIDENCE_VERIFIED, problem),
        None => Finding::yes(EVIDENCE_VERIFIED, word::ALL_VERIFIED, "every replica proved itself by its key"),
    };
    let collateral = if met.is_empty() {
        nothing_attested(COLLATERAL_FRESH)
    } else {
        Finding::yes(COLLATERAL_FRESH, word::ALL_FRESH, "no collateral in use has expired")
    };
    let tcb = if met.is_empty() { nothing_attested(TCB_UP_TO_DATE) } else { no_tcb() };
    let words = replicas.degradations();
    let degraded = match words.first() {
        Some(first) => Finding::yes(DEGRADED, first, joined(words.iter().copied()).unwrap_or_default()),
        None => Finding::no(DEGRADED, word::AS_DECLARED, "no replica is accepted with a degradation"),
    };
    vec![ready, policy, evidence, collateral, tcb, degraded]
}
