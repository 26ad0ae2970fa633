//! What the replicas of both sides report about one session, as one.

use std::collections::BTreeSet;

use sealane_operator_api::{Counted, TransferSessionStatus};
use sealane_sidecar_api::control::SessionReport;
use sealane_types::{Carrier, Cipher, PeerName, Reason};

use super::super::replica::reason;
use super::super::summary::joined;
use crate::control::registry::{Process, Totals};
use crate::desired::{Forward, Kind};
use crate::limits::REMOTE_REPLICAS_MAX;
use crate::reconcile::counted::Ledger;
use crate::spec::{PodPhase, PodView, Problem, SessionShape, Valid, ValidSession, word};

/// How AF_XDP reaches a network device, as sidecars say it.
const CARRIER_MODES: [&str; 3] = ["ZeroCopy", "Native", "Generic"];

/// The session as its replicas see it.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) connections: i32,
    pub(super) desired: i32,
    pub(super) bytes: i64,
    pub(super) tensors: i64,
    /// TCP connections that were carried; of a forward only.
    pub(super) forwarded: Option<i64>,
    /// The same, process by process.
    pub(super) counted: Option<Counted>,
    pub(super) carrier: Option<String>,
    pub(super) carrier_mode: Option<String>,
    pub(super) congestion: Option<String>,
    pub(super) cipher: Option<String>,
    pub(super) post_quantum: Option<bool>,
    pub(super) handshake_micros: Option<i64>,
    /// Something flowed, or could have: a connection is or was open.
    pub(super) took_place: bool,
    pub(super) error: Option<Problem>,
    pub(super) degraded: Vec<Problem>,
}

impl Observed {
    pub(super) fn of(valid: &Valid, session: &ValidSession, previous: &TransferSessionStatus) -> Self {
        let Ok(shape) = &session.shape else { return Self::default().not_less_than(previous) };
        let sent: Vec<_> = reports(valid, session, &shape.from).collect();
        let taken: Vec<_> = shape.to.iter().flat_map(|peer| reports(valid, session, peer)).collect();
        // Connections are counted where they are dialled, what was taken is counted where it was taken.
        // Replicas outside of the cluster report nothing: then it is what the other side sees.
        let counted_at = if valid.is_external(&shape.from) { &taken } else { &sent };
        let dialling: Vec<_> = counted_at.iter().filter(|(pod, _)| pod.is_wanted()).collect();
        let delivered = if shape.to.iter().any(|to| valid.is_external(to)) { &sent } else { &taken };
        let connected = || dialling.iter().map(|(_, report)| *report).filter(|report| report.connections > 0);
        let sum = |field: fn(&SessionReport) -> u32| {
            let total: u64 = dialling.iter().map(|(_, report)| u64::from(field(report))).sum();
            i32::try_from(total).unwrap_or(i32::MAX)
        };
        let ledger = ledger(valid, session, delivered, previous);
        let total = ledger.total();
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let known = |word: &&str| word.parse::<Carrier>().is_ok() || word.parse::<Cipher>().is_ok();
        Self {
            connections: sum(|report| report.connections),
            desired: sum(|report| report.connections_desired),
            bytes: signed(total.bytes),
            tensors: signed(total.tensors),
            forwarded: matches!(shape.terms.kind, Kind::Forward(_)).then(|| signed(total.forwarded)),
            counted: Some(ledger.told()),
            carrier: joined(connected().map(|report| report.carrier.as_str()).filter(known)),
            carrier_mode: joined(
                connected()
                    .filter(|report| report.carrier == Carrier::AfXdp.as_str())
                    .map(|report| report.carrier_mode.as_str())
                    .filter(|mode| CARRIER_MODES.contains(mode)),
            ),
            congestion: congestion(connected()),
            cipher: joined(connected().map(|report| report.cipher.as_str()).filter(known)),
            post_quantum: connected().next().map(|_| connected().all(|report| report.post_quantum)),
            handshake_micros: median(connected().map(|report| report.handshake_micros)),
            took_place: sent.iter().any(|(_, report)| report.ended),
            error: sent.iter().chain(&taken).find_map(|(pod, report)| error(pod, report)),
            degraded: crowded(valid, session).into_iter().chain(out_of_reach(valid, shape)).collect(),
        }
        .with_degradations(&sent, &taken)
        .not_less_than(previous)
    }

    fn with_degradations(
        mut self,
        sent: &[(&PodView, &SessionReport)],
        taken: &[(&PodView, &SessionReport)],
    ) -> Self {
        if self.connections > 0 && self.connections < self.desired {
            let message = format!("only {} of {} connections are open", self.connections, self.desired);
            self.degraded.push(Problem { reason: word::SOME_UNCONNECTED, message });
        }
        if self.post_quantum == Some(false) {
            let message = "at least one connection has classical keys only".to_owned();
            self.degraded.push(Problem { reason: word::CLASSICAL_KEYS, message });
        }
        let mut words: Vec<_> = sent
            .iter()
            .chain(taken)
            .flat_map(|(pod, report)| report.degraded.iter().map(move |word| (reason(word), *pod, *report)))
            .collect();
        words.sort_by_key(|(reason, ..)| *reason);
        words.dedup_by_key(|(reason, ..)| *reason);
        self.degraded.extend(words.into_iter().map(|(reason, pod, report)| degradation(reason, pod, report)));
        self
    }

