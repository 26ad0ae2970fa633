//! The two sides and the pipes between them.

use sealane_attestation::rejudge;
use sealane_policy::{Floors, VerifiedPolicy};
use sealane_protocol::Moment;
use sealane_protocol::connection::{
    AcceptSetup, BulkError, BulkOpened, BulkRecord, ClosedBy, Connection, Event, EvidenceReceived, Fail,
    Local, Setup, Sink,
};
use sealane_protocol::frame::{Frame, Incarnation, Open, Sequence, Sequences, StreamId, Taken, TensorHeader};
use sealane_protocol::handshake::{Kind, Suite};
use sealane_protocol::ticket::{self, Issued, Ticket};
use sealane_types::{Cipher, Reason};

use crate::endpoint::Endpoint;
use crate::world::{
    Counter, Guest, Who, appraise, chain, local, policy, session, verified, view, wall_clock,
};

/// A frame that outlives its record.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    Open(Open),
    Tensor { sequence: Sequence, name: String, length: u64 },
    Chunk { sequence: Sequence, offset: u64, bytes: Vec<u8> },
    Other(String),
}

/// Collects what arrives, or hands it to the end of a stream.
#[derive(Debug, Default)]
pub struct Collected(pub Vec<Seen>, pub Option<Endpoint>);

impl Sink for Collected {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        if let Some(endpoint) = &mut self.1 {
            return endpoint.on_frame(frame);
        }
        self.0.push(match frame {
            Frame::Open(open) => Seen::Open(open),
            Frame::Tensor(TensorHeader { sequence, name, length, .. }) => {
                Seen::Tensor { sequence, name: name.to_owned(), length }
            }
            Frame::Chunk(chunk) => {
                Seen::Chunk { sequence: chunk.sequence, offset: chunk.offset, bytes: chunk.bytes.to_vec() }
            }
            other => Seen::Other(format!("{other:?}")),
        });
        Ok(())
    }

    fn on_bulk(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        if let Some(endpoint) = &mut self.1 {
            return endpoint.on_bulk(record);
        }
        let (chunk, opened) = record.open()?;
        self.on_frame(Frame::Chunk(chunk))?;
        Ok(opened)
    }
}

/// One end with its shell.
pub struct Side {
    pub connection: Connection,
    pub local: Local,
    pub policy: VerifiedPolicy,
    pub guest: Guest,
    /// Bytes that arrived and were not consumed yet.
    pub inbox: Vec<u8>,
    pub seen: Collected,
    pub events: Vec<Event>,
    pub fail: Option<Fail>,
    pub received: Option<EvidenceReceived>,
    /// Events of these kinds are left to the test.
    pub held: Vec<Held>,
    /// Tickets that it gave out, and those that it got.
    pub issued: Issued,
    pub tickets: ticket::Held<()>,
    /// Seeds of answers to renewals.
    pub(crate) answered: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Ticket,
    Policy,
    Quote,
    Verdict,
    Auditor,
}

impl Side {
    fn new(connection: Connection, who: Who, local: Local, policy: VerifiedPolicy) -> Self {
        Self {
            connection,
            local,
            policy,
            guest: Guest::of(who),
            inbox: Vec::new(),
            seen: Collected::default(),
            events: Vec::new(),
            fail: None,
            received: None,
            held: Vec::new(),
            issued: Issued::default(),
            tickets: ticket::Held::default(),
            answered: 1_000,
        }
    }

    /// Answers events as an honest shell does.
    pub(crate) fn answer(&mut self, now: Moment) {
        while let Some(event) = self.connection.poll_event() {
            // An answer that comes too late would be refused.
            let over = self.connection.is_closed();
            match &event {
                _ if over => {}
                Event::TicketPresented(id) if !self.held.contains(&Held::Ticket) => {
                    let ticket = self.issued.take(*id, now);
                    self.connection.answer_ticket(ticket).unwrap();
                }
                Event::ResumptionOffered(past) if !self.held.contains(&Held::Verdict) => {
                    let verdict = rejudge(past, &self.policy, wall_clock());
                    self.connection.judged(verdict.map_err(|rejection| rejection.reason())).unwrap();
                }
                Event::PolicyWanted if !self.held.contains(&Held::Policy) => {
                    let bytes = serde_json::to_vec(self.policy.chain()).unwrap();
                    self.connection.supply_policy(self.policy.epoch(), &bytes).unwrap();
                }
                Event::PolicyOffered { chain, .. } if !self.held.contains(&Held::Policy) => {
                    self.adopt(chain);
                }
                Event::AuditorIntroduced if !self.held.contains(&Held::Auditor) => {
                    self.connection.admit_auditor().unwrap();
                }
                Event::EvidenceWanted(wanted) if !self.held.contains(&Held::Quote) => {
                    let message = self.guest.prove(wanted.leaf, &self.local, &self.policy);
                    self.connection.supply_evidence(&message).unwrap();
                }
                Event::ReattestationAsked => {
                    self.connection.answer_reattestation(&mut Counter(self.answered)).unwrap();
                    self.answered += 1;
                }
                _ => {}
            }
            if let Event::TicketReceived(ticket) = event {
                self.tickets.insert((), *ticket);
            } else if let Event::EvidenceReceived(received) = event {
                if self.held.contains(&Held::Verdict) {
                    self.received = Some(*received);
                } else if !over {
                    let verdict = appraise(&received, &self.policy);
                    self.connection.judged(verdict.map_err(|rejection| rejection.reason())).unwrap();
                }
            } else {
                self.events.push(event);
            }
        }
    }

