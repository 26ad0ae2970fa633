//! One task per connection: it moves bytes and time between a link and the protocol.
//!
//! The contract of [`sealane_protocol`] is one mutation, then drain; [`Driver::turn`] is that drain. What the protocol
//! asks is answered by [`Trust`], and what the connection carries is behind [`Traffic`].

use std::time::Duration;

use sealane_protocol::Moment;
use sealane_protocol::connection::{ClosedBy, Connection};
use sealane_types::Reason;

use super::stop::Stop;
use super::tickets;
use super::traffic::Traffic;
use super::trust::{News, Trust};
use super::wire::Wire;
use crate::context::Context;
use crate::desired::Direction;

/// Rounds before other tasks, and this connection's own policy and deadlines, get their turn.
const ROUNDS_MAX: u32 = 32;
/// How long a closed connection may take to say so.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long nothing moves until a connection gives its buffers back.
const IDLE_MICROS: u64 = 1_000_000;
/// How long what the path does is not told again while bytes move.
const MEASURE_MICROS: u64 = 1_000_000;

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) by: ClosedBy,
    pub(crate) reason: Reason,
    pub(crate) established: bool,
    /// Whether the remote was heard at all.
    pub(crate) heard: bool,
}

/// Runs a connection to its end, which `stop` can ask for; `turn` is that of a connection which was
/// dialled.
pub(crate) fn drive<'a>(
    context: &'a Context,
    wire: Wire,
    connection: Connection,
    traffic: &'a mut dyn Traffic,
    turn: Option<tickets::Turn>,
    stop: Stop,
) -> impl Future<Output = Ended> + 'a {
    // Out here, because an async function keeps room for its arguments beside what they are moved into, for as long as the
    // connection lives.
    let open = context.connections.token();
    let mut driver = Driver::new(context, wire, connection, traffic, turn);
    async move {
        driver.run(&stop).await;
        driver.traffic.over();
        // Room for it is needed once, at the end.
        Box::pin(driver.farewell()).await;
        drop(open);
        driver.finish()
    }
}

/// What a turn did.
struct Turn {
    /// Whether bytes left.
    put: bool,
    /// Whether bytes arrived.
    taken: bool,
    /// Whether output waits for the link to have room.
    writing: bool,
}

struct Driver<'a> {
    context: &'a Context,
    wire: Wire,
    connection: Connection,
    traffic: &'a mut dyn Traffic,
    trust: Trust<'a>,
    /// When bytes moved last, until the buffers were given back.
    moved: Option<Moment>,
    /// When it was told last what the path does.
    measured: Moment,
    ended: Option<(ClosedBy, Reason)>,
    cut: bool,
    /// Whether there was nothing to do since others had their turn.
    rested: bool,
}

impl<'a> Driver<'a> {
    fn new(
        context: &'a Context,
        wire: Wire,
        connection: Connection,
        traffic: &'a mut dyn Traffic,
        turn: Option<tickets::Turn>,
    ) -> Self {
        let trace = context.tracer.connection(traffic.role(), wire.dialled());
        let resumes = connection.is_resumed();
        Self {
            context,
            trust: Trust::new(context, wire.way(), trace, turn, resumes),
            wire,
            connection,
            traffic,
            moved: None,
            measured: context.clock.moment(),
            ended: None,
            cut: false,
            rested: true,
        }
    }

    async fn run(&mut self, stop: &Stop) {
        let wake = self.traffic.wake();
        loop {
            let (writing, busy) = self.turns();
            if self.ended.is_some() {
                return;
            }
            self.rested |= !busy;
            let timeout = self.poll_timeout().map(|moment| self.context.clock.until(moment));
            let sleep = async {
                match timeout {
                    Some(duration) => tokio::time::sleep(duration).await,
                    None => std::future::pending().await,
                }
            };
            // Biased: a remote that never stops sending must not keep this side from hearing that it was revoked, that
            // its session is over, or what time it is.
            tokio::select! {
                biased;
                reason = stop.asked() => self.connection.close(reason),
                news = self.trust.news() => self.on_news(news),
                () = sleep => self.on_timeout(),
                () = tokio::task::yield_now(), if busy => {}
                () = wake.notified(), if !busy => {}
                ready = self.wire.ready(writing), if !busy => if ready.is_err() { self.on_cut() },
            }
        }
    }

    fn on_news(&mut self, news: News) {
        self.trust.on_news(news, &mut self.connection, self.traffic);
        if self.trust.is_established() {
            // The policy may list another one than before.
            self.wire.set_congestion(self.trust.carriage.carried().congestion);
        }
    }

    fn poll_timeout(&self) -> Option<Moment> {
        let idle = self.moved.map(|moved| moved.plus_micros(IDLE_MICROS));
        let wire = self.wire.poll_timeout(self.context.clock.moment());
        [self.connection.poll_timeout(), wire, idle].into_iter().flatten().min()
    }

    fn on_timeout(&mut self) {
        let now = self.context.clock.moment();
        self.connection.handle_timeout(now);
        self.wire.handle_timeout(&mut self.connection, now);
        if self.moved.is_some_and(|moved| now >= moved.plus_micros(IDLE_MICROS)) {
            self.moved = None;
            self.measure(now);
            self.wire.release();
            self.connection.release_memory();
        }
    }

