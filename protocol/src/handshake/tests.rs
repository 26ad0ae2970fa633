//! Rogue ends: they speak Noise correctly, and lie in what it carries.

use std::sync::Arc;

use sealane_types::Cipher;

use super::noise::{Noise, Side};
use super::*;
use crate::codec::CodecError;
use crate::keys::{Kem, MlKem768, Random, RandomFailed, Secret, StaticKey};
use crate::limits::KEM_KEY_BYTES;

struct Fixed(u8);

impl Random for Fixed {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed> {
        bytes.fill(self.0);
        Ok(())
    }
}

const HYBRID: Suite = Suite::new(KeyExchange::Hybrid, Cipher::Aes256Gcm);
const CLASSICAL: Suite = Suite::new(KeyExchange::Classical, Cipher::Aes256Gcm);

fn key(byte: u8) -> Arc<StaticKey> {
    Arc::new(StaticKey::new(Secret::take(&mut [byte; 32])).unwrap())
}

/// What an honest initiator makes of a message 2 with the payload that `lie` composes from the key it sent.
fn answered(suites: &[Suite], lie: impl FnOnce(&[u8]) -> Vec<u8>) -> Result<Suite, HandshakeError> {
    let (initiator, opening) = Initiator::begin(
        Kind::Full,
        suites.to_vec(),
        capability::of(false),
        &key(1),
        &MlKem768,
        &mut Fixed(3),
    )
    .unwrap();
    let mut rogue = Noise::new(Side::Responder, &opening.hello, &key(2), Secret::take(&mut [4; 32])).unwrap();
    let sent = rogue.read(&opening.message).unwrap();
    let reply = rogue.write(&lie(&sent)).unwrap();
    initiator.on_message2(&reply).map(|(finished, _)| finished.suite)
}

fn choice(version: u16, suite: u16, capabilities: u32) -> Vec<u8> {
    [&version.to_be_bytes()[..], &suite.to_be_bytes(), &capabilities.to_be_bytes()].concat()
}

fn sealed_to(key: &[u8]) -> Vec<u8> {
    MlKem768.encapsulate(key.try_into().unwrap()).unwrap().0.to_vec()
}

#[test]
fn an_honest_choice_is_accepted() {
    let hybrid = answered(&[HYBRID], |key| [choice(1, HYBRID.code(), 0), sealed_to(key)].concat());
    assert_eq!(hybrid, Ok(HYBRID));
    assert_eq!(answered(&[CLASSICAL], |_| choice(1, CLASSICAL.code(), 0)), Ok(CLASSICAL));
}

#[test]
fn a_choice_outside_the_offer_is_refused() {
    let other = Suite::new(KeyExchange::Classical, Cipher::ChaCha20Poly1305);
    for (version, suite, capabilities) in [
        (1, CLASSICAL.code(), 0),
        (1, other.code(), 0),
        (1, 0x7777, 0),
        (0, HYBRID.code(), 0),
        (2, HYBRID.code(), 0),
        (1, HYBRID.code(), 2),
    ] {
        let lie = |key: &[u8]| [choice(version, suite, capabilities), sealed_to(key)].concat();
        assert_eq!(answered(&[HYBRID], lie), Err(HandshakeError::Choice), "{version} {suite:#x}");
    }
}

#[test]
fn a_hybrid_choice_brings_a_ciphertext_and_a_classical_one_does_not() {
    let without = answered(&[HYBRID], |_| choice(1, HYBRID.code(), 0));
    assert_eq!(without, Err(CodecError::Truncated.into()));
    let both = [HYBRID, CLASSICAL];
    let with = answered(&both, |key| [choice(1, CLASSICAL.code(), 0), sealed_to(key)].concat());
    assert_eq!(with, Err(CodecError::Trailing.into()));
    let longer = answered(&[HYBRID], |key| [choice(1, HYBRID.code(), 0), sealed_to(key), vec![0]].concat());
    assert_eq!(longer, Err(CodecError::Trailing.into()));
}

fn responder(static_byte: u8) -> Responder {
    Responder {
        static_key: key(static_byte),
        kem: Arc::new(MlKem768),
        suites: vec![HYBRID],
        audit: false,
        capabilities: capability::of(false),
        ephemeral: Secret::take(&mut [4; 32]),
    }
}

fn hello() -> (Hello, Vec<u8>) {
    let hello = Hello {
        kind: Some(Kind::Full),
        versions: vec![1],
        suites: vec![HYBRID],
        capabilities: 0,
        ticket: None,
    };
    let bytes = hello.encode().unwrap();
    (hello, bytes)
}

/// What an honest responder makes of these payloads of messages 1 and 3.
fn asked(first: &[u8], third: &[u8], own_static: u8) -> Result<Suite, HandshakeError> {
    let (hello, bytes) = hello();
    let mut rogue = Noise::new(Side::Initiator, &bytes, &key(1), Secret::take(&mut [3; 32])).unwrap();
    let message = rogue.write(first).unwrap();
    let (waiting, reply) = responder(own_static).on_message1(&hello, &bytes, &message)?;
    rogue.read(&reply).unwrap();
    waiting.on_message3(&rogue.write(third).unwrap()).map(|finished| finished.suite)
}

