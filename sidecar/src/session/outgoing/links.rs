//! Further links of a connection: each takes whole large tensors and sends their bytes, in a task of its own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use sealane_protocol::Moment;
use sealane_protocol::connection::{Joiner, LinkSender, LinkTerms, SendError};
use sealane_protocol::frame::{Sequence, StreamId};
use sealane_protocol::limits::{BULK_BYTES_MAX, KEEPALIVE_DEADLINE_MICROS};
use sealane_protocol::record::Rekey;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::lease::Reader;
use crate::context::{Context, SystemRandom};
use crate::handoff::TensorSource;
use crate::link::tcp::{self, Link, Moved};

/// Tensors of fewer bytes stay on the connection's own link: to share them out would cost more than it gains.
pub(super) const STRIPE_BYTES_MIN: u64 = 1 << 20;
/// Tensors that wait for a link that sends another one.
const STRIPES_PER_LINK: usize = 1;
/// The other side may hear of its connection's last step after the first greeting, and refuse that.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);
const GREETING: Duration = Duration::from_secs(10);
/// More than an answer is, or a refusal.
const ANSWER_BYTES_MAX: usize = 128;
/// How long a link may take nothing of what is to be sent.
const SILENCE: Duration = Duration::from_micros(KEEPALIVE_DEADLINE_MICROS);
/// How long the end of its connection may take to arrive after that of a link.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long an idle link keeps its memory.
const IDLE: Duration = Duration::from_secs(1);

/// The bytes of one tensor, which is announced and has a place.
#[derive(Debug)]
pub(super) struct Stripe {
    pub(super) stream: StreamId,
    pub(super) sequence: Sequence,
    pub(super) source: Arc<dyn TensorSource>,
    /// Where they begin there.
    pub(super) start: u64,
    pub(super) length: u64,
    /// As long as they may be read.
    pub(super) reader: Reader,
}

/// What links of one connection tell, those of before a renewal included.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Whether one of them failed, whatever ended the connection then.
    failed: AtomicBool,
    /// Whether the connection has to end for it: tensors have to go out again.
    broken: AtomicBool,
    /// Tensors whose last byte was sealed.
    sealed: Mutex<Vec<(StreamId, Sequence)>>,
}

impl Reports {
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(super) fn take_sealed(&self) -> Vec<(StreamId, Sequence)> {
        std::mem::take(&mut *self.sealed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn sealed(&self, stripe: &Stripe) {
        let mut sealed = self.sealed.lock().unwrap_or_else(PoisonError::into_inner);
        sealed.push((stripe.stream, stripe.sequence));
    }
}

/// Further links of one connection, joined when there is something for them. They are over when it is dropped, and so is what
/// they send.
pub(super) struct Links {
    terms: Arc<LinkTerms>,
    remote: Remote,
    shared: Arc<Shared>,
    /// None: nothing was for them yet.
    tasks: Mutex<Option<JoinSet<()>>>,
}

#[derive(Debug)]
struct Shared {
    /// None: no more tensors come.
    joined: Mutex<Option<Vec<Joined>>>,
    /// How many of them there are, and how many may still be.
    count: AtomicUsize,
    joining: AtomicUsize,
    /// Tensors that were announced, to take turns with the connection's own link.
    turn: AtomicUsize,
}

impl Shared {
    fn joined(&self) -> MutexGuard<'_, Option<Vec<Joined>>> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Joined {
    stripes: mpsc::Sender<Stripe>,
    /// Bytes that it was given and has not sent.
    waiting: Arc<AtomicU64>,
}

/// What joining takes.
#[derive(Clone)]
pub(super) struct Remote {
    pub(super) context: Arc<Context>,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) rekey: Rekey,
    /// Bytes that such links have sent.
    pub(super) sent: Counter,
    /// Told when a link takes more, or none does any more.
    pub(super) wake: Arc<Notify>,
    pub(super) reports: Arc<Reports>,
    /// When there may be some.
    pub(super) from: Moment,
}

impl Links {
    pub(super) fn new(terms: Arc<LinkTerms>, remote: Remote) -> Self {
        let shared = Arc::new(Shared {
            joined: Mutex::new(Some(Vec::new())),
            count: AtomicUsize::new(0),
            joining: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
        });
        Self { terms, remote, shared, tasks: Mutex::default() }
    }

