//! The `to` side of a forward: reaches the server for TCP connections that attested replicas bring.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealane_attestation::binding::Role;
use sealane_policy::Flow;
use sealane_protocol::connection::{Connection, Sink};
use sealane_protocol::frame::Frame;
use sealane_protocol::handshake::Suite;
use sealane_protocol::record::Rekey;
use sealane_types::{PeerName, Reason};
use tokio::sync::Notify;

use super::address::Address;
use super::pipes::Pipes;
use super::ports::Claim;
use super::tally::Tally;
use crate::context::Context;
use crate::desired::{Forward, Session, SessionKey, TransportChoice};
use crate::session::arrival::{Arrival, Connected, SenderKey};
use crate::session::carried::carried;
use crate::session::inbound::{Accepted, Accepting};
use crate::session::permission;
use crate::session::readiness::{Observed, Readiness};
use crate::session::stop::Stop;

/// Replicas that are connected to one session.
const CONNECTIONS_MAX: usize = 256;

/// The serving side of one forward.
#[derive(Debug)]
pub(crate) struct Serving {
    context: Arc<Context>,
    key: SessionKey,
    forward: Forward,
    tally: Arc<Tally>,
    /// Held until the last connection is gone: until then the target may be reached.
    _claim: Option<Claim>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    session: Session,
    connections: BTreeMap<SenderKey, Link>,
    /// Names connections.
    numbers: u64,
    /// Nothing new is accepted, and connections that carry nothing end.
    draining: bool,
    over: bool,
}

/// The connection of a replica.
#[derive(Debug)]
struct Link {
    number: u64,
    peer: PeerName,
    known: Option<Connected>,
    degraded: Vec<Reason>,
    stop: Stop,
    wake: Arc<Notify>,
}

impl Serving {
    pub(crate) fn start(context: Arc<Context>, session: Session, forward: Forward) -> Arc<Self> {
        context.forward.prepare();
        let key = session.key();
        Arc::new(Self {
            tally: Tally::new(&key, &context),
            _claim: context.forward.serve(forward),
            context,
            key,
            forward,
            inner: Mutex::new(Inner {
                session,
                connections: BTreeMap::new(),
                numbers: 0,
                draining: false,
                over: false,
            }),
        })
    }

    pub(crate) fn update(&self, session: Session) {
        let mut inner = self.lock();
        for link in inner.connections.values() {
            if !session.remotes.iter().any(|remote| remote.peer == link.peer) {
                link.stop.ask(Reason::SessionDeleted);
            }
        }
        inner.session = session;
    }

    /// Ends the session: its connections are closed and what they carry is reset.
    pub(crate) fn close(&self, reason: Reason) {
        let mut inner = self.lock();
        inner.over = true;
        for link in inner.connections.values() {
            link.stop.ask(reason);
        }
        drop(inner);
        self.context.changed.notify_one();
    }

    /// Accepts no more; what is carried may finish.
    pub(crate) fn drain(&self) {
        let mut inner = self.lock();
        inner.draining = true;
        inner.connections.values().for_each(|link| link.wake.notify_one());
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.tally.is_idle()
    }

    /// Why the policy forbids this session, if it does.
    pub(crate) fn forbidden(&self) -> Option<Readiness> {
        let session = self.lock().session.clone();
        permission::forbidden(&self.context, &session)
    }

    pub(crate) fn observe(&self) -> Observed {
        let forbidden = self.forbidden().and_then(Readiness::problem);
        let reserved = || self.target_address().err();
        let inner = self.lock();
        let known: Vec<Connected> = inner.connections.values().filter_map(|link| link.known).collect();
        let mut handshakes: Vec<Duration> = known.iter().map(|known| known.handshake).collect();
        handshakes.sort_unstable();
        let median = handshakes.get(handshakes.len() / 2).map_or(0, Duration::as_micros);
        let suite = known.first().map(|known| known.suite);
        let listed: usize = inner.session.remotes.iter().map(|remote| remote.replicas.len()).sum();
        let nobody = || {
            let peers = inner.session.remotes.iter().map(|remote| remote.peer.as_str());
            let message =
                format!("no replica of Peer `{}` has connected yet", peers.collect::<Vec<_>>().join("`, `"));
            known.is_empty().then_some((Reason::NoReplicas, message))
        };
        Observed {
            key: self.key.clone(),
            uid: inner.session.uid.clone(),
            connections: u32::try_from(known.len()).unwrap_or(u32::MAX),
            connections_desired: u32::try_from(listed.max(known.len())).unwrap_or(u32::MAX),
            bytes: self.tally.bytes(),
            tensors: 0,
            forwarded: self.tally.forwarded(),
            carried: carried(known.iter().map(|one| one.carried), &inner.session),
            cipher: suite.map(|suite| suite.cipher),
            post_quantum: suite.is_some_and(Suite::post_quantum),
            handshake_micros: u64::try_from(median).unwrap_or(u64::MAX),
            ended: false,
            problem: forbidden.or_else(reserved).or_else(|| self.tally.problem()).or_else(nobody),
            degraded: inner.connections.values().flat_map(|link| link.degraded.clone()).collect(),
        }
    }

