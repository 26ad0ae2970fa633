//! Everything there is, and what transitions do to it.

use sealane_policy::VerifiedPolicy;
use sealane_protocol::Moment;
use sealane_protocol::connection::Sink;
use sealane_protocol::frame::{Sequence, StreamId};
use sealane_protocol::record::Rekey;
use sealane_support::endpoint::Sender;
use sealane_support::ends::End;
use sealane_support::rehearsal::{first_policy, rehearsed, rehearsed_local};
use sealane_support::world::{Counter, Who, policy, view};
use sealane_types::Reason;

use crate::assertions;
use crate::network::Link;
use crate::process::{Receiving, Sending};
use crate::reference::Reference;
use crate::transition::{Setting, Transition, Way};

/// More rounds than any honest exchange takes: beyond, two sides keep each other busy for nothing.
const ROUNDS_MAX: usize = 20_000;

pub struct World {
    pub(crate) reference: Reference,
    pub(crate) sending: Sending,
    pub(crate) receiving: Receiving,
    /// The side that dials, and the one that is dialled.
    pub(crate) ends: Option<[End; 2]>,
    pub(crate) links: [Link; 2],
    pub(crate) now: Moment,
    stalled: bool,
    policies: [VerifiedPolicy; 2],
    random: Counter,
    setting: Setting,
}

/// A policy as it travels.
fn newer_chain(policy: &VerifiedPolicy) -> Vec<u8> {
    serde_json::to_vec(policy.chain()).unwrap()
}

/// The side that sends on this way, as an index.
const fn sender(way: Way) -> usize {
    match way {
        Way::There => 0,
        Way::Back => 1,
    }
}

