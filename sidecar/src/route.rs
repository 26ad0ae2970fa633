//! Which session goes where: the sessions of this sidecar, and the lanes that clients ask for.

mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_types::{Reason, SessionName};
use tokio::sync::{mpsc, watch};

use crate::context::Context;
use crate::desired::{Direction, Session, SessionKey};
use crate::handoff::{LaneError, LaneRequest};
use crate::session::incoming::Receiving;
use crate::session::incoming::traffic::FindSession;
use crate::session::outgoing::Sending;
use crate::session::readiness::{Observed, Readiness};

/// One side of one session.
#[derive(Debug, Clone)]
enum Side {
    Sending(Arc<Sending>),
    Receiving(Arc<Receiving>),
}

/// A session and the object that declared it.
#[derive(Debug)]
struct Entry {
    uid: String,
    side: Side,
}

#[derive(Debug)]
struct Resting {
    uid: String,
    receiving: Arc<Receiving>,
}

#[derive(Debug, Default)]
struct Inner {
    sessions: BTreeMap<SessionKey, Entry>,
    suspended: BTreeSet<SessionKey>,
    /// Receiving sides of suspended sessions, which know what was delivered.
    resting: BTreeMap<SessionKey, Resting>,
    /// Whether any configuration arrived.
    configured: bool,
}

/// Holds the sessions of this sidecar.
#[derive(Debug)]
pub(crate) struct Router {
    context: Arc<Context>,
    inner: Mutex<Inner>,
    /// Grows when the set of sessions changes.
    changes: watch::Sender<u64>,
}

impl Router {
    /// Starts routing lane requests and watching the policy.
    pub(crate) fn start(context: Arc<Context>, requests: mpsc::Receiver<LaneRequest>) -> Arc<Self> {
        let router =
            Arc::new(Self { context, inner: Mutex::new(Inner::default()), changes: watch::Sender::new(0) });
        tokio::spawn(request::serve(Arc::clone(&router), requests));
        tokio::spawn(Arc::clone(&router).watch_policy());
        router
    }

    /// Follows the configured sessions.
    pub(crate) fn apply(&self, sessions: &[Session]) {
        let mut inner = self.lock();
        inner.configured = true;
        let wanted = |key: &SessionKey| {
            sessions
                .iter()
                .find(|session| session.key() == *key && !session.suspend)
                .map(|session| &session.uid)
        };
        let suspended: BTreeSet<_> =
            sessions.iter().filter(|session| session.suspend).map(Session::key).collect();
        let Inner { sessions: running, resting, .. } = &mut *inner;
        running.retain(|key, entry| {
            let keep = wanted(key) == Some(&entry.uid);
            if !keep {
                resting.extend(entry.end(key, suspended.contains(key)));
            }
            keep
        });
        let declared = |key: &SessionKey, uid: &String| {
            sessions.iter().any(|session| session.key() == *key && session.uid == *uid)
        };
        resting.retain(|key, entry| declared(key, &entry.uid));
        inner.suspended = suspended;
        for session in sessions.iter().filter(|session| !session.suspend) {
            match inner.sessions.get(&session.key()).map(|entry| &entry.side) {
                Some(Side::Sending(sending)) => sending.update(session.clone()),
                Some(Side::Receiving(receiving)) => receiving.update(session.clone()),
                None => {
                    let rested = inner.resting.remove(&session.key());
                    let side = match rested {
                        Some(Resting { receiving, .. }) => {
                            receiving.resume(session.clone());
                            Side::Receiving(receiving)
                        }
                        None => Side::start(&self.context, session.clone()),
                    };
                    inner.sessions.insert(session.key(), Entry { uid: session.uid.clone(), side });
                }
            }
        }
        drop(inner);
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
        self.context.changed.notify_one();
    }

    /// Ends every session.
    pub(crate) fn close(&self, reason: Reason, message: &str) {
        for entry in self.lock().sessions.values() {
            match &entry.side {
                Side::Sending(sending) => sending.close(reason, message),
                Side::Receiving(receiving) => receiving.close(reason, message),
            }
        }
    }

