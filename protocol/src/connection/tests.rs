//! Rogue ends that hold genuine keys: they seal whatever they like, and an honest connection refuses it.

use std::sync::Arc;

use sealane_attestation::binding::{Leaf, MerklePath, Purpose};
use sealane_attestation::{Evidence, EvidenceMessage, Format};
use sealane_types::{Cipher, Digest, PodIdentity, SessionName};

use super::*;
use crate::frame::control::{Confirm, Control, Fragment};
use crate::frame::{StreamId, encode};
use crate::handshake::{Finished, Floor, Hello, Initiator, Kind, Responder};
use crate::keys::{Label, MlKem768, RandomFailed, Secret, StaticKey};
use crate::limits::{
    EVIDENCE_BYTES_MAX, LIFE_MICROS, POLICY_CHAIN_BYTES_MAX, RECORD_HEADER_BYTES, TAG_BYTES,
};
use crate::record::{RecordKind, Rekey, Sealer};

mod resumption;

const NOW: Moment = Moment::from_micros(5);

struct Fixed(u8);

impl Random for Fixed {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed> {
        bytes.fill(self.0);
        Ok(())
    }
}

/// Takes what comes and counts it.
struct Count(usize);

impl Sink for Count {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        self.0 += 1;
        Ok(())
    }
}

fn key(byte: u8) -> Arc<StaticKey> {
    Arc::new(StaticKey::new(Secret::take(&mut [byte; 32])).unwrap())
}

fn local(own: &str, byte: u8, epoch: u64) -> Local {
    let floor = Floor { post_quantum: true, ciphers: vec![Cipher::Aes256Gcm] };
    Local {
        static_key: key(byte),
        peer: own.parse().unwrap(),
        pod: PodIdentity::new("demo", &format!("{own}-0"), "6f1c").unwrap(),
        policy: PolicyView { epoch, digest: Digest::new([8; 32]), floor, life_micros: LIFE_MICROS },
        trust: sealane_support::world::trust(),
        suites: Suite::offer(&[Cipher::Aes256Gcm], false),
        rekey: Rekey::default(),
        timing: Timing::default(),
        kem: Arc::new(MlKem768),
        links: false,
        places: Places::new(1),
    }
}

fn confirm(own: &str, expected: &str) -> Confirm {
    Confirm {
        version: 1,
        peer: own.parse().unwrap(),
        expected: expected.parse().unwrap(),
        session: SessionName::new("activations").unwrap(),
        pod: PodIdentity::new("demo", &format!("{own}-0"), "6f1c").unwrap(),
        epoch: 7,
        digest: Digest::new([8; 32]),
        trust: sealane_support::world::trust(),
    }
}

fn evidence_message() -> Vec<u8> {
    EvidenceMessage {
        pod: PodIdentity::new("demo", "embedder-0", "6f1c").unwrap(),
        policy: Digest::new([8; 32]),
        path: MerklePath::new(1, 0, vec![]).unwrap(),
        evidence: Evidence { format: Format::SimulatedSevSnp, report: vec![1; 1184], certificates: vec![] },
        workload: None,
    }
    .encode()
    .unwrap()
}

fn framed(kind: RecordKind, body: &[u8]) -> Vec<u8> {
    let header = crate::record::Header { kind, length: body.len() }.encode().unwrap();
    [&header[..], body].concat()
}

/// An honest connection and the rogue at its other end.
struct Rogue {
    honest: Connection,
    sealer: Sealer,
    finished: Finished,
    seen: Count,
}

fn drain(connection: &mut Connection) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let bytes = connection.poll_output(NOW).to_vec();
        if bytes.is_empty() {
            return all;
        }
        connection.output_written(bytes.len());
        all.extend(bytes);
    }
}

impl Rogue {
    /// Dials an honest responder.
    fn initiator(epoch: u64) -> Self {
        Self::dials(local("ranker", 2, epoch))
    }

    fn dials(local: Local) -> Self {
        let setup = AcceptSetup { local, audit: true };
        let mut honest = Connection::accept(setup, &mut Fixed(4), NOW).unwrap();
        let suites = Suite::offer(&[Cipher::Aes256Gcm], false);
        let (rogue, opening) = Initiator::begin(
            Kind::Full,
            suites,
            crate::handshake::capability::of(false),
            &key(1),
            &MlKem768,
            &mut Fixed(3),
        )
        .unwrap();
        let mut first = [opening.hello, framed(RecordKind::Handshake, &opening.message)].concat();
        let mut seen = Count(0);
        honest.handle_input(NOW, &mut first, &mut seen).unwrap();
        let reply = drain(&mut honest);
        let (finished, third) = rogue.on_message2(&reply[RECORD_HEADER_BYTES..]).unwrap();
        honest.handle_input(NOW, &mut framed(RecordKind::Handshake, &third), &mut seen).unwrap();
        let sealer = Sealer::new(finished.root.link(Label::Initiator), Rekey::default(), NOW);
        Self { honest, sealer, finished, seen }
    }

