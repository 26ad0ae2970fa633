//! COSE_Sign1: one structure, one algorithm, nothing unsigned.

use sealane_attestation::{Evidence, Rejection};
use sealane_simulated::nitro::{Chain, PROTECTED, cose_sign1};

use super::support::{
    assert_malformed, assert_untrusted, chain, document, evidence, inspected, recipe, sealed,
};

/// The honest payload in an envelope of these parts, signed under its protected header.
fn enveloped(protected: &[u8], unprotected: &[u8]) -> Evidence {
    let payload = document().payload();
    let signature = chain().sign(protected, &payload).unwrap();
    evidence(cose_sign1(protected, unprotected, &payload, &signature))
}

#[test]
fn an_honest_envelope_is_read() {
    inspected(&enveloped(PROTECTED, &[0xa0])).unwrap();
    // Maps without a length are in documents since 2025.
    inspected(&enveloped(PROTECTED, &[0xbf, 0xff])).unwrap();
    inspected(&enveloped(&[0xbf, 0x01, 0x38, 0x22, 0xff], &[0xa0])).unwrap();
    // The same header, with every number as wide as it can be.
    let wide = [
        &[0xbb, 0, 0, 0, 0, 0, 0, 0, 1][..],
        &[0x1b, 0, 0, 0, 0, 0, 0, 0, 1],
        &[0x3b, 0, 0, 0, 0, 0, 0, 0, 0x22],
    ];
    inspected(&enveloped(&wide.concat(), &[0xa0])).unwrap();
}

/// Each of these headers is what the signature covers, so nothing but the check refuses it.
#[test]
fn es384_is_demanded_and_signed() {
    for protected in [
        &[][..],
        &[0xa0],
        // ES256, and ES384 by another spelling: as a text, or positive.
        &[0xa1, 0x01, 0x26],
        &[0xa1, 0x01, 0x65, b'E', b'S', b'3', b'8', b'4'],
        &[0xa1, 0x01, 0x18, 0x22],
        // Another parameter, beside or instead.
        &[0xa1, 0x02, 0x38, 0x22],
        &[0xa2, 0x01, 0x38, 0x22, 0x03, 0x00],
        &[0xa2, 0x01, 0x38, 0x22, 0x01, 0x38, 0x22],
        &[0xa1, 0x01, 0x38, 0x22, 0x00],
        &[0xbf, 0x01, 0x38, 0x22],
        &[0x01],
    ] {
        assert_malformed(&enveloped(protected, &[0xa0]));
    }
}

#[test]
fn nothing_is_unprotected() {
    for unprotected in
        [&[0xa1, 0x04, 0x41, 0x00][..], &[0xbf, 0x04, 0x41, 0x00, 0xff], &[0xa1, 0x01, 0x38, 0x22]]
    {
        let outcome = inspected(&enveloped(PROTECTED, unprotected));
        assert_eq!(outcome, Err(Rejection::Malformed("the document has an unprotected header")));
    }
    for unprotected in [&[0x80][..], &[0xf6], &[0x40]] {
        assert_malformed(&enveloped(PROTECTED, unprotected));
    }
}

#[test]
fn there_is_one_structure() {
    let honest = sealed(&document().payload()).report;
    let with_head = |head: &[u8], tail: &[u8]| evidence([head, &honest[1..], tail].concat());
    inspected(&with_head(&[0x84], &[])).unwrap();
    // Tag 18, and a tag of any other width.
    assert_malformed(&with_head(&[0xd2, 0x84], &[]));
    assert_malformed(&with_head(&[0xd8, 0x12, 0x84], &[]));
    // Other numbers of parts, and an array that does not say how many it has.
    assert_malformed(&with_head(&[0x83], &[]));
    assert_malformed(&with_head(&[0x85], &[0xf6]));
    assert_malformed(&with_head(&[0x9f], &[0xff]));
    assert_malformed(&with_head(&[0xa4], &[]));
    for tail in [0x00, 0xff] {
        assert_malformed(&with_head(&[0x84], &[tail]));
    }
    for length in [0, 1, 2, 100, honest.len() - 1] {
        assert_malformed(&evidence(honest[..length].to_vec()));
    }
}

#[test]
fn a_detached_payload_or_one_in_pieces_is_refused() {
    let payload = document().payload();
    let signature = chain().sign(PROTECTED, &payload).unwrap();
    let honest = cose_sign1(PROTECTED, &[0xa0], &payload, &signature);
    let start = 1 + 5 + 1;
    let behind = &honest[start + 3 + payload.len()..];
    let around = |middle: &[u8]| evidence([&honest[..start], middle, behind].concat());
    let whole = [&[0x59][..], &u16::try_from(payload.len()).unwrap().to_be_bytes(), &payload].concat();
    inspected(&around(&whole)).unwrap();
    assert_malformed(&around(&[0xf6]));
    assert_malformed(&around(&[&[0x5f][..], &whole, &[0xff]].concat()));
}

#[test]
fn the_signature_is_the_enclave_s_and_has_one_length() {
    let payload = document().payload();
    let signature = chain().sign(PROTECTED, &payload).unwrap();
    let signed = |signature: &[u8]| evidence(cose_sign1(PROTECTED, &[0xa0], &payload, signature));
    inspected(&signed(&signature)).unwrap();
    let other = Chain::issue(&recipe()).unwrap().sign(PROTECTED, &payload).unwrap();
    assert_eq!(inspected(&signed(&other)), Err(Rejection::Untrusted("the document's signature")));
    for length in [0, 48, 95] {
        assert_malformed(&signed(&signature[..length]));
    }
    assert_malformed(&signed(&[&signature[..], &[0]].concat()));
    assert_untrusted(&signed(&[0; 96]));
}
