//! One replica that TCP connections are given to.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_protocol::limits::PIPES_MAX;
use sealane_types::{PeerName, Reason};
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};

use super::socket::Socket;
use crate::desired;
use crate::session::phase::Phase;

/// An accepted TCP connection on its way to a replica.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) socket: Socket,
    /// Among those of this process.
    pub(super) permit: OwnedSemaphorePermit,
    pub(super) place: Carried,
}

/// Counts a TCP connection among those of its replica while it is there.
#[derive(Debug)]
pub(super) struct Carried(Arc<Replica>);

/// A replica of the Peer that a forward leads to.
#[derive(Debug)]
pub(super) struct Replica {
    peer: PeerName,
    id: String,
    /// With a port for every replica: of the pod that must answer.
    ordinal: Option<u32>,
    state: Mutex<State>,
    /// Of the connection's task.
    pub(super) wake: Arc<Notify>,
    /// Told when the dialler should look again.
    pub(super) moved: Notify,
    /// Told when it comes, goes, or has room again.
    session: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    addresses: Vec<SocketAddr>,
    phase: Phase,
    arrivals: VecDeque<Accepted>,
    /// TCP connections that it carries, those on their way included.
    carried: usize,
    leaving: bool,
    over: bool,
    /// Of its connection: no pipe can be opened any more, and another connection begins when those that there are end.
    spent: bool,
}

impl Replica {
    pub(super) fn new(
        peer: PeerName,
        replica: &desired::Replica,
        ordinal: Option<u32>,
        session: watch::Sender<u64>,
    ) -> Arc<Self> {
        Arc::new(Self {
            peer,
            id: replica.id.clone(),
            ordinal,
            state: Mutex::new(State {
                addresses: replica.addresses.clone(),
                phase: Phase::Waiting(None),
                arrivals: VecDeque::new(),
                carried: 0,
                leaving: false,
                over: false,
                spent: false,
            }),
            wake: Arc::new(Notify::new()),
            moved: Notify::new(),
            session,
        })
    }

    pub(super) fn peer(&self) -> &PeerName {
        &self.peer
    }

    /// Of the replica in the configuration.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn ordinal(&self) -> Option<u32> {
        self.ordinal
    }

    pub(super) fn phase(&self) -> Phase {
        self.lock().phase.clone()
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.lock().addresses.clone()
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.lock().leaving
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// Whether TCP connections may be given to it, now or when it has room.
    pub(super) fn is_open(&self) -> bool {
        let state = self.lock();
        state.phase.is_established() && !state.leaving
    }

    /// How many it carries, if another one may be given to it.
    pub(super) fn load(&self) -> Option<usize> {
        let state = self.lock();
        let open = state.phase.is_established() && !state.leaving && !state.spent;
        (open && state.carried < PIPES_MAX).then_some(state.carried)
    }

    /// Where it is now. None known to the operator, which may be new and not have heard from it, changes nothing.
    pub(super) fn locate(&self, addresses: &[SocketAddr]) {
        let mut state = self.lock();
        if !addresses.is_empty() && state.addresses != addresses {
            state.addresses = addresses.to_vec();
            drop(state);
            self.moved.notify_one();
        }
    }

    /// The configuration lists it no more: it finishes what it carries.
    pub(super) fn leave(&self) {
        self.lock().leaving = true;
        self.moved.notify_one();
        self.wake.notify_one();
        self.tell();
    }

    /// Gives it an accepted connection, unless it is gone meanwhile: then the connection is reset.
    pub(super) fn give(self: &Arc<Self>, socket: Socket, permit: OwnedSemaphorePermit) -> bool {
        let mut state = self.lock();
        if !state.phase.is_established() {
            return false;
        }
        state.carried += 1;
        state.arrivals.push_back(Accepted { socket, permit, place: Carried(Arc::clone(self)) });
        drop(state);
        self.wake.notify_one();
        true
    }

    pub(super) fn next_arrival(&self) -> Option<Accepted> {
        self.lock().arrivals.pop_front()
    }

    /// A verified connection begins.
    pub(super) fn attach(&self, phase: Phase) {
        let mut state = self.lock();
        (state.phase, state.spent) = (phase, false);
        drop(state);
        self.tell();
    }

    /// Its connection's remote was judged again.
    pub(super) fn judged_again(&self, degraded: &[Reason]) {
        self.lock().phase.judged_again(degraded);
    }

    /// The connection has no numbers left for pipes.
    pub(super) fn spend(&self) {
        self.lock().spent = true;
    }

    /// The connection is over, or none came about.
    pub(super) fn detach(&self, problem: Option<(Reason, String)>) {
        let mut state = self.lock();
        state.phase = Phase::Waiting(problem);
        let cut = std::mem::take(&mut state.arrivals);
        drop(state);
        // Resets them, outside of the lock that each takes to say that it is gone.
        drop(cut);
        self.tell();
    }

    pub(super) fn end(&self) {
        self.lock().over = true;
        self.tell();
    }

    /// Whether it is leaving, or spent, and carries nothing any more.
    pub(super) fn is_done(&self) -> bool {
        let state = self.lock();
        (state.leaving || state.spent) && state.carried == 0
    }

    /// Whether it carries nothing.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().carried == 0
    }

    fn tell(&self) {
        self.session.send_modify(|news| *news = news.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.carried = state.carried.saturating_sub(1);
        let (has_room_again, done) = (state.carried + 1 == PIPES_MAX, state.carried == 0);
        let ending = state.leaving || state.spent;
        drop(state);
        if has_room_again {
            self.0.tell();
        }
        if done && ending {
            self.0.wake.notify_one();
        }
    }
}
