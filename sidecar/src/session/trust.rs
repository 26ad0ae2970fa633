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
use super::carried::{Carriage, Way};
use super::counts::Counts;
use super::externals::Meeting;
use super::offers::Offers;
use super::phase::degraded;
use super::rejudging::Rejudging;
use super::resumption::Resumption;
use super::tickets::Turn;
use super::traffic::{Established, Traffic};
use crate::context::{Context, SystemRandom, view};
use crate::evidence::judge::judge_again;
use crate::evidence::prover::PolicyBinding;
use crate::metrics::labels::SessionLabels;
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
    /// What carries it, by what its session asks for.
    pub(super) carriage: Carriage,
    standing: watch::Receiver<Standing>,
    answers: FuturesUnordered<BoxFuture<'static, Answer>>,
    recheck: Interval,
    started: Moment,
    established: bool,
    pub(super) resumption: Resumption<'a>,
    auditing: Auditing,
    pub(super) counts: Counts<'a>,
    trace: ConnectionTrace,
    /// Epoch that the remote is known to hold.
    remote_epoch: u64,
    offers: Offers,
    /// With a replica outside of the cluster.
    meeting: Option<Meeting>,
    /// What is degraded about the remote, as it is shown.
    degraded: Vec<Reason>,
    rejudging: Rejudging,
}

