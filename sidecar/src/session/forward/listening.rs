//! The `from` side of a forward: listens for applications while there is a replica to give their connections to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sealane_attestation::binding::Role;
use sealane_types::Reason;
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};
use tokio_util::task::AbortOnDropHandle;

use super::address::Address;
use super::outbound::Kept;
use super::pipes::Pipes;
use super::port;
use super::premises::Premises;
use super::replica::Replica;
use super::socket::Socket;
use super::tally::Tally;
use crate::context::Context;
use crate::desired::{Forward, Session, SessionKey};
use crate::session::carried::carried;
use crate::session::phase::Phase;
use crate::session::readiness::{Observed, Readiness};
use crate::session::stop::Stop;
use crate::session::{dialer, permission, rendezvous};

/// The listening side of one forward.
#[derive(Debug)]
pub(crate) struct Listening {
    context: Arc<Context>,
    key: SessionKey,
    forward: Forward,
    tally: Arc<Tally>,
    inner: Mutex<Inner>,
    /// Grows when a replica comes, goes, or has room again.
    news: watch::Sender<u64>,
    /// Ends every task of the session.
    stop: Stop,
    /// No new TCP connection is accepted.
    draining: AtomicBool,
}

#[derive(Debug)]
struct Inner {
    session: Session,
    replicas: Vec<Arc<Replica>>,
    /// What is listened on: one port, or one for each ordinal.
    ports: BTreeMap<Option<u32>, Port>,
    /// Whose turn it is among replicas that carry equally many.
    turn: usize,
}

#[derive(Debug)]
struct Port {
    _task: AbortOnDropHandle<()>,
    problem: Option<(Reason, String)>,
}

impl Listening {
    pub(crate) fn start(context: Arc<Context>, session: Session, forward: Forward) -> Arc<Self> {
        let key = session.key();
        let listening = Arc::new(Self {
            tally: Tally::new(&key, &context),
            context,
            key,
            forward,
            inner: Mutex::new(Inner {
                session: session.clone(),
                replicas: Vec::new(),
                ports: BTreeMap::new(),
                turn: 0,
            }),
            news: watch::Sender::new(0),
            stop: Stop::default(),
            draining: AtomicBool::new(false),
        });
        listening.update(session);
        tokio::spawn(keep(Arc::downgrade(&listening), listening.news.subscribe()));
        listening
    }

    /// Follows a changed configuration: replicas that are new are dialled, those that are gone finish what they carry.
    pub(crate) fn update(self: &Arc<Self>, session: Session) {
        let mut inner = self.lock();
        let known = std::mem::take(&mut inner.replicas);
        let kept = |id: &str| known.iter().find(|known| known.id() == id && !known.is_leaving());
        let mut replicas = Vec::new();
        for remote in &session.remotes {
            let own = self.context.pod.as_str();
            let chosen = rendezvous::choose(own, &remote.replicas, session.fanout(), |id| kept(id).is_some());
            for listed in chosen {
                // Another ordinal is another port, and another pod has to answer there.
                let ordinal = listed.ordinal.filter(|_| self.forward.per_replica);
                let replica = kept(&listed.id).filter(|known| known.ordinal() == ordinal).cloned();
                replicas.push(replica.unwrap_or_else(|| {
                    let replica = Replica::new(remote.peer.clone(), listed, ordinal, self.news.clone());
                    let kept = Kept { listening: Arc::downgrade(self), replica: Arc::clone(&replica) };
                    dialer::start(Arc::clone(&self.context), kept, self.stop.clone());
                    replica
                }));
                if let Some(replica) = replicas.last() {
                    replica.locate(&listed.addresses);
                }
            }
        }
        for gone in known {
            if !replicas.iter().any(|kept| Arc::ptr_eq(kept, &gone)) {
                gone.leave();
                if !gone.is_over() {
                    replicas.push(gone);
                }
            }
        }
        inner.replicas = replicas;
        inner.session = session;
        drop(inner);
        self.tell();
    }

    /// Ends the session: its ports close and what it carries is reset.
    pub(crate) fn close(&self, reason: Reason) {
        self.stop.ask(reason);
        self.lock().ports.clear();
        self.tell();
    }

    /// Accepts no more; what is carried may finish.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.lock().ports.clear();
        self.tell();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.lock().replicas.iter().all(|replica| replica.is_idle())
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Why the policy forbids this session, if it does.
    pub(crate) fn forbidden(&self) -> Option<Readiness> {
        permission::forbidden(&self.context, &self.session())
    }

    /// Where applications connect, for messages.
    pub(crate) fn address(&self) -> String {
        let ordinal = self.forward.per_replica.then_some(0);
        self.listening_address(ordinal).map_or_else(|problem| problem.1, |address| address.to_string())
    }

    pub(crate) fn observe(&self) -> Observed {
        let forbidden = self.forbidden().and_then(Readiness::problem);
        let inner = self.lock();
        let phases: Vec<Phase> = inner.replicas.iter().map(|replica| replica.phase()).collect();
        let mut handshakes: Vec<u64> = phases.iter().filter_map(Phase::handshake_micros).collect();
        handshakes.sort_unstable();
        let suite = phases.iter().find_map(Phase::suite);
        let desired = inner.replicas.iter().filter(|replica| !replica.is_leaving()).count();
        let port = || inner.ports.values().find_map(|port| port.problem.clone());
        let nobody = || {
            let peer = &inner.session.remotes.first()?.peer;
            permission::connected(peer, &phases).problem()
        };
        let nameless = || inner.replicas.iter().find_map(|replica| self.has_no_port(replica));
        Observed {
            key: self.key.clone(),
            uid: inner.session.uid.clone(),
            connections: u32::try_from(handshakes.len()).unwrap_or(u32::MAX),
            connections_desired: u32::try_from(desired).unwrap_or(u32::MAX),
            bytes: self.tally.bytes(),
            tensors: 0,
            forwarded: self.tally.forwarded(),
            carried: carried(phases.iter().filter_map(Phase::carried), &inner.session),
            cipher: suite.map(|suite| suite.cipher),
            post_quantum: suite.is_some_and(|suite| suite.post_quantum()),
            handshake_micros: handshakes.get(handshakes.len() / 2).copied().unwrap_or(0),
            ended: false,
            problem: forbidden.or_else(port).or_else(nobody).or_else(nameless),
            degraded: phases.iter().flat_map(Phase::degraded).collect(),
        }
    }

