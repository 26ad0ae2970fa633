//! Documents that nobody signed and that try to cost much. A verifier in use elsewhere needed 224 s for 6.7 KB.

use std::time::Instant;

use sealane_attestation::{Evidence, Rejection};
use sealane_simulated::nitro::{Chain, Document, PROTECTED, Recipe, cose_sign1};

use crate::quick;

use super::support::{chain, document, evidence, inspected, recipe, sealed};

#[track_caller]
fn refused(what: &str, evidence: &Evidence) -> Rejection {
    quick::refused(what, || inspected(evidence))
}

fn unsigned(payload: &[u8]) -> Evidence {
    evidence(cose_sign1(PROTECTED, &[0xa0], payload, &[0; 96]))
}

#[test]
fn nesting_costs_nothing() {
    for (what, head) in [
        ("arrays", &[0x81][..]),
        ("arrays without a length", &[0x9f]),
        ("maps", &[0xa1, 0x01]),
        ("maps without a length", &[0xbf, 0x01]),
        ("tags", &[0xc6]),
        ("strings in pieces", &[0x5f]),
    ] {
        let nested = head.repeat(16_000 / head.len());
        refused(what, &evidence(nested.clone()));
        refused(what, &unsigned(&nested));
        let mut members = document().members();
        members[3].1 = nested;
        refused(what, &unsigned(&Document::of_members(&members)));
    }
}

#[test]
fn lengths_that_nothing_stands_behind_cost_nothing() {
    for major in [0x40, 0x60, 0x80, 0xa0] {
        for width in [0x1a, 0x1b] {
            let head = [&[major | width][..], &[0xff; 8]].concat();
            refused("a huge length", &evidence([&[0x84][..], &head].concat()));
            refused("a huge length", &unsigned(&head));
            for member in 0..9 {
                let mut members = document().members();
                members[member].1 = head.clone();
                refused("a huge member", &unsigned(&Document::of_members(&members)));
            }
        }
    }
}

/// Certificates of one name, each of which could have issued each other.
#[test]
fn a_bundle_of_lookalikes_is_no_search() {
    let dates = recipe().dates[0];
    let name: x509_cert::name::Name = "CN=SIM-one,O=Sealane simulation".parse().unwrap();
    let lookalikes = Recipe { dates: vec![dates; 8], ..recipe() };
    let chain = Chain::issue_edited(&lookalikes, |_, certificate| {
        certificate.subject = name.clone();
        certificate.issuer = name.clone();
    });
    let certificates = chain.unwrap().certificates().to_vec();
    let mut lookalike = document();
    lookalike.certificate = certificates[7].clone();
    lookalike.cabundle = certificates[..7].to_vec();
    refused("lookalikes", &unsigned(&lookalike.payload()));
    // The longest path there is, whose last link is wrong: every signature is verified.
    let other = Chain::issue(&lookalikes).unwrap();
    let longest = Chain::issue(&lookalikes).unwrap();
    let mut document = document();
    document.certificate = other.certificates()[7].clone();
    document.cabundle = longest.certificates()[..7].to_vec();
    refused("the longest chain", &unsigned(&document.payload()));
}

/// As many of the smallest certificates as the document holds.
#[test]
fn many_small_certificates_are_counted() {
    for count in [7, 8, 200, 2000] {
        let mut document = document();
        document.cabundle = vec![vec![0x30, 0x00]; count];
        refused("small certificates", &unsigned(&document.payload()));
    }
    let mut document = document();
    document.cabundle = vec![vec![0x30; 1024]; 7];
    document.cabundle[1] = [&[0x30, 0x82, 0x03, 0xfc][..], &[0x30, 0x00].repeat(510)].concat();
    refused("a certificate of many elements", &unsigned(&document.payload()));
}

/// Extensions by the hundred in each certificate, as small as they come.
#[test]
fn certificates_full_of_extensions_are_read_once() {
    let full = Chain::issue_edited(&recipe(), |_, certificate| {
        let first = certificate.extensions.as_ref().unwrap()[0].clone();
        certificate.extensions.as_mut().unwrap().extend(std::iter::repeat_n(first, 25));
    });
    let certificates = full.unwrap().certificates().to_vec();
    let mut document = document();
    document.certificate = certificates[4].clone();
    document.cabundle = certificates[..4].to_vec();
    assert!(document.cabundle.iter().all(|certificate| certificate.len() <= 1024));
    refused("extensions", &unsigned(&document.payload()));
}

#[test]
fn what_fills_the_bounds_is_refused() {
    let large = vec![0; 16 * 1024];
    refused("a payload beyond its bound", &unsigned(&[large, vec![0]].concat()));
    let beyond = Evidence { report: vec![0x84; 16 * 1024 + 1], ..evidence(vec![]) };
    assert_eq!(refused("a report beyond its bound", &beyond), Rejection::Malformed("size of the report"));
    let mut document = document();
    document.pcrs = (0..32).map(|index| (index, vec![1; 48])).collect();
    document.public_key = Some(vec![0; 1024]);
    document.user_data = Some(vec![0; 1024]);
    document.nonce = Some(vec![0; 1024]);
    let refusal = refused("everything at its bound", &unsigned(&document.payload()));
    assert_eq!(refusal, Rejection::Untrusted("the document's signature"));
    inspected(&sealed(&document.payload())).unwrap();
}

/// No assertion on speed: the figure is for whoever reads the output.
#[test]
fn how_long_one_verification_takes() {
    const ROUNDS: u32 = 200;
    let honest = sealed(&document().payload());
    inspected(&honest).unwrap();
    let rounds = (0..ROUNDS).map(|_| {
        let started = Instant::now();
        inspected(&honest).unwrap();
        started.elapsed()
    });
    let fastest = rounds.min().unwrap();
    let certificates = chain().certificates().len();
    eprintln!("one Nitro verification, {certificates} certificates, at its fastest: {fastest:.1?}");
}