    /// Begins to join as many as this side has, unless it has begun.
    fn begin(&self) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.get_or_insert_with(|| {
            let mut tasks = JoinSet::new();
            for _ in 1..self.remote.context.links {
                let Ok(Some(joiner)) = self.terms.join(&mut SystemRandom) else { break };
                self.shared.joining.fetch_add(1, Ordering::Relaxed);
                tasks.spawn(run(joiner, self.remote.clone(), Arc::clone(&self.shared)));
            }
            tasks
        });
    }

    /// Whether the next tensor is one for them: of this length, and not the turn of the connection's own link.
    pub(super) fn want(&self, length: u64) -> bool {
        if length < STRIPE_BYTES_MIN || self.remote.context.clock.moment() < self.remote.from {
            return false;
        }
        self.begin();
        let count = self.count();
        count > 0 && !self.shared.turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(count + 1)
    }

    /// How many have been joined.
    pub(super) fn count(&self) -> usize {
        self.shared.count.load(Ordering::Acquire)
    }

    /// Gives a tensor to the link that has least to send; back if all have enough.
    pub(super) fn give(&self, stripe: Stripe) -> Result<(), Stripe> {
        // It may have been announced before a renewal.
        self.begin();
        let joined = self.shared.joined();
        let free = joined.iter().flatten().filter(|one| one.stripes.capacity() > 0);
        let Some(link) = free.min_by_key(|one| one.waiting.load(Ordering::Relaxed)) else {
            return Err(stripe);
        };
        let length = stripe.length;
        link.stripes.try_send(stripe).map_err(|refused| refused.into_inner())?;
        link.waiting.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }

    /// Whether none was joined, and none will be.
    pub(super) fn have_failed(&self) -> bool {
        self.begin();
        self.shared.joining.load(Ordering::Acquire) == 0 && self.count() == 0
    }

    /// No more tensors come; what was given is sent, as long as this is kept.
    pub(super) fn finish(&self) {
        self.shared.count.store(0, Ordering::Release);
        *self.shared.joined() = None;
    }

    /// Whether none of them is left.
    pub(super) fn are_over(&self) -> bool {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.as_mut().is_none_or(|tasks| {
            while tasks.try_join_next().is_some() {}
            tasks.is_empty()
        })
    }
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.shared.fmt(f)
    }
}

/// A link is over, for whatever reason.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error("it cannot be reached: {0}")]
    Unreachable(std::io::Error),
    #[error("it was not joined: {0}")]
    Refused(sealane_protocol::connection::Fail),
    #[error("it broke")]
    Broken,
    #[error("a client's memory cannot be read: {0}")]
    Source(std::io::Error),
}

async fn run(joiner: Joiner, remote: Remote, shared: Arc<Shared>) {
    let joined = tokio::time::timeout(GREETING, join(&joiner, &remote)).await;
    let (link, mut sender) = match joined.map_err(|_| LinkError::Broken).flatten() {
        Ok(joined) => joined,
        Err(error) => {
            tracing::info!(link = joiner.link(), %error, "no further link");
            shared.joining.fetch_sub(1, Ordering::Release);
            remote.wake.notify_one();
            return;
        }
    };
    drop(joiner);
    let (stripes, mut inlet) = mpsc::channel(STRIPES_PER_LINK);
    let waiting = Arc::new(AtomicU64::new(0));
    let joined = Joined { stripes, waiting: Arc::clone(&waiting) };
    match &mut *shared.joined() {
        Some(all) => all.push(joined),
        // Nothing comes any more.
        None => return,
    }
    shared.count.fetch_add(1, Ordering::Release);
    shared.joining.fetch_sub(1, Ordering::Release);
    remote.wake.notify_one();
    drop(shared);
    let sent = send_all(&remote, &link, &mut sender, &mut inlet, &waiting).await;
    if let Err(error) = sent {
        remote.reports.failed.store(true, Ordering::Release);
        // The other side may have closed the connection, and tells why on its own link: this task ends with it then.
        tokio::time::sleep(PATIENCE).await;
        tracing::warn!(%error, "a further link is over, and its connection with it");
        remote.reports.broken.store(true, Ordering::Release);
        remote.wake.notify_one();
    }
}