    /// Answers an honest initiator.
    fn responder() -> Self {
        let setup = Setup {
            local: local("embedder", 1, 7),
            kind: Kind::Full,
            expected: "ranker".parse().unwrap(),
            session: SessionName::new("activations").unwrap(),
        };
        let mut honest = Connection::initiate(setup, &mut Fixed(3), NOW).unwrap();
        let first = drain(&mut honest);
        let (hello, length) = Hello::parse(&first).unwrap().unwrap();
        let rogue = Responder {
            static_key: key(2),
            kem: Arc::new(MlKem768),
            suites: Suite::offer(&[Cipher::Aes256Gcm], false),
            audit: false,
            capabilities: crate::handshake::capability::of(false),
            ephemeral: Secret::take(&mut [4; 32]),
        };
        let message = &first[length + RECORD_HEADER_BYTES..];
        let (rogue, reply) = rogue.on_message1(&hello, &first[..length], message).unwrap();
        let mut seen = Count(0);
        honest.handle_input(NOW, &mut framed(RecordKind::Handshake, &reply), &mut seen).unwrap();
        let flight = drain(&mut honest);
        let third = usize::from(flight[2]) * 256 + usize::from(flight[3]);
        let finished = rogue.on_message3(&flight[RECORD_HEADER_BYTES..][..third]).unwrap();
        let sealer = Sealer::new(finished.root.link(Label::Responder), Rekey::default(), NOW);
        Self { honest, sealer, finished, seen }
    }

    fn raw(&mut self, kind: RecordKind, plaintext: &[u8]) -> Result<usize, Fail> {
        let mut record = vec![0; RECORD_HEADER_BYTES];
        record.extend_from_slice(plaintext);
        record.resize(record.len() + TAG_BYTES, 0);
        self.sealer.seal(kind, &mut record).unwrap();
        self.honest.handle_input(NOW, &mut record, &mut self.seen)
    }

    fn say(&mut self, frame: &Control<'_>) -> Result<usize, Fail> {
        let mut bytes = vec![0; 70_000];
        let used = encode(frame, &mut bytes).unwrap();
        self.raw(RecordKind::Data, &bytes[..used])
    }

    fn send(&mut self, frame: &Frame<'_>) -> Result<usize, Fail> {
        let mut bytes = vec![0; 70_000];
        let used = encode(frame, &mut bytes).unwrap();
        self.raw(RecordKind::Data, &bytes[..used])
    }

    fn prove(&mut self) -> Result<usize, Fail> {
        let message = evidence_message();
        let total = message.len() as u32;
        self.say(&Control::Evidence(Fragment { epoch: 0, total, offset: 0, bytes: &message }))
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.honest.poll_event()).collect()
    }
}

const ENDED: Frame<'static> = Frame::Ended(StreamId(1));

#[track_caller]
fn assert_order(outcome: Result<usize, Fail>) {
    assert!(matches!(outcome, Err(Fail::Order(_))), "{outcome:?}");
}

#[test]
fn data_before_the_verdict_is_refused_at_every_stage() {
    let mut rogue = Rogue::initiator(7);
    assert_order(rogue.send(&ENDED));

    let mut rogue = Rogue::initiator(7);
    rogue.say(&Control::Confirm(confirm("embedder", "ranker"))).unwrap();
    assert_order(rogue.send(&ENDED));

    let mut rogue = Rogue::initiator(7);
    rogue.say(&Control::Confirm(confirm("embedder", "ranker"))).unwrap();
    rogue.prove().unwrap();
    assert!(matches!(rogue.events().last(), Some(Event::EvidenceReceived(_))));
    assert_order(rogue.send(&ENDED));
    assert_eq!(rogue.seen.0, 0);
}

#[test]
fn control_frames_out_of_turn_are_refused() {
    let fragment = Fragment { epoch: 7, total: 9, offset: 0, bytes: b"part" };
    let early = [
        Control::Policy(fragment),
        Control::Evidence(fragment),
        Control::Ready,
        Control::Ping(1),
        Control::Pong(1),
        Control::Pad,
    ];
    for frame in &early {
        assert_order(Rogue::initiator(7).say(frame));
    }
    for frame in early.iter().filter(|frame| !matches!(frame, Control::Evidence(_))) {
        let mut rogue = Rogue::initiator(7);
        rogue.say(&Control::Confirm(confirm("embedder", "ranker"))).unwrap();
        assert_order(rogue.say(frame));
    }
    // A second confirm, and a second proof before the first is judged.
    let mut rogue = Rogue::initiator(7);
    rogue.say(&Control::Confirm(confirm("embedder", "ranker"))).unwrap();
    assert_order(rogue.say(&Control::Confirm(confirm("embedder", "ranker"))));
    let mut rogue = Rogue::initiator(7);
    rogue.say(&Control::Confirm(confirm("embedder", "ranker"))).unwrap();
    rogue.prove().unwrap();
    assert_order(rogue.prove());
}