    /// Takes turns until nothing moves, or others are due: whether the link has no room for output, and whether there
    /// is more to do at once.
    fn turns(&mut self) -> (bool, bool) {
        for _ in 0..ROUNDS_MAX {
            let Turn { put, taken, writing } = self.turn();
            if !(put || taken) || self.ended.is_some() {
                return (writing, false);
            }
            let hands_on = !put && self.traffic.direction() == Direction::Receiving;
            if hands_on && std::mem::take(&mut self.rested) {
                // Whoever waits for what arrived has it before the remote hears that it did: to say so takes as long as
                // to hand it on. While more and more arrives, nobody waits.
                break;
            }
        }
        (false, true)
    }

    /// Drains the connection once, in both directions.
    fn turn(&mut self) -> Turn {
        self.drain_events();
        if self.trust.is_established()
            && !self.connection.is_closed()
            && let Err(reason) = self.traffic.fill(&mut self.connection)
        {
            self.connection.close(reason);
        }
        let (put, writing) = self.put();
        let taken = self.take();
        self.trust.count_rekeys(&self.connection);
        self.drain_events();
        if put || taken {
            let now = self.context.clock.moment();
            self.moved = Some(now);
            if now.micros_since(self.measured) >= MEASURE_MICROS {
                self.measure(now);
            }
        }
        Turn { put, taken, writing }
    }

    /// Tells what the path did.
    fn measure(&mut self, now: Moment) {
        self.measured = now;
        if let Some(figures) = self.wire.path_figures() {
            self.trust.counts.measure(figures);
        } else {
            self.trust.counts.measure_stream(|| self.wire.stream_congestion());
        }
    }

    /// Whether bytes left, and whether more wait for the link to have room.
    fn put(&mut self) -> (bool, bool) {
        if self.cut {
            return (false, false);
        }
        let moved = self.wire.put(&mut self.connection, self.context.clock.moment());
        if moved.cut {
            self.on_cut();
        }
        (moved.any, moved.blocked)
    }

    /// Whether bytes arrived. A connection that is over still hears which of its last ones did.
    fn take(&mut self) -> bool {
        if self.cut || self.connection.is_closed() && self.wire.is_settled() {
            return false;
        }
        let now = self.context.clock.moment();
        let was_heard = self.wire.is_heard();
        let (moved, handled) = self.wire.take(&mut self.connection, now, &mut *self.traffic);
        if !was_heard && self.wire.is_heard() && self.trust.resumption.is_dialled() {
            self.trust.counts.reached();
        }
        if let Err(fail) = handled {
            tracing::debug!(role = self.traffic.role(), reason = %fail.reason(), "{fail}");
            self.drain_events();
            self.ended.get_or_insert((ClosedBy::Local, fail.reason()));
        }
        if moved.cut {
            self.on_cut();
        } else if !moved.any && self.moved.is_none() {
            // The look itself took memory, which an idle connection gives back.
            self.wire.release();
        }
        moved.any
    }

    fn drain_events(&mut self) {
        let before = self.trust.is_established();
        while let Some(event) = self.connection.poll_event() {
            let over = self.trust.on_event(event, &mut self.connection, self.traffic);
            self.ended = self.ended.or(over);
        }
        if self.trust.is_established() && !before {
            let carried = self.trust.carriage.carried();
            self.wire.carry(carried);
            self.wire.set_congestion(carried.congestion);
            self.measure(self.context.clock.moment());
        }
    }

    fn on_cut(&mut self) {
        self.cut = true;
        self.connection.handle_cut();
        self.drain_events();
        self.ended.get_or_insert((ClosedBy::Cut, Reason::LinkLost));
    }

    /// Gives a closed connection the time to tell the remote why, and to hear that it was heard where the link does not
    /// see to that.
    async fn farewell(&mut self) {
        let flush = async {
            loop {
                let (_, writing) = self.put();
                if self.cut || !writing && self.wire.is_settled() {
                    return;
                }
                let now = self.context.clock.moment();
                let due = self.wire.poll_timeout(now).map(|due| self.context.clock.until(due));
                let ready = self.wire.ready_to_end(writing);
                match tokio::time::timeout(due.unwrap_or(FAREWELL), ready).await {
                    Ok(Ok(())) => drop(self.take()),
                    Ok(Err(_)) => return,
                    Err(_) => self.wire.handle_timeout(&mut self.connection, self.context.clock.moment()),
                }
                // The time of all this ends even where something is ready without end.
                tokio::task::yield_now().await;
            }
        };
        // A remote that takes nothing learns nothing: it will see a cut.
        let _ = tokio::time::timeout(FAREWELL, flush).await;
    }

    fn finish(mut self) -> Ended {
        let (by, reason) = self.ended.unwrap_or((ClosedBy::Local, Reason::Internal));
        let established = self.trust.is_established();
        self.measure(self.context.clock.moment());
        self.trust.over(self.traffic.role(), by, reason);
        Ended { by, reason, established, heard: self.wire.is_heard() }
    }
}
