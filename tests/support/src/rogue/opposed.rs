//! An honest connection with a rogue at its other end.

use sealane_protocol::Moment;
use sealane_protocol::connection::{AcceptSetup, Connection, Event, Fail, Setup, Sink};
use sealane_protocol::handshake::{Kind, Suite};
use sealane_protocol::ticket::Issued;
use sealane_types::{Cipher, Reason};

use super::{
    Answering, Claim, Dialling, Presenting, Rogue, confirm, evidence, hello, hello_with, presentation, ready,
};
use crate::rehearsal::{
    EMBEDDER_STATIC, FIXED_SECRET, RANKER_STATIC, first_policy, rehearsed, rehearsed_local,
};
use crate::world::{Counter, Who, session, trust};

/// Which side the rogue plays; the other one is honest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RogueIs {
    Initiator,
    Responder,
}

impl RogueIs {
    pub(super) const fn who(self) -> Who {
        match self {
            Self::Initiator => Who::Embedder,
            Self::Responder => Who::Ranker,
        }
    }

    pub(super) const fn victim(self) -> Who {
        match self {
            Self::Initiator => Who::Ranker,
            Self::Responder => Who::Embedder,
        }
    }
}

pub struct Opposed {
    pub honest: Connection,
    pub rogue: Rogue,
    pub events: Vec<Event>,
    pub now: Moment,
    pub(super) rogue_is: RogueIs,
    /// Bytes that arrived and were not consumed yet.
    inbox: Vec<u8>,
}

/// The suite of these connections.
pub const SUITE: Suite = Suite::new(sealane_protocol::handshake::KeyExchange::Hybrid, Cipher::Aes256Gcm);

pub(super) const EPHEMERAL: [u8; 32] = [3; 32];

pub(super) struct Deaf;

impl Sink for Deaf {
    fn on_frame(&mut self, frame: sealane_protocol::frame::Frame<'_>) -> Result<(), Reason> {
        panic!("{frame:?} before both verdicts");
    }
}

/// Everything that `connection` has to send.
pub fn drain(connection: &mut Connection, now: Moment) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let bytes = connection.poll_output(now);
        if bytes.is_empty() {
            return all;
        }
        all.extend_from_slice(bytes);
        let written = bytes.len();
        connection.output_written(written);
    }
}

impl Opposed {
    /// Keys are shared and nothing has been said under them by the rogue.
    pub fn keyed(rogue_is: RogueIs) -> Self {
        Self::greeted(rogue_is, &hello(0, &[SUITE]))
    }

    /// The same with another hello of a rogue that dials.
    fn greeted(rogue_is: RogueIs, hello: &[u8]) -> Self {
        let now = Moment::from_micros(1_000_000);
        let local = rehearsed_local(rogue_is.victim());
        let (honest, rogue) = match rogue_is {
            RogueIs::Initiator => {
                let setup = AcceptSetup { local, audit: false };
                let mut honest = Connection::accept(setup, &mut Counter(2), now).unwrap();
                let (rogue, mut first) = Dialling::begin((EMBEDDER_STATIC, EPHEMERAL), hello, &[0x4b; 1184]);
                honest.handle_input(now, &mut first, &mut Deaf).unwrap();
                let reply = drain(&mut honest, now);
                let (rogue, mut third) = rogue.finish(&reply, &[], SUITE, |_| FIXED_SECRET).unwrap();
                honest.handle_input(now, &mut third, &mut Deaf).unwrap();
                (honest, rogue)
            }
            RogueIs::Responder => {
                let (kind, expected) = (Kind::Full, Who::Ranker.peer());
                let setup = Setup { local, kind, expected, session: session() };
                let mut honest = Connection::initiate(setup, &mut Counter(2), now).unwrap();
                let first = drain(&mut honest, now);
                let choice = [&[0, 1][..], &SUITE.code().to_be_bytes(), &[0; 4], &[0x63; 1088]].concat();
                let answer = |_: &[u8]| (choice, Some(FIXED_SECRET));
                let (rogue, mut reply) =
                    Answering::begin((RANKER_STATIC, EPHEMERAL), &first, SUITE, answer).unwrap();
                honest.handle_input(now, &mut reply, &mut Deaf).unwrap();
                let flight = drain(&mut honest, now);
                let (mut rogue, used) = rogue.finish(&flight).unwrap();
                assert_eq!(rogue.open.open_all(&flight[used..]).unwrap().len(), 1, "its confirm frame");
                (honest, rogue)
            }
        };
        Self::new(honest, rogue, rogue_is, now)
    }

    pub(super) const fn new(honest: Connection, rogue: Rogue, rogue_is: RogueIs, now: Moment) -> Self {
        Self { honest, rogue, events: Vec::new(), now, rogue_is, inbox: Vec::new() }
    }

    /// Both sides have a verdict: a rehearsed one, and the rogue's, which would take anybody.
    pub fn established(rogue_is: RogueIs) -> Self {
        Self::keyed(rogue_is).proved()
    }

