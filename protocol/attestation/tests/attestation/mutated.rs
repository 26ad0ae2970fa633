//! Bytes that an attacker chose: nothing panics, and nothing but the honest bytes verifies.

use std::sync::LazyLock;
use std::time::Instant;

use proptest::prelude::*;
use sealane_attestation::{Evidence, EvidenceMessage, Format, inspect};
use sealane_policy::{Floors, VerifiedPolicy};

use crate::support::{MATERIAL, Prover, entry, inspected, judged, now, policy, quoted_by, simulation};

static HONEST: LazyLock<Evidence> = LazyLock::new(|| quoted_by(&MATERIAL));
static POLICY: LazyLock<VerifiedPolicy> = LazyLock::new(|| policy(vec![entry(&MATERIAL)], Floors::default()));
static MESSAGE: LazyLock<Vec<u8>> = LazyLock::new(|| Prover::honest(&POLICY).send().encode().unwrap());

const REPORT_BYTES: usize = 0x4a0;

#[test]
fn a_flipped_bit_anywhere_in_the_report_is_refused() {
    for position in 0..REPORT_BYTES {
        let mut evidence = HONEST.clone();
        evidence.report[position] ^= 1 << (position % 8);
        assert!(inspected(&evidence).is_err(), "{position:#x}");
    }
}

#[test]
fn a_flipped_bit_in_a_certificate_is_refused_or_seen() {
    let honest = inspected(&HONEST).unwrap();
    for certificate in 0..3 {
        for position in 0..HONEST.certificates[certificate].len() {
            let mut evidence = HONEST.clone();
            evidence.certificates[certificate][position] ^= 1 << (position % 8);
            // Nobody signs the root: its fingerprint is what the policy pins.
            if let Ok(claims) = inspected(&evidence) {
                assert_eq!(certificate, 2, "{position:#x}");
                assert_ne!(claims.root(), honest.root());
            }
        }
    }
}

/// What an attacker does to bytes.
#[derive(Debug, Clone)]
enum Mutation {
    Set(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    Copy(prop::sample::Index, prop::sample::Index, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        8 => (index(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        1 => index().prop_map(Mutation::Cut),
        1 => (index(), prop::collection::vec(any::<u8>(), 1..40)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        1 => (index(), 1..40_usize).prop_map(|(at, count)| Mutation::Remove(at, count)),
        1 => (index(), index(), 1..200_usize).prop_map(|(from, to, count)| Mutation::Copy(from, to, count)),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutations: &[Mutation]) {
    for mutation in mutations {
        let length = bytes.len();
        if length == 0 {
            return;
        }
        match mutation {
            Mutation::Set(at, byte) => bytes[at.index(length)] = *byte,
            Mutation::Cut(at) => bytes.truncate(at.index(length)),
            Mutation::Insert(at, inserted) => {
                let at = at.index(length);
                bytes.splice(at..at, inserted.iter().copied());
            }
            Mutation::Remove(at, count) => {
                let at = at.index(length);
                bytes.drain(at..length.min(at + count));
            }
            Mutation::Copy(from, to, count) => {
                let (from, to) = (from.index(length), to.index(length));
                let count = (*count).min(length - from).min(length - to);
                bytes.copy_within(from..from + count, to);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn a_mutated_message_never_verifies(mutations in prop::collection::vec(mutation(), 1..6)) {
        let mut bytes = MESSAGE.clone();
        mutate(&mut bytes, &mutations);
        if let Ok(message) = EvidenceMessage::decode(&bytes) {
            prop_assert_eq!(message.encode().unwrap(), bytes.clone(), "one message has one encoding");
            prop_assert_eq!(judged(&message, &POLICY).is_ok(), bytes == *MESSAGE);
        }
    }

    #[test]
    fn a_mutated_part_never_verifies(part in 0..4_usize, mutations in prop::collection::vec(mutation(), 1..6)) {
        let mut evidence = HONEST.clone();
        let bytes = match part {
            3 => &mut evidence.report,
            certificate => &mut evidence.certificates[certificate],
        };
        mutate(bytes, &mutations);
        if let Ok(claims) = inspected(&evidence) {
            let root_seen = claims.root() != &MATERIAL.fingerprint();
            prop_assert!(evidence == *HONEST || root_seen);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        prop_assert!(EvidenceMessage::decode(&bytes).is_err());
        let _ = Evidence::decode(&bytes);
        let evidence = Evidence { report: bytes.clone(), ..HONEST.clone() };
        prop_assert!(inspected(&evidence).is_err());
        let statement = Evidence { format: Format::Key, report: bytes.clone(), certificates: vec![] };
        prop_assert!(inspected(&statement).is_err());
        let certificates = vec![bytes.clone(), bytes.clone(), bytes];
        let evidence = Evidence { certificates, ..HONEST.clone() };
        prop_assert!(inspected(&evidence).is_err());
    }
}

/// No assertion on speed: the figure is for whoever reads the output.
#[test]
fn how_long_one_verification_takes() {
    const ROUNDS: u32 = 50;
    let (evidence, collateral, now) = (HONEST.clone(), simulation(), now());
    inspect(&evidence, &collateral, now).unwrap();
    let started = Instant::now();
    for _ in 0..ROUNDS {
        inspect(&evidence, &collateral, now).unwrap();
    }
    eprintln!("one simulated verification: {:?}", started.elapsed() / ROUNDS);
}