#[test]
fn a_responder_that_proves_before_it_is_asked_is_refused() {
    let mut rogue = Rogue::responder();
    rogue.say(&Control::Confirm(confirm("ranker", "embedder"))).unwrap();
    // The honest initiator has not sent its own evidence yet.
    assert_order(rogue.prove());
    // Nor while its shell verifies a policy that came in front.
    let mut rogue = Rogue::responder();
    rogue.say(&Control::Confirm(Confirm { epoch: 9, ..confirm("ranker", "embedder") })).unwrap();
    rogue.say(&Control::Policy(Fragment { epoch: 9, total: 1, offset: 0, bytes: b" " })).unwrap();
    assert!(matches!(rogue.events().last(), Some(Event::PolicyOffered { epoch: 9, .. })));
    assert_order(rogue.prove());
}

#[test]
fn a_confirm_must_fit_what_is_known() {
    let right = confirm("embedder", "ranker");
    let version = Confirm { version: 2, ..right.clone() };
    assert_order(Rogue::initiator(7).say(&Control::Confirm(version)));
    let elsewhere = Confirm { expected: "other".parse().unwrap(), ..right };
    assert!(matches!(Rogue::initiator(7).say(&Control::Confirm(elsewhere)), Err(Fail::Identity(_))));

    let right = confirm("ranker", "embedder");
    assert!(Rogue::responder().say(&Control::Confirm(right.clone())).is_ok());
    for wrong in [
        Confirm { peer: "other".parse().unwrap(), ..right.clone() },
        Confirm { expected: "other".parse().unwrap(), ..right.clone() },
        Confirm { session: SessionName::new("other").unwrap(), ..right },
    ] {
        assert!(matches!(Rogue::responder().say(&Control::Confirm(wrong)), Err(Fail::Identity(_))));
    }
}

#[test]
fn both_sides_compute_the_prover_s_leaf() {
    let mut rogue = Rogue::responder();
    rogue.say(&Control::Confirm(confirm("ranker", "embedder"))).unwrap();
    let binding = rogue.finished.root.binding_key();
    let leaf = |finished: &Finished, role, prover: u8, verifier: u8| {
        let (own, peer) = (key(prover), key(verifier));
        let hash = &finished.handshake_hash;
        Leaf::new(Purpose::Handshake, role, hash, binding.expose(), own.public(), peer.public())
    };
    let expected = EvidenceWanted {
        purpose: Purpose::Handshake,
        leaf: leaf(&rogue.finished, Role::Initiator, 1, 2),
        trust: sealane_support::world::trust().digest(),
    };
    assert!(rogue.events().contains(&Event::EvidenceWanted(expected)));

    let mut rogue = Rogue::initiator(7);
    rogue.say(&Control::Confirm(confirm("embedder", "ranker"))).unwrap();
    rogue.prove().unwrap();
    let binding = rogue.finished.root.binding_key();
    let (own, peer) = (key(1), key(2));
    let hash = rogue.finished.handshake_hash;
    let expected =
        Leaf::new(Purpose::Handshake, Role::Initiator, &hash, binding.expose(), own.public(), peer.public());
    let Some(Event::EvidenceReceived(received)) = rogue.events().pop() else { panic!() };
    assert_eq!(received.leaf, expected);
    assert_eq!(&received.introduction.static_key, own.public());
}

#[test]
fn records_hold_frames() {
    assert_order(Rogue::initiator(7).raw(RecordKind::Data, &[]));
    let garbage = Rogue::initiator(7).raw(RecordKind::Data, &[0x55; 9]);
    assert!(matches!(garbage, Err(Fail::Frame(_))));
}

#[test]
fn an_unverified_peer_has_64_kib_in_all() {
    let mut rogue = Rogue::initiator(7);
    rogue.say(&Control::Confirm(confirm("embedder", "ranker"))).unwrap();
    // One byte a frame: the announced total is in bounds, what travels is not.
    let total = EVIDENCE_BYTES_MAX as u32;
    let refused = (0..total).find_map(|offset| {
        rogue.say(&Control::Evidence(Fragment { epoch: 0, total, offset, bytes: &[0] })).err()
    });
    assert_eq!(refused, Some(Fail::Limit("evidence")));
}

