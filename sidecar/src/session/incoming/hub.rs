//! Who sends to this session, who takes, and which tensor goes to whom. No tasks, and no lock of its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use sealane_protocol::Moment;
use sealane_types::{PeerName, Reason};

use super::arriving::Place;
use super::sender::Sender;
use super::stream::{Arrived, Stream, Waiting};
use crate::desired::Remote;
use crate::handoff::receiver::Turns;
use crate::handoff::{Delivery, DeliveryId, LaneError, NoSlot, Sequence, TakeArena, Turn};
use crate::session::arrival::{Arrival, Connected, SenderKey};

/// Interruptions kept for a receiver that opens later.
const INTERRUPTIONS_MAX: usize = 64;
/// Senders remembered at most.
pub(super) const SENDERS_MAX: usize = 8192;

/// Names a receiving lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ReceiverId(pub(super) u64);

/// A tensor that a client has and has not said to have taken.
#[derive(Debug)]
pub(super) struct Delivered {
    pub(super) stream: Arc<Stream>,
    pub(super) sequence: Sequence,
    /// Of a run, else 1.
    pub(super) tensors: u64,
    pub(super) length: u64,
}

/// A place for a tensor that waited for one.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) stream: Arc<Stream>,
    pub(super) waiting: Waiting,
    /// None: no client can ever hold it.
    pub(super) place: Option<Place>,
}

#[derive(Debug)]
struct Receiver {
    turns: Turns,
    arena: Arc<dyn TakeArena>,
    delivered: BTreeMap<DeliveryId, Delivered>,
    /// Nothing more comes; what it has can still be taken.
    ended: bool,
    /// Why, if it did not end well.
    failure: Option<Reason>,
}

/// Whom the configuration expects of a Peer.
#[derive(Debug)]
struct Listed {
    /// As `pod/uid`.
    pods: BTreeSet<String>,
    /// Others may come too.
    open: bool,
}

/// State of a receiving session.
#[derive(Debug, Default)]
pub(super) struct Hub {
    /// In boxes, because a node of the map has room for eleven and most sessions have a few.
    senders: BTreeMap<SenderKey, Box<Sender>>,
    receivers: BTreeMap<ReceiverId, Receiver>,
    waiting: VecDeque<(Arc<Stream>, Waiting)>,
    /// Whom the configuration expects to send.
    listed: BTreeMap<PeerName, Listed>,
    /// How many replicas of a Peer must have closed before the lanes end, by the policy.
    least: BTreeMap<PeerName, u32>,
    /// How many it expects, replicas outside of the cluster among them.
    expected: usize,
    interruptions: VecDeque<String>,
    /// Names connections, receivers and deliveries.
    numbers: u64,
    /// Whose turn it is.
    turn: usize,
}

impl Hub {
    /// Those that are known by address may prove to be any pod, and come back at any time.
    pub(super) fn list(&mut self, remotes: &[Remote]) {
        self.expected = remotes.iter().map(|remote| remote.replicas.len()).sum();
        self.listed.clear();
        for remote in remotes {
            let pods = remote.replicas.iter().filter(|replica| !replica.is_external());
            let pods = pods.map(|replica| replica.id.clone()).collect();
            self.listed.insert(remote.peer.clone(), Listed { pods, open: remote.is_open() });
        }
        self.end_if_all_have();
    }

    /// What the policy demands of each Peer, whomever the configuration lists.
    pub(super) fn demand(&mut self, least: BTreeMap<PeerName, u32>) {
        self.least = least;
    }

    /// Whether as many have closed as the policy demands.
    fn has_enough(&self) -> bool {
        let closed = |peer: &PeerName| {
            self.senders.values().filter(|sender| sender.peer() == peer && sender.has_ended()).count()
        };
        self.least
            .iter()
            .all(|(peer, least)| u32::try_from(closed(peer)).is_ok_and(|closed| closed >= *least))
    }

    fn is_listed(&self, sender: &Sender) -> bool {
        self.listed.get(sender.peer()).is_some_and(|listed| listed.pods.contains(&sender.id))
    }

    /// Whether one that was lost without closing may come back: not if the configuration knows that its pod is gone.
    fn may_return(&self, sender: &Sender) -> bool {
        self.is_listed(sender) || self.listed.get(sender.peer()).is_some_and(|listed| listed.open)
    }