    pub fn adopt(&mut self, chain: &[u8]) {
        match serde_json::from_slice(chain).ok().and_then(|chain| verified(&chain).ok()) {
            Some(policy) => {
                self.connection.policy_adopted(view(&policy));
                self.policy = policy;
            }
            None => self.connection.close(Reason::PolicyUnsigned),
        }
    }

    fn consume(&mut self, now: Moment) {
        if self.connection.is_closed() {
            self.inbox.clear();
            return;
        }
        match self.connection.handle_input(now, &mut self.inbox, &mut self.seen) {
            Ok(used) => drop(self.inbox.drain(..used)),
            Err(fail) => self.fail = Some(fail),
        }
        self.answer(now);
    }

    /// Who ended the connection, and why.
    pub fn closed(&self) -> Option<(ClosedBy, Reason)> {
        self.events.iter().find_map(|event| match event {
            Event::Closed { by, reason } => Some((*by, *reason)),
            _ => None,
        })
    }

    pub fn established(&self) -> Option<Suite> {
        self.events.iter().find_map(|event| match event {
            Event::Established { suite } => Some(*suite),
            _ => None,
        })
    }

    /// All sealed bytes that are ready to leave.
    pub fn drain(&mut self, now: Moment) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let ready = self.connection.poll_output(now);
            if ready.is_empty() {
                return bytes;
            }
            bytes.extend_from_slice(ready);
            let written = ready.len();
            self.connection.output_written(written);
        }
    }
}

/// What to make a pair of.
pub struct Recipe {
    pub kind: Kind,
    pub initiator_policy: VerifiedPolicy,
    pub responder_policy: VerifiedPolicy,
    pub initiator: Box<dyn Fn(&mut Local)>,
    pub responder: Box<dyn Fn(&mut Local)>,
    pub seed: u64,
    /// When both begin.
    pub now: Moment,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            kind: Kind::Full,
            initiator_policy: policy(1),
            responder_policy: policy(1),
            initiator: Box::new(|_| {}),
            responder: Box::new(|_| {}),
            seed: 1,
            now: Moment::from_micros(1_000_000),
        }
    }
}

impl Recipe {
    /// Both sides speak these suites, and their policy permits classical exchange if asked for.
    pub fn with_suites(suites: &[Suite], classical: bool) -> Self {
        let ciphers = Cipher::ALL.iter().copied().collect();
        let floors = Floors { post_quantum: !classical, ciphers, ..Floors::default() };
        let policy = verified(&chain(1, &floors, 3600)).unwrap();
        let (for_initiator, for_responder) = (suites.to_vec(), suites.to_vec());
        Self {
            initiator_policy: policy.clone(),
            responder_policy: policy,
            initiator: Box::new(move |local| local.suites = for_initiator.clone()),
            responder: Box::new(move |local| local.suites = for_responder.clone()),
            ..Self::default()
        }
    }
}

pub struct Pair {
    pub initiator: Side,
    pub responder: Side,
    pub now: Moment,
    pub random: Counter,
    /// Deliver in random pieces rather than whole.
    pub fragmented: bool,
}

impl Default for Pair {
    fn default() -> Self {
        Self::of(Recipe::default())
    }
}

impl Pair {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn of(recipe: Recipe) -> Self {
        let Recipe { kind, initiator_policy, responder_policy, initiator, responder, seed, now } = recipe;
        let mut random = Counter(seed);
        let mut dialler = local(Who::Embedder, &initiator_policy, &mut random);
        initiator(&mut dialler);
        let mut accepter = local(Who::Ranker, &responder_policy, &mut random);
        responder(&mut accepter);
        let setup = Setup { local: dialler.clone(), kind, expected: Who::Ranker.peer(), session: session() };
        let accept = AcceptSetup { local: accepter.clone(), audit: kind == Kind::Audit };
        let first = Connection::initiate(setup, &mut random, now).unwrap();
        let second = Connection::accept(accept, &mut random, now).unwrap();
        Self {
            initiator: Side::new(first, Who::Embedder, dialler, initiator_policy),
            responder: Side::new(second, Who::Ranker, accepter, responder_policy),
            now,
            random,
            fragmented: false,
        }
    }

