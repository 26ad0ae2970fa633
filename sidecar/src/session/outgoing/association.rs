//! One replica that this session sends to, across connections and across restarts of its process.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_protocol::Moment;
use sealane_protocol::connection::Connection;
use sealane_protocol::frame::{Frame, StreamId};
use sealane_types::{PeerName, Reason};
use tokio::sync::{Notify, mpsc, watch};

use super::backlog::{Backlog, Outcome};
use super::links::{Links, Reports};
use super::news::{LaneNews, Serial};
use super::stream::StreamKey;
use super::taking::Taking;
use crate::handoff::{LaneIncarnation, Parcel, ReplicaId};
use crate::session::clock::Clock;
use crate::session::phase::Phase;

/// A receiver of a broadcast that has had no room for this long is dropped, if another one has.
const STALL_MICROS_MAX: u64 = 15_000_000;
/// How long a dropped receiver takes no part in broadcasts.
const EXCLUSION_MICROS: u64 = 60_000_000;
/// How long there are no further links after one broke: whatever broke it may let single connections live.
const LINKS_PAUSE_MICROS: u64 = 60_000_000;

/// How long a replica that has never answered may be one that an earlier life of this sidecar gave tensors to.
const ANSWER_MICROS_MAX: u64 = 60_000_000;

/// A replica and what it was given.
#[derive(Debug)]
pub(crate) struct Association {
    serial: Serial,
    peer: PeerName,
    id: String,
    state: Mutex<State>,
    /// Told when there is something to send.
    pub(super) wake: Arc<Notify>,
    /// Told when the dialler should look again: other addresses, or leaving.
    pub(super) moved: Notify,
    /// Told when a lane may find room here, or learns that it will not.
    session: watch::Sender<u64>,
    clock: Arc<Clock>,
}

#[derive(Debug)]
struct State {
    addresses: Vec<SocketAddr>,
    phase: Phase,
    /// Since when it is listed.
    listed: Moment,
    /// The process that answered last; what it was given goes nowhere else.
    process: Option<ReplicaId>,
    backlog: Backlog,
    lanes: BTreeMap<StreamId, LaneLink>,
    /// Lanes whose end was asked for: they are not opened on another process any more.
    ending: BTreeSet<StreamId>,
    /// The configuration does not list it any more.
    leaving: bool,
    /// No task works for it any more.
    over: bool,
    /// Whether the last look found room, to tell lanes only when that changes.
    had_room: bool,
    /// Since when there is none.
    full_since: Option<Moment>,
    /// Others get the same tensors, and wait for it.
    broadcast: bool,
    /// It stalled a broadcast, and takes no part in any until then.
    excluded_until: Option<Moment>,
    taking: Taking,
    /// When connections may have further links again.
    links_from: Moment,
}

