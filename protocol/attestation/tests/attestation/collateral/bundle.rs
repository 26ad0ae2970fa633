//! Signed bundles: by whom, in which form, and which of two.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::bundle::{self, Bundle, BundleError, PAYLOAD_TYPE};
use sealane_attestation::limits::{BUNDLE_AHEAD_SECONDS_MAX, BUNDLE_BYTES_MAX, BUNDLE_PIECES_MAX};
use sealane_attestation::{Piece, Rejection, Stock};
use sealane_policy::{SigningKey, sign, sign_as};
use sealane_types::{PublicKey, SignedDocument, UnixSeconds};

use super::support::{PLATFORM, ROOTS, intel, intel_recipe, now, owner, pieces, snp_list};

fn owners() -> BTreeSet<PublicKey> {
    [owner().public_key()].into()
}

fn sample() -> Bundle {
    let pieces = [vec![snp_list(60, false)], pieces(&PLATFORM)].concat();
    Bundle { issued: now(), min_tcb_evaluation: Some(18), pieces }
}

fn issued(issued: UnixSeconds) -> Vec<u8> {
    Bundle { issued, ..sample() }.sign(&owner()).unwrap()
}

/// A file with these bytes, signed by an owner.
fn sealed(document: &[u8]) -> Vec<u8> {
    let signatures = vec![sign_as(PAYLOAD_TYPE, document, &owner())];
    serde_json::to_vec(&SignedDocument { document: STANDARD.encode(document), signatures }).unwrap()
}

#[test]
fn what_is_signed_opens() {
    let bundle = sample();
    let opened = bundle::open(&bundle.sign(&owner()).unwrap(), &owners(), now()).unwrap();
    assert_eq!(opened.bundle(), &bundle);
    assert_eq!(opened.signers(), [owner().key_id()]);
    let mut stock = Stock::new(ROOTS.clone());
    let adoption = stock.adopt(&opened, now()).unwrap();
    assert_eq!((adoption.new, adoption.refused), (5, vec![]));
    assert_eq!(stock.bundle_issued(), Some(bundle.issued));
}

#[test]
fn only_owners_sign_and_only_as_bundles() {
    let stranger = SigningKey::from_seed(&[8; 32]).unwrap();
    let refused = |file: &[u8]| bundle::open(file, &owners(), now()).unwrap_err();
    assert!(matches!(refused(&sample().sign(&stranger).unwrap()), BundleError::Unsigned(_)));
    let bytes = sample().to_bytes().unwrap();
    for signatures in [vec![], vec![sign(&bytes, &owner())]] {
        let file = SignedDocument { document: STANDARD.encode(&bytes), signatures };
        let file = serde_json::to_vec(&file).unwrap();
        assert!(matches!(refused(&file), BundleError::Unsigned(_)), "a policy's signature is no bundle's");
        assert!(bundle::read(&file).is_ok(), "anybody may look");
    }
    let mut spoiled = bytes;
    let at = spoiled.len() - 1;
    spoiled[at] = b' ';
    let signatures = vec![sign_as(PAYLOAD_TYPE, &sample().to_bytes().unwrap(), &owner())];
    let file = SignedDocument { document: STANDARD.encode(&spoiled), signatures };
    assert!(matches!(refused(&serde_json::to_vec(&file).unwrap()), BundleError::Unsigned(_)));
}