    pub fn connected() -> Self {
        Self::connected_of(Recipe::default())
    }

    pub fn connected_of(recipe: Recipe) -> Self {
        let mut pair = Self::of(recipe);
        pair.run();
        assert!(pair.initiator.established().is_some(), "{:?}", pair.initiator.events);
        assert!(pair.responder.established().is_some(), "{:?}", pair.responder.events);
        pair
    }

    /// The responder gives out a ticket that is good for `seconds`, and the initiator keeps it.
    pub fn give_ticket(&mut self, seconds: u64) {
        let deadline = self.now.plus_micros(seconds * 1_000_000);
        let ticket = self.responder.connection.issue_ticket(deadline, &mut self.random).unwrap();
        self.responder.issued.insert(ticket, self.now);
        self.run();
    }

    /// The newest ticket that the initiator got.
    pub fn take_ticket(&mut self) -> Ticket {
        self.initiator.tickets.take(&(), self.now).unwrap()
    }

    /// The same two processes begin another connection by a ticket, under the policies that they hold now. They keep what
    /// tickets they have.
    pub fn resuming(self, ticket: Ticket) -> Self {
        let Self { initiator, responder, now, mut random, fragmented } = self;
        let again = |side: &Side| Local { policy: view(&side.policy), ..side.local.clone() };
        let (dialler, accepter) = (again(&initiator), again(&responder));
        let expected = Who::Ranker.peer();
        let setup = Setup { local: dialler.clone(), kind: Kind::Full, expected, session: session() };
        let first = Connection::resume(setup, ticket, &mut random, now).unwrap();
        let accept = AcceptSetup { local: accepter.clone(), audit: false };
        let second = Connection::accept(accept, &mut random, now).unwrap();
        let of = |connection, who, local, before: Side| {
            let Side { policy, issued, tickets, .. } = before;
            Side { issued, tickets, ..Side::new(connection, who, local, policy) }
        };
        Self {
            initiator: of(first, Who::Embedder, dialler, initiator),
            responder: of(second, Who::Ranker, accepter, responder),
            now,
            random,
            fragmented,
        }
    }

    /// Moves bytes until nothing moves any more.
    pub fn run(&mut self) {
        self.run_through(|_, bytes| bytes);
    }

    /// Moves bytes, each flight through `bend`, until nothing moves any more.
    pub fn run_through(&mut self, mut bend: impl FnMut(Who, Vec<u8>) -> Vec<u8>) {
        loop {
            let there = self.flight(Who::Embedder);
            let moved = !there.is_empty();
            let there = bend(Who::Embedder, there);
            self.deliver(Who::Ranker, &there);
            let back = self.flight(Who::Ranker);
            let moved = moved || !back.is_empty();
            let back = bend(Who::Ranker, back);
            self.deliver(Who::Embedder, &back);
            if !moved {
                return;
            }
        }
    }

    pub fn side(&mut self, who: Who) -> &mut Side {
        match who {
            Who::Embedder => &mut self.initiator,
            Who::Ranker => &mut self.responder,
        }
    }

    /// Everything that `who` has to send now.
    pub fn flight(&mut self, who: Who) -> Vec<u8> {
        let now = self.now;
        let side = self.side(who);
        side.answer(now);
        side.drain(now)
    }

    pub fn deliver(&mut self, to: Who, bytes: &[u8]) {
        let now = self.now;
        let mut rest = bytes;
        while !rest.is_empty() {
            let length =
                if self.fragmented { 1 + self.random.below(rest.len().min(5000)) } else { rest.len() };
            let (part, after) = rest.split_at(length);
            rest = after;
            let side = self.side(to);
            side.inbox.extend_from_slice(part);
            side.consume(now);
        }
        let side = self.side(to);
        side.consume(now);
    }

    pub fn advance(&mut self, micros: u64) {
        self.now = self.now.plus_micros(micros);
        for who in [Who::Embedder, Who::Ranker] {
            let now = self.now;
            let side = self.side(who);
            if side.connection.poll_timeout().is_some_and(|due| due <= now) {
                side.connection.handle_timeout(now);
            }
            side.answer(now);
        }
    }

    pub fn assert_nobody_established(&self) {
        assert_eq!(self.initiator.established(), None);
        assert_eq!(self.responder.established(), None);
        assert_eq!(self.initiator.seen.0, []);
        assert_eq!(self.responder.seen.0, []);
    }
}

pub const STREAM: StreamId = StreamId(3);

pub fn open_frame() -> Frame<'static> {
    Frame::Open(Open { stream: STREAM, incarnation: Incarnation([9; 16]), base_sequence: Sequence(0) })
}

pub fn taken_frame(sequences: &[Sequence]) -> Frame<'_> {
    Frame::Taken(Taken { stream: STREAM, sequences: Sequences::new(sequences) })
}