impl<'a> Trust<'a> {
    pub(super) fn new(
        context: &'a Context,
        way: Way,
        trace: ConnectionTrace,
        turn: Option<Turn>,
        resumes: bool,
    ) -> Self {
        let mut standing = context.policy.subscribe();
        // The connection was set up before: what was adopted in between must not count as seen.
        standing.mark_changed();
        Self {
            context,
            carriage: Carriage::new(way),
            standing,
            answers: FuturesUnordered::new(),
            recheck: tokio::time::interval(RECHECK),
            started: context.clock.moment(),
            established: false,
            resumption: Resumption::new(context, turn, resumes),
            auditing: Auditing::default(),
            counts: Counts::new(&context.metrics),
            trace,
            remote_epoch: 0,
            offers: Offers::default(),
            meeting: None,
            degraded: Vec::new(),
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
        self.counts.over(role, reason, self.auditing.is_answered());
    }

    /// Looks whether keys were replaced.
    pub(super) fn count_rekeys(&mut self, connection: &Connection) {
        self.counts.look_for_rekeys(connection);
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
                // What this connection stated, whatever this side would state now.
                let binding = PolicyBinding { policy: held.policy.digest(), trust: wanted.trust };
                self.answers.push(Box::pin(async move {
                    let proved = match wanted.purpose {
                        Purpose::Reattest => prover.prove_again(wanted.leaf, binding).await,
                        Purpose::Handshake | Purpose::Audit => prover.prove(wanted.leaf, binding).await,
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
                self.on_reattested(connection, traffic);
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
        let due = self.resumption.due(self.context.clock.moment());
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
            News::Answer(Answer::Judged(verdict)) => self.on_judged(*verdict, connection, traffic),
            News::Answer(answer) => {
                if matches!(answer, Answer::Adopted(_))
                    && let Some(chain) = self.offers.looked()
                {
                    self.adopt(chain);
                }
                self.trace_answer(&answer);
                answer::give(answer, connection, traffic);
            }
            News::Policy { alive: true } => self.on_standing(connection, traffic),
            News::Policy { alive: false } => connection.close(Reason::Draining),
            News::Collateral => self.rejudge(connection),
            News::Time => {
                self.rejudge(connection);
                self.reconsider(connection, traffic);
                self.reattest(connection);
                self.resumption.give_up(self.context.clock.moment());
                self.auditing.dismiss(self.context.clock.moment(), connection);
            }
        }
    }

    /// Attests the connection again when it is time. Only the side that dialled can begin; the other one gives up a
    /// remote that does not.
    fn reattest(&mut self, connection: &mut Connection) {
        let now = self.context.clock.moment();
        let Some(age) = self.resumption.age(now) else { return };
        if connection.is_closed() || age < self.resumption.reattest_after() {
            return;
        }
        if age > self.context.reattest_after() + OVERDUE {
            connection.close(Reason::EvidenceExpired);
        } else if let Err(error) = connection.reattest(now, &mut SystemRandom) {
            tracing::trace!(%error, "not attested again by this side");
        }
    }

    /// What was proved on an earlier connection counts for this one, as far as it still holds.
    fn on_resumption(
        &mut self,
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
        let peer =
            judged.inspect_err(|reason| self.context.externals.refuse(connection.introduction(), *reason))?;
        traffic.verified(&peer);
        connection.judged(Ok(peer)).map_err(|_| Reason::FrameMalformed)
    }

    fn on_reattested(&mut self, connection: &Connection, traffic: &mut dyn Traffic) {
        self.resumption.reattested(connection.attested());
        self.meet(connection);
        self.tell_degraded(connection, traffic);
        self.counts.reattested();
        traffic.link(connection.link_terms());
    }

    /// Remembers a replica outside of the cluster, with what it has just proved.
    fn meet(&mut self, connection: &Connection) {
        self.meeting = connection.peer().and_then(|peer| self.context.externals.meet(peer));
    }

    fn trace_answer(&mut self, answer: &Answer) {
        match answer {
            Answer::Proved(proved) => {
                self.trace.end(Step::Evidence, proved.as_ref().err().map(|missing| missing.reason));
            }
            Answer::Adopted(adopted) => self.trace.end(Step::Policy, adopted.as_ref().err().copied()),
            // By whoever deals with them.
            Answer::Judged(_) | Answer::Rejudged(_) => {}
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
    fn permitted(&mut self, connection: &Connection, traffic: &dyn Traffic) -> Result<Arc<Held>, Reason> {
        let standing = self.standing.borrow().clone();
        let held = standing.held()?;
        let introduction = connection.introduction().ok_or(Reason::FrameMalformed)?;
        self.carriage.judge(traffic.transport(), &held.policy)?;
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
        let carried = self.carriage.settle();
        traffic.established(&Established { introduction, peer, carried, suite, handshake })?;
        (self.established, self.degraded) = (true, degraded(peer));
        let labels = SessionLabels::new(&introduction.session, traffic.direction());
        self.counts.established(traffic.role(), labels, handshake);
        self.resumption.established(traffic.role(), connection.attested(), self.context.clock.moment());
        self.trace.established(suite, self.resumption.resumes);
        traffic.link(connection.link_terms());
        connection.rotate(traffic.rekey());
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
        self.answers.extend(self.rejudging.due(peer, held, self.context.clock.unix()));
    }

    fn on_judged(
        &mut self,
        verdict: Result<VerifiedPeer, Reason>,
        connection: &mut Connection,
        traffic: &mut dyn Traffic,
    ) {
        let verdict = self.still_holds(verdict, connection, traffic);
        self.trace.end(Step::Verification, verdict.as_ref().err().copied());
        if let Err(reason) = &verdict {
            self.context.externals.refuse(connection.introduction(), *reason);
        }
        answer::give(Answer::Judged(Box::new(verdict)), connection, traffic);
    }

    fn on_rejudged(&mut self, rejudged: Rejudged, connection: &mut Connection, traffic: &mut dyn Traffic) {
        let Some(verdict) = self.rejudging.done(rejudged, connection.peer()) else { return };
        let verdict = self.still_holds(verdict, connection, traffic);
        self.give_again(verdict, connection, traffic);
        self.rejudge(connection);
    }

    /// A verdict that took its time: the policy may be another than the one that it was given under.
    fn still_holds(
        &mut self,
        verdict: Result<VerifiedPeer, Reason>,
        connection: &Connection,
        traffic: &dyn Traffic,
    ) -> Result<VerifiedPeer, Reason> {
        let peer = verdict?;
        let held = self.permitted(connection, traffic)?;
        judge_again(&peer, &held, self.context.clock.unix())
    }

    /// A verdict that nobody waits for.
    fn give_again(
        &mut self,
        verdict: Result<VerifiedPeer, Reason>,
        connection: &mut Connection,
        traffic: &mut dyn Traffic,
    ) {
        if self.rejudging.overtakes(&verdict, connection.peer()) {
            return self.rejudge(connection);
        }
        if let Err(reason) = &verdict {
            self.context.externals.refuse(connection.introduction(), *reason);
        }
        match connection.reconsidered(verdict) {
            Ok(()) => self.tell_degraded(connection, traffic),
            Err(misuse) => tracing::debug!(%misuse, "a verdict came too late"),
        }
    }

    /// Shows what is degraded about the remote wherever it is shown, if that is something else than before.
    fn tell_degraded(&mut self, connection: &Connection, traffic: &mut dyn Traffic) {
        let Some(degraded) = connection.peer().map(degraded) else { return };
        if degraded != self.degraded {
            traffic.degraded(&degraded);
            self.degraded = degraded;
            self.meet(connection);
            self.context.changed.notify_one();
        }
    }

    fn on_standing(&mut self, connection: &mut Connection, traffic: &mut dyn Traffic) {
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
    fn reconsider(&mut self, connection: &mut Connection, traffic: &mut dyn Traffic) {
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
        self.give_again(verdict, connection, traffic);
    }
}

#[cfg(test)]
mod tests;