    /// Where a TCP connection that `peer` brings goes. Nothing of it comes from the wire, and the signed policy has the
    /// last word on the port.
    fn target(&self, peer: &PeerName) -> Result<Address, Reason> {
        let own = self.context.own_peer().ok_or(Reason::NotConfigured)?;
        self.lock().takes(peer)?;
        let standing = self.context.policy.standing();
        let flow = Flow::Forward { target: Some(self.forward.target) };
        let permitted = standing.held()?.policy.permits(&self.key.name, peer, &own, flow);
        permitted.map_err(|error| error.reason())?;
        self.target_address().map_err(|(reason, _)| reason)
    }

    fn target_address(&self) -> Result<Address, (Reason, String)> {
        let address = self.context.forward.target(&self.key.name, self.forward);
        address.map_err(|problem| (Reason::PortReserved, problem.to_string()))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Whether a replica of `peer` may connect, and its TCP connections are taken; a connection that has not heard of the end
    /// yet asks as well.
    fn takes(&self, peer: &PeerName) -> Result<(), Reason> {
        let is_listed = self.session.remotes.iter().any(|remote| remote.peer == *peer);
        match self {
            Self { over: true, .. } => Err(Reason::SessionDeleted),
            Self { draining: true, .. } => Err(Reason::Draining),
            _ if !is_listed => Err(Reason::SessionUnknown),
            _ => Ok(()),
        }
    }
}

impl Accepting for Serving {
    fn expects(&self, peer: &PeerName) -> bool {
        self.lock().takes(peer).is_ok()
    }

    fn flow(&self) -> Flow {
        Flow::Forward { target: Some(self.forward.target) }
    }

    fn transport(&self) -> TransportChoice {
        self.lock().session.transport()
    }

    fn rekey(&self) -> Rekey {
        self.lock().session.rekey.into()
    }

    fn attach(self: Arc<Self>, arrival: Arrival, wake: Arc<Notify>) -> Result<Box<dyn Accepted>, Reason> {
        let key = arrival.sender();
        let Arrival { peer, degraded, stop, .. } = arrival;
        let mut inner = self.lock();
        // Under the lock that ends the session, so that no connection outlives it.
        inner.takes(&peer)?;
        // One that comes again takes its own place.
        if inner.connections.len() >= CONNECTIONS_MAX && !inner.connections.contains_key(&key) {
            return Err(Reason::LimitExceeded);
        }
        inner.numbers += 1;
        let number = inner.numbers;
        let link = Link { number, peer: peer.clone(), known: None, degraded, stop, wake: Arc::clone(&wake) };
        if let Some(older) = inner.connections.insert(key.clone(), link) {
            // A replica has one connection at a time: what the older one carries is lost to it.
            older.stop.ask(Reason::LinkLost);
        }
        drop(inner);
        let (premises, tally) = (Arc::clone(&self.context.forward), Arc::clone(&self.tally));
        let pipes = Pipes::new(Role::Responder, premises, tally, wake);
        Ok(Box::new(Attached { serving: self, key, number, pipes }))
    }
}

/// TCP connections that one replica brings.
struct Attached {
    serving: Arc<Serving>,
    key: SenderKey,
    number: u64,
    pipes: Pipes,
}

impl Sink for Attached {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        match frame {
            Frame::PipeOpen(id) => self.pipes.on_open(id, self.serving.target(&self.key.peer)),
            frame => self.pipes.on_frame(frame),
        }
    }
}

impl Accepted for Attached {
    fn established(&mut self, known: Connected) {
        if let Some(link) = self.serving.lock().connections.get_mut(&self.key)
            && link.number == self.number
        {
            link.known = Some(known);
        }
        self.serving.context.changed.notify_one();
    }

    fn degraded(&mut self, reasons: &[Reason]) {
        if let Some(link) = self.serving.lock().connections.get_mut(&self.key)
            && link.number == self.number
        {
            link.degraded = reasons.to_vec();
        }
    }

