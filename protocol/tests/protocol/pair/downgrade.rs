//! Attempts to have less security than both sides want.

use std::sync::Arc;

use sealane_policy::Floors;
use sealane_protocol::connection::{AcceptSetup, ClosedBy, Connection, Fail, Setup, StartError};
use sealane_protocol::handshake::{HandshakeError, KeyExchange, Kind, Suite};
use sealane_types::{Cipher, Reason};

use super::support::{Pair, Recipe};
use super::world::{Counter, Who, chain, local, policy, session, verified};

/// Offset of the first suite in the hello: magic, length, kind, one version.
const SUITES_AT: usize = 8 + 2 + 1 + 1 + 2 + 1;

#[test]
fn a_hello_changed_on_path_breaks_the_handshake() {
    let suites = Suite::offer(Cipher::ALL, true);
    // Every offer of a hybrid suite is overwritten with its classical twin.
    let mut pair = Pair::of(Recipe::with_suites(&suites, true));
    pair.run_through(|who, mut bytes| {
        if who == Who::Embedder && bytes.starts_with(b"SEALANE\0") {
            for suite in bytes[SUITES_AT..SUITES_AT + 6].chunks_mut(2) {
                suite[0] = 0;
            }
        }
        bytes
    });
    pair.assert_nobody_established();
    assert_eq!(pair.initiator.fail, Some(Fail::Handshake(HandshakeError::Crypto)));
}

#[test]
fn hello_bytes_are_all_authenticated() {
    // Magic, and how much follows it.
    let first = Pair::new().flight(Who::Embedder);
    let length = 10 + usize::from(u16::from_be_bytes([first[8], first[9]]));
    for at in 0..length {
        let mut pair = Pair::new();
        let mut bent = false;
        pair.run_through(|who, mut bytes| {
            if who == Who::Embedder && !bent {
                bytes[at] ^= 0x01;
                bent = true;
            }
            bytes
        });
        pair.assert_nobody_established();
    }
}

#[test]
fn a_policy_that_demands_post_quantum_offers_nothing_else() {
    let policy = policy(1);
    let mut random = Counter(5);
    let mut classical = local(Who::Embedder, &policy, &mut random);
    classical.suites = vec![Suite::new(KeyExchange::Classical, Cipher::Aes256Gcm)];
    let setup = Setup {
        local: classical.clone(),
        kind: Kind::Full,
        expected: Who::Ranker.peer(),
        session: session(),
    };
    let now = sealane_protocol::Moment::from_micros(0);
    assert_eq!(Connection::initiate(setup, &mut random, now).unwrap_err(), StartError::NoSuite);
    let accept = AcceptSetup { local: classical, audit: false };
    assert_eq!(Connection::accept(accept, &mut random, now).unwrap_err(), StartError::NoSuite);
}

#[test]
fn a_responder_below_whose_floor_everything_lies_refuses() {
    let permissive = verified(&chain(1, &Floors { post_quantum: false, ..Floors::default() }, 3600)).unwrap();
    let mut pair = Pair::of(Recipe {
        initiator_policy: permissive,
        initiator: Box::new(|local| {
            local.suites = vec![Suite::new(KeyExchange::Classical, Cipher::Aes256Gcm)];
        }),
        ..Recipe::default()
    });
    pair.run();
    pair.assert_nobody_established();
    assert_eq!(pair.responder.fail, Some(Fail::Handshake(HandshakeError::Suite)));
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Unauthenticated, Reason::SuiteRefused)));
}

#[test]
fn an_unlisted_cipher_is_never_used() {
    // AES-128 is known to both, wanted by the initiator, and not in the policy.
    let suites = [Cipher::Aes128Gcm, Cipher::Aes256Gcm].map(|cipher| Suite::new(KeyExchange::Hybrid, cipher));
    let both = move |local: &mut sealane_protocol::connection::Local| local.suites = suites.to_vec();
    let pair = Pair::connected_of(Recipe {
        initiator: Box::new(both),
        responder: Box::new(both),
        ..Recipe::default()
    });
    assert_eq!(pair.initiator.established(), Some(suites[1]));
}

/// Answers message 1 as a responder would that chose what was never offered.
#[derive(Debug)]
struct NoKem;

impl sealane_protocol::keys::Kem for NoKem {
    fn generate(
        &self,
    ) -> Result<(Box<dyn sealane_protocol::keys::Decapsulate>, [u8; 1184]), sealane_protocol::keys::KemFailed>
    {
        Err(sealane_protocol::keys::KemFailed)
    }

    fn encapsulate(
        &self,
        _: &[u8; 1184],
    ) -> Result<([u8; 1088], sealane_protocol::keys::Secret<32>), sealane_protocol::keys::KemFailed> {
        // A ciphertext and a secret that have nothing to do with each other.
        Ok(([7; 1088], sealane_protocol::keys::Secret::take(&mut [7; 32])))
    }
}

#[test]
fn a_failing_kem_fails_closed() {
    let mut random = Counter(5);
    let mut broken = local(Who::Embedder, &policy(1), &mut random);
    broken.kem = Arc::new(NoKem);
    let setup = Setup { local: broken, kind: Kind::Full, expected: Who::Ranker.peer(), session: session() };
    let now = sealane_protocol::Moment::from_micros(0);
    assert!(matches!(Connection::initiate(setup, &mut random, now), Err(StartError::Kem(_))));
}

#[test]
fn the_ml_kem_secret_is_in_the_keys() {
    // Noise agrees on both sides; only the ML-KEM secret differs. The first record must not open.
    let mut pair =
        Pair::of(Recipe { responder: Box::new(|local| local.kem = Arc::new(NoKem)), ..Recipe::default() });
    pair.run();
    pair.assert_nobody_established();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, Reason::RecordRejected)));
}

#[test]
fn a_newer_policy_ends_what_lies_below_its_floor() {
    let suites = [Suite::new(KeyExchange::Classical, Cipher::Aes256Gcm)];
    let mut pair = Pair::connected_of(Recipe::with_suites(&suites, true));
    pair.responder.connection.policy_adopted(super::world::view(&policy(2)));
    pair.run();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, Reason::PostQuantumRequired)));
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Remote, Reason::PostQuantumRequired)));
}

#[test]
fn unknown_versions_and_kinds_are_refused_with_a_reason() {
    // Kind 2 is join; the version sits two bytes further.
    for (at, value) in [(10, 2), (10, 9), (13, 9)] {
        let mut pair = Pair::new();
        pair.run_through(|who, mut bytes| {
            if who == Who::Embedder && bytes.starts_with(b"SEALANE\0") {
                bytes[at] = value;
            }
            bytes
        });
        pair.assert_nobody_established();
        assert_eq!(
            pair.initiator.closed(),
            Some((ClosedBy::Unauthenticated, Reason::VersionUnsupported)),
            "{at} {value}"
        );
    }
}