#[test]
fn a_policy_is_not_charged_to_evidence_and_has_its_own_limit() {
    let mut rogue = Rogue::initiator(3);
    rogue.say(&Control::Confirm(confirm("embedder", "ranker"))).unwrap();
    let bytes = [b' '; 20_000];
    for offset in (0..200_000).step_by(bytes.len()) {
        rogue.say(&Control::Policy(Fragment { epoch: 7, total: 200_000, offset, bytes: &bytes })).unwrap();
    }
    assert!(matches!(rogue.events().last(), Some(Event::PolicyOffered { epoch: 7, .. })));
    // Evidence may follow while the shell verifies, once.
    rogue.prove().unwrap();
    assert_order(rogue.prove());

    let mut rogue = Rogue::initiator(3);
    rogue.say(&Control::Confirm(confirm("embedder", "ranker"))).unwrap();
    let total = POLICY_CHAIN_BYTES_MAX as u32 + 1;
    let refused = rogue.say(&Control::Policy(Fragment { epoch: 7, total, offset: 0, bytes: &bytes }));
    assert!(matches!(refused, Err(Fail::Limit(_))));
}

#[test]
fn unverified_peers_hand_over_few_policies_at_a_time() {
    let shared = local("ranker", 2, 3);
    let policy = Control::Policy(Fragment { epoch: 7, total: 1, offset: 0, bytes: b" " });
    let begun = || {
        let mut rogue = Rogue::dials(shared.clone());
        let outcome = rogue.say(&Control::Confirm(confirm("embedder", "ranker")));
        outcome.map(|_| rogue)
    };
    let mut first = begun().unwrap();
    assert_eq!(begun().err(), Some(Fail::Busy), "the only place is taken");
    first.say(&policy).unwrap();
    assert_eq!(begun().err(), Some(Fail::Busy), "while the shell verifies, too");
    let floor = shared.policy.floor.clone();
    first.honest.policy_adopted(PolicyView { epoch: 7, floor, ..shared.policy.clone() });
    let mut second = begun().unwrap();
    assert_eq!(begun().err(), Some(Fail::Busy));
    second.honest.close(Reason::HandshakeTimeout);
    let third = begun().unwrap();
    drop(third);
    begun().unwrap();
    // Who claims no newer policy needs no place.
    let _held = begun().unwrap();
    Rogue::dials(Local { policy: local("ranker", 2, 7).policy, ..shared.clone() })
        .say(&Control::Confirm(confirm("embedder", "ranker")))
        .unwrap();
}

#[test]
fn fragments_continue_one_another() {
    let first = Fragment { epoch: 7, total: 10, offset: 0, bytes: b"12345" };
    for second in [
        Fragment { offset: 4, ..first },
        Fragment { offset: 6, ..first },
        Fragment { offset: 5, epoch: 8, ..first },
        Fragment { offset: 5, total: 11, ..first },
    ] {
        let mut rogue = Rogue::initiator(3);
        rogue.say(&Control::Confirm(confirm("embedder", "ranker"))).unwrap();
        rogue.say(&Control::Policy(first)).unwrap();
        assert_order(rogue.say(&Control::Policy(second)));
    }
    let mut rogue = Rogue::initiator(3);
    rogue.say(&Control::Confirm(confirm("embedder", "ranker"))).unwrap();
    rogue.say(&Control::Policy(first)).unwrap();
    let over = rogue.say(&Control::Policy(Fragment { offset: 5, bytes: b"123456", ..first }));
    assert!(matches!(over, Err(Fail::Limit(_))));
    assert_order({
        let mut rogue = Rogue::initiator(3);
        rogue.say(&Control::Confirm(confirm("embedder", "ranker"))).unwrap();
        rogue.say(&Control::Policy(Fragment { offset: 5, ..first }))
    });
}

#[test]
fn malformed_evidence_is_refused() {
    let mut rogue = Rogue::initiator(7);
    rogue.say(&Control::Confirm(confirm("embedder", "ranker"))).unwrap();
    let refused = rogue.say(&Control::Evidence(Fragment { epoch: 0, total: 4, offset: 0, bytes: b"junk" }));
    assert_eq!(refused, Err(Fail::Evidence));
}

#[test]
fn a_close_ends_it_at_any_stage() {
    let mut rogue = Rogue::initiator(7);
    rogue.say(&Control::Close(Reason::Draining)).unwrap();
    let closed = Event::Closed { by: ClosedBy::Remote, reason: Reason::Draining };
    assert_eq!(rogue.events(), [closed]);
    assert!(drain(&mut rogue.honest).is_empty());
}