    fn fill(&mut self, connection: &mut Connection) -> Result<(), Reason> {
        self.pipes.fill(connection)?;
        if self.pipes.is_empty() && self.serving.lock().draining { Err(Reason::Draining) } else { Ok(()) }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut inner = self.serving.lock();
        if inner.connections.get(&self.key).is_some_and(|link| link.number == self.number) {
            inner.connections.remove(&self.key);
        }
        drop(inner);
        self.serving.context.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use sealane_types::PodIdentity;
    use serde_json::json;

    use super::*;
    use crate::context::tests::context;
    use crate::desired::tests::served;
    use crate::desired::{Listing, Remote};

    fn serving(peer: Option<&str>) -> Arc<Serving> {
        let (session, forward) = served();
        Serving::start(Arc::new(context(peer)), session, forward)
    }

    fn arrival(peer: &str) -> Arrival {
        arrival_of(peer, 0)
    }

    fn arrival_of(peer: &str, ordinal: usize) -> Arrival {
        let pod = PodIdentity::new("demo", &format!("embedder-{ordinal}"), "e").unwrap();
        Arrival { peer: peer.parse().unwrap(), pod, degraded: vec![], stop: Stop::default() }
    }

    /// Puts a policy in force under which embedders reach these ports of rankers.
    fn permit(context: &Context, epoch: u64, targets: &[u16]) {
        let peer = |key: &str| json!({"entries": [{"kind": "Key", "publicKeys": [key.repeat(32)]}]});
        let peers = json!({"embedder": peer("0a"), "ranker": peer("0b")});
        let sessions = json!([{"from": "embedder", "to": "ranker", "forward": {"targets": targets}}]);
        crate::context::tests::permit(context, epoch, &peers, &sessions);
    }

    #[tokio::test]
    async fn every_connection_is_asked_of_the_policy_of_its_moment() {
        let embedder = "embedder".parse().unwrap();
        let serving_ranker = serving(Some("ranker"));
        assert_eq!(serving_ranker.target(&embedder), Err(Reason::PolicyMissing));
        assert_eq!(serving(None).target(&embedder), Err(Reason::NotConfigured));
        let target = serving_ranker.forward.target;
        permit(&serving_ranker.context, 1, &[target.number()]);
        assert_eq!(serving_ranker.target(&embedder), Ok(Address::Port(target)));
        permit(&serving_ranker.context, 2, &[target.number() + 1]);
        assert_eq!(serving_ranker.target(&embedder), Err(Reason::SessionNotInPolicy));
    }

    #[tokio::test]
    async fn no_connection_joins_a_forward_that_is_over_draining_or_for_others() {
        let joins = |serving: &Arc<Serving>, peer| {
            Arc::clone(serving).attach(arrival(peer), Arc::default()).map(drop)
        };
        let serving = || serving(Some("ranker"));
        assert_eq!(joins(&serving(), "embedder"), Ok(()));
        assert_eq!(joins(&serving(), "trainer"), Err(Reason::SessionUnknown));
        let over = serving();
        over.close(Reason::SessionDeleted);
        assert_eq!(joins(&over, "embedder"), Err(Reason::SessionDeleted));
        let draining = serving();
        draining.drain();
        assert_eq!(joins(&draining, "embedder"), Err(Reason::Draining));
    }

    #[tokio::test]
    async fn no_tcp_connection_is_taken_when_the_session_is_over_or_another_s() {
        let embedder = "embedder".parse().unwrap();
        let over = serving(Some("ranker"));
        over.close(Reason::SessionDeleted);
        assert_eq!(over.target(&embedder), Err(Reason::SessionDeleted));
        let changed = serving(Some("ranker"));
        let session = changed.lock().session.clone();
        let remotes =
            vec![Remote { peer: "trainer".parse().unwrap(), replicas: vec![], listing: Listing::Whole }];
        changed.update(Session { remotes, ..session });
        assert_eq!(changed.target(&embedder), Err(Reason::SessionUnknown));
    }

    #[tokio::test]
    async fn so_many_replicas_are_connected_and_those_may_come_again() {
        let serving = serving(Some("ranker"));
        let attach = |ordinal| Arc::clone(&serving).attach(arrival_of("embedder", ordinal), Arc::default());
        let mut there: Vec<_> = (0..CONNECTIONS_MAX).map(|ordinal| attach(ordinal).unwrap()).collect();
        assert_eq!(attach(CONNECTIONS_MAX).map(drop), Err(Reason::LimitExceeded));
        there.push(attach(7).unwrap());
        there.swap_remove(0);
        assert_eq!(attach(CONNECTIONS_MAX).map(drop), Ok(()));
    }

    #[tokio::test]
    async fn a_port_that_this_process_listens_on_is_no_target() {
        let serving = serving(Some("ranker"));
        let premises = &serving.context.forward;
        assert_eq!(
            premises.listen(&Address::Port(serving.forward.target)).unwrap_err().to_string(),
            "a forward of this pod leads to port 8001; listen on another, so that no forward leads into one"
        );
        assert!(serving.target_address().is_ok());
    }

    #[tokio::test]
    async fn a_replica_that_comes_again_replaces_itself() {
        let serving = serving(Some("ranker"));
        let (first, second) = (arrival("embedder"), arrival("embedder"));
        let (stop, newer) = (first.stop.clone(), second.stop.clone());
        let older = Arc::clone(&serving).attach(first, Arc::default()).unwrap();
        let _second = Arc::clone(&serving).attach(second, Arc::default()).unwrap();
        assert_eq!(stop.reason(), Some(Reason::LinkLost));
        drop(older);
        serving.close(Reason::SessionDeleted);
        assert_eq!(newer.reason(), Some(Reason::SessionDeleted), "the older one's end is not its own");
    }
}