    pub(super) fn session(&self) -> Session {
        self.lock().session.clone()
    }

    /// For a connection of this side.
    pub(super) fn pipes(&self, wake: Arc<Notify>) -> Pipes {
        Pipes::new(Role::Initiator, Arc::clone(&self.context.forward), Arc::clone(&self.tally), wake)
    }

    pub(super) fn premises(&self) -> &Arc<Premises> {
        &self.context.forward
    }

    /// Where to listen for the replica of an ordinal, or for any.
    pub(super) fn listening_address(&self, ordinal: Option<u32>) -> Result<Address, (Reason, String)> {
        let address = self.context.forward.listening(&self.key.name, self.forward, ordinal);
        address.map_err(|problem| (Reason::PortReserved, problem.to_string()))
    }

    /// How it stands with a port.
    pub(super) fn port_is(&self, ordinal: Option<u32>, problem: Option<(Reason, String)>) {
        if let Some(port) = self.lock().ports.get_mut(&ordinal) {
            if let Some((reason, message)) = problem.as_ref().filter(|_| port.problem != problem) {
                tracing::error!(session = %self.key.name, %reason, "a forward does not listen: {message}");
            }
            port.problem = problem;
        }
        self.context.changed.notify_one();
    }

    /// Applications have to wait, because as many connections are carried as may be.
    pub(super) fn is_full(&self) {
        let session = &self.key.name;
        tracing::warn!(%session, "no more TCP connections can be carried; new ones wait in the kernel");
        self.refused(Reason::LimitExceeded);
    }

    pub(super) fn refused(&self, reason: Reason) {
        self.tally.refused(reason);
    }

    /// Whether a TCP connection to the replica of an ordinal, or to any, would find room.
    pub(super) fn has_room(&self, ordinal: Option<u32>) -> bool {
        let inner = self.lock();
        inner.replicas.iter().any(|replica| replica.ordinal() == ordinal && replica.load().is_some())
    }

    /// Gives a TCP connection to the replica that carries the fewest, in turn where several do.
    pub(super) fn give(&self, ordinal: Option<u32>, socket: Socket, permit: OwnedSemaphorePermit) {
        let Some(replica) = self.lock().choose(ordinal) else {
            // The last one left between the kernel's accept and ours. Dropping the socket resets it.
            return self.tally.refused(Reason::NoReplicas);
        };
        if !replica.give(socket, permit) {
            self.tally.refused(Reason::NoReplicas);
        }
    }

    /// With a port for every replica, one that is in no StatefulSet has none.
    fn has_no_port(&self, replica: &Replica) -> Option<(Reason, String)> {
        let nameless = self.forward.per_replica && replica.ordinal().is_none();
        let message = || {
            format!(
                "replica {} has no ordinal, so that perReplica gives it no port; only pods of a StatefulSet have one",
                replica.id()
            )
        };
        nameless.then(|| (Reason::NoReplicas, message()))
    }

    /// Opens and closes ports as replicas, policy and configuration have it.
    fn listen(self: &Arc<Self>) {
        let open = self.stop.reason().is_none()
            && !self.draining.load(Ordering::Relaxed)
            && self.forbidden().is_none();
        let mut inner = self.lock();
        let wanted: BTreeSet<_> = inner
            .replicas
            .iter()
            .filter(|replica| open && replica.is_open())
            .map(|replica| replica.ordinal())
            .filter(|ordinal| ordinal.is_some() == self.forward.per_replica)
            .collect();
        inner.ports.retain(|ordinal, _| wanted.contains(ordinal));
        for ordinal in wanted {
            inner.ports.entry(ordinal).or_insert_with(|| {
                let task = tokio::spawn(port::serve(Arc::downgrade(self), ordinal));
                Port { _task: AbortOnDropHandle::new(task), problem: None }
            });
        }
    }

    fn tell(&self) {
        self.news.send_modify(|news| *news = news.wrapping_add(1));
        self.context.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.ask(Reason::Draining);
    }
}

impl Inner {
    fn choose(&mut self, ordinal: Option<u32>) -> Option<Arc<Replica>> {
        let count = self.replicas.len();
        let turn = self.turn;
        let candidate = |step: usize| {
            let index = (turn + step) % count;
            let replica = self.replicas.get(index).filter(|replica| replica.ordinal() == ordinal)?;
            Some((replica.load()?, step, index))
        };
        let (_, _, index) = (0..count).filter_map(candidate).min()?;
        self.turn = index + 1;
        self.replicas.get(index).cloned()
    }
}

/// Keeps ports as they have to be until the session is over.
async fn keep(listening: Weak<Listening>, mut news: watch::Receiver<u64>) {
    let Some(mut standing) = listening.upgrade().map(|listening| listening.context.policy.subscribe()) else {
        return;
    };
    loop {
        match listening.upgrade() {
            Some(listening) => listening.listen(),
            None => return,
        }
        let alive = tokio::select! {
            changed = news.changed() => changed.is_ok(),
            changed = standing.changed() => changed.is_ok(),
        };
        if !alive {
            return;
        }
    }
}
