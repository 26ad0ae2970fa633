//! Keeps one replica connected: dials, runs the connection, waits, dials again.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sealane_policy::{Flow, VerifiedPolicy};
use sealane_protocol::Moment;
use sealane_protocol::connection::{ClosedBy, Connection, Introduction, Setup, StartError};
use sealane_protocol::handshake::Kind;
use sealane_protocol::ticket::Ticket;
use sealane_types::{Carrier, PeerName, Reason, SessionName};
use tokio::sync::Notify;

use super::course::Course;
use super::driver::{Ended, drive};
use super::permission;
use super::stop::Stop;
use super::tickets::{Dialled, Turn};
use super::traffic::Traffic;
use super::wire::{Datagrams, Source, Stream, Wire};
use crate::context::{Context, SystemRandom, Wish};
use crate::desired::{Session, TransportChoice};
use crate::link::tcp::dial;
use crate::link::udp::Socket;
use crate::policy::Standing;

/// First wait after a connection that did not come about or broke.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// A connection that lived this long was worth having: the next attempt comes soon.
const LIVED_MICROS_MIN: u64 = 2_000_000;
/// Longest wait between attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// How long TCP may take to answer where UDP does not.
const WITNESS: Duration = Duration::from_secs(3);

/// One replica of one session, to be kept connected.
pub(crate) trait Keep: Send + Sync + 'static {
    fn peer(&self) -> &PeerName;

    /// Of the replica in the configuration.
    fn id(&self) -> &str;

    fn addresses(&self) -> Vec<SocketAddr>;

    /// The configuration does not list it any more: once it is not connected, it is over.
    fn is_leaving(&self) -> bool;

    /// Told when it has other addresses, or is leaving.
    fn moved(&self) -> &Notify;

    /// What it is connected for; None when that is gone.
    fn session(&self) -> Option<Session>;

    /// What the next connection carries; None when what it is for is gone.
    fn traffic(&self, purpose: Purpose) -> Option<Box<dyn Traffic>>;

    /// The connection is over, or none came about.
    fn detach(&self, problem: (Reason, String));

    /// Nobody keeps it connected any more.
    fn end(&self);
}

/// What a connection is dialled for.
#[derive(Debug)]
pub(crate) struct Purpose {
    session: SessionName,
    flow: Flow,
    transport: TransportChoice,
    /// This pod's Peer when the connection was dialled.
    own: PeerName,
    remote: PeerName,
    namespace: String,
    /// `pod/uid`, where the configuration names a pod.
    replica: Option<String>,
}

impl Purpose {
    /// Whether it was the one that was meant who answered, as far as it says.
    pub(crate) fn is_met_by(&self, introduction: &Introduction) -> Result<(), Reason> {
        let same = introduction.peer == self.remote
            && introduction.session == self.session
            && introduction.pod.namespace() == self.namespace
            // An address may have become another pod's.
            && self.replica.as_ref().is_none_or(|id| {
                id.split_once('/') == Some((introduction.pod.pod(), introduction.pod.uid()))
            });
        if same { Ok(()) } else { Err(Reason::PeerUnknown) }
    }

    /// What it was dialled by.
    pub(crate) const fn transport(&self) -> TransportChoice {
        self.transport
    }

    /// Whether `policy` permits it.
    pub(crate) fn permitted(&self, policy: &VerifiedPolicy) -> Result<(), Reason> {
        let Self { session, flow, own, remote, .. } = self;
        policy.permits(session, own, remote, *flow).map_err(|error| error.reason())
    }
}

/// Starts the task that keeps a replica connected until it leaves or `stop` says so.
pub(crate) fn start(context: Arc<Context>, kept: impl Keep, stop: Stop) {
    let dialer = Dialer { context, kept, stop, backoff: BACKOFF_MIN, attempts: 0 };
    tokio::spawn(dialer.run());
}

/// The other end, before a connection begins.
enum Reached {
    Stream(Stream),
    Datagrams(Source, SocketAddr),
}

struct Dialer<K> {
    context: Arc<Context>,
    kept: K,
    stop: Stop,
    backoff: Duration,
    attempts: usize,
}

/// One connection that is over, and whether another carrier could have stood in for its.
struct Tried {
    ended: Ended,
    yields: bool,
}