#[test]
fn a_document_has_one_form() {
    let text = String::from_utf8(sample().to_bytes().unwrap()).unwrap();
    assert!(text.starts_with(r#"{"issued":""#) && text.ends_with(r#","version":1}"#), "{text:.60}");
    for (from, to) in [
        (r#"{"issued""#, r#"{ "issued""#),
        (r#","version":1}"#, r#","version":1,"version":1}"#),
        (r#","version":1}"#, r#","version":2}"#),
        (r#","version":1}"#, r#","note":"","version":1}"#),
        (r#","version":1}"#, r"}"),
        (r#""minTcbEvaluation":18"#, r#""minTcbEvaluation":18.0"#),
        (r#""minTcbEvaluation":18"#, r#""minTcbEvaluation":null"#),
        (r#""kind":"SnpList""#, r#""kind":"SnpLists""#),
        (r#""kind":"SnpList","list":"#, r#""kind":"SnpList","lists":"#),
        (r#""kind":"SnpList","#, ""),
        (r#"Z","minTcb"#, r#".0Z","minTcb"#),
        ("==\"", "=\""),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let refused = bundle::open(&sealed(changed.as_bytes()), &owners(), now());
        assert!(refused.is_err(), "{from} → {to}");
    }
    let kept = bundle::open(&sealed(text.as_bytes()), &owners(), now()).unwrap();
    assert_eq!(kept.bundle().to_bytes().unwrap(), text.into_bytes());
}

#[test]
fn sizes_are_bounded_before_anything_is_read() {
    let large = Bundle { pieces: vec![Piece::SnpList(vec![0; BUNDLE_BYTES_MAX])], ..sample() };
    assert!(matches!(large.to_bytes(), Err(BundleError::TooLarge { .. })));
    let many = Bundle { pieces: vec![Piece::SnpList(vec![]); BUNDLE_PIECES_MAX + 1], ..sample() };
    assert!(matches!(many.to_bytes(), Err(BundleError::TooManyPieces { .. })));
    let refused = |file: &[u8]| bundle::open(file, &owners(), now()).unwrap_err();
    assert!(matches!(refused(&vec![b' '; 2 << 20]), BundleError::TooLarge { .. }));
    assert!(matches!(refused(&sealed(&vec![b' '; BUNDLE_BYTES_MAX + 1])), BundleError::TooLarge { .. }));
    let piece = r#"{"kind":"SnpList","list":""},"#.repeat(BUNDLE_PIECES_MAX + 1);
    let pieces = piece.trim_end_matches(',');
    let many = format!(r#"{{"issued":"2026-11-20T00:00:00Z","pieces":[{pieces}],"version":1}}"#);
    assert!(matches!(refused(&sealed(many.as_bytes())), BundleError::TooManyPieces { .. }));
    let bytes = sample().to_bytes().unwrap();
    let signatures = vec![sign_as(PAYLOAD_TYPE, &bytes, &owner()); 16];
    let file = serde_json::to_vec(&SignedDocument { document: STANDARD.encode(&bytes), signatures }).unwrap();
    bundle::open(&file, &owners(), now()).unwrap();
    let signatures = vec![sign(b"", &owner()); 17];
    let file = serde_json::to_vec(&SignedDocument { document: String::new(), signatures }).unwrap();
    assert!(matches!(refused(&file), BundleError::TooManySignatures { found: 17 }));
    for junk in [&b""[..], b"{}", b"[]", b"{\"document\":\"!\",\"signatures\":[]}"] {
        assert!(bundle::open(junk, &owners(), now()).is_err());
    }
}

#[test]
fn an_older_bundle_never_follows_a_newer_one() {
    let mut stock = Stock::new(ROOTS.clone());
    let open = |file: &[u8]| bundle::open(file, &owners(), now()).unwrap();
    let (earlier, later) = (UnixSeconds(now().0 - 100), UnixSeconds(now().0 - 50));
    let first = open(&issued(later));
    assert!(stock.adopt(&first, now()).unwrap().changed);
    let refused = stock.adopt(&open(&issued(earlier)), now()).unwrap_err();
    assert_eq!(refused, BundleError::RolledBack { issued: earlier, held: later });
    let adoption = stock.adopt(&first, now()).unwrap();
    assert_eq!((adoption.new, adoption.refused), (0, vec![]), "the same one again");
    assert!(!adoption.changed);
    let other = Bundle { issued: later, min_tcb_evaluation: None, ..sample() };
    let refused = stock.adopt(&open(&other.sign(&owner()).unwrap()), now()).unwrap_err();
    assert_eq!(refused, BundleError::Conflict { issued: later });
    assert_eq!(stock.bundle_issued(), Some(later));
    stock.adopt(&open(&issued(now())), now()).unwrap();
}

#[test]
fn an_owner_s_clock_cannot_be_days_ahead() {
    let now = now();
    let soon = now.plus(BUNDLE_AHEAD_SECONDS_MAX);
    bundle::open(&issued(soon), &owners(), now).unwrap();
    let far = soon.plus(1);
    let refused = bundle::open(&issued(far), &owners(), now).unwrap_err();
    assert_eq!(refused, BundleError::FromTheFuture { issued: far });
}

#[test]
fn statements_below_the_floor_are_not_taken_wherever_they_come_from() {
    let mut stock = Stock::new(ROOTS.clone());
    // Made once: lists of another second are newer ones.
    let pieces = intel(&intel_recipe(), 20);
    let floor = |issued, floor| {
        let bundle = Bundle { issued, min_tcb_evaluation: Some(floor), pieces: pieces.clone() };
        bundle::open(&bundle.sign(&owner()).unwrap(), &owners(), now()).unwrap()
    };
    let adoption = stock.adopt(&floor(UnixSeconds(now().0 - 1), 20), now()).unwrap();
    assert_eq!((adoption.new, adoption.refused.len()), (4, 0));
    // What was held falls under a floor that rises.
    let adoption = stock.adopt(&floor(now(), 21), now()).unwrap();
    let expected = Rejection::TcbEvaluation { found: 20 };
    assert!(adoption.refused.iter().all(|(_, rejection)| *rejection == expected), "{adoption:?}");
    assert_eq!((adoption.refused.len(), adoption.new, adoption.changed), (2, 0, true));
    assert!(stock.pieces().iter().all(|piece| piece.evaluation().is_none()));
    let stated = |piece: &Piece| matches!(piece, Piece::TcbInfo(_) | Piece::QeIdentity(_));
    for piece in pieces.into_iter().filter(stated) {
        assert_eq!(super::support::put(&mut stock, piece), Err(expected));
    }
}

#[test]
fn a_piece_that_is_not_in_order_spoils_no_other() {
    let mut bundle = sample();
    bundle.pieces.insert(0, Piece::Vcek(vec![0x30, 0]));
    let opened = bundle::open(&bundle.sign(&owner()).unwrap(), &owners(), now()).unwrap();
    let adoption = Stock::new(ROOTS.clone()).adopt(&opened, now()).unwrap();
    assert_eq!(adoption.new, 5);
    assert!(matches!(adoption.refused.as_slice(), [(0, _)]), "{adoption:?}");
}
