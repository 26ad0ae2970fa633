//! The receiving side of one TransferSession: its senders, and the lanes that take from them.
//!
//! A [`stream`] outlives connections: it knows what arrived, so that nothing is delivered twice. The [`hub`] gives every
//! arriving tensor a place in the memory of one receiving lane, and knows who has taken what.

mod announced;
mod arriving;
mod hub;
mod lane;
mod sender;
mod stream;
mod stripes;
#[cfg(test)]
mod tests;
mod traffic;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealane_protocol::frame::Open;
use sealane_protocol::handshake::Suite;
use sealane_types::{PeerName, Reason};
use tokio::sync::{Notify, Semaphore, watch};

use self::announced::AnnouncedMemory;
use self::hub::{Hub, ReceiverId};
use self::stream::{Attachment, Stream};
use super::arrival::{Arrival, Connected, SenderKey};
use super::carried::carried;
use super::life::{LaneLife, count_failed};
use super::permission;
use super::readiness::{Observed, Readiness};
use crate::context::Context;
use crate::desired::{Session, SessionKey};
use crate::handoff::{DeliveryId, LaneError, ReceiverRequest, Turn, receiver};
use crate::metrics::labels::SessionLabels;

/// How often senders that do not come back are looked for.
const HOUSEKEEPING: Duration = Duration::from_millis(500);
/// Receiving lanes of one session at once.
const LANES_MAX: usize = 256;

/// Streams of one session that may bring bytes before there are places for them, each as many as its staging allowance.
/// The others wait for places.
const STAGING_STREAMS_MAX: usize = 64;

/// The receiving side of one session.
#[derive(Debug)]
pub(crate) struct Receiving {
    context: Arc<Context>,
    key: SessionKey,
    inner: Mutex<Inner>,
    /// Grows when a sender comes, goes or ends.
    news: watch::Sender<u64>,
    /// Streams that may bring bytes before there are places for them.
    staging: Arc<Semaphore>,
    /// Bytes of what was announced and not delivered yet.
    announced: AnnouncedMemory,
    tensors: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    session: Session,
    hub: Hub,
    /// Until it goes on, if it is suspended.
    over: bool,
}

impl Inner {
    /// Whether `peer` is configured to send in this session, which goes on.
    fn is_for(&self, peer: &PeerName) -> bool {
        !self.over && self.session.remotes.iter().any(|remote| remote.peer == *peer)
    }
}