impl Tried {
    /// Whether nobody was heard over a carrier that gives way, or what was heard made no handshake in time: a network may let
    /// small datagrams pass and large ones not.
    fn led_nowhere(&self) -> bool {
        let Ended { by, reason, established, heard } = self.ended;
        let is_silent = by == ClosedBy::Cut && !heard;
        let is_stuck = by == ClosedBy::Local && reason == Reason::HandshakeTimeout;
        self.yields && !established && (is_silent || is_stuck)
    }
}

impl<K: Keep> Dialer<K> {
    async fn run(mut self) {
        let mut standing = self.context.policy.subscribe();
        while !self.is_over() {
            // Until one came there is nothing to dial under, and nothing that a client should be refused for.
            let awaited = matches!(
                *standing.borrow_and_update(),
                Standing::Closed { reason: Reason::PolicyMissing, .. }
            );
            if awaited {
                tokio::select! {
                    () = self.kept.moved().notified() => {}
                    changed = standing.changed() => if changed.is_err() { break },
                    _ = self.stop.asked() => break,
                }
                continue;
            }
            let began = self.context.clock.moment();
            let problem = match self.attempt().await {
                Ok(ended) => {
                    let lived = self.context.clock.moment().micros_since(began);
                    if ended.established && lived > LIVED_MICROS_MIN {
                        self.backoff = BACKOFF_MIN;
                    }
                    (ended.reason, describe(&ended))
                }
                Err(problem) => problem,
            };
            let peer = self.kept.peer();
            let session = self.kept.session().map(|session| session.name.to_string());
            tracing::info!(session, %peer, replica = self.kept.id(), reason = %problem.0, "not connected: {}", problem.1);
            self.context.externals.miss(peer, problem.0, &problem.1);
            self.kept.detach(problem);
            self.context.changed.notify_one();
            if self.is_over() {
                break;
            }
            let wait = jittered(self.backoff);
            self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.kept.moved().notified() => {}
                // A policy that has just changed is the likeliest reason to try at once.
                changed = standing.changed() => if changed.is_err() { break },
                _ = self.stop.asked() => break,
            }
        }
        self.kept.end();
        self.context.changed.notify_one();
    }

    /// Whether there is nothing left to keep connected. A leaving replica that is not connected will not come back.
    fn is_over(&self) -> bool {
        self.stop.reason().is_some() || self.kept.is_leaving() || self.kept.session().is_none()
    }

    /// One connection. A carrier over which none comes about, although somebody is there, gives way to the one that can stand
    /// in for it.
    async fn attempt(&mut self) -> Result<Ended, (Reason, String)> {
        let replica = Dialled { peer: self.kept.peer().clone(), id: self.kept.id().to_owned() };
        loop {
            let tried = self.attempt_once(&replica).await?;
            if !tried.led_nowhere() || self.is_over() || !self.answers_over_tcp().await {
                if tried.yields {
                    self.context.silences.end(&replica);
                }
                return Ok(tried.ended);
            }
            self.context.silences.go_on(&replica, self.context.clock.moment());
            tracing::info!(peer = %replica.peer, replica = replica.id, "nothing answers over UDP, and something does over TCP");
        }
    }

    /// Whether somebody is there at all.
    async fn answers_over_tcp(&self) -> bool {
        let addresses = self.kept.addresses();
        tokio::select! {
            dialled = tokio::time::timeout(WITNESS, dial(&addresses)) => matches!(dialled, Ok(Ok(_))),
            _ = self.stop.asked() => false,
        }
    }

    /// As [`Self::attempt`], by one carrier. A ticket that leads nowhere costs no wait: whoever restarted meanwhile has
    /// forgotten it, and a full handshake follows at once.
    async fn attempt_once(&mut self, replica: &Dialled) -> Result<Tried, (Reason, String)> {
        self.attempts = self.attempts.wrapping_add(1);
        let mut turn = self.turn(replica).await?;
        if turn.has_ticket() {
            let tried = self.connect(replica, turn, true).await?;
            let Ended { reason, established, heard, .. } = tried.ended;
            // Silence says nothing about the ticket.
            if established || !heard || self.is_over() {
                return Ok(tried);
            }
            tracing::debug!(peer = %replica.peer, replica = replica.id, %reason, "a ticket led nowhere");
            self.context.tickets.forget(replica);
            turn = self.turn(replica).await?;
        }
        self.connect(replica, turn, false).await
    }

    async fn turn(&self, replica: &Dialled) -> Result<Turn, (Reason, String)> {
        tokio::select! {
            turn = self.context.tickets.turn(replica, &self.context.clock) => Ok(turn),
            _ = self.stop.asked() => Err(over()),
        }
    }

    async fn connect(
        &self,
        replica: &Dialled,
        mut turn: Turn,
        resume: bool,
    ) -> Result<Tried, (Reason, String)> {
        let (setup, purpose, course) = self.setup(replica)?;
        let dialled = self.reach(course).await;
        // Nothing is known of a remote over datagrams until it was heard.
        let silent = matches!(dialled, Ok(Reached::Datagrams(..)));
        if !silent {
            self.context.metrics.handshakes.dialled(dialled.is_ok());
        }
        let reached =
            dialled.map_err(|error| (Reason::Unreachable, format!("it cannot be reached: {error}")))?;
        let ticket = if resume { turn.ticket() } else { None };
        let (wire, connection) = self
            .begin(setup, ticket, reached, course)
            .map_err(|error| (Reason::SuiteRefused, error.to_string()))?;
        let mut traffic = self.kept.traffic(purpose).ok_or_else(over)?;
        self.context.changed.notify_one();
        let ended =
            drive(&self.context, wire, connection, &mut *traffic, Some(turn), self.stop.clone()).await;
        // One that was heard was counted when it was.
        if silent && !ended.heard {
            self.context.metrics.handshakes.dialled(false);
        }
        Ok(Tried { ended, yields: course.yields })
    }

    /// Dials. Datagrams need no answer before the handshake: an address that gives none is followed by the next one in the
    /// next attempt.
    async fn reach(&self, course: Course) -> io::Result<Reached> {
        let addresses = self.kept.addresses();
        match course.carrier {
            Carrier::Tcp => {
                dial(&addresses).await.map(|link| Reached::Stream(Stream::new(link, course.instead)))
            }
            Carrier::Udp | Carrier::AfXdp => {
                let turn = self.attempts.wrapping_sub(1).checked_rem(addresses.len());
                let remote = turn.and_then(|turn| addresses.get(turn)).copied();
                let remote = remote
                    .ok_or_else(|| io::Error::new(io::ErrorKind::AddrNotAvailable, "no address is known"))?;
                let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
                let past_kernel = course.carrier == Carrier::AfXdp && self.context.endpoint.device().is_ok();
                let source = if past_kernel {
                    Source::Shared(Arc::clone(&self.context.endpoint))
                } else {
                    Source::Own(Socket::towards(remote)?)
                };
                Ok(Reached::Datagrams(source, remote))
            }
        }
    }

    /// Out here, because an async function keeps room for what it has lent out once, for as long as it runs.
    fn begin(
        &self,
        setup: Setup,
        ticket: Option<Ticket>,
        reached: Reached,
        course: Course,
    ) -> Result<(Wire, Connection), StartError> {
        let now = self.context.clock.moment();
        let connection = self.first_words(setup, ticket, now)?;
        Ok(match reached {
            Reached::Stream(stream) => (Wire::Stream(stream), connection),
            Reached::Datagrams(source, remote) => {
                let mut connection = connection.over_datagrams();
                let patience = course.patience(now);
                let datagrams = Datagrams::dialling(source, remote, &mut connection, now, patience)?;
                (Wire::Datagrams(Box::new(datagrams)), connection)
            }
        })
    }

    fn first_words(
        &self,
        setup: Setup,
        ticket: Option<Ticket>,
        now: Moment,
    ) -> Result<Connection, StartError> {
        if let Some(ticket) = ticket
            && let Ok(connection) = Connection::resume(setup.clone(), ticket, &mut SystemRandom, now)
        {
            return Ok(connection);
        }
        Connection::initiate(setup, &mut SystemRandom, now)
    }

    /// What to dial with, if policy and configuration let us.
    fn setup(&self, replica: &Dialled) -> Result<(Setup, Purpose, Course), (Reason, String)> {
        let missing = || (Reason::NotConfigured, "this pod belongs to no Peer yet".to_owned());
        let own = self.context.own_peer().ok_or_else(missing)?;
        let standing = self.context.policy.standing();
        let held = standing.held().map_err(|reason| (reason, "there is no policy in force".to_owned()))?;
        let session = self.kept.session().ok_or_else(missing)?;
        let (remote, flow) = (self.kept.peer().clone(), session.flow());
        held.policy
            .permits(&session.name, &own, &remote, flow)
            .map_err(|error| (error.reason(), error.to_string()))?;
        permission::carried(&held.policy, &self.context, &session)?;
        let is_silent = self.context.silences.lasts(replica, self.context.clock.moment());
        let unlisted = || (Reason::CarrierRefused, "the policy lists no carrier of the session".to_owned());
        let course = Course::of(&session, &held.policy, is_silent).ok_or_else(unlisted)?;
        let transport = TransportChoice { carrier: Some(course.carrier), congestion: session.congestion };
        let setup = Setup {
            local: self.context.local(held, own.clone(), Wish::of(&session), session.rekey),
            kind: Kind::Full,
            expected: remote.clone(),
            session: session.name.clone(),
        };
        let namespace = self.context.pod.namespace().to_owned();
        // What is known by its address may prove to be any pod.
        let id = self.kept.id();
        let replica = id.parse::<SocketAddr>().is_err().then(|| id.to_owned());
        let session = session.name;
        Ok((setup, Purpose { session, flow, transport, own, remote, namespace, replica }, course))
    }
}