    /// Totals never go back, and what took place took place: what a lost operator knew is in the status.
    fn not_less_than(mut self, previous: &TransferSessionStatus) -> Self {
        self.bytes = self.bytes.max(previous.bytes_transferred.unwrap_or_default());
        self.tensors = self.tensors.max(previous.tensors_transferred.unwrap_or_default());
        self.forwarded = self.forwarded.max(previous.forwarded);
        self.counted = self.counted.or_else(|| previous.counted.clone());
        let moved = self.tensors > 0 || self.forwarded.is_some_and(|connections| connections > 0);
        self.took_place |= self.connections > 0 || moved || previous.start_time.is_some();
        self
    }
}

/// What was counted of the session, up to what is `delivered` and what is remembered of processes that are gone.
fn ledger(
    valid: &Valid,
    session: &ValidSession,
    delivered: &[(&PodView, &SessionReport)],
    previous: &TransferSessionStatus,
) -> Ledger {
    let mut heard = valid.snapshot.retired.get(&session.uid).cloned().unwrap_or_default();
    heard.extend(delivered.iter().filter_map(|(pod, report)| {
        let incarnation = valid.sidecar_of(&pod.uid)?.registration.incarnation;
        Some((Process { pod: pod.uid.clone(), incarnation }, Totals::of(report)))
    }));
    // A process may return while its pod runs and no other one has taken its place.
    let may_return = |process: &Process| {
        let is_its = |pod: &PodView| pod.uid == process.pod && pod.phase == PodPhase::Live;
        let here = valid.sidecar_of(&process.pod).map(|sidecar| sidecar.registration.incarnation);
        here.is_none_or(|here| here == process.incarnation) && valid.snapshot.pods.iter().any(is_its)
    };
    let mut ledger = Ledger::read(previous, &heard);
    ledger.hear(&heard, may_return);
    ledger
}

/// Reports about this very session, not an earlier one of the same name, of every pod that is still there.
fn reports<'a>(
    valid: &'a Valid,
    session: &'a ValidSession,
    peer: &'a PeerName,
) -> impl Iterator<Item = (&'a PodView, &'a SessionReport)> {
    valid.pods_of(peer).filter_map(|pod| {
        let report = valid.sidecar_of(&pod.uid)?.report.as_ref()?;
        Some((pod, report.sessions.iter().find(|report| report.uid == session.uid)?))
    })
}

/// The middle one of those that were measured.
fn median(micros: impl Iterator<Item = u64>) -> Option<i64> {
    let mut measured: Vec<u64> = micros.filter(|micros| *micros > 0).collect();
    measured.sort_unstable();
    measured.get(measured.len() / 2).map(|micros| i64::try_from(*micros).unwrap_or(i64::MAX))
}

fn error(pod: &PodView, report: &SessionReport) -> Option<Problem> {
    let failing = pod.is_wanted() && !report.reason.is_empty();
    failing.then(|| Problem::new(reason(&report.reason), format!("pod `{}`: {}", pod.name, report.message)))
}

fn degradation(reason: Reason, pod: &PodView, report: &SessionReport) -> Problem {
    let place = format!("{reason} at pod `{}`", pod.name);
    let explained = reason == Reason::CarrierFallback && !report.carrier_message.is_empty();
    Problem::new(reason, if explained { format!("{place}: {}", report.carrier_message) } else { place })
}

/// Congestion controls in use, as many as the status has room for. The kernel has its own words for them, of
/// `WORD_BYTES_MAX` at most: TCP_CA_NAME_MAX in include/net/tcp.h is one more, for the end of the string.
fn congestion<'a>(reports: impl Iterator<Item = &'a SessionReport>) -> Option<String> {
    const WORD_BYTES_MAX: usize = 15;
    const WORDS_MAX: usize = 4;
    let is_word = |word: &&str| {
        word.len() <= WORD_BYTES_MAX
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let words: BTreeSet<&str> =
        reports.flat_map(|report| report.congestion.split('+')).filter(is_word).collect();
    joined(words.into_iter().filter(|word| !word.is_empty()).take(WORDS_MAX))
}

/// More replicas than one sidecar is told about.
fn crowded(valid: &Valid, session: &ValidSession) -> Option<Problem> {
    let shape = session.shape.as_ref().ok()?;
    std::iter::once(&shape.from).chain(&shape.to).find_map(|peer| {
        let pods = valid.pods_of(peer).filter(|pod| pod.is_wanted()).count();
        (pods > REMOTE_REPLICAS_MAX).then(|| {
            Problem::new(
                Reason::TooManyReplicas,
                format!("Peer `{peer}` has {pods} replicas; sidecars are told about {REMOTE_REPLICAS_MAX}"),
            )
        })
    })
}

/// A replica whose own port of a forward would be one that no forward may use.
fn out_of_reach(valid: &Valid, shape: &SessionShape) -> Option<Problem> {
    let Kind::Forward(Forward { listen, per_replica: true, .. }) = shape.terms.kind else { return None };
    let replicas = shape.to.iter().flat_map(|peer| valid.pods_of(peer)).filter(|pod| pod.is_wanted());
    replicas.filter_map(|pod| Some((pod, listen.plus(pod.ordinal()?).err()?))).next().map(|(pod, error)| {
        let message = format!("no port leads to pod `{}` of spec.forward.listen {listen}: {error}", pod.name);
        Problem::new(Reason::PortReserved, message)
    })
}