/// Greets until it is answered.
async fn join(joiner: &Joiner, remote: &Remote) -> Result<(Link, LinkSender), LinkError> {
    let mut wait = PAUSE;
    let mut tries = 0;
    loop {
        tries += 1;
        match greet(joiner, remote).await {
            Err(LinkError::Refused(_) | LinkError::Broken) if tries < TRIES => {
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
            other => return other,
        }
    }
}

async fn greet(joiner: &Joiner, remote: &Remote) -> Result<(Link, LinkSender), LinkError> {
    let link = tcp::dial(&remote.addresses).await.map_err(LinkError::Unreachable)?;
    link.give_up_after(SILENCE).map_err(LinkError::Unreachable)?;
    let greeting = joiner.greeting().map_err(|_| LinkError::Broken)?;
    put(&link, &greeting).await?;
    let mut answer = [0; ANSWER_BYTES_MAX];
    let mut filled = 0;
    loop {
        match link.take(answer.get_mut(filled..).unwrap_or_default()) {
            Moved::Bytes(bytes) => filled += bytes,
            Moved::Blocked => link.ready(false).await.map(drop).map_err(|_| LinkError::Broken)?,
            Moved::Over => return Err(LinkError::Broken),
        }
        let arrived = answer.get(..filled).unwrap_or_default();
        let answered = joiner.on_answer(arrived, remote.rekey, remote.context.clock.moment());
        match answered.map_err(LinkError::Refused)? {
            Some((sender, used)) if used == filled => return Ok((link, sender)),
            // Nothing follows it, ever.
            Some(_) => return Err(LinkError::Broken),
            None => {}
        }
    }
}

/// Sends what comes until no more does.
async fn send_all(
    remote: &Remote,
    link: &Link,
    sender: &mut LinkSender,
    inlet: &mut mpsc::Receiver<Stripe>,
    waiting: &AtomicU64,
) -> Result<(), LinkError> {
    loop {
        let stripe = tokio::select! {
            stripe = inlet.recv() => stripe,
            () = gone(link) => return Err(LinkError::Broken),
            () = tokio::time::sleep(IDLE) => {
                sender.release_memory();
                tokio::select! {
                    stripe = inlet.recv() => stripe,
                    () = gone(link) => return Err(LinkError::Broken),
                }
            }
        };
        let Some(stripe) = stripe else { return Ok(()) };
        send(remote, link, sender, &stripe).await?;
        remote.sent.inc_by(stripe.length);
        waiting.fetch_sub(stripe.length, Ordering::Relaxed);
        remote.wake.notify_one();
    }
}

/// Resolves when the other side is gone: it has nothing to say here.
async fn gone(link: &Link) {
    // A socket counts as readable until somebody looks.
    while link.ready(false).await.is_ok() && link.take(&mut [0]) == Moved::Blocked {}
}

async fn send(
    remote: &Remote,
    link: &Link,
    sender: &mut LinkSender,
    stripe: &Stripe,
) -> Result<(), LinkError> {
    let Stripe { stream, sequence, source, start, length, reader } = stripe;
    let mut offset = 0;
    while offset < *length {
        let left = usize::try_from(length - offset).unwrap_or(usize::MAX);
        let now = remote.context.clock.moment();
        let queued = reader.read(|| {
            let bytes = source.bytes(start + offset, left.min(BULK_BYTES_MAX)).map_err(LinkError::Source)?;
            match sender.send_bytes(now, *stream, *sequence, offset, bytes) {
                Ok(sent) => {
                    let sent = sent as u64;
                    if offset + sent == *length {
                        // Before the other side can have all of it, and say so; and whoever ends the lease hears of it.
                        remote.reports.sealed(stripe);
                    }
                    Ok(sent)
                }
                Err(SendError::NoRoom) => Ok(0),
                Err(SendError::Misuse(_)) => Err(LinkError::Broken),
            }
        });
        // The tensor's stream is over, which the other side learns on the connection's own link: it drops the rest.
        let Some(queued) = queued else { return Ok(()) };
        offset += queued?;
        drain(link, sender).await?;
        // A socket that always has room would never let others have their turn.
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn drain(link: &Link, sender: &mut LinkSender) -> Result<(), LinkError> {
    loop {
        let output = sender.poll_output();
        if output.is_empty() {
            return Ok(());
        }
        match link.put(output) {
            Moved::Bytes(bytes) => sender.output_written(bytes),
            Moved::Blocked => writable(link).await?,
            Moved::Over => return Err(LinkError::Broken),
        }
    }
}

async fn put(link: &Link, mut bytes: &[u8]) -> Result<(), LinkError> {
    while !bytes.is_empty() {
        match link.put(bytes) {
            Moved::Bytes(taken) => bytes = bytes.get(taken..).unwrap_or_default(),
            Moved::Blocked => writable(link).await?,
            Moved::Over => return Err(LinkError::Broken),
        }
    }
    Ok(())
}

async fn writable(link: &Link) -> Result<(), LinkError> {
    match tokio::time::timeout(SILENCE, link.writable()).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(LinkError::Broken),
    }
}