    /// Closes the connections of Peers that the session is no longer for.
    pub(super) fn keep(&self, expected: impl Fn(&PeerName) -> bool) {
        for sender in self.senders.values().filter(|sender| !expected(sender.peer())) {
            sender.close(Reason::SessionDeleted);
        }
    }

    pub(super) fn expected(&self) -> usize {
        self.expected
    }

    pub(super) fn receivers(&self) -> usize {
        self.receivers.len()
    }

    pub(super) fn connected(&self) -> Vec<Connected> {
        self.senders.values().filter_map(|sender| sender.connected()).collect()
    }

    pub(super) fn degraded(&self) -> Vec<Reason> {
        self.senders.values().flat_map(|sender| sender.degraded()).copied().collect()
    }

    pub(super) fn established(&mut self, key: &SenderKey, connection: u64, known: Connected) {
        if let Some(sender) = self.senders.get_mut(key) {
            sender.established(connection, known);
        }
    }

    pub(super) fn judged_again(&mut self, key: &SenderKey, connection: u64, degraded: &[Reason]) {
        if let Some(sender) = self.senders.get_mut(key) {
            sender.judged_again(connection, degraded);
        }
    }

    pub(super) fn has_seen_a_sender(&self) -> bool {
        self.senders.values().any(|sender| sender.is_connected() || sender.has_streams())
    }

    /// A verified connection; its number, and how many senders were interrupted because this one has taken their place: receivers
    /// hear of that before they hear of it. A Peer may prove as many pods as it likes, so senders are counted.
    pub(super) fn attach(&mut self, arrival: Arrival, now: Moment) -> Result<(u64, usize), Reason> {
        if self.senders.len() >= SENDERS_MAX && !self.senders.contains_key(&arrival.sender()) {
            self.forget_oldest();
            if self.senders.len() >= SENDERS_MAX {
                return Err(Reason::LimitExceeded);
            }
        }
        let (number, key) = (self.number(), arrival.sender());
        let sender = self
            .senders
            .entry(key.clone())
            .or_insert_with(|| Box::new(Sender::new(arrival.peer.clone(), &arrival.pod)));
        sender.attach(number, arrival, now);
        Ok((number, self.give_up_on_replaced(&key, now)))
    }

    /// Gives up on pods that are expected no longer and whose name an expected one has: they are gone, whether their connections
    /// have ended or not. How many were interrupted.
    fn give_up_on_replaced(&mut self, new: &SenderKey, now: Moment) -> usize {
        if !self.senders.get(new).is_some_and(|new| self.is_listed(new)) {
            return 0;
        }
        // Pods of one name lie together.
        let is_of_name = |(key, _): &(&SenderKey, _)| {
            (&key.peer, key.pod.namespace(), key.pod.pod()) == (&new.peer, new.pod.namespace(), new.pod.pod())
        };
        let before = self.senders.range(..new).rev().take_while(is_of_name);
        let after = self.senders.range((Bound::Excluded(new), Bound::Unbounded)).take_while(is_of_name);
        let gone = before.chain(after).filter(|(_, sender)| !self.may_return(sender));
        let gone: Vec<SenderKey> = gone.map(|(key, _)| key.clone()).collect();
        let mut interrupted = 0;
        for key in gone {
            let Some(sender) = self.senders.get_mut(&key) else { continue };
            sender.cut_off(now);
            if sender.give_up(now, true) {
                self.interrupted(&key);
                interrupted += 1;
            }
        }
        interrupted
    }

    pub(super) fn detach(&mut self, key: &SenderKey, connection: u64, now: Moment) {
        if let Some(sender) = self.senders.get_mut(key) {
            sender.detach(connection, now);
        }
        self.end_if_all_have();
    }

    pub(super) fn stream(
        &mut self,
        key: &SenderKey,
        connection: u64,
        incarnation: [u8; 16],
    ) -> Result<Arc<Stream>, Reason> {
        let sender = self.senders.get_mut(key).ok_or(Reason::PeerUnknown)?;
        // One that was replaced must not take its streams back.
        if !sender.is_on(connection) { Err(Reason::LinkLost) } else { sender.stream(incarnation) }
    }

