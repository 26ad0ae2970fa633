//! Which session goes where: the sessions of this sidecar, and the lanes that clients ask for.

mod listing;
mod request;
mod side;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_types::{Reason, SessionName};
use tokio::sync::{mpsc, watch};

use self::side::{Side, Stream};
use crate::context::Context;
use crate::desired::{Direction, Session, SessionKey};
use crate::handoff::{LaneError, LaneRequest, SessionKind};
use crate::session::inbound::{Accepting, FindSession};
use crate::session::incoming::Receiving;
use crate::session::readiness::{Observed, Readiness};

/// A session as it was declared last.
#[derive(Debug)]
struct Entry {
    declared: Session,
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
    suspended: BTreeMap<SessionKey, SessionKind>,
    /// Receiving sides of suspended sessions, which know what was delivered.
    resting: BTreeMap<SessionKey, Resting>,
    /// Whether any configuration arrived.
    configured: bool,
    /// What starts takes nothing on.
    draining: bool,
}

/// Sessions that run, and those that are suspended.
type Declared = (Vec<(SessionKey, Side)>, Vec<(SessionKey, SessionKind)>);

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
        let wanted =
            |key: &SessionKey| sessions.iter().find(|session| session.key() == *key && !session.suspend);
        let suspended: BTreeMap<_, _> = sessions
            .iter()
            .filter(|session| session.suspend)
            .map(|session| (session.key(), listing::kind(session)))
            .collect();
        let Inner { sessions: running, resting, .. } = &mut *inner;
        running.retain(|key, entry| {
            let keep = wanted(key).is_some_and(|session| entry.declared.continues_as(session));
            if !keep {
                resting.extend(entry.end(key, suspended.contains_key(key)));
            }
            keep
        });
        let declared = |key: &SessionKey, uid: &String| {
            sessions.iter().any(|session| session.key() == *key && session.uid == *uid)
        };
        resting.retain(|key, entry| declared(key, &entry.uid));
        inner.suspended = suspended;
        for session in sessions.iter().filter(|session| !session.suspend) {
            if let Some(entry) = inner.sessions.get_mut(&session.key()) {
                entry.declared = session.clone();
                entry.side.update(session.clone());
                continue;
            }
            let side = match inner.resting.remove(&session.key()) {
                Some(Resting { receiving, .. }) => {
                    receiving.resume(session.clone());
                    Side::Receiving(receiving)
                }
                None => Side::start(&self.context, session.clone()),
            };
            if inner.draining {
                side.drain();
            }
            inner.sessions.insert(session.key(), Entry { declared: session.clone(), side });
        }
        drop(inner);
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
        self.context.changed.notify_one();
    }

    /// Ends every session.
    pub(crate) fn close(&self, reason: Reason, message: &str) {
        self.lock().sessions.values().for_each(|entry| entry.side.close(reason, message));
    }

    /// Takes nothing new on while what there is finishes.
    pub(crate) fn drain(&self) {
        let mut inner = self.lock();
        inner.draining = true;
        inner.sessions.values().for_each(|entry| entry.side.drain());
    }

    /// Whether no session has anything left to finish.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().sessions.values().all(|entry| entry.side.is_idle())
    }

    /// Ends receiving lanes, whose clients may still take what they were given. Connections stay to tell senders of it.
    pub(crate) fn stop_receiving(&self, error: &LaneError) {
        self.lock().sessions.values().for_each(|entry| entry.side.stop_receiving(error));
    }

    /// Whether no remote waits to hear what became of a tensor that arrived here.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.lock().sessions.values().all(|entry| entry.side.is_acknowledged())
    }

    pub(crate) fn observe(&self) -> Vec<Observed> {
        let observe = |entry: &Entry| {
            let mut observed = entry.side.observe();
            observed.degraded.extend(observed.carried.degraded());
            observed
        };
        self.lock().sessions.values().map(observe).collect()
    }

    /// What runs, and what is suspended.
    fn declared(&self) -> Declared {
        let inner = self.lock();
        let running = inner.sessions.iter().map(|(key, entry)| (key.clone(), entry.side.clone())).collect();
        (running, inner.suspended.iter().map(|(key, kind)| (key.clone(), *kind)).collect())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn stream(&self, key: &SessionKey) -> Result<Stream, Readiness> {
        let inner = self.lock();
        if let Some(entry) = inner.sessions.get(key) {
            return entry.side.stream();
        }
        let SessionKey { name, direction } = key;
        if inner.suspended.contains_key(key) {
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
            self.lock().sessions.values().for_each(|entry| entry.side.reconsider());
            self.context.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FindSession for Router {
    fn accepting(&self, name: &SessionName) -> Option<Arc<dyn Accepting>> {
        let key = SessionKey { name: name.clone(), direction: Direction::Receiving };
        self.lock().sessions.get(&key)?.side.accepting()
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
            Side::Receiving(receiving) if suspended => {
                receiving.suspend(&message);
                let resting = Resting { uid: self.declared.uid.clone(), receiving: Arc::clone(receiving) };
                Some((key.clone(), resting))
            }
            side => {
                side.close(reason, &message);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::tests::context;
    use crate::desired::tests::served;

    fn forward() -> Session {
        served().0
    }

    #[tokio::test]
    async fn what_starts_while_draining_takes_nothing_on() {
        for draining in [false, true] {
            let router = Router::start(Arc::new(context(Some("ranker"))), mpsc::channel(1).1);
            if draining {
                router.drain();
            }
            router.apply(&[forward()]);
            let side = router.accepting(&forward().name).unwrap();
            assert_eq!(side.expects(&"embedder".parse().unwrap()), !draining);
        }
    }
}