impl Association {
    pub(super) fn new(
        peer: PeerName,
        id: String,
        session: watch::Sender<u64>,
        clock: Arc<Clock>,
    ) -> Arc<Self> {
        static SERIALS: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            serial: Serial(SERIALS.fetch_add(1, Ordering::Relaxed)),
            peer,
            id,
            state: Mutex::new(State {
                addresses: Vec::new(),
                phase: Phase::Waiting(None),
                listed: clock.moment(),
                process: None,
                backlog: Backlog::default(),
                lanes: BTreeMap::new(),
                ending: BTreeSet::new(),
                leaving: false,
                over: false,
                had_room: false,
                full_since: None,
                broadcast: false,
                excluded_until: None,
                taking: Taking::default(),
                links_from: Moment::default(),
            }),
            clock,
            wake: Arc::new(Notify::new()),
            moved: Notify::new(),
            session,
        })
    }

    pub(super) fn serial(&self) -> Serial {
        self.serial
    }

    pub(super) fn peer(&self) -> &PeerName {
        &self.peer
    }

    /// Of the replica in the configuration.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn phase(&self) -> Phase {
        self.lock().phase.clone()
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.lock().leaving
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().over
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.lock().addresses.clone()
    }

    /// Whether what an earlier life of this sidecar gave to `process` may still be settled here.
    pub(super) fn may_hold(&self, process: ReplicaId) -> bool {
        self.lock().may_hold(process, self.clock.moment())
    }

    /// Where it is now. None known to the operator, which may be new and not have heard from it, changes nothing.
    pub(super) fn locate(&self, addresses: Vec<SocketAddr>) {
        let mut state = self.lock();
        if !addresses.is_empty() && state.addresses != addresses {
            state.addresses = addresses;
            drop(state);
            self.moved.notify_one();
        }
    }

    /// The configuration lists it no more: nothing new is given to it, what it has is finished if it is still there.
    pub(super) fn leave(&self) {
        self.lock().leaving = true;
        self.moved.notify_one();
        self.wake.notify_one();
        self.tell();
    }

    /// Whether it is connected and another tensor may be given to it.
    pub(super) fn has_room(&self) -> bool {
        self.lock().has_room()
    }

    /// Whether it is connected and takes nothing of what it has.
    pub(super) fn has_stalled(&self) -> bool {
        let state = self.lock();
        state.phase.is_established() && state.taking.has_stalled(self.clock.moment())
    }

    /// Whether it is connected.
    pub(super) fn is_established(&self) -> bool {
        self.lock().phase.is_established()
    }

    /// Whether a broadcast is to reach it.
    pub(super) fn takes_broadcasts(&self) -> bool {
        let mut state = self.lock();
        state.broadcast = true;
        state.phase.is_established() && !state.leaving && !state.is_excluded(self.clock.moment())
    }

    /// Gives up on a receiver that has had no room for too long while others have.
    pub(super) fn drop_if_stalled(&self) {
        if !self.lock().drop_if_stalled(self.serial, self.clock.moment()) {
            return;
        }
        tracing::warn!(peer = %self.peer, replica = self.id, "a stalled receiver is dropped from broadcasts");
        self.wake.notify_one();
        self.tell();
    }

    /// Sets room aside for a tensor that will be pushed once the client knows where it goes; the process that will get
    /// it. None when there is no room.
    pub(super) fn promise(&self, length: u64) -> Option<ReplicaId> {
        let mut state = self.lock();
        let process = state.process.filter(|_| state.has_room())?;
        state.backlog.promise(length);
        state.look(self.clock.moment());
        Some(process)
    }

    /// As [`Self::promise`] for a tensor that `process` may have already, whatever the room.
    pub(super) fn promise_again(&self, process: ReplicaId, length: u64) -> bool {
        let mut state = self.lock();
        let here = state.process == Some(process) && state.phase.is_established();
        if here {
            state.backlog.promise(length);
        }
        here
    }

    /// Gives up a promise.
    pub(super) fn forgo(&self, length: u64) {
        let mut state = self.lock();
        state.backlog.forgo(length);
        self.tell_room(state);
    }

    /// Hands a promised tensor over to `process`, unless another process answers by now, or the receiver was dropped as
    /// one that stalled.
    pub(super) fn push(
        &self,
        process: ReplicaId,
        key: StreamKey,
        lane: &LaneLink,
        parcel: Parcel,
        started: bool,
    ) -> Result<(), Refusal> {
        let mut state = self.lock();
        let refusal = if state.process != Some(process) || state.over {
            Some(Refusal::Gone)
        } else {
            state.is_excluded(self.clock.moment()).then_some(Refusal::Dropped)
        };
        if let Some(refusal) = refusal {
            state.backlog.forgo(parcel.length);
            return Err(refusal);
        }
        let pushed = state.backlog.push(key, lane.incarnation, parcel, started);
        pushed.map_err(|_| Refusal::Gone)?;
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// A lane begins: the receiver learns of it with or without tensors, so that it does not take this sender for one
    /// that has closed.
    pub(super) fn open(&self, id: StreamId, lane: &LaneLink) {
        let mut state = self.lock();
        state.lanes.insert(id, lane.clone());
        if state.phase.is_established() {
            state.backlog.open(id, lane.incarnation);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Ends a lane's streams here; the number of ends that will be confirmed.
    pub(super) fn finish(&self, id: StreamId, lane: &LaneLink) -> usize {
        let mut state = self.lock();
        state.ending.insert(id);
        let here = state.phase.is_established() && !state.is_excluded(self.clock.moment());
        if state.over || !(here || state.backlog.has_streams(id)) {
            // It never saw the lane, or was told that it was dropped.
            return 0;
        }
        let ends = state.backlog.finish(id, lane.incarnation);
        drop(state);
        self.wake.notify_one();
        ends
    }

    /// Drops a lane whose client is gone.
    pub(super) fn abort(&self, lane: StreamId) {
        let mut state = self.lock();
        state.backlog.abort(lane);
        state.forget(lane);
        drop(state);
        self.wake.notify_one();
    }

    /// Forgets a lane that ended here.
    pub(super) fn forget(&self, lane: StreamId) {
        self.lock().forget(lane);
    }

    /// Its connection's remote was judged again.
    pub(super) fn judged_again(&self, degraded: &[Reason]) {
        self.lock().phase.judged_again(degraded);
    }

    /// A verified connection to `process` begins.
    pub(super) fn attach(&self, process: ReplicaId, phase: Phase) {
        let mut state = self.lock();
        let another = state.process.is_some_and(|known| known != process);
        let inherited = if another { state.dissolve(self.serial, true) } else { Vec::new() };
        state.process = Some(process);
        state.open_lanes();
        state.end_again(&inherited);
        state.backlog.attach();
        state.phase = phase;
        // It could take nothing while it was away, which is no stall.
        state.full_since = None;
        drop(state);
        self.tell();
    }

    /// Whom further links of this connection tell what becomes of them, and when there may be some: a while after one broke.
    pub(super) fn further_links(&self) -> (Arc<Reports>, Moment) {
        let state = self.lock();
        (state.backlog.reports(), state.links_from)
    }

    /// The connection has other further links than before.
    pub(super) fn link(&self, links: Option<Links>) {
        self.lock().backlog.link(links);
    }

    /// The connection is gone, or none came about.
    pub(super) fn detach(&self, problem: (Reason, String)) {
        let mut state = self.lock();
        let is_lost = problem.0 == Reason::LinkLost;
        if state.backlog.detach() && is_lost {
            state.links_from = self.clock.moment().plus_micros(LINKS_PAUSE_MICROS);
        }
        state.report(self.serial);
        state.phase = Phase::Waiting(Some(problem));
        drop(state);
        self.tell();
    }

    /// Nothing will be sent to it any more.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.dissolve(self.serial, false);
        state.over = true;
        drop(state);
        self.tell();
    }

    /// Whether it is leaving and has nothing left to wait for.
    pub(super) fn is_done(&self) -> bool {
        let state = self.lock();
        state.leaving && state.backlog.is_empty()
    }

    pub(super) fn fill(&self, connection: &mut Connection) -> Result<(), Reason> {
        let mut state = self.lock();
        let filled = state.backlog.fill(connection);
        state.report(self.serial);
        self.tell_room(state);
        filled
    }

    pub(super) fn on_frame(&self, frame: &Frame<'_>) -> Result<(), Reason> {
        let mut state = self.lock();
        let accepted = state.backlog.on_frame(frame);
        state.report(self.serial);
        self.tell_room(state);
        accepted
    }

    /// Wakes lanes that wait for room, if there is some that they have not been told of.
    fn tell_room(&self, mut state: MutexGuard<'_, State>) {
        let news = state.look(self.clock.moment());
        drop(state);
        if news {
            self.tell();
        }
    }

    fn tell(&self) {
        self.session.send_modify(|news| *news = news.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether there is room that lanes have not been told of.
    fn look(&mut self, now: Moment) -> bool {
        let room = self.has_room();
        self.taking.look(self.backlog.holds_tensors(), now);
        self.full_since = if room { None } else { self.full_since.or(Some(now)) };
        let had_room = std::mem::replace(&mut self.had_room, room);
        room && !had_room
    }

    fn is_excluded(&self, now: Moment) -> bool {
        self.excluded_until.is_some_and(|until| now < until)
    }

    fn has_room(&self) -> bool {
        let laden = self.broadcast && self.backlog.is_laden();
        self.phase.is_established() && !self.leaving && !laden && self.backlog.has_room()
    }

    fn may_hold(&self, process: ReplicaId, now: Moment) -> bool {
        match self.process {
            Some(known) => known == process,
            None => !self.over && now.micros_since(self.listed) < ANSWER_MICROS_MAX,
        }
    }

    /// Tells lanes what became of their tensors.
    fn report(&mut self, association: Serial) {
        while let Some((lane, outcome)) = self.backlog.poll_outcome() {
            let news = match outcome {
                Outcome::Taken(sequences) => {
                    self.taking.took();
                    LaneNews::Taken { association, sequences }
                }
                Outcome::Lost(sequences) => LaneNews::Lost { association, sequences },
                Outcome::Ended => LaneNews::Ended,
            };
            if let Some(to) = self.lanes.get(&lane) {
                // A lane that is over needs no news.
                let _ = to.news.send(news);
            }
        }
    }

    /// Gives up on a receiver that has had no room for too long; lanes learn what it lost of theirs.
    fn drop_if_stalled(&mut self, association: Serial, now: Moment) -> bool {
        if self.full_since.is_none_or(|since| now.micros_since(since) < STALL_MICROS_MAX) {
            return false;
        }
        self.excluded_until = Some(now.plus_micros(EXCLUSION_MICROS));
        if let Phase::Established { degraded, .. } = &mut self.phase {
            degraded.push(Reason::Stalled);
        }
        for (lane, dropped) in self.backlog.give_up() {
            if let Some(to) = self.lanes.get(&lane) {
                // A lane that is over needs no news.
                let _ = to.news.send(LaneNews::Stalled { association, dropped });
            }
        }
        true
    }

    /// The process is gone: lanes learn what is left of theirs. Ends that it did not confirm are told to its `successor`, if there is one: the
    /// receiving application outlives its sidecar, and would wait for them for ever. Lanes of such ends are returned.
    fn dissolve(&mut self, association: Serial, successor: bool) -> Vec<StreamId> {
        self.report(association);
        let mut inherited = Vec::new();
        for (lane, mut remains) in self.backlog.dissolve() {
            let Some(to) = self.lanes.get(&lane) else { continue };
            if successor && remains.ends > 0 {
                // The successor confirms one in place of all of them.
                remains.ends -= 1;
                inherited.push(lane);
            }
            let _ = to.news.send(LaneNews::Gone { association, remains });
        }
        self.process = None;
        inherited
    }

    /// Opens and ends streams of lanes that are over.
    fn end_again(&mut self, lanes: &[StreamId]) {
        for id in lanes {
            if let Some(lane) = self.lanes.get(id) {
                self.backlog.finish(*id, lane.incarnation);
            }
        }
    }

    fn open_lanes(&mut self) {
        for (id, lane) in self.lanes.iter().filter(|(id, _)| !self.ending.contains(id)) {
            self.backlog.open(*id, lane.incarnation);
        }
    }

    fn forget(&mut self, lane: StreamId) {
        self.lanes.remove(&lane);
        self.ending.remove(&lane);
    }
}

/// Why an association does not take a tensor that it promised room to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The process ended, or has no place for another stream.
    Gone,
    /// It stalled, and what it had was dropped.
    Dropped,
}

/// How an association knows a lane.
#[derive(Debug, Clone)]
pub(super) struct LaneLink {
    pub(super) incarnation: LaneIncarnation,
    pub(super) news: mpsc::UnboundedSender<LaneNews>,
}

#[cfg(test)]
mod tests;