    /// Tells receivers of senders that did not come back; how many there were.
    pub(super) fn give_up_on_lost(&mut self, now: Moment) -> usize {
        let lost: Vec<_> = self
            .senders
            .iter()
            .filter(|(_, sender)| {
                let gone = !sender.is_connected() && !self.may_return(sender);
                sender.give_up(now, gone)
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in &lost {
            self.interrupted(key);
        }
        if !lost.is_empty() {
            self.end_if_all_have();
        }
        lost.len()
    }

    /// A receiving lane opens.
    pub(super) fn join(&mut self, turns: Turns, arena: Arc<dyn TakeArena>) -> ReceiverId {
        let id = ReceiverId(self.number());
        for sender in self.interruptions.drain(..) {
            // A client that is gone already is noticed by its lane's task.
            let _ = turns.give(Turn::Interrupted { sender });
        }
        self.receivers
            .insert(id, Receiver { turns, arena, delivered: BTreeMap::new(), ended: false, failure: None });
        id
    }

    /// A receiving lane is over; what it had and did not take.
    pub(super) fn leave(&mut self, id: ReceiverId) -> Vec<Delivered> {
        let receiver = self.receivers.remove(&id);
        receiver.map(|receiver| receiver.delivered.into_values().collect()).unwrap_or_default()
    }

    /// Why a receiving lane ended, if it did not end well.
    pub(super) fn failure(&self, id: ReceiverId) -> Option<Reason> {
        self.receivers.get(&id).and_then(|receiver| receiver.failure)
    }

    pub(super) fn has_ended(&self, id: ReceiverId) -> bool {
        self.receivers.get(&id).is_some_and(|receiver| receiver.ended)
    }

    pub(super) fn taken(&mut self, id: ReceiverId, deliveries: &[DeliveryId]) -> Vec<Delivered> {
        let Some(receiver) = self.receivers.get_mut(&id) else { return Vec::new() };
        deliveries.iter().filter_map(|delivery| receiver.delivered.remove(delivery)).collect()
    }

    /// Looks for a place, behind those that wait already.
    pub(super) fn request(&mut self, stream: &Arc<Stream>, waiting: Waiting) -> Vec<Granted> {
        self.waiting.push_back((Arc::clone(stream), waiting));
        self.grant()
    }

    /// Gives out places in the order in which they were asked for.
    pub(super) fn grant(&mut self) -> Vec<Granted> {
        let mut granted = Vec::new();
        while let Some((stream, waiting)) = self.waiting.front() {
            let waiting = *waiting;
            if !stream.wants(&waiting) {
                self.waiting.pop_front();
                continue;
            }
            let place = match self.reserve(waiting.length) {
                Ok(place) => Some(place),
                Err(NoSlot::Full) => break,
                Err(NoSlot::TooLarge) => None,
            };
            let Some((stream, waiting)) = self.waiting.pop_front() else { break };
            granted.push(Granted { stream, waiting, place });
        }
        granted
    }

    /// A place in the memory of the next receiver that has room.
    fn reserve(&mut self, length: u64) -> Result<Place, NoSlot> {
        let takers: Vec<_> = self.receivers.iter().filter(|(_, receiver)| !receiver.ended).collect();
        let count = takers.len();
        let mut too_large = 0;
        for step in 0..count {
            let index = (self.turn + step) % count;
            let Some((id, receiver)) = takers.get(index) else { continue };
            match receiver.arena.reserve(length) {
                Ok(slot) => {
                    self.turn = index + 1;
                    return Ok(Place::new(**id, Arc::clone(&receiver.arena), slot));
                }
                Err(NoSlot::Full) => {}
                Err(NoSlot::TooLarge) => too_large += 1,
            }
        }
        if count > 0 && too_large == count {
            tracing::error!(
                bytes = length,
                "a tensor is larger than any receiving client's share of shared memory and is lost; annotate this pod with a larger sealane.dev/memory-limit (or set SEALANE_ARENA_BYTES)"
            );
            return Err(NoSlot::TooLarge);
        }
        Err(NoSlot::Full)
    }

    /// A whole tensor. False when it is lost: its client is gone with it, or its bytes have no place.
    pub(super) fn deliver(&mut self, stream: &Arc<Stream>, arrived: Arrived) -> bool {
        let Arrived { sequence, header, length, outcome } = arrived;
        let place = match outcome {
            Ok(place) => place,
            Err(receiver) => {
                receiver.inspect(|receiver| self.give_up_on_memory(*receiver));
                return false;
            }
        };
        let tensors = header.tensors();
        let id = DeliveryId(self.numbers + 1);
        self.numbers += tensors;
        let Some(receiver) = self.receivers.get_mut(&place.receiver) else { return false };
        let Some(slot) = place.into_slot() else { return false };
        let sender = stream.sender.clone();
        let delivery = Delivery { id, slot, length, header, sender, sequence };
        receiver.delivered.insert(id, Delivered { stream: Arc::clone(stream), sequence, tensors, length });
        // A client that is gone is noticed by its lane's task, which then finds this tensor among its deliveries.
        let _ = receiver.turns.give(Turn::Tensor(delivery));
        true
    }

    /// A client whose memory cannot be written gets nothing more.
    fn give_up_on_memory(&mut self, id: ReceiverId) {
        let Some(receiver) = self.receivers.get_mut(&id).filter(|receiver| !receiver.ended) else { return };
        receiver.ended = true;
        receiver.failure = Some(Reason::MemoryUnusable);
        let message = "this client's shared memory cannot be written; open the lane again";
        let _ = receiver.turns.give(super::over(&LaneError::closed(Reason::MemoryUnusable, message)));
    }

    /// A sender is gone without ending its stream.
    pub(super) fn interrupted(&mut self, key: &SenderKey) {
        let Some(name) = self.senders.get(key).map(|sender| sender.name().to_owned()) else { return };
        let mut told = false;
        for receiver in self.receivers.values().filter(|receiver| !receiver.ended) {
            told |= receiver.turns.give(Turn::Interrupted { sender: name.clone() }).is_ok();
        }
        if !told && self.interruptions.len() < INTERRUPTIONS_MAX {
            self.interruptions.push_back(name);
        }
    }

    /// Ends the lanes once every sender has closed: those that were seen, those that the configuration lists, and as many as
    /// the policy demands.
    pub(super) fn end_if_all_have(&mut self) {
        let any = self.senders.values().any(|sender| sender.has_ended() && !sender.is_busy());
        let pending = self.senders.values().any(|sender| {
            let expected = sender.is_connected() || (sender.has_streams() && self.may_return(sender));
            sender.is_busy() || (!sender.has_ended() && (expected || self.is_listed(sender)))
        });
        let unseen = || {
            let seen: BTreeSet<_> =
                self.senders.values().map(|sender| (sender.peer(), sender.id.as_str())).collect();
            let mut listed =
                self.listed.iter().flat_map(|(peer, listed)| listed.pods.iter().map(move |id| (peer, id)));
            listed.any(|(peer, id)| !seen.contains(&(peer, id.as_str())))
        };
        if !any || pending || unseen() || !self.has_enough() {
            return;
        }
        for receiver in self.receivers.values_mut().filter(|receiver| !receiver.ended) {
            receiver.ended = true;
            let _ = receiver.turns.give(Turn::End);
        }
    }

    /// Whether clients are done with every tensor that they were given, and the senders know.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.receivers.values().all(|receiver| receiver.delivered.is_empty())
            && self.senders.values().all(|sender| sender.is_acknowledged())
    }

    /// Ends the lanes with an error; connections stay.
    pub(super) fn fail(&mut self, error: &LaneError) {
        for receiver in self.receivers.values_mut().filter(|receiver| !receiver.ended) {
            receiver.ended = true;
            receiver.failure = Some(error.reason);
            let _ = receiver.turns.give(super::over(error));
        }
    }

    pub(super) fn close(&mut self, reason: Reason, error: &LaneError) {
        self.fail(error);
        self.senders.values().for_each(|sender| sender.close(reason));
    }

    /// As [`Hub::close`], for a session that may go on later: what was delivered stays known.
    pub(super) fn rest(&mut self, reason: Reason, error: &LaneError) {
        self.close(reason, error);
        self.senders.values().for_each(|sender| sender.rest());
        self.interruptions.clear();
    }

    fn forget_oldest(&mut self) {
        let idle = self.senders.iter().filter(|(_, sender)| !sender.is_connected() && !sender.is_busy());
        let oldest = idle.min_by_key(|(_, sender)| sender.seen).map(|(key, _)| key.clone());
        if let Some(pod) = oldest {
            self.senders.remove(&pod);
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}
