//! The sending side of one TransferSession: its lanes, and an association with every replica that it sends to.
//!
//! A [`lane`] takes parcels from a client and decides which replicas each goes to; an [`association`] sends what it was
//! given to one replica, over as many connections as it takes, and tells the lane what became of it.

pub(crate) mod association;
mod backlog;
mod generations;
mod kept;
mod lane;
mod lease;
mod ledger;
mod links;
mod news;
mod refusals;
mod schedule;
mod stream;
mod taking;
mod traffic;
mod unsent;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_protocol::frame::StreamId;
use sealane_types::{Delivery, PeerName, Reason};
use tokio::sync::{mpsc, watch};

use self::association::{Association, LaneLink};
use self::kept::Kept;
use self::news::LaneNews;
use super::carried::carried;
use super::life::count_failed;
use super::phase::Phase;
use super::readiness::{Observed, Readiness};
use super::stop::Stop;
use super::{dialer, permission, rendezvous};
use crate::context::Context;
use crate::desired::{Kind, Session, SessionKey};
use crate::handoff::{LaneError, SenderRequest, sender};
use crate::metrics::labels::SessionLabels;

/// Sending lanes of one session at once.
const LANES_MAX: usize = 256;

/// The sending side of one session.
#[derive(Debug)]
pub(crate) struct Sending {
    context: Arc<Context>,
    key: SessionKey,
    inner: Mutex<Inner>,
    /// Grows when an association has room again, or its phase changed.
    news: watch::Sender<u64>,
    /// Ends every task of the session.
    stop: Stop,
    tensors: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    session: Session,
    entries: Vec<Entry>,
    lanes: BTreeMap<StreamId, LaneLink>,
    next_lane: u32,
    /// Lanes that were opened and those that ended well, to tell whether all did.
    opened: u64,
    closed: u64,
}

/// A `to` Peer and the associations with its replicas.
#[derive(Debug, Clone)]
struct Entry {
    peer: PeerName,
    associations: Vec<Arc<Association>>,
}

