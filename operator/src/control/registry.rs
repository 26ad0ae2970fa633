//! The sidecars that are attached, what they reported, and what they were told. Bounded; lost with leadership.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealane_sidecar_api::control::{Report, SessionReport};
use sealane_types::PodIdentity;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::rendered::{Rendered, Renderings};
use super::report::Registration;
use crate::desired::Desired;
use crate::limits::{RETIRED_PROCESSES_MAX, RETIRED_SESSIONS_MAX, SIDECARS_MAX};

/// Why a sidecar cannot attach here and now; another try may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    #[error("{SIDECARS_MAX} sidecars are attached already")]
    Full,
    #[error("this replica leads no longer")]
    NotLeading,
}

/// What a sidecar is to receive next; only the newest matters, so a slow one never queues.
pub type Outgoing = watch::Receiver<Option<Told>>;

/// A desired state and its number on this stream.
#[derive(Debug, Clone)]
pub struct Told {
    pub generation: u64,
    /// How often the sidecar has asked for the whole.
    pub asked: u64,
    pub rendered: Arc<Rendered>,
}

/// One open control stream.
#[derive(Debug)]
pub struct Attachment {
    /// Tells this stream from an earlier or later one of the same pod.
    pub id: u64,
    pub outgoing: Outgoing,
    /// Cancelled when another stream takes its place or leadership is lost.
    pub ended: CancellationToken,
}

/// A sidecar as the reconciliation sees it.
#[derive(Debug, Clone)]
pub struct Registered {
    pub identity: PodIdentity,
    pub registration: Registration,
    pub report: Option<Arc<Report>>,
    /// How long there has been no control stream.
    pub detached: Option<Duration>,
}

/// One process of a pod's sidecar.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Uid of its pod.
    pub pod: String,
    pub incarnation: [u8; 16],
}

/// What receiving sidecars have counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub tensors: u64,
    pub bytes: u64,
    /// TCP connections of a forward.
    pub forwarded: u64,
}

impl Totals {
    /// As one process reports them.
    #[must_use]
    pub const fn of(report: &SessionReport) -> Self {
        Self { tensors: report.tensors, bytes: report.bytes, forwarded: report.forwarded }
    }

    /// Each of both, as far as numbers go.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            tensors: self.tensors.saturating_add(other.tensors),
            bytes: self.bytes.saturating_add(other.bytes),
            forwarded: self.forwarded.saturating_add(other.forwarded),
        }
    }

    /// The greater of both, number by number.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            tensors: self.tensors.max(other.tensors),
            bytes: self.bytes.max(other.bytes),
            forwarded: self.forwarded.max(other.forwarded),
        }
    }
}

/// What a report changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Nothing,
    Counters,
    State,
}

