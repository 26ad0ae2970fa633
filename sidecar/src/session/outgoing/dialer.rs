//! Keeps one replica connected: dials, runs the connection, waits, dials again.

use std::sync::Arc;
use std::time::Duration;

use sealane_protocol::connection::{ClosedBy, Connection, Setup};
use sealane_protocol::handshake::Kind;
use sealane_types::Reason;
use tokio::sync::watch;

use super::Sending;
use super::association::Association;
use super::traffic::Outbound;
use crate::context::{Context, SystemRandom};
use crate::desired::Session;
use crate::link::tcp::dial;
use crate::session::driver::{Ended, drive};

/// First wait after a connection that did not come about or broke.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// A connection that lived this long was worth having: the next attempt comes soon.
const LIVED_MICROS_MIN: u64 = 2_000_000;
/// Longest wait between attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Starts the task that keeps `association` connected until it leaves or the session ends.
pub(super) fn start(sending: &Arc<Sending>, association: &Arc<Association>) {
    let dialer = Dialer {
        context: Arc::clone(&sending.context),
        sending: Arc::downgrade(sending),
        association: Arc::clone(association),
        stop: sending.stop.subscribe(),
        backoff: BACKOFF_MIN,
    };
    tokio::spawn(dialer.run());
}

struct Dialer {
    context: Arc<Context>,
    sending: std::sync::Weak<Sending>,
    association: Arc<Association>,
    stop: watch::Receiver<Option<Reason>>,
    backoff: Duration,
}

impl Dialer {
    async fn run(mut self) {
        let mut standing = self.context.policy.subscribe();
        while !self.is_over() {
            standing.mark_unchanged();
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
            let peer = self.association.peer();
            tracing::info!(%peer, replica = self.association.id(), reason = %problem.0, "not connected: {}", problem.1);
            self.association.detach(problem);
            self.context.changed.notify_one();
            if self.is_over() {
                break;
            }
            let wait = jittered(self.backoff);
            self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
            let stop = self.stop.clone();
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.association.moved.notified() => {}
                // A policy that has just changed is the likeliest reason to try at once.
                changed = standing.changed() => if changed.is_err() { break },
                () = stopped(stop) => break,
            }
        }
        self.association.end();
        self.context.changed.notify_one();
    }

    /// Whether there is nothing left to keep connected. A leaving replica that is not connected will not come back.
    fn is_over(&self) -> bool {
        self.stop.borrow().is_some() || self.association.is_leaving() || self.sending.strong_count() == 0
    }

    async fn attempt(&self) -> Result<Ended, (Reason, String)> {
        let setup = self.setup()?;
        let link = dial(&self.association.addresses())
            .await
            .map_err(|error| (Reason::Unreachable, format!("it cannot be reached: {error}")))?;
        let mut traffic = Outbound {
            association: Arc::clone(&self.association),
            session: setup.session.clone(),
            own: setup.local.peer.clone(),
            namespace: self.context.pod.namespace().to_owned(),
        };
        let connection = Connection::initiate(setup, &mut SystemRandom, self.context.clock.moment())
            .map_err(|error| (Reason::SuiteRefused, error.to_string()))?;
        self.context.changed.notify_one();
        Ok(drive(&self.context, link, connection, &mut traffic, self.stop.clone()).await)
    }

    /// What to dial with, if policy and configuration let us.
    fn setup(&self) -> Result<Setup, (Reason, String)> {
        let missing = || (Reason::NotConfigured, "this pod belongs to no Peer yet".to_owned());
        let peer = self.context.own_peer().ok_or_else(missing)?;
        let standing = self.context.policy.standing();
        let held = standing.held().map_err(|reason| (reason, "there is no policy in force".to_owned()))?;
        let session = self.session().ok_or_else(missing)?;
        held.policy
            .permits(&session.name, &peer, self.association.peer())
            .map_err(|error| (error.reason(), error.to_string()))?;
        Ok(Setup {
            local: self.context.local(held, peer, session.cipher, session.rekey),
            kind: Kind::Full,
            expected: self.association.peer().clone(),
            session: session.name,
        })
    }

    fn session(&self) -> Option<Session> {
        self.sending.upgrade().map(|sending| sending.session())
    }
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

async fn stopped(mut stop: watch::Receiver<Option<Reason>>) {
    let _ = stop.wait_for(Option::is_some).await;
}
