//! One task per connection: it moves bytes between a link and the protocol, and answers what the protocol asks.
//!
//! The contract of [`sealane_protocol`] is one mutation, then drain; [`Driver::turn`] is that drain. What the
//! connection carries is behind [`Traffic`], so the two directions share everything that has to do with trust.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use sealane_attestation::{EvidenceMessage, VerifiedPeer};
use sealane_policy::VerifiedPolicy;
use sealane_protocol::Moment;
use sealane_protocol::connection::{ClosedBy, Connection, Event, Introduction, Sink};
use sealane_protocol::handshake::Suite;
use sealane_protocol::limits::RECORD_WIRE_BYTES_MAX;
use sealane_types::Reason;
use tokio::sync::{Notify, watch};

use super::answer::{self, Answer};
use crate::context::{Context, view};
use crate::link::tcp::{Link, Moved};
use crate::metrics::HandshakeLabels;
use crate::policy::Standing;

/// Input taken from the link at once, once a peer is verified.
const INPUT_BYTES: usize = 4 * RECORD_WIRE_BYTES_MAX;
/// Rounds without waiting before other tasks get their turn.
const ROUNDS_MAX: u32 = 32;
/// How long a closed connection may take to say so.
const FAREWELL: Duration = Duration::from_secs(1);
/// Stored claims are looked at this often even if nothing changes: collateral and policy expire.
const RECHECK: Duration = Duration::from_secs(30);

/// What a connection carries.
pub(crate) trait Traffic: Sink + Send {
    /// The label of metrics and logs: `initiator` or `responder`.
    fn role(&self) -> &'static str;

    /// Whether the remote may go on with what it claims to be; names only, nothing is proved yet.
    fn introduced(&mut self, introduction: &Introduction) -> Result<(), Reason>;

    /// Whether the policy permits what this connection is for.
    fn permitted(&self, policy: &VerifiedPolicy, introduction: &Introduction) -> Result<(), Reason>;

    /// Both sides are verified; tensors may flow.
    fn established(&mut self, connection: &Established<'_>) -> Result<(), Reason>;

    /// Queues what is ready to go, until the output is full or nothing is left.
    fn fill(&mut self, connection: &mut Connection) -> Result<(), Reason>;

    /// Told when [`Traffic::fill`] has something new to do.
    fn wake(&self) -> Arc<Notify>;
}

/// A connection that has just been established.
#[derive(Debug)]
pub(crate) struct Established<'a> {
    pub(crate) introduction: &'a Introduction,
    pub(crate) peer: &'a VerifiedPeer,
    pub(crate) suite: Suite,
    /// From the first byte, evidence included.
    pub(crate) handshake: Duration,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) by: ClosedBy,
    pub(crate) reason: Reason,
    pub(crate) established: bool,
}

/// Runs a connection to its end. A value in `stop` closes it with that reason.
pub(crate) async fn drive(
    context: &Context,
    link: Link,
    connection: Connection,
    traffic: &mut dyn Traffic,
    mut stop: watch::Receiver<Option<Reason>>,
) -> Ended {
    let mut driver = Driver::new(context, link, connection, traffic);
    driver.run(&mut stop).await;
    driver.farewell().await;
    driver.finish()
}

struct Driver<'a> {
    context: &'a Context,
    link: Link,
    connection: Connection,
    traffic: &'a mut dyn Traffic,
    standing: watch::Receiver<Standing>,
    answers: FuturesUnordered<BoxFuture<'static, Answer>>,
    input: Vec<u8>,
    filled: usize,
    started: Moment,
    established: bool,
    /// Epoch that the remote is known to hold.
    remote_epoch: u64,
    ended: Option<(ClosedBy, Reason)>,
    cut: bool,
}

impl<'a> Driver<'a> {
    fn new(context: &'a Context, link: Link, connection: Connection, traffic: &'a mut dyn Traffic) -> Self {
        Self {
            context,
            link,
            connection,
            traffic,
            standing: context.policy.subscribe(),
            answers: FuturesUnordered::new(),
            input: vec![0; RECORD_WIRE_BYTES_MAX],
            filled: 0,
            started: context.clock.moment(),
            established: false,
            remote_epoch: 0,
            ended: None,
            cut: false,
        }
    }

