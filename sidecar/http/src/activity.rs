//! What a connection is at, and until when it may be.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::bounds::Timeouts;

/// How late an end may be noticed: what a connection is at changes without waking whoever waits for it.
const GLANCE: Duration = Duration::from_secs(1);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Activity {
    timeouts: Timeouts,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    phase: Phase,
    since: Instant,
    /// Since when the client has read nothing of what there is for it.
    stalled: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The handshake goes on.
    Handshake,
    /// No request has begun yet.
    Unused,
    /// The header of a request has begun to come.
    Header,
    /// A request is being answered.
    Request,
    Idle,
}

impl Activity {
    pub(crate) fn new(timeouts: Timeouts) -> Self {
        let state = State { phase: Phase::Handshake, since: Instant::now(), stalled: None };
        Self { timeouts, state: Mutex::new(state) }
    }

    /// The handshake is over.
    pub(crate) fn established(&self) {
        self.enter(Phase::Unused);
    }

    /// Bytes came. Those of a header do not put off its end.
    pub(crate) fn read(&self) {
        if matches!(self.lock().phase, Phase::Unused | Phase::Idle) {
            self.enter(Phase::Header);
        }
    }

    /// A header is whole.
    pub(crate) fn request_begun(&self) {
        self.enter(Phase::Request);
    }

    /// A request has its answer, which may still be on its way.
    pub(crate) fn request_over(&self) {
        self.enter(Phase::Idle);
    }

    /// Whether the client has taken some of what there was for it.
    pub(crate) fn wrote(&self, some: bool) {
        let mut state = self.lock();
        state.stalled = if some { None } else { Some(state.stalled.unwrap_or_else(Instant::now)) };
    }

    /// Resolves when the connection has taken longer than it may. Cancel safe.
    pub(crate) async fn overdue(&self) {
        loop {
            let (due, now) = (self.due(), Instant::now());
            if due <= now {
                return;
            }
            sleep_until(due.min(now + GLANCE)).await;
        }
    }

    fn due(&self) -> Instant {
        let State { phase, since, stalled } = *self.lock();
        let due = since
            + match phase {
                Phase::Handshake | Phase::Header => self.timeouts.header,
                Phase::Unused => self.timeouts.unused,
                // The answer ends it before; this is for whatever hangs besides.
                Phase::Request => self.timeouts.request + self.timeouts.stalled,
                Phase::Idle => self.timeouts.idle,
            };
        stalled.map_or(due, |since| due.min(since + self.timeouts.stalled))
    }

    fn enter(&self, phase: Phase) {
        let mut state = self.lock();
        (state.phase, state.since) = (phase, Instant::now());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