#[derive(Debug, Default)]
pub struct Registry {
    inner: Mutex<Inner>,
    /// Open streams: every sidecar that comes or goes asks for their number.
    open: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Inner {
    closed: bool,
    attachments: u64,
    renderings: Renderings,
    /// By pod uid.
    sidecars: HashMap<String, Sidecar>,
    /// By namespace and session uid: totals of processes that are gone, until a status has them. A sidecar speaks for its
    /// namespace only.
    retired: HashMap<(String, String), BTreeMap<Process, Totals>>,
}

#[derive(Debug)]
struct Sidecar {
    identity: PodIdentity,
    registration: Registration,
    attachment: u64,
    stream: Option<Stream>,
    /// Uids of the sessions that it was last told to receive.
    receives: BTreeSet<String>,
    detached_at: Option<Instant>,
    report: Option<Arc<Report>>,
}

#[derive(Debug)]
struct Stream {
    outgoing: watch::Sender<Option<Told>>,
    ended: CancellationToken,
    /// The newest state that was told and is not reported to be in effect, and since when.
    pending: Option<(u64, Instant)>,
    open: Arc<AtomicUsize>,
}

impl Stream {
    fn open(outgoing: watch::Sender<Option<Told>>, ended: CancellationToken, open: Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self { outgoing, ended, pending: None, open }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.ended.cancel();
    }
}

impl Registry {
    /// Opens the stream of a pod's sidecar, in place of one that the pod may have.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(
        &self,
        identity: PodIdentity,
        registration: Registration,
    ) -> Result<Attachment, AttachError> {
        let mut inner = self.inner();
        if inner.closed {
            return Err(AttachError::NotLeading);
        }
        let uid = identity.uid().to_owned();
        if inner.sidecars.len() >= SIDECARS_MAX && !inner.sidecars.contains_key(&uid) {
            return Err(AttachError::Full);
        }
        inner.attachments += 1;
        let id = inner.attachments;
        let (sender, outgoing) = watch::channel(None);
        let ended = CancellationToken::new();
        let stream = Stream::open(sender, ended.clone(), Arc::clone(&self.open));
        let held = inner.sidecars.remove(&uid);
        let (continued, replaced): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|held| held.registration.incarnation == registration.incarnation);
        replaced.iter().for_each(|process| inner.retire(process));
        let continued = continued.into_iter().next();
        let (report, receives) = continued.map(|held| (held.report, held.receives)).unwrap_or_default();
        let sidecar = Sidecar {
            identity,
            registration,
            attachment: id,
            stream: Some(stream),
            detached_at: None,
            receives,
            report,
        };
        inner.sidecars.insert(uid, sidecar);
        Ok(Attachment { id, outgoing, ended })
    }

    /// Keeps what a sidecar reports, unless another stream has taken its place.
    pub fn report(&self, uid: &str, attachment: u64, report: Report) -> Change {
        let mut inner = self.inner();
        let Some(sidecar) = inner.sidecars.get_mut(uid).filter(|sidecar| sidecar.attachment == attachment)
        else {
            return Change::Nothing;
        };
        let change = match &sidecar.report {
            Some(held) if **held == report => Change::Nothing,
            Some(held) if without_counters(held) == without_counters(&report) => Change::Counters,
            Some(_) | None => Change::State,
        };
        sidecar.report = Some(Arc::new(report));
        change
    }

    /// How long ago the newest state was told, if `generation` says that it is in effect and nothing said so before.
    pub fn applied(&self, uid: &str, attachment: u64, generation: u64) -> Option<Duration> {
        let mut inner = self.inner();
        let sidecar = inner.sidecars.get_mut(uid).filter(|sidecar| sidecar.attachment == attachment)?;
        let told = sidecar.stream.as_mut()?.pending.take_if(|(told, _)| *told <= generation);
        told.map(|(_, at)| at.elapsed())
    }

    /// The stream has ended; what it reported stays for as long as the pod does.
    pub fn detach(&self, uid: &str, attachment: u64) {
        let mut inner = self.inner();
        if let Some(sidecar) = inner.sidecars.get_mut(uid).filter(|sidecar| sidecar.attachment == attachment)
        {
            sidecar.stream = None;
            sidecar.detached_at = Some(Instant::now());
        }
    }

    /// Every sidecar of a namespace, in the order of pod names.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Vec<Registered> {
        let inner = self.inner();
        let mut registered: Vec<_> = inner
            .sidecars
            .values()
            .filter(|sidecar| sidecar.identity.namespace() == namespace)
            .map(|sidecar| Registered {
                identity: sidecar.identity.clone(),
                registration: sidecar.registration.clone(),
                report: sidecar.report.clone(),
                detached: sidecar.detached_at.map(|at| at.elapsed()),
            })
            .collect();
        drop(inner);
        registered.sort_by(|left, right| left.identity.cmp(&right.identity));
        registered
    }

    /// Totals of processes that are gone, by session uid.
    #[must_use]
    pub fn retired(&self, namespace: &str) -> BTreeMap<String, BTreeMap<Process, Totals>> {
        let inner = self.inner();
        let here = inner.retired.iter().filter(|((of, _), _)| of == namespace);
        here.map(|((_, uid), processes)| (uid.clone(), processes.clone())).collect()
    }

    /// Tells a sidecar its desired state if it differs from what it was told; tells whether it did.
    pub fn push(&self, uid: &str, desired: &Desired) -> bool {
        let mut inner = self.inner();
        let Inner { sidecars, renderings, .. } = &mut *inner;
        let Some(Sidecar { identity, stream: Some(stream), receives, .. }) = sidecars.get_mut(uid) else {
            return false;
        };
        let rendered = renderings.of(identity.namespace(), desired);
        let Stream { outgoing, pending, .. } = stream;
        let pushed = outgoing.send_if_modified(|told| {
            let (generation, asked) = match told {
                Some(told) if Arc::ptr_eq(&told.rendered, &rendered) => return false,
                Some(told) => (told.generation + 1, told.asked),
                None => (1, 0),
            };
            *pending = Some((generation, Instant::now()));
            *told = Some(Told { generation, asked, rendered });
            true
        });
        if pushed {
            *receives = desired.received().map(str::to_owned).collect();
        }
        pushed
    }

    /// The sidecar does not hold what the last change was based on: it is to be sent the whole.
    pub fn resend(&self, uid: &str, attachment: u64) {
        let mut inner = self.inner();
        let sidecar = inner.sidecars.get_mut(uid).filter(|sidecar| sidecar.attachment == attachment);
        if let Some(stream) = sidecar.and_then(|sidecar| sidecar.stream.as_ref()) {
            stream.outgoing.send_if_modified(|told| told.as_mut().map(|told| told.asked += 1).is_some());
        }
    }

    /// Forgets a pod that is gone, but not what it transferred.
    pub fn remove(&self, uid: &str) {
        let mut inner = self.inner();
        if let Some(sidecar) = inner.sidecars.remove(uid) {
            inner.retire(&sidecar);
        }
    }

    /// Forgets totals of processes that are gone unless `keep` says of them, with the uid of their session, that nothing
    /// else remembers them.
    pub fn keep_retired(&self, namespace: &str, keep: impl Fn(&str, &Process, &Totals) -> bool) {
        self.inner().retired.retain(|(of, uid), processes| {
            if of == namespace {
                processes.retain(|process, totals| keep(uid, process, totals));
            }
            !processes.is_empty()
        });
    }

    /// Ends every stream and takes no new one: another replica leads now.
    pub fn close(&self) {
        *self.inner() = Inner { closed: true, ..Inner::default() };
    }

    /// Sidecars with an open stream.
    #[must_use]
    pub fn attached(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn retire(&mut self, sidecar: &Sidecar) {
        let Sidecar { identity, registration, receives, report, .. } = sidecar;
        let process = Process { pod: identity.uid().to_owned(), incarnation: registration.incarnation };
        // Both sides count the same tensors: those of the receiving side are the ones that were taken.
        let reported = report.iter().flat_map(|report| &report.sessions);
        for session in reported.filter(|session| receives.contains(&session.uid)) {
            let key = (identity.namespace().to_owned(), session.uid.clone());
            if self.retired.len() >= RETIRED_SESSIONS_MAX && !self.retired.contains_key(&key) {
                continue;
            }
            let of_session = self.retired.entry(key).or_default();
            if of_session.len() < RETIRED_PROCESSES_MAX {
                of_session.insert(process.clone(), Totals::of(session));
            }
        }
    }
}

fn without_counters(report: &Report) -> Report {
    let mut report = report.clone();
    for session in &mut report.sessions {
        session.bytes = 0;
        session.tensors = 0;
        session.forwarded = 0;
        session.handshake_micros = 0;
    }
    report
}

#[cfg(test)]
mod tests;
