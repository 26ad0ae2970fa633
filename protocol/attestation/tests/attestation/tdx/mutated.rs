//! Bytes that an attacker chose: nothing panics, and nothing but the honest bytes verifies.

use std::sync::LazyLock;
use std::time::Instant;

use proptest::prelude::*;
use sealane_attestation::{Evidence, Format, inspect, limits};
use sealane_simulated::tdx::Body;

use super::support::{MATERIAL, REPORT_DATA, evidence, inspected, now, platform, quoted_by, simulation};
use crate::quick;

static HONEST: LazyLock<Evidence> =
    LazyLock::new(|| evidence(platform(&MATERIAL).quoting(Body::Td15).quote(REPORT_DATA).unwrap()));

#[test]
fn a_flipped_bit_anywhere_is_refused_or_seen() {
    let honest = inspected(&HONEST).unwrap();
    for position in 0..HONEST.report.len() {
        let mut evidence = HONEST.clone();
        evidence.report[position] ^= 1 << (position % 8);
        // Nobody signs the root: its fingerprint is what the policy pins.
        if let Ok(claims) = inspected(&evidence) {
            assert_ne!(claims.root(), honest.root(), "{position:#x}");
        }
    }
    for part in 0..HONEST.certificates.len() {
        for position in (0..HONEST.certificates[part].len()).step_by(3) {
            let mut evidence = HONEST.clone();
            evidence.certificates[part][position] ^= 1 << (position % 8);
            assert!(inspected(&evidence).is_err(), "{part}: {position:#x}");
        }
    }
}

/// Largest inputs of the kinds that cost most to parse.
#[test]
fn hostile_evidence_is_refused_quickly() {
    let begin = b"-----BEGIN CERTIFICATE-----\n";
    let quotes: Vec<Vec<u8>> = vec![
        begin.repeat(limits::REPORT_BYTES_MAX / begin.len()),
        vec![b'A'; limits::REPORT_BYTES_MAX],
        vec![0x30; limits::REPORT_BYTES_MAX],
    ];
    for chain in quotes {
        let draft = |draft: &mut sealane_simulated::tdx::Draft| {
            draft.chain = chain;
            draft.chain.truncate(10_000);
        };
        let quote = platform(&MATERIAL).quote_edited(REPORT_DATA, draft).unwrap();
        let drafted = evidence(quote);
        quick::refused("a chain of nothing", || inspected(&drafted));
    }
    for byte in [0x30, b'[', b'{', b' ', 0x81] {
        let mut evidence = HONEST.clone();
        for part in &mut evidence.certificates {
            *part = vec![byte; limits::CERTIFICATE_BYTES_MAX];
        }
        quick::refused("parts of nothing", || inspected(&evidence));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        let simulated = Evidence { report: bytes.clone(), ..HONEST.clone() };
        prop_assert!(inspected(&simulated).is_err());
        let real = Evidence { format: Format::Tdx, report: bytes.clone(), certificates: vec![] };
        prop_assert!(inspected(&real).is_err());
        let certificates = vec![bytes.clone(); 7];
        let evidence = Evidence { certificates, ..HONEST.clone() };
        prop_assert!(inspected(&evidence).is_err());
    }

    #[test]
    fn a_changed_part_never_verifies(part in 0..8_usize, at: prop::sample::Index, bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let mut evidence = HONEST.clone();
        let part = match part {
            7 => &mut evidence.report,
            part => &mut evidence.certificates[part],
        };
        let at = at.index(part.len());
        let end = part.len().min(at + bytes.len());
        part.splice(at..end, bytes);
        if let Ok(claims) = inspected(&evidence) {
            prop_assert!(evidence == *HONEST || *claims.root() != MATERIAL.fingerprint());
        }
    }
}

/// No assertion on speed: the figure is for whoever reads the output.
#[test]
fn how_long_one_simulated_verification_takes() {
    const ROUNDS: u32 = 50;
    let (evidence, collateral, now) = (quoted_by(&MATERIAL), simulation(), now());
    inspect(&evidence, &collateral, now).unwrap();
    let started = Instant::now();
    for _ in 0..ROUNDS {
        inspect(&evidence, &collateral, now).unwrap();
    }
    eprintln!("one simulated TDX verification: {:?}", started.elapsed() / ROUNDS);
}