    /// The same with a rogue that dials and takes tickets.
    pub fn taking_tickets() -> Self {
        Self::greeted(RogueIs::Initiator, &hello_with(0, &[SUITE], 1, &[])).proved()
    }

    /// An honest side that a rogue presents a ticket to, once this shell has looked for it.
    ///
    /// # Errors
    /// What the honest side finds wrong with the first flight, or with the ticket.
    pub fn presented(
        id: [u8; 16],
        secret: [u8; 32],
        issued: &mut Issued,
        now: Moment,
    ) -> Result<Self, Reason> {
        let setup = AcceptSetup { local: rehearsed_local(Who::Ranker), audit: false };
        let mut honest = Connection::accept(setup, &mut Counter(2), now).unwrap();
        let (rogue, mut first) = Presenting::begin(EPHEMERAL, &presentation(&id, &[SUITE]), secret, &[]);
        honest.handle_input(now, &mut first, &mut Deaf).map_err(|fail| fail.reason())?;
        let Some(Event::TicketPresented(asked)) = honest.poll_event() else { return Err(Reason::Internal) };
        honest.answer_ticket(issued.take(asked, now)).unwrap();
        if let Some(Event::Closed { reason, .. }) = honest.poll_event() {
            return Err(reason);
        }
        let rogue = rogue.finish(&drain(&mut honest, now), SUITE).unwrap();
        Ok(Self { honest, rogue, events: Vec::new(), now, rogue_is: RogueIs::Initiator, inbox: Vec::new() })
    }

    fn proved(self) -> Self {
        let rogue_is = self.rogue_is;
        let mut opposed = self;
        let claim = confirm(&opposed.claim());
        let proof = evidence(&rehearsed(rogue_is.who()).evidence.encode().unwrap());
        match rogue_is {
            RogueIs::Initiator => {
                opposed.say(&[claim, proof].concat(), &mut Deaf).unwrap();
                opposed.hear();
                opposed.say(&ready(), &mut Deaf).unwrap();
            }
            RogueIs::Responder => {
                opposed.say(&claim, &mut Deaf).unwrap();
                opposed.hear();
                opposed.say(&proof, &mut Deaf).unwrap();
            }
        }
        opposed.hear();
        assert!(opposed.honest.is_established(), "{:?}", opposed.events);
        opposed
    }

    /// What the rogue claims when it wants to be believed.
    pub fn claim(&self) -> Claim {
        let policy = first_policy();
        Claim {
            version: 1,
            peer: self.rogue_is.who().peer().to_string(),
            expected: self.rogue_is.victim().peer().to_string(),
            session: session().to_string(),
            pod: self.rogue_is.who().pod().as_str().to_owned(),
            epoch: policy.epoch(),
            digest: policy.digest(),
            trust: trust().to_bytes(),
        }
    }

    /// Seals `plaintext` as one data record and hands it to the honest side.
    ///
    /// # Errors
    /// What the honest side finds wrong with it.
    pub fn say(&mut self, plaintext: &[u8], sink: &mut dyn Sink) -> Result<(), Fail> {
        let record = self.rogue.seal.seal(super::DATA, plaintext);
        self.deliver(&record, sink)
    }

    /// Hands bytes to the honest side, and answers what it asks.
    ///
    /// # Errors
    /// See [`Self::say`].
    pub fn deliver(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), Fail> {
        self.inbox.extend_from_slice(bytes);
        let result = self.honest.handle_input(self.now, &mut self.inbox, sink);
        self.answer();
        self.inbox.drain(..result?);
        Ok(())
    }

    /// What the honest side says: the plaintexts of its records.
    pub fn hear(&mut self) -> Vec<Vec<u8>> {
        self.answer();
        let flight = drain(&mut self.honest, self.now);
        self.rogue.open.open_all(&flight).unwrap()
    }

    /// An honest shell with rehearsed evidence and verdicts.
    pub(super) fn answer(&mut self) {
        while let Some(event) = self.honest.poll_event() {
            // The rogue may have ended the connection in the same breath: then an answer is refused, and changes nothing.
            let _ = match &event {
                Event::EvidenceWanted(_) => {
                    let own = rehearsed(self.rogue_is.victim());
                    self.honest.supply_evidence(&own.evidence)
                }
                Event::EvidenceReceived(received) => {
                    // Whoever claims to be another than was rehearsed has no verdict.
                    let known = &rehearsed(self.rogue_is.who()).verdict;
                    let remote = &received.introduction;
                    let same = known.peer() == &remote.peer && known.pod() == &remote.pod;
                    let verdict = if same { Ok(known.clone()) } else { Err(Reason::PeerUnknown) };
                    self.honest.judged(verdict)
                }
                Event::PolicyWanted => {
                    let chain = serde_json::to_vec(first_policy().chain()).unwrap();
                    self.honest.supply_policy(1, &chain)
                }
                Event::ReattestationAsked => self.honest.answer_reattestation(&mut Counter(7)),
                Event::ResumptionOffered(past) => self.honest.judged(Ok((**past).clone())),
                _ => Ok(()),
            };
            self.events.push(event);
        }
    }
}
