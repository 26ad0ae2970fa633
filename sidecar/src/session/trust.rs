//! Answers what a connection asks about policy and evidence, and keeps asking itself whether the answers still hold.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use sealane_attestation::VerifiedPeer;
use sealane_attestation::binding::Purpose;
use sealane_protocol::Moment;
use sealane_protocol::connection::{ClosedBy, Connection, Event};
use sealane_protocol::handshake::Suite;
use sealane_types::Reason;
use tokio::sync::watch;
use tokio::time::Interval;

use super::answer::{self, Answer, Rejudged};
use super::auditing::Auditing;
use super::externals::Meeting;
use super::offers::Offers;
use super::rejudging::Rejudging;
use super::resumption::Resumption;
use super::tickets::Turn;
use super::traffic::{Established, Traffic};
use crate::context::{Context, SystemRandom, view};
use crate::evidence::judge::judge_again;
use crate::metrics::labels::{HandshakeLabels, SessionLabels, Way};
use crate::policy::{Held, Standing};
use crate::trace::{ConnectionTrace, Step};

/// Stored claims are looked at this often even if nothing changes: collateral expires, and the clock may be set.
/// It costs microseconds, and a session outlives what it rests on by no more than this.
const RECHECK: Duration = Duration::from_secs(5);

/// How long after its time a connection may live on its old attestation: as long as a busy platform takes to quote,
/// and as two sides may disagree on the time.
const OVERDUE: Duration = Duration::from_secs(60);

/// Something that happened on this side.
#[derive(Debug)]
pub(super) enum News {
    Answer(Answer),
    Policy { alive: bool },
    Collateral,
    Time,
}

/// What one connection has to do with policy and evidence.
pub(super) struct Trust<'a> {
    context: &'a Context,
    standing: watch::Receiver<Standing>,
    answers: FuturesUnordered<BoxFuture<'static, Answer>>,
    recheck: Interval,
    started: Moment,
    established: bool,
    /// When both sides proved themselves last; once established.
    attested: Option<Moment>,
    resumption: Resumption<'a>,
    auditing: Auditing,
    /// Once established, unless it is an audit.
    labels: Option<SessionLabels>,
    /// Key updates counted, of this side and of the remote.
    rekeys: (u64, u64),
    trace: ConnectionTrace,
    /// Epoch that the remote is known to hold.
    remote_epoch: u64,
    offers: Offers,
    /// With a replica outside of the cluster.
    meeting: Option<Meeting>,
    rejudging: Rejudging,
}

impl<'a> Trust<'a> {
    pub(super) fn new(
        context: &'a Context,
        trace: ConnectionTrace,
        turn: Option<Turn>,
        resumes: bool,
    ) -> Self {
        let mut standing = context.policy.subscribe();
        // The connection was set up before: what was adopted in between must not count as seen.
        standing.mark_changed();
        Self {
            context,
            standing,
            answers: FuturesUnordered::new(),
            recheck: tokio::time::interval(RECHECK),
            started: context.clock.moment(),
            established: false,
            attested: None,
            resumption: Resumption::new(context, turn, resumes),
            auditing: Auditing::default(),
            labels: None,
            rekeys: (0, 0),
            trace,
            remote_epoch: 0,
            offers: Offers::default(),
            meeting: None,
            rejudging: Rejudging::new(&context.judge),
        }
    }

    pub(super) fn is_established(&self) -> bool {
        self.established
    }

    /// The connection is over, or its handshake came to nothing.
    pub(super) fn over(&mut self, role: &'static str, by: ClosedBy, reason: Reason) {
        self.trace.ended(by, reason);
        self.resumption.over(role, Some(reason).filter(|_| !self.established));
        let metrics = &self.context.metrics;
        match &self.labels {
            Some(labels) => {
                metrics.connections.ended.get_or_create(&labels.clone().because(reason)).inc();
            }
            None if self.auditing.is_answered() => {
                metrics.handshakes.ended.get_or_create(&HandshakeLabels::audited(role)).inc();
            }
            None => {
                metrics.handshakes.ended.get_or_create(&HandshakeLabels::refused(role, reason)).inc();
            }
        }
    }