    /// Whether no sending lane has anything left to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().sessions.values().all(|entry| match &entry.side {
            Side::Sending(sending) => sending.is_idle(),
            Side::Receiving(_) => true,
        })
    }

    pub(crate) fn observe(&self) -> Vec<Observed> {
        let inner = self.lock();
        let observe = |entry: &Entry| match &entry.side {
            Side::Sending(sending) => sending.observe(),
            Side::Receiving(receiving) => receiving.observe(),
        };
        inner.sessions.values().map(observe).collect()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn side(&self, key: &SessionKey) -> Result<Side, Readiness> {
        let inner = self.lock();
        if let Some(entry) = inner.sessions.get(key) {
            return Ok(entry.side.clone());
        }
        let SessionKey { name, direction } = key;
        if inner.suspended.contains(key) {
            let message = format!("the TransferSession `{name}` is suspended");
            return Err(Readiness::waiting(Reason::SessionSuspended, message));
        }
        if !inner.configured {
            let message = "the sidecar has no configuration yet; is the operator running?";
            return Err(Readiness::waiting(Reason::NotConfigured, message));
        }
        let other = match direction {
            Direction::Sending => Direction::Receiving,
            Direction::Receiving => Direction::Sending,
        };
        if inner.sessions.contains_key(&SessionKey { name: name.clone(), direction: other }) {
            let message = format!("this pod is on the other side of the TransferSession `{name}`");
            return Err(Readiness::refused(Reason::SessionNotInPolicy, message));
        }
        let message = format!("no TransferSession `{name}` names this pod's Peer");
        Err(Readiness::waiting(Reason::SessionUnknown, message))
    }

    /// Fails lanes at once when the policy stops permitting their session. Connections see to themselves.
    async fn watch_policy(self: Arc<Self>) {
        let mut standing = self.context.policy.subscribe();
        while standing.changed().await.is_ok() {
            for entry in self.lock().sessions.values() {
                let forbidden = match &entry.side {
                    Side::Sending(sending) => sending.forbidden(),
                    Side::Receiving(receiving) => receiving.forbidden(),
                };
                let Some(Readiness::Refused { reason, message }) = forbidden else { continue };
                let error = LaneError::refused(reason, message);
                match &entry.side {
                    Side::Sending(sending) => sending.refuse(&error),
                    Side::Receiving(receiving) => receiving.refuse(&error),
                }
            }
            self.context.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FindSession for Router {
    fn receiving(&self, name: &SessionName) -> Option<Arc<Receiving>> {
        let key = SessionKey { name: name.clone(), direction: Direction::Receiving };
        match &self.lock().sessions.get(&key)?.side {
            Side::Receiving(receiving) => Some(Arc::clone(receiving)),
            Side::Sending(_) => None,
        }
    }
}

impl Entry {
    /// Ends it; a receiving side may only rest.
    fn end(&self, key: &SessionKey, suspended: bool) -> Option<(SessionKey, Resting)> {
        let name = &key.name;
        let (reason, message) = if suspended {
            (Reason::SessionSuspended, format!("the TransferSession `{name}` was suspended"))
        } else {
            (Reason::SessionDeleted, format!("the TransferSession `{name}` was deleted"))
        };
        match &self.side {
            Side::Sending(sending) => sending.close(reason, &message),
            Side::Receiving(receiving) if suspended => {
                receiving.suspend(&message);
                let resting = Resting { uid: self.uid.clone(), receiving: Arc::clone(receiving) };
                return Some((key.clone(), resting));
            }
            Side::Receiving(receiving) => receiving.close(reason, &message),
        }
        None
    }
}

impl Side {
    fn start(context: &Arc<Context>, session: Session) -> Self {
        match session.direction {
            Direction::Sending => Self::Sending(Sending::start(Arc::clone(context), session)),
            Direction::Receiving => Self::Receiving(Receiving::start(Arc::clone(context), session)),
        }
    }

    fn readiness(&self) -> Readiness {
        match self {
            Self::Sending(sending) => sending.readiness(),
            Self::Receiving(receiving) => receiving.readiness(),
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        match self {
            Self::Sending(sending) => sending.changes(),
            Self::Receiving(receiving) => receiving.changes(),
        }
    }
}