#[test]
fn a_hybrid_offer_brings_a_key() {
    let (_, public) = MlKem768.generate().unwrap();
    assert_eq!(asked(&public, &[], 2), Ok(HYBRID));
    assert_eq!(asked(&[], &[], 2), Err(CodecError::Truncated.into()));
    assert_eq!(asked(&public[1..], &[], 2), Err(CodecError::Value.into()));
    assert_eq!(asked(&[0xff; KEM_KEY_BYTES], &[], 2), Err(HandshakeError::Crypto));
}

#[test]
fn the_third_message_is_empty() {
    let (_, public) = MlKem768.generate().unwrap();
    assert_eq!(asked(&public, &[0], 2), Err(CodecError::Trailing.into()));
}

#[test]
fn a_responder_refuses_its_own_static_key_too() {
    let (_, public) = MlKem768.generate().unwrap();
    assert_eq!(asked(&public, &[], 1), Err(HandshakeError::Reflected));
}

#[test]
fn an_unfinished_handshake_yields_no_keys() {
    let (_, bytes) = hello();
    let noise = |side, own, ephemeral| {
        Noise::new(side, &bytes, &key(own), Secret::take(&mut [ephemeral; 32])).unwrap()
    };
    let (mut initiator, mut responder) = (noise(Side::Initiator, 1, 3), noise(Side::Responder, 2, 4));
    responder.read(&initiator.write(&[]).unwrap()).unwrap();
    initiator.read(&responder.write(&[]).unwrap()).unwrap();
    // The initiator knows the remote static key already; its own has not gone out.
    assert!(initiator.finish().is_err());
    assert!(responder.finish().is_err());
}

#[test]
fn a_key_of_small_order_is_refused() {
    let (hello, bytes) = hello();
    let (_, public) = MlKem768.generate().unwrap();
    // The ephemeral 0 has order 4 at most: every shared secret with it is zero (RFC 7748 section 6.1).
    let message = [&[0; 32][..], &public].concat();
    let refused = responder(2).on_message1(&hello, &bytes, &message).err();
    assert_eq!(refused, Some(HandshakeError::Crypto));
}

#[test]
fn a_responder_chooses_within_its_own_list() {
    let (mut hello, _) = hello();
    hello.suites = vec![CLASSICAL];
    assert_eq!(responder(2).choose(&hello), Err(HandshakeError::Suite));
    hello.suites = vec![CLASSICAL, HYBRID];
    assert_eq!(responder(2).choose(&hello), Ok((Kind::Full, 1, HYBRID)));
    hello.kind = Some(Kind::Audit);
    assert_eq!(responder(2).choose(&hello), Err(HandshakeError::Audit));
    hello.kind = None;
    assert_eq!(responder(2).choose(&hello), Err(HandshakeError::Kind));
}

#[test]
fn lists_are_bounded() {
    let (hello, _) = hello();
    assert!(Hello { versions: vec![1; 33], ..hello.clone() }.encode().is_err());
    let mut bytes = Hello { versions: vec![1; 32], ..hello }.encode().unwrap();
    bytes[11] = 33;
    assert!(matches!(Hello::parse(&bytes), Err(HandshakeError::Malformed(CodecError::TooLong))));
}

/// A renewal from before the handshake `hash`, up to message 2.
fn renewal(hash: u8) -> (Terms, Initiator, Vec<u8>) {
    let terms =
        Terms { handshake_hash: [hash; 32], version: 1, kind: Kind::Full, suite: HYBRID, capabilities: 0 };
    let (initiator, message) = Initiator::again(&terms, &key(1), &MlKem768, &mut Fixed(3)).unwrap();
    (terms, initiator, message)
}

#[test]
fn a_renewal_belongs_to_the_handshake_before_it() {
    let answer = |terms: &Terms, message: &[u8]| {
        answer_renewal(terms, key(2), Arc::new(MlKem768), message, &mut Fixed(4)).unwrap().1
    };
    let (terms, initiator, message) = renewal(7);
    let (finished, _) = initiator.on_message2(&answer(&terms, &message)).unwrap();
    assert_ne!(finished.handshake_hash, terms.handshake_hash);
    let (_, initiator, message) = renewal(7);
    let (other, ..) = renewal(8);
    assert!(matches!(initiator.on_message2(&answer(&other, &message)), Err(HandshakeError::Crypto)));
}

#[test]
fn a_first_handshake_is_no_renewal() {
    let (_, opening) =
        Initiator::begin(Kind::Full, vec![HYBRID], capability::of(false), &key(1), &MlKem768, &mut Fixed(3))
            .unwrap();
    let (terms, initiator, _) = renewal(7);
    let (_, reply) =
        answer_renewal(&terms, key(2), Arc::new(MlKem768), &opening.message, &mut Fixed(4)).unwrap();
    assert!(initiator.on_message2(&reply).is_err(), "another key, under another prologue");
}

#[test]
fn a_reflected_renewal_is_refused() {
    let (terms, initiator, message) = renewal(7);
    let (waiting, reply) =
        answer_renewal(&terms, key(1), Arc::new(MlKem768), &message, &mut Fixed(4)).unwrap();
    assert!(matches!(initiator.on_message2(&reply), Err(HandshakeError::Reflected)));
    drop(waiting);
}