impl Receiving {
    pub(crate) fn start(context: Arc<Context>, session: Session) -> Arc<Self> {
        let receiving = Arc::new(Self {
            context,
            key: session.key(),
            inner: Mutex::new(Inner { session: session.clone(), hub: Hub::default(), over: false }),
            news: watch::Sender::new(0),
            staging: Arc::new(Semaphore::new(STAGING_STREAMS_MAX)),
            announced: AnnouncedMemory::default(),
            tensors: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        receiving.update(session);
        let weak = Arc::downgrade(&receiving);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(HOUSEKEEPING).await;
                let Some(receiving) = weak.upgrade() else { return };
                let lost = receiving.lock().hub.give_up_on_lost(receiving.context.clock.moment());
                receiving.count_interrupted(lost);
            }
        });
        receiving
    }

    pub(crate) fn update(&self, session: Session) {
        let mut inner = self.lock();
        // First: whoever is listed now may have closed already.
        if let Some(least) = permission::senders(&self.context, &session) {
            inner.hub.demand(least);
        }
        inner.hub.list(&session.remotes);
        inner.hub.keep(|peer| session.remotes.iter().any(|remote| remote.peer == *peer));
        inner.session = session;
        drop(inner);
        self.context.metrics.traffic.begin(&SessionLabels::of(&self.key));
        self.tell();
    }

    /// Another policy is in force.
    pub(crate) fn judge_again(&self) {
        let mut inner = self.lock();
        let Some(least) = permission::senders(&self.context, &inner.session) else { return };
        inner.hub.demand(least);
        inner.hub.end_if_all_have();
    }

    /// Ends the session: its connections are closed and its lanes fail.
    pub(crate) fn close(&self, reason: Reason, message: &str) {
        let mut inner = self.lock();
        inner.over = true;
        inner.hub.close(reason, &LaneError::closed(reason, message));
        drop(inner);
        self.tell();
    }

    /// Ends the session for the time being: as [`Receiving::close`], but what was delivered stays known, because senders
    /// that saw no answer will repeat it after [`Receiving::resume`].
    pub(crate) fn suspend(&self, message: &str) {
        let reason = Reason::SessionSuspended;
        let mut inner = self.lock();
        inner.over = true;
        inner.hub.rest(reason, &LaneError::closed(reason, message));
        drop(inner);
        self.tell();
    }

    /// Goes on after [`Receiving::suspend`].
    pub(crate) fn resume(&self, session: Session) {
        self.lock().over = false;
        self.update(session);
    }

    /// The policy no longer permits this session, or there is none: lanes fail, connections see to themselves.
    pub(crate) fn refuse(&self, error: &LaneError) {
        self.lock().hub.fail(error);
        self.tell();
    }

    /// Whether no sender waits to hear of a tensor that a client was given. A client that went away is done with all of
    /// them once its lane's task has read what it still said.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.lock().hub.is_acknowledged()
    }

    pub(crate) fn readiness(&self) -> Readiness {
        if let Some(refused) = self.forbidden() {
            return refused;
        }
        let inner = self.lock();
        if inner.hub.has_seen_a_sender() {
            return Readiness::Ready;
        }
        let peers: Vec<_> = inner.session.remotes.iter().map(|remote| remote.peer.as_str()).collect();
        let message = format!("no replica of Peer `{}` has connected yet", peers.join("`, `"));
        Readiness::waiting(Reason::NoReplicas, message)
    }

    /// Opens a lane for a client. Call it when [`Receiving::readiness`] says so.
    pub(crate) fn open(self: &Arc<Self>, request: ReceiverRequest) {
        let mut inner = self.lock();
        if inner.hub.receivers() >= LANES_MAX {
            let message = format!("session `{}` has {LANES_MAX} receiving lanes already", self.key.name);
            let _ = request.answer.send(Err(LaneError::refused(Reason::LimitExceeded, message)));
            count_failed(&self.context, self.key.direction, Reason::LimitExceeded);
            return;
        }
        let (client, deliveries, outlet) = receiver::lane();
        let id = inner.hub.join(outlet.turns(), Arc::clone(&request.arena));
        drop(inner);
        // A client that went away drops both halves, which ends the lane.
        let _ = request.answer.send(Ok((client, deliveries)));
        lane::start(self, id, outlet, request.arena.freed());
        self.grant();
        self.lock().hub.end_if_all_have();
    }

    pub(crate) fn observe(&self) -> Observed {
        let inner = self.lock();
        let connected: Vec<Connected> = inner.hub.connected();
        let mut handshakes: Vec<_> = connected.iter().map(|one| one.handshake).collect();
        handshakes.sort_unstable();
        let median = handshakes.get(handshakes.len() / 2).map_or(0, Duration::as_micros);
        let suite = connected.first().map(|one| one.suite);
        let problem = match self.readiness_of(&inner) {
            Some(Readiness::Waiting { reason, message } | Readiness::Refused { reason, message }) => {
                Some((reason, message))
            }
            _ => None,
        };
        Observed {
            key: self.key.clone(),
            uid: inner.session.uid.clone(),
            connections: u32::try_from(connected.len()).unwrap_or(u32::MAX),
            connections_desired: u32::try_from(inner.hub.expected().max(connected.len())).unwrap_or(u32::MAX),
            bytes: self.bytes.load(Ordering::Relaxed),
            tensors: self.tensors.load(Ordering::Relaxed),
            forwarded: 0,
            carried: carried(connected.iter().map(|one| one.carried), &inner.session),
            cipher: suite.map(|suite| suite.cipher),
            post_quantum: suite.is_some_and(Suite::post_quantum),
            handshake_micros: u64::try_from(median).unwrap_or(u64::MAX),
            ended: false,
            problem,
            degraded: inner.hub.degraded(),
        }
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Why policy or configuration forbids this session, if they do.
    pub(crate) fn forbidden(&self) -> Option<Readiness> {
        self.readiness_of(&self.lock())
    }

    fn readiness_of(&self, inner: &Inner) -> Option<Readiness> {
        permission::forbidden(&self.context, &inner.session)
    }

    /// A verified connection begins. The number names it in [`Receiving::detach`].
    fn admit(&self, arrival: Arrival) -> Result<u64, Reason> {
        let mut inner = self.lock();
        // Under the lock that ends the session, so that no connection outlives it.
        if !inner.is_for(&arrival.peer) {
            return Err(Reason::SessionUnknown);
        }
        let (connection, interrupted) = inner.hub.attach(arrival, self.context.clock.moment())?;
        drop(inner);
        self.count_interrupted(interrupted);
        self.tell();
        // What an older connection was bringing gives its places back.
        self.grant();
        Ok(connection)
    }

    /// The handshake of a connection is over.
    fn established(&self, sender: &SenderKey, connection: u64, known: Connected) {
        self.lock().hub.established(sender, connection, known);
        self.tell();
    }

    fn judged_again(&self, sender: &SenderKey, connection: u64, degraded: &[Reason]) {
        self.lock().hub.judged_again(sender, connection, degraded);
    }

    /// A connection is over.
    fn detach(&self, sender: &SenderKey, connection: u64) {
        self.lock().hub.detach(sender, connection, self.context.clock.moment());
        self.tell();
        self.grant();
    }

    /// The stream of a lane that a connected sender opens.
    fn open_stream(
        &self,
        sender: &SenderKey,
        connection: u64,
        open: &Open,
        wake: Arc<Notify>,
    ) -> Result<(Arc<Stream>, Attachment), Reason> {
        let mut inner = self.lock();
        let stream = inner.hub.stream(sender, connection, open.incarnation.0)?;
        let attachment = stream.attach(open, wake, &self.staging)?;
        Ok((stream, attachment))
    }

    /// Looks for a place for a tensor that was announced on `stream`.
    fn request(&self, stream: &Arc<Stream>, waiting: stream::Waiting) {
        let granted = self.lock().hub.request(stream, waiting);
        self.settle(granted);
    }

    /// Gives places that have become free to tensors that wait.
    fn grant(&self) {
        let granted = self.lock().hub.grant();
        self.settle(granted);
    }

    /// Hands places to their streams, outside of the hub's lock; some tensors may be whole with it.
    fn settle(&self, granted: Vec<hub::Granted>) {
        for hub::Granted { stream, waiting, place } in granted {
            stream.place(&waiting, place);
            self.deliver(&stream);
        }
    }

    /// Delivers what is whole, in order.
    fn deliver(&self, stream: &Arc<Stream>) {
        {
            let _turn = stream.turn();
            while let Some(arrived) = stream.next_whole() {
                let sequence = arrived.sequence;
                if !self.lock().hub.deliver(stream, arrived) {
                    stream.lost(sequence);
                }
            }
        }
        if stream.is_over() {
            // These were the last ones, and had waited for a place when the end came, or were on their way then.
            self.lock().hub.end_if_all_have();
        }
    }

    /// A client's application has taken these.
    fn taken(&self, receiver: ReceiverId, deliveries: &[DeliveryId]) {
        let (mut tensors, mut bytes) = (0, 0);
        // Under one lock, so that `is_acknowledged` finds each of them with its client or among the answers.
        let mut inner = self.lock();
        for delivered in inner.hub.taken(receiver, deliveries) {
            tensors += delivered.tensors;
            bytes += delivered.length;
            delivered.stream.taken(delivered.sequence);
        }
        drop(inner);
        self.count(tensors, bytes);
    }

    /// Whether a lane got its end, so that it lives only for what its client has yet to take.
    fn has_ended(&self, receiver: ReceiverId) -> bool {
        self.lock().hub.has_ended(receiver)
    }

    /// A client is gone: what it had and did not take is lost.
    fn leave(&self, receiver: ReceiverId, life: &mut LaneLife) {
        let mut inner = self.lock();
        if let Some(reason) = inner.hub.failure(receiver) {
            life.fail(reason);
        }
        for delivered in inner.hub.leave(receiver) {
            delivered.stream.lost(delivered.sequence);
        }
        drop(inner);
        self.grant();
    }

    /// A stream ended or was dropped by its sender.
    fn ended(&self, sender: &SenderKey, interrupted: bool) {
        let mut inner = self.lock();
        if interrupted {
            inner.hub.interrupted(sender);
        }
        inner.hub.end_if_all_have();
        drop(inner);
        self.count_interrupted(usize::from(interrupted));
        self.tell();
    }

    fn count_interrupted(&self, senders: usize) {
        let labels = SessionLabels::of(&self.key);
        self.context.metrics.traffic.interrupted.get_or_create(&labels).inc_by(senders as u64);
    }

    fn count(&self, tensors: u64, bytes: u64) {
        self.tensors.fetch_add(tensors, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let labels = SessionLabels::of(&self.key);
        self.context.metrics.traffic.tensors.get_or_create(&labels).inc_by(tensors);
        self.context.metrics.traffic.bytes.get_or_create(&labels).inc_by(bytes);
    }

    fn tell(&self) {
        self.news.send_modify(|news| *news = news.wrapping_add(1));
        self.context.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells every lane of a session that it is over.
fn over(error: &LaneError) -> Turn {
    Turn::Failed(error.clone())
}