    /// Looks whether keys were replaced.
    pub(super) fn count_rekeys(&mut self, connection: &Connection) {
        let (sealed, opened) = connection.key_updates();
        let rekeys = &self.context.metrics.connections.rekeys;
        let count = |way: Way, before: &mut u64, now: u64| {
            // A connection that is over has no keys left to tell of.
            if now > *before {
                rekeys.get_or_create(&way.into()).inc_by(now - *before);
                *before = now;
            }
        };
        count(Way::Sent, &mut self.rekeys.0, sealed);
        count(Way::Received, &mut self.rekeys.1, opened);
    }

    /// Answers the protocol, at once or later. Some: the connection is over.
    pub(super) fn on_event(
        &mut self,
        event: Event,
        connection: &mut Connection,
        traffic: &mut dyn Traffic,
    ) -> Option<(ClosedBy, Reason)> {
        let outcome = match event {
            Event::Introduced(introduction) => {
                self.remote_epoch = introduction.epoch;
                self.trace.introduced(connection.public_id(), &introduction);
                traffic.introduced(&introduction)
            }
            Event::PolicyWanted => self.supply_policy(connection),
            Event::PolicyOffered { epoch, chain } => {
                self.remote_epoch = self.remote_epoch.max(epoch);
                if let Some(chain) = self.offers.offered(chain) {
                    self.adopt(chain);
                }
                Ok(())
            }
            Event::AuditorIntroduced => self.on_auditor(connection),
            Event::EvidenceWanted(wanted) => self.permitted(connection, traffic).map(|held| {
                self.trace.start(Step::Evidence);
                let prover = self.context.prover.clone();
                let digest = held.policy.digest();
                self.answers.push(Box::pin(async move {
                    let proved = match wanted.purpose {
                        Purpose::Reattest => prover.prove_again(wanted.leaf, digest).await,
                        Purpose::Handshake | Purpose::Audit => prover.prove(wanted.leaf, digest).await,
                    };
                    Answer::Proved(proved.map(Box::new))
                }));
            }),
            Event::EvidenceReceived(received) => self.permitted(connection, traffic).map(|held| {
                self.trace.start(Step::Verification);
                let context = &self.context;
                let acceptable = held.acceptable(context.clock.moment());
                let (judge, now) = (Arc::clone(&context.judge), context.clock.unix());
                self.answers.push(Box::pin(async move {
                    Answer::Judged(Box::new(judge.judge(received, held, acceptable, now).await))
                }));
            }),
            Event::TicketPresented(id) => self.resumption.presented(id, connection),
            Event::ResumptionOffered(past) => self.on_resumption(&past, connection, traffic),
            Event::TicketReceived(ticket) => self
                .permitted(connection, traffic)
                .map(|held| self.resumption.received(*ticket, &held, connection)),
            Event::Established { suite } => self.on_established(suite, connection, traffic),
            Event::ReattestationAsked => {
                connection.answer_reattestation(&mut SystemRandom).map_err(|_| Reason::FrameMalformed)
            }
            Event::Reattested => {
                self.on_reattested(connection);
                self.permitted(connection, traffic).map(|held| self.resumption.issue(&held, connection))
            }
            Event::Closed { by, reason } => return Some((by, reason)),
        };
        if let Err(reason) = outcome {
            connection.close(reason);
        }
        None
    }