fn over() -> (Reason, String) {
    (Reason::SessionDeleted, "the session is over".to_owned())
}

/// What a person should know about a connection that is over.
fn describe(ended: &Ended) -> String {
    let Ended { by, reason, .. } = ended;
    match by {
        ClosedBy::Local => format!("this sidecar closed the connection: {reason}"),
        ClosedBy::Remote => format!("the other sidecar closed the connection: {reason}"),
        ClosedBy::Unauthenticated => {
            format!("something refused the handshake before keys were shared: {reason}")
        }
        ClosedBy::Cut => "the connection broke".to_owned(),
    }
}

/// Between half of `wait` and all of it, so that many sidecars do not come back at one moment.
fn jittered(wait: Duration) -> Duration {
    let mut byte = [0];
    // Without random numbers nothing works; the jitter need not be the one to say so.
    let _ = aws_lc_rs::rand::fill(&mut byte);
    wait / 2 + wait / 2 * u32::from(byte[0]) / 255
}

#[cfg(test)]
mod tests {
    use sealane_types::{Digest, PodIdentity};

    use super::*;

    #[test]
    fn only_the_pod_that_was_dialled_is_met() {
        let purpose = |replica: Option<&str>| Purpose {
            session: "activations".parse().unwrap(),
            flow: Flow::Stream,
            transport: TransportChoice::ANY,
            own: "embedder".parse().unwrap(),
            remote: "ranker".parse().unwrap(),
            namespace: "demo".to_owned(),
            replica: replica.map(str::to_owned),
        };
        let stated = crate::context::tests::stated();
        let met = |replica: Option<&str>, peer: &str, session: &str, namespace: &str| {
            purpose(replica).is_met_by(&Introduction {
                kind: Kind::Full,
                peer: peer.parse().unwrap(),
                session: session.parse().unwrap(),
                pod: PodIdentity::new(namespace, "ranker-0", "r").unwrap(),
                static_key: [1; 32],
                epoch: 1,
                digest: Digest::new([1; 32]),
                trust: Arc::clone(&stated),
            })
        };
        let meets = |peer: &str, session: &str, namespace: &str| met(None, peer, session, namespace);
        assert_eq!(meets("ranker", "activations", "demo"), Ok(()));
        for (replica, outcome) in [
            ("ranker-0/r", Ok(())),
            ("ranker-1/r", Err(Reason::PeerUnknown)),
            ("ranker-0/s", Err(Reason::PeerUnknown)),
            ("ranker-0", Err(Reason::PeerUnknown)),
        ] {
            assert_eq!(met(Some(replica), "ranker", "activations", "demo"), outcome, "{replica}");
        }
        for (peer, session, namespace) in [
            ("ranker", "activations", "elsewhere"),
            ("trainer", "activations", "demo"),
            ("ranker", "gradients", "demo"),
        ] {
            assert_eq!(
                meets(peer, session, namespace),
                Err(Reason::PeerUnknown),
                "{peer} {session} {namespace}"
            );
        }
    }
}
