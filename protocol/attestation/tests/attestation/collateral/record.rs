//! What was seen survives a restart, and is believed only as far as its vendors signed it.

use sealane_attestation::bundle::{Bundle, BundleError, VerifiedBundle, open};
use sealane_attestation::{Piece, RecordError, Stock, Taken, limits};
use sealane_types::UnixSeconds;
use serde_json::{Value, json};

use super::support::{
    CHIP, PLATFORM, ROOTS, holding, intel, intel_recipe, now, owner, pieces, put, snp_list,
};

fn bundle(issued: UnixSeconds, min_tcb_evaluation: Option<u32>, pieces: Vec<Piece>) -> VerifiedBundle {
    let bundle = Bundle { issued, min_tcb_evaluation, pieces };
    open(&bundle.sign(&owner()).unwrap(), &[owner().public_key()].into(), now()).unwrap()
}

fn restored(record: &[u8]) -> Stock {
    let mut stock = Stock::new(ROOTS.clone());
    let adoption = stock.restore(record, now()).unwrap();
    assert_eq!(adoption.refused, []);
    stock
}

#[test]
fn what_was_seen_is_held_again() {
    let vcek = Piece::Vcek(CHIP.certificates()[0].to_vec());
    let stock = holding([vec![snp_list(60, false), vcek], pieces(&PLATFORM)].concat());
    let again = restored(&stock.record());
    for held in stock.pieces() {
        let is_chip = matches!(held.piece(), Piece::Vcek(_));
        assert_eq!(again.find(&held.id()).is_none(), is_chip, "{}", held.id());
    }
    assert_eq!(again.record(), stock.record());
    assert_eq!(restored(&Stock::new(ROOTS.clone()).record()).pieces().len(), 0);
}

#[test]
fn nothing_older_follows_what_an_earlier_process_saw() {
    let mut again =
        restored(&holding([vec![snp_list(60, true)], intel(&intel_recipe(), 21)].concat()).record());
    for older in [vec![snp_list(120, false)], intel(&intel_recipe(), 20)].concat() {
        let lists_are_the_same = matches!(older, Piece::TdxRootList(_) | Piece::TdxList { .. });
        let taken = put(&mut again, older.clone()).unwrap();
        assert!(taken == Taken::Older || lists_are_the_same, "{older:?}");
    }
}

#[test]
fn an_earlier_bundle_is_refused_and_its_floor_holds_after_a_restart() {
    let mut stock = Stock::new(ROOTS.clone());
    let issued = UnixSeconds(now().0 - 100);
    stock.adopt(&bundle(issued, Some(20), vec![]), now()).unwrap();
    let mut again = restored(&stock.record());
    assert_eq!(again.bundle_issued(), Some(issued));
    let earlier = UnixSeconds(issued.0 - 1);
    let refused = again.adopt(&bundle(earlier, None, vec![]), now()).unwrap_err();
    assert_eq!(refused, BundleError::RolledBack { issued: earlier, held: issued });
    let refused = again.adopt(&bundle(issued, None, vec![]), now()).unwrap_err();
    assert_eq!(refused, BundleError::Conflict { issued });
    again.adopt(&bundle(issued, Some(20), vec![]), now()).unwrap();
    let old = intel(&intel_recipe(), 19);
    assert!(old.into_iter().any(|piece| put(&mut again, piece).is_err()), "the floor holds");
}

#[test]
fn a_record_puts_nothing_in_that_no_vendor_signed() {
    let mut record: Value = serde_json::from_slice(&holding(pieces(&PLATFORM)).record()).unwrap();
    for piece in record["pieces"].as_array_mut().unwrap() {
        if piece["kind"] == "TcbInfo" {
            piece["text"] = piece["text"].as_str().unwrap().replacen("2026-01-01", "2026-01-02", 1).into();
        }
    }
    let mut stock = Stock::new(ROOTS.clone());
    let adoption = stock.restore(record.to_string().as_bytes(), now()).unwrap();
    assert_eq!((adoption.new, adoption.refused.len()), (3, 1));
}

#[test]
fn a_bundle_of_the_future_keeps_none_out() {
    let issued = now().plus(limits::BUNDLE_AHEAD_SECONDS_MAX + 60).0;
    let record = json!({"version": 1, "pieces": [],
        "bundle": {"issued": issued, "digest": "00".repeat(32), "minTcbEvaluation": 9}});
    let mut again = restored(record.to_string().as_bytes());
    assert_eq!(again.bundle_issued(), None);
    again.adopt(&bundle(now(), None, vec![]), now()).unwrap();
}

#[test]
fn a_clock_that_was_turned_back_makes_nothing_forgotten() {
    let mut stock = holding([snp_list(60, false)]);
    stock.adopt(&bundle(now(), Some(20), vec![]), now()).unwrap();
    let mut again = Stock::new(ROOTS.clone());
    again.restore(&stock.record(), UnixSeconds(now().0 - 30 * 86_400)).unwrap();
    assert_eq!(again.bundle_issued(), stock.bundle_issued());
}

#[test]
fn what_is_no_record_is_refused() {
    let mut stock = holding([snp_list(60, false)]);
    let mut refused = |record: &[u8]| stock.restore(record, now()).unwrap_err();
    assert!(matches!(refused(b""), RecordError::Malformed(_)));
    assert!(matches!(refused(br#"{"version":1,"pieces":[],"more":1}"#), RecordError::Malformed(_)));
    assert_eq!(refused(br#"{"version":2,"pieces":[]}"#), RecordError::Version(2));
    assert_eq!(refused(&vec![b' '; limits::RECORD_BYTES_MAX + 1]), RecordError::TooLarge);
    let many = vec![json!({"kind": "SnpList", "list": ""}); limits::RECORD_PIECES_MAX + 1];
    let many = json!({"version": 1, "pieces": many}).to_string();
    assert_eq!(refused(many.as_bytes()), RecordError::TooLarge);
    let spoilt = json!({"version": 1, "pieces": [{"kind": "SnpList", "list": "?"}]}).to_string();
    assert!(matches!(refused(spoilt.as_bytes()), RecordError::Malformed(_)));
    assert_eq!(stock.pieces().len(), 1, "what is held stays");
}