    /// The next thing that happens on this side: an answer is there, the policy changed, or time passed. Cancel safe.
    pub(super) async fn news(&mut self) -> News {
        // To the moment: connections that rest on one attestation are attested again together, and share a quote.
        let due = self.reattest_due();
        let due = async {
            match due {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(answer) = self.answers.next() => News::Answer(answer),
            changed = self.standing.changed() => News::Policy { alive: changed.is_ok() },
            () = self.rejudging.changed() => News::Collateral,
            _ = self.recheck.tick() => News::Time,
            () = due => News::Time,
        }
    }

    pub(super) fn on_news(&mut self, news: News, connection: &mut Connection, traffic: &mut dyn Traffic) {
        match news {
            News::Answer(Answer::Rejudged(rejudged)) => self.on_rejudged(*rejudged, connection, traffic),
            News::Answer(answer) => {
                if matches!(answer, Answer::Adopted(_))
                    && let Some(chain) = self.offers.looked()
                {
                    self.adopt(chain);
                }
                self.trace_answer(&answer);
                if let Answer::Judged(verdict) = &answer
                    && let Err(reason) = verdict.as_ref()
                {
                    self.miss(connection, *reason);
                }
                answer::give(answer, connection, traffic);
            }
            News::Policy { alive: true } => self.on_standing(connection, traffic),
            News::Policy { alive: false } => connection.close(Reason::Draining),
            News::Collateral => self.rejudge(connection),
            News::Time => {
                self.rejudge(connection);
                self.reconsider(connection, traffic);
                self.reattest(connection);
                self.auditing.dismiss(self.context.clock.moment(), connection);
            }
        }
    }

    /// Attests the connection again when it is time. Only the side that dialled can begin; the other one gives up a
    /// remote that does not.
    fn reattest(&mut self, connection: &mut Connection) {
        let now = self.context.clock.moment();
        let Some(age) = self.age() else { return };
        let after = self.context.reattest_after();
        if connection.is_closed() || age < after {
            return;
        }
        if age > after + OVERDUE {
            connection.close(Reason::EvidenceExpired);
        } else if let Err(error) = connection.reattest(now, &mut SystemRandom) {
            tracing::trace!(%error, "not attested again by this side");
        }
    }

    /// How long ago both sides proved themselves, here or on the connection that this one resumes.
    fn age(&self) -> Option<Duration> {
        let now = self.context.clock.moment();
        self.attested.map(|attested| Duration::from_micros(now.micros_since(attested)))
    }

    /// How long until the connection is to be attested again; None when that has begun, or is not ours to begin.
    fn reattest_due(&self) -> Option<Duration> {
        let ours = self.resumption.is_dialled();
        self.age().filter(|_| ours).and_then(|age| self.context.reattest_after().checked_sub(age))
    }

    /// What was proved on an earlier connection counts for this one, as far as it still holds.
    fn on_resumption(
        &self,
        past: &VerifiedPeer,
        connection: &mut Connection,
        traffic: &mut dyn Traffic,
    ) -> Result<(), Reason> {
        // Claims do not tell of a revocation; whoever was judged by other collateral shows its evidence again.
        if self.rejudging.is_stale(past) {
            return Err(Reason::TicketRefused);
        }
        let held = self.permitted(connection, traffic)?;
        let judged = judge_again(past, &held, self.context.clock.unix());
        let peer = judged.inspect_err(|reason| self.miss(connection, *reason))?;
        traffic.verified(&peer);
        connection.judged(Ok(peer)).map_err(|_| Reason::FrameMalformed)
    }

    fn on_reattested(&mut self, connection: &Connection) {
        self.attested = connection.attested();
        self.meet(connection);
        let connections = &self.context.metrics.connections;
        if let Some(labels) = &self.labels {
            connections.reattested.get_or_create(labels).inc();
        }
    }

    /// Remembers a replica outside of the cluster, with what it has just proved.
    fn meet(&mut self, connection: &Connection) {
        self.meeting = connection.peer().and_then(|peer| self.context.externals.meet(peer));
    }

    /// Remembers why one is not accepted, whichever side dialled.
    fn miss(&self, connection: &Connection, reason: Reason) {
        if let Some(introduction) = connection.introduction() {
            let message = format!("what it proves is not accepted: {reason}");
            self.context.externals.miss(&introduction.peer, reason, &message);
        }
    }

    fn trace_answer(&mut self, answer: &Answer) {
        match answer {
            Answer::Proved(proved) => {
                self.trace.end(Step::Evidence, proved.as_ref().err().map(|missing| missing.reason));
            }
            Answer::Judged(verdict) => {
                self.trace.end(Step::Verification, verdict.as_ref().as_ref().err().copied());
            }
            Answer::Adopted(adopted) => self.trace.end(Step::Policy, adopted.as_ref().err().copied()),
            Answer::Rejudged(_) => {}
        }
    }

    fn adopt(&mut self, chain: Vec<u8>) {
        self.trace.start(Step::Policy);
        self.answers.push(answer::adopt(Arc::clone(&self.context.policy), chain));
    }

    fn supply_policy(&mut self, connection: &mut Connection) -> Result<(), Reason> {
        let standing = self.standing.borrow().clone();
        let held = standing.held()?;
        let chain = serde_json::to_vec(held.policy.chain()).map_err(|_| Reason::PolicyMalformed)?;
        let epoch = held.policy.epoch();
        self.remote_epoch = self.remote_epoch.max(epoch);
        connection.supply_policy(epoch, &chain).map_err(|_| Reason::LimitExceeded)
    }

    /// The policy in force, if it permits this connection.
    fn permitted(&self, connection: &Connection, traffic: &dyn Traffic) -> Result<Arc<Held>, Reason> {
        let standing = self.standing.borrow().clone();
        let held = standing.held()?;
        let introduction = connection.introduction().ok_or(Reason::FrameMalformed)?;
        traffic.permitted(&held.policy, introduction)?;
        Ok(Arc::clone(held))
    }

    fn on_auditor(&self, connection: &mut Connection) -> Result<(), Reason> {
        let standing = self.standing.borrow().clone();
        Auditing::admit(self.context, standing.held()?, connection)
    }

    fn on_established(
        &mut self,
        suite: Suite,
        connection: &mut Connection,
        traffic: &mut dyn Traffic,
    ) -> Result<(), Reason> {
        let held = self.permitted(connection, traffic)?;
        let handshake = Duration::from_micros(self.context.clock.moment().micros_since(self.started));
        let (Some(introduction), Some(peer)) = (connection.introduction(), connection.peer()) else {
            // An audit: the remote proved nothing and carries nothing.
            self.auditing.answered(self.context.clock.moment());
            return Ok(());
        };
        traffic.established(&Established { introduction, peer, suite, handshake })?;
        self.established = true;
        self.attested = connection.attested();
        let metrics = &self.context.metrics;
        metrics.handshakes.seconds.observe(handshake.as_secs_f64());
        metrics.handshakes.ended.get_or_create(&HandshakeLabels::established(traffic.role())).inc();
        let labels = SessionLabels::new(&introduction.session, traffic.direction());
        metrics.connections.established.get_or_create(&labels).inc();
        self.resumption.established(traffic.role());
        self.labels = Some(labels);
        self.trace.established(suite, self.resumption.resumes);
        self.resumption.issue(&held, connection);
        self.meet(connection);
        // Policy and collateral may have changed since the verdict.
        self.reconsider(connection, traffic);
        self.rejudge(connection);
        Ok(())
    }

    /// Begins to judge the remote's evidence again if its verdict is of other collateral than there is now.
    fn rejudge(&mut self, connection: &Connection) {
        if !self.established || connection.is_closed() {
            return;
        }
        let standing = self.standing.borrow().clone();
        let (Ok(held), Some(peer)) = (standing.held(), connection.peer()) else { return };
        let work = self.rejudging.due(peer, held, self.context.clock.unix());
        self.answers.extend(work);
    }

    fn on_rejudged(&mut self, rejudged: Rejudged, connection: &mut Connection, traffic: &dyn Traffic) {
        let Some(verdict) = self.rejudging.done(rejudged, connection.peer()) else { return };
        // The policy may be another than the one that the verdict was given under.
        let verdict = verdict.and_then(|peer| {
            let held = self.permitted(connection, traffic)?;
            judge_again(&peer, &held, self.context.clock.unix())
        });
        if let Err(misuse) = connection.reconsidered(verdict) {
            tracing::debug!(%misuse, "a verdict came too late");
        }
        self.rejudge(connection);
    }

    fn on_standing(&mut self, connection: &mut Connection, traffic: &dyn Traffic) {
        let standing = self.standing.borrow_and_update().clone();
        match standing.held() {
            Ok(held) => {
                let epoch = held.policy.epoch();
                connection.policy_adopted(view(held));
                self.reconsider(connection, traffic);
                if self.established
                    && !connection.is_closed()
                    && epoch > self.remote_epoch
                    && let Err(reason) = self.supply_policy(connection)
                {
                    connection.close(reason);
                }
            }
            Err(reason) => connection.close(reason),
        }
    }

    /// Holds what the connection is for, and the stored claims once there are some, against the policy in force.
    fn reconsider(&mut self, connection: &mut Connection, traffic: &dyn Traffic) {
        if connection.is_closed() || connection.introduction().is_none() {
            return;
        }
        if !self.established {
            // A verdict that was given under an earlier policy must hold under this one before anything flows.
            let verdict = self.permitted(connection, traffic).and_then(|held| match connection.peer() {
                Some(peer) => judge_again(peer, &held, self.context.clock.unix()).map(drop),
                None => Ok(()),
            });
            if let Err(reason) = verdict {
                connection.close(reason);
            }
            return;
        }
        let verdict = self.permitted(connection, traffic).and_then(|held| {
            let peer = connection.peer().ok_or(Reason::EvidenceMissing)?;
            judge_again(peer, &held, self.context.clock.unix())
        });
        if let Err(reason) = &verdict {
            self.miss(connection, *reason);
        }
        if let Err(misuse) = connection.reconsidered(verdict) {
            tracing::debug!(%misuse, "a verdict came too late");
        }
    }
}