impl World {
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        let receiving = Receiving::new(setting.arena as usize, setting.staging.into());
        Self {
            reference: Reference::default(),
            sending: Sending::default(),
            receiving,
            ends: None,
            links: [Link::default(), Link::default()],
            now: Moment::from_micros(1_000_000),
            stalled: false,
            policies: [first_policy().clone(), first_policy().clone()],
            random: Counter(setting.seed),
            setting,
        }
    }

    /// Lets one thing happen, and holds what must hold.
    ///
    /// # Panics
    /// When it does not.
    pub fn apply(&mut self, transition: &Transition) {
        match transition {
            Transition::Push { stream, lengths } => self.push(*stream, lengths),
            Transition::Take { stream, picks } => self.take(*stream, picks),
            Transition::Finish { stream } => self.finish_lane(*stream),
            Transition::Abort { stream } => self.abort(*stream),
            Transition::Deliver { way, bytes } => {
                self.flush();
                self.deliver(*way, *bytes as usize);
            }
            Transition::Settle => self.settle(),
            Transition::Fault { way, fault } => {
                self.flush();
                let back = self.links[1 - sender(*way)].flying().to_vec();
                self.links[sender(*way)].suffer(fault, &back);
            }
            Transition::Stall(stalled) => self.stalled = *stalled,
            Transition::Cut { both } => self.cut(*both),
            Transition::Crash => self.crash(),
            Transition::Advance { millis } => self.advance(u64::from(*millis) * 1_000),
            Transition::Close { way } => {
                if let Some(ends) = &mut self.ends {
                    ends[sender(*way)].connection.close(Reason::Finished);
                }
            }
            Transition::Epoch { way } => self.epoch(*way),
            Transition::Rejudge { way } => self.rejudge(*way),
            Transition::Dial => self.dial(),
        }
        self.after();
    }

    /// Everything heals: what was pushed and is owed arrives, and every stream ends.
    ///
    /// # Panics
    /// When something is missing.
    pub fn heal(&mut self) {
        self.stalled = false;
        self.cut(true);
        self.after();
        self.dial();
        let finishing: Vec<StreamId> = self.reference.lanes.keys().copied().collect();
        for id in finishing {
            let lane = self.reference.lanes.get_mut(&id).unwrap();
            if !lane.aborted {
                lane.finished = true;
                self.sending.stream(id).outbound.finish();
            }
        }
        for _ in 0..ROUNDS_MAX {
            self.settle();
            let mut took = false;
            for receiver in self.receiving.streams.values_mut() {
                took |= receiver.take(0);
                if receiver.inbound.is_ended() {
                    receiver.inbound.end_seen();
                }
            }
            self.after();
            let ended = self.sending.streams.values().all(|sender| sender.outbound.is_ended());
            if !took && ended {
                break;
            }
        }
        assertions::healed(self);
    }

    fn push(&mut self, place: u8, lengths: &[u32]) {
        let id = self.reference.open(place);
        let lane = self.reference.lanes.get_mut(&id).unwrap();
        for length in lengths {
            let bytes = self.random.bytes(*length as usize);
            let sequence = Sequence(lane.next);
            lane.next += 1 + self.random.below(2) as u64;
            self.sending.stream(id).push(sequence, bytes.clone());
            lane.pushed.insert(sequence, bytes);
        }
    }

    fn take(&mut self, place: u8, picks: &[u8]) {
        let Some(id) = self.reference.at(place) else { return };
        let Some(receiver) = self.receiving.streams.get_mut(&id) else { return };
        for pick in picks {
            receiver.take((*pick).into());
        }
        if receiver.inbound.is_ended() {
            receiver.inbound.end_seen();
        }
    }

    fn finish_lane(&mut self, place: u8) {
        let Some(id) = self.reference.at(place) else { return };
        let lane = self.reference.lanes.get_mut(&id).unwrap();
        if !lane.aborted {
            lane.finished = true;
            self.sending.stream(id).outbound.finish();
        }
    }

    fn abort(&mut self, place: u8) {
        let Some(id) = self.reference.at(place) else { return };
        self.reference.lanes.get_mut(&id).unwrap().aborted = true;
        self.sending.abort(id);
    }

    /// Both processes say what they have to say, as far as the carrier takes it.
    fn flush(&mut self) {
        let Self { ends: Some(ends), sending, receiving, links, now, .. } = self else { return };
        for (side, end) in ends.iter_mut().enumerate() {
            end.answer();
            if end.connection.is_established() {
                match side {
                    0 => sending.pump(&mut end.connection),
                    _ => receiving.pump(&mut end.connection),
                }
            }
            loop {
                let ready = end.connection.poll_output(*now);
                assertions::output(ready.len());
                let written = ready.len().min(links[side].room());
                if written == 0 {
                    break;
                }
                links[side].send(&ready[..written]);
                end.connection.output_written(written);
            }
        }
    }

    /// The next bytes of one way arrive. Returns whether there were any.
    fn deliver(&mut self, way: Way, bytes: usize) -> bool {
        let Self { ends: Some(ends), sending, receiving, links, now, stalled, .. } = self else {
            return false;
        };
        if *stalled {
            return false;
        }
        let from = sender(way);
        let given = links[from].give(bytes);
        let sink: &mut dyn Sink = match way {
            Way::There => receiving,
            Way::Back => sending,
        };
        ends[1 - from].feed(*now, &given, sink);
        !given.is_empty()
    }

    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < ROUNDS_MAX, "the two sides never come to rest");
            self.flush();
            let mut moved = false;
            for way in Way::BOTH {
                let bytes = 1 + self.random.below(60_000);
                moved |= self.deliver(way, bytes);
            }
            if !moved && !self.part() {
                return;
            }
            self.after();
        }
    }

    /// When one side is over and all that it said has arrived, its carrier ends too.
    fn part(&mut self) -> bool {
        let Self { ends: Some(ends), links, stalled, .. } = self else { return false };
        let over = |side: usize| ends[side].connection.is_closed() && links[side].is_empty();
        let left = (0..2).find(|side| over(*side) && !ends[1 - side].connection.is_closed());
        match left {
            Some(side) if !*stalled => {
                ends[1 - side].connection.handle_cut();
                true
            }
            _ => false,
        }
    }

    fn cut(&mut self, both: bool) {
        self.links.iter_mut().for_each(Link::break_off);
        if let Some([first, second]) = &mut self.ends {
            first.connection.handle_cut();
            if both {
                second.connection.handle_cut();
            }
        }
    }

    /// The receiving process dies. What had not left for it goes to the next one; of the rest nobody knows.
    fn crash(&mut self) {
        self.cut(true);
        self.after();
        assertions::taken_only_what_left(self);
        self.receiving = Receiving::new(self.setting.arena as usize, self.setting.staging.into());
        for (id, sender) in &mut self.sending.streams {
            let lane = self.reference.lanes.get_mut(id).unwrap();
            let mut next = Sender::new(*id);
            for sequence in sender.outbound.unacknowledged() {
                if sender.sent.contains(&sequence) {
                    lane.uncertain.insert(sequence);
                } else {
                    next.push(sequence, sender.tensors[&sequence].clone());
                }
            }
            if lane.finished {
                next.outbound.finish();
            }
            *sender = next;
        }
    }

    fn advance(&mut self, micros: u64) {
        let until = self.now.plus_micros(micros);
        for round in 0.. {
            assert!(round < ROUNDS_MAX, "time does not pass");
            let due = |end: &End| end.connection.poll_timeout();
            let next = self.ends.iter().flatten().filter_map(due).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            for end in self.ends.iter_mut().flatten() {
                if end.connection.poll_timeout().is_some_and(|due| due <= self.now) {
                    end.connection.handle_timeout(self.now);
                    end.answer();
                    let again = end.connection.poll_timeout();
                    assert!(again.is_none_or(|again| again > self.now), "the same moment is due again");
                }
            }
            self.settle();
        }
        self.now = until;
    }

    /// One side holds a newer policy.
    fn epoch(&mut self, way: Way) {
        let side = sender(way);
        let epoch = self.policies.iter().map(VerifiedPolicy::epoch).max().unwrap_or_default() + 1;
        let newer = policy(epoch);
        if let Some(ends) = &mut self.ends {
            let end = &mut ends[side];
            end.policy = newer.clone();
            end.connection.policy_adopted(view(&newer));
            let chain = newer_chain(&newer);
            // A connection that is not established, or over, takes none; its handshake will.
            let _ = end.connection.supply_policy(epoch, &chain);
        }
        self.policies[side] = newer;
    }

    fn rejudge(&mut self, way: Way) {
        let side = sender(way);
        let other = if side == 0 { Who::Ranker } else { Who::Embedder };
        if let Some(ends) = &mut self.ends
            && ends[side].connection.is_established()
        {
            ends[side].connection.reconsidered(Ok(rehearsed(other).verdict.clone())).unwrap();
        }
    }

    fn dial(&mut self) {
        if self.ends.as_ref().is_some_and(|ends| !ends[0].connection.is_closed()) {
            return;
        }
        // A process that hears from the same peer anew gives the old connection up.
        self.cut(true);
        self.after();
        let (bytes, records, millis) = self.setting.rekey;
        let rekey = Rekey::new(bytes.into(), records.into(), u64::from(millis) * 1_000);
        let local = |who: Who, policy: &VerifiedPolicy| {
            let mut local = rehearsed_local(who);
            (local.rekey, local.policy) = (rekey, view(policy));
            local
        };
        let [first, second] = &self.policies;
        let (dialler, accepter) = (local(Who::Embedder, first), local(Who::Ranker, second));
        let dialler = End::dial(dialler, &mut self.random, self.now).holding(first.clone());
        let accepter = End::accept(accepter, &mut self.random, self.now).holding(second.clone());
        self.ends = Some([dialler, accepter]);
        self.links = [Link::default(), Link::default()];
    }

    /// What shells do when something has happened, and what must hold whatever it was.
    fn after(&mut self) {
        for (side, end) in self.ends.iter_mut().flatten().enumerate() {
            end.answer();
            if end.policy.epoch() > self.policies[side].epoch() {
                self.policies[side] = end.policy.clone();
            }
            if end.connection.is_closed() {
                match side {
                    0 => self.sending.detach(),
                    _ => self.receiving.detach(),
                }
            }
        }
        for (id, sequence, bytes) in self.receiving.delivered() {
            self.reference.took(id, sequence, &bytes);
        }
        assertions::hold(self);
    }
}