impl Sending {
    pub(crate) fn start(context: Arc<Context>, session: Session) -> Arc<Self> {
        let sending = Arc::new(Self {
            context,
            key: session.key(),
            inner: Mutex::new(Inner {
                session: session.clone(),
                entries: Vec::new(),
                lanes: BTreeMap::new(),
                next_lane: 0,
                opened: 0,
                closed: 0,
            }),
            news: watch::Sender::new(0),
            stop: Stop::default(),
            tensors: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        sending.update(session);
        sending
    }

    /// Follows a changed configuration: replicas that are new are dialled, those that are gone are let go.
    pub(crate) fn update(self: &Arc<Self>, session: Session) {
        let mut inner = self.lock();
        let own = self.context.pod.as_str();
        let mut entries = Vec::with_capacity(session.remotes.len());
        for remote in &session.remotes {
            let known = inner.entries.iter().find(|entry| entry.peer == remote.peer);
            let known = known.map_or(&[][..], |entry| &entry.associations);
            let chosen = rendezvous::choose(own, &remote.replicas, session.fanout(), |id| {
                known.iter().any(|association| association.id() == id && !association.is_leaving())
            });
            let mut associations = Vec::new();
            for replica in chosen {
                let association = known
                    .iter()
                    .find(|association| association.id() == replica.id && !association.is_leaving())
                    .cloned();
                let association = association.unwrap_or_else(|| {
                    let association = Association::new(
                        remote.peer.clone(),
                        replica.id.clone(),
                        self.news.clone(),
                        Arc::clone(&self.context.clock),
                    );
                    inner.lanes.iter().for_each(|(id, lane)| association.open(*id, lane));
                    self.dial(&association);
                    association
                });
                association.locate(replica.addresses.clone());
                associations.push(association);
            }
            let left = known.iter().filter(|old| !associations.iter().any(|kept| Arc::ptr_eq(kept, old)));
            for gone in left.cloned().collect::<Vec<_>>() {
                gone.leave();
                if !gone.is_over() {
                    associations.push(gone);
                }
            }
            entries.push(Entry { peer: remote.peer.clone(), associations });
        }
        for entry in &inner.entries {
            if !entries.iter().any(|kept| kept.peer == entry.peer) {
                entry.associations.iter().for_each(|association| association.leave());
            }
        }
        inner.entries = entries;
        inner.session = session;
        drop(inner);
        self.context.metrics.traffic.begin(&self.labels());
        self.tell();
    }

    /// Starts the task that keeps a replica connected.
    fn dial(self: &Arc<Self>, association: &Arc<Association>) {
        let kept = Kept { sending: Arc::downgrade(self), association: Arc::clone(association) };
        dialer::start(Arc::clone(&self.context), kept, self.stop.clone());
    }

    /// Ends the session: its connections are closed and its lanes fail.
    pub(crate) fn close(&self, reason: Reason, message: &str) {
        self.stop.ask(reason);
        let error = LaneError::closed(reason, message);
        for lane in self.lock().lanes.values() {
            // A lane that ended meanwhile needs no news.
            let _ = lane.news.send(LaneNews::Failed(error.clone()));
        }
        self.tell();
    }

    /// The policy no longer permits this session, or there is none: lanes fail, connections see to themselves.
    pub(crate) fn refuse(&self, error: &LaneError) {
        for lane in self.lock().lanes.values() {
            let _ = lane.news.send(LaneNews::Failed(error.clone()));
        }
        self.tell();
    }

    pub(crate) fn readiness(&self) -> Readiness {
        if let Some(refused) = self.forbidden() {
            return refused;
        }
        let inner = self.lock();
        if inner.entries.is_empty() {
            return Readiness::waiting(Reason::NoReplicas, "the TransferSession has no receiving Peer yet");
        }
        inner
            .entries
            .iter()
            .map(Entry::readiness)
            .find(|one| *one != Readiness::Ready)
            .unwrap_or(Readiness::Ready)
    }

    /// Opens a lane for a client. Call it when [`Sending::readiness`] says so.
    pub(crate) fn open(self: &Arc<Self>, request: SenderRequest) {
        let mut inner = self.lock();
        if inner.lanes.len() >= LANES_MAX {
            let message = format!("session `{}` has {LANES_MAX} sending lanes already", self.key.name);
            let _ = request.answer.send(Err(LaneError::refused(Reason::LimitExceeded, message)));
            count_failed(&self.context, self.key.direction, Reason::LimitExceeded);
            return;
        }
        let (lane, events, intake) = sender::lane(request.incarnation, request.base);
        let id = StreamId(inner.next_lane);
        inner.next_lane = inner.next_lane.wrapping_add(1);
        let (news, inbox) = mpsc::unbounded_channel();
        let link = LaneLink { incarnation: request.incarnation, news };
        inner.lanes.insert(id, link.clone());
        inner.opened += 1;
        for association in inner.entries.iter().flat_map(|entry| &entry.associations) {
            association.open(id, &link);
        }
        drop(inner);
        lane::start(self, id, intake, link, inbox);
        // A client that went away drops both halves, which ends the lane.
        let _ = request.answer.send(Ok((lane, events)));
    }

    /// Whether nothing that was accepted still waits to be taken.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().lanes.is_empty()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    pub(crate) fn observe(&self) -> Observed {
        let forbidden = self.forbidden();
        let inner = self.lock();
        let associations = || inner.entries.iter().flat_map(|entry| &entry.associations);
        let phases: Vec<Phase> = associations().map(|association| association.phase()).collect();
        let mut handshakes: Vec<u64> = phases.iter().filter_map(Phase::handshake_micros).collect();
        handshakes.sort_unstable();
        let suite = phases.iter().find_map(Phase::suite);
        let desired = associations().filter(|association| !association.is_leaving()).count();
        let stalled = associations().find(|association| association.has_stalled()).map(|_| Reason::Stalled);
        let problem = match forbidden {
            Some(Readiness::Refused { reason, message }) => Some((reason, message)),
            _ => phases.iter().find_map(Phase::problem),
        };
        Observed {
            key: self.key.clone(),
            uid: inner.session.uid.clone(),
            connections: count(handshakes.len()),
            connections_desired: count(desired),
            bytes: self.bytes.load(Ordering::Relaxed),
            tensors: self.tensors.load(Ordering::Relaxed),
            forwarded: 0,
            carried: carried(phases.iter().filter_map(Phase::carried), &inner.session),
            cipher: suite.map(|suite| suite.cipher),
            post_quantum: suite.is_some_and(|suite| suite.post_quantum()),
            handshake_micros: handshakes.get(handshakes.len() / 2).copied().unwrap_or(0),
            ended: inner.opened > 0 && inner.opened == inner.closed,
            problem,
            degraded: phases.iter().flat_map(Phase::degraded).chain(stalled).collect(),
        }
    }

    /// Why the policy forbids this session, if it does.
    pub(crate) fn forbidden(&self) -> Option<Readiness> {
        permission::forbidden(&self.context, &self.session())
    }

    fn session(&self) -> Session {
        self.lock().session.clone()
    }

    fn delivery(&self) -> Delivery {
        match self.lock().session.kind {
            Kind::Stream { delivery, .. } => delivery,
            // The router gives this side streams only.
            Kind::Forward(_) => Delivery::RoundRobin,
        }
    }

    fn entries(&self) -> Vec<Entry> {
        self.lock().entries.clone()
    }

    /// A lane is over; `well` when it was closed and everything was taken.
    fn lane_over(&self, lane: StreamId, well: bool) {
        let mut inner = self.lock();
        inner.lanes.remove(&lane);
        inner.closed += u64::from(well);
        drop(inner);
        self.tell();
    }

    /// Receivers' applications have taken this much.
    fn count(&self, tensors: u64, bytes: u64) {
        self.tensors.fetch_add(tensors, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let labels = self.labels();
        self.context.metrics.traffic.tensors.get_or_create(&labels).inc_by(tensors);
        self.context.metrics.traffic.bytes.get_or_create(&labels).inc_by(bytes);
    }

    fn count_uncertain(&self, tensors: u64) {
        self.context.metrics.traffic.uncertain.get_or_create(&self.labels()).inc_by(tensors);
    }

    fn labels(&self) -> SessionLabels {
        SessionLabels::of(&self.key)
    }

    fn tell(&self) {
        self.news.send_modify(|news| *news = news.wrapping_add(1));
        self.context.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.stop.ask(Reason::Draining);
    }
}

impl Entry {
    fn readiness(&self) -> Readiness {
        let phases: Vec<Phase> = self.associations.iter().map(|association| association.phase()).collect();
        permission::connected(&self.peer, &phases)
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