    async fn run(&mut self, stop: &mut watch::Receiver<Option<Reason>>) {
        let wake = self.traffic.wake();
        let mut recheck = tokio::time::interval(RECHECK);
        loop {
            let writing = self.turns().await;
            if self.ended.is_some() {
                return;
            }
            let timeout = self.connection.poll_timeout().map(|moment| self.context.clock.until(moment));
            let sleep = async {
                match timeout {
                    Some(duration) => tokio::time::sleep(duration).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ready = self.link.ready(writing) => if ready.is_err() { self.on_cut() },
                () = wake.notified() => {}
                () = sleep => self.connection.handle_timeout(self.context.clock.moment()),
                Some(answer) = self.answers.next() => self.on_answer(answer),
                changed = self.standing.changed() => self.on_standing(changed.is_ok()),
                _ = recheck.tick() => self.reconsider(),
                () = stopped(stop) => {
                    let reason = stop.borrow().unwrap_or(Reason::Draining);
                    self.connection.close(reason);
                }
            }
        }
    }

    /// Takes turns until nothing moves; true when the link has no room for output.
    async fn turns(&mut self) -> bool {
        let mut rounds = 0;
        loop {
            let (moved, writing) = self.turn();
            if !moved || self.ended.is_some() {
                return writing;
            }
            rounds += 1;
            if rounds % ROUNDS_MAX == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Drains the connection once, in both directions: whether bytes moved, and whether output waits for the link.
    fn turn(&mut self) -> (bool, bool) {
        self.drain_events();
        if self.established
            && !self.connection.is_closed()
            && let Err(reason) = self.traffic.fill(&mut self.connection)
        {
            self.connection.close(reason);
        }
        let (put, writing) = self.put();
        let taken = self.take();
        self.drain_events();
        (put || taken, writing)
    }

    fn put(&mut self) -> (bool, bool) {
        let now = self.context.clock.moment();
        let mut moved = false;
        loop {
            let output = self.connection.poll_output(now);
            if output.is_empty() || self.cut {
                return (moved, false);
            }
            match self.link.put(output) {
                Moved::Bytes(bytes) => self.connection.output_written(bytes),
                Moved::Blocked => return (moved, true),
                Moved::Cut => {
                    self.on_cut();
                    return (moved, false);
                }
            }
            moved = true;
        }
    }

    fn take(&mut self) -> bool {
        if self.cut || self.connection.is_closed() {
            return false;
        }
        let Some(room) = self.input.get_mut(self.filled..) else { return false };
        match self.link.take(room) {
            Moved::Bytes(bytes) => self.filled += bytes,
            Moved::Blocked => return false,
            Moved::Cut => {
                self.on_cut();
                return false;
            }
        }
        let now = self.context.clock.moment();
        let bytes = self.input.get_mut(..self.filled).unwrap_or_default();
        match self.connection.handle_input(now, bytes, &mut *self.traffic) {
            Ok(consumed) => {
                self.input.copy_within(consumed..self.filled, 0);
                self.filled -= consumed;
            }
            Err(fail) => {
                tracing::debug!(role = self.traffic.role(), reason = %fail.reason(), "{fail}");
                self.drain_events();
                self.ended.get_or_insert((ClosedBy::Local, fail.reason()));
            }
        }
        true
    }

    fn drain_events(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            self.on_event(event);
        }
    }

    fn on_event(&mut self, event: Event) {
        let outcome = match event {
            Event::Introduced(introduction) => {
                self.remote_epoch = introduction.epoch;
                self.traffic.introduced(&introduction)
            }
            Event::PolicyWanted => self.supply_policy(),
            Event::PolicyOffered { epoch, chain } => {
                self.remote_epoch = self.remote_epoch.max(epoch);
                self.answers.push(answer::adopt(Arc::clone(&self.context.policy), chain));
                Ok(())
            }
            Event::AuditorIntroduced => self.on_auditor(),
            Event::EvidenceWanted(wanted) => self.permitted().map(|held| {
                let prover = self.context.prover.clone();
                let digest = held.policy.digest();
                self.answers
                    .push(Box::pin(async move { Answer::Proved(prover.prove(wanted.leaf, digest).await) }));
            }),
            Event::EvidenceReceived(received) => self.permitted().map(|held| {
                let context = &self.context;
                let acceptable = held.acceptable(context.clock.moment());
                let (judge, now) = (Arc::clone(&context.judge), context.clock.unix());
                self.answers.push(Box::pin(async move {
                    Answer::Judged(Box::new(judge.judge(received, held, acceptable, now).await))
                }));
            }),
            Event::Established { suite } => self.on_established(suite),
            Event::Closed { by, reason } => {
                self.ended.get_or_insert((by, reason));
                Ok(())
            }
        };
        if let Err(reason) = outcome {
            self.connection.close(reason);
        }
    }

    fn on_answer(&mut self, answer: Answer) {
        let misuse = match answer {
            Answer::Proved(Ok(message)) => self.supply_evidence(&message),
            Answer::Proved(Err(missing)) => {
                self.connection.close(missing.reason);
                return;
            }
            Answer::Judged(verdict) => self.connection.judged(*verdict),
            Answer::Adopted(Ok(held)) => {
                self.connection.policy_adopted(view(&held));
                Ok(())
            }
            Answer::Adopted(Err(reason)) => {
                self.connection.close(reason);
                return;
            }
        };
        if let Err(misuse) = misuse {
            // The connection closed while the answer was being made: there is nobody to give it to.
            tracing::debug!(%misuse, "an answer came too late");
        }
    }

    fn supply_evidence(
        &mut self,
        message: &EvidenceMessage,
    ) -> Result<(), sealane_protocol::connection::ApiMisuse> {
        self.connection.supply_evidence(message)
    }

    fn supply_policy(&mut self) -> Result<(), Reason> {
        let standing = self.standing.borrow().clone();
        let held = standing.held()?;
        let chain = serde_json::to_vec(held.policy.chain()).map_err(|_| Reason::PolicyMalformed)?;
        let epoch = held.policy.epoch();
        self.remote_epoch = self.remote_epoch.max(epoch);
        self.connection.supply_policy(epoch, &chain).map_err(|_| Reason::LimitExceeded)
    }

    /// The policy in force, if it permits this connection.
    fn permitted(&self) -> Result<Arc<crate::policy::Held>, Reason> {
        let standing = self.standing.borrow().clone();
        let held = standing.held()?;
        let introduction = self.connection.introduction().ok_or(Reason::FrameMalformed)?;
        self.traffic.permitted(&held.policy, introduction)?;
        Ok(Arc::clone(held))
    }

    /// An auditor proves nothing and gets no data; its key must be one that the policy lists.
    fn on_auditor(&mut self) -> Result<(), Reason> {
        let standing = self.standing.borrow().clone();
        let held = standing.held()?;
        let key = self.connection.introduction().ok_or(Reason::FrameMalformed)?.static_key;
        let listed =
            held.policy.document().auditors.as_ref().is_some_and(|auditors| {
                auditors.public_keys.iter().any(|auditor| *auditor.as_bytes() == key)
            });
        if !listed {
            return Err(Reason::PeerUnknown);
        }
        self.connection.admit_auditor().map_err(|_| Reason::FrameMalformed)
    }

    fn on_established(&mut self, suite: Suite) -> Result<(), Reason> {
        self.permitted()?;
        let handshake = Duration::from_micros(self.context.clock.moment().micros_since(self.started));
        let (Some(introduction), Some(peer)) = (self.connection.introduction(), self.connection.peer())
        else {
            // An audit: the remote proved nothing and carries nothing.
            return Ok(());
        };
        self.traffic.established(&Established { introduction, peer, suite, handshake })?;
        self.established = true;
        self.input.resize(INPUT_BYTES, 0);
        let metrics = &self.context.metrics;
        metrics.handshake_seconds.observe(handshake.as_secs_f64());
        metrics.handshakes.get_or_create(&self.labels("established", "")).inc();
        // The policy may have changed since the verdict.
        self.reconsider();
        Ok(())
    }

    fn on_standing(&mut self, alive: bool) {
        if !alive {
            return self.connection.close(Reason::Draining);
        }
        let standing = self.standing.borrow_and_update().clone();
        match standing.held() {
            Ok(held) => {
                let epoch = held.policy.epoch();
                self.connection.policy_adopted(view(held));
                self.reconsider();
                if self.established
                    && !self.connection.is_closed()
                    && epoch > self.remote_epoch
                    && let Err(reason) = self.supply_policy()
                {
                    self.connection.close(reason);
                }
            }
            Err(reason) => self.connection.close(reason),
        }
    }

    /// Holds the stored claims, and what the connection is for, against the policy in force.
    fn reconsider(&mut self) {
        if !self.established || self.connection.is_closed() {
            return;
        }
        let verdict = self.permitted().and_then(|held| {
            let peer = self.connection.peer().ok_or(Reason::EvidenceMissing)?;
            crate::evidence::judge::judge_again(peer, &held, self.context.clock.unix())
        });
        if let Err(misuse) = self.connection.judged(verdict) {
            tracing::debug!(%misuse, "a verdict came too late");
        }
    }

    fn on_cut(&mut self) {
        self.cut = true;
        self.connection.handle_cut();
        self.drain_events();
        self.ended.get_or_insert((ClosedBy::Cut, Reason::LinkLost));
    }

    /// Gives a closed connection the time to tell the remote why.
    async fn farewell(&mut self) {
        let flush = async {
            while self.put().1 {
                if self.link.ready(true).await.is_err() {
                    return;
                }
            }
        };
        // A remote that takes nothing learns nothing: it will see a cut.
        let _ = tokio::time::timeout(FAREWELL, flush).await;
    }

    fn finish(self) -> Ended {
        let (by, reason) = self.ended.unwrap_or((ClosedBy::Local, Reason::Unspecified));
        if !self.established {
            self.context.metrics.handshakes.get_or_create(&self.labels("refused", reason.as_str())).inc();
        }
        Ended { by, reason, established: self.established }
    }

    fn labels(&self, outcome: &'static str, reason: &'static str) -> HandshakeLabels {
        HandshakeLabels { role: self.traffic.role(), outcome, reason }
    }
}

/// Resolves when the connection is to be closed from outside, or whoever could ask for it is gone.
async fn stopped(stop: &mut watch::Receiver<Option<Reason>>) {
    // An error means that the session itself is gone, which ends its connections too.
    let _ = stop.wait_for(Option::is_some).await;
}
