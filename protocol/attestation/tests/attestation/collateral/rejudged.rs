//! A peer that was accepted is judged again by other collateral, from the evidence that it showed.

use sealane_attestation::{ChainCache, Piece, rejudge_with};
use sealane_simulated::tdx;
use sealane_types::Reason;
use serde_json::Value;

use super::support::{
    INTEL, PLATFORM, ROOTS, dates, holding, intel_recipe, judged, now, pieces, policy, put, snp_list,
    snp_message, tdx_message,
};

#[test]
fn a_revocation_that_comes_later_is_seen() {
    let policy = policy(0);
    let mut stock = holding([snp_list(60, false)]);
    let held = judged(&snp_message(&policy), &policy, &stock.assemble(1).0, now()).unwrap();
    let mut chains = ChainCache::new();
    let same = rejudge_with(&mut chains, &held, &policy, &stock.assemble(1).0, now()).unwrap();
    assert_eq!(same, held);
    put(&mut stock, snp_list(30, true)).unwrap();
    let refused = rejudge_with(&mut chains, &held, &policy, &stock.assemble(2).0, now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::EvidenceUntrusted, "{refused}");
}

#[test]
fn a_level_that_falls_is_seen() {
    let policy = policy(0);
    let mut stock = holding(pieces(&PLATFORM));
    let held = judged(&tdx_message(&policy), &policy, &stock.assemble(1).0, now()).unwrap();
    let fallen = |info: &mut Value| {
        info["tcbEvaluationDataNumber"] = 21.into();
        info["tcbLevels"][0]["tcbStatus"] = "OutOfDate".into();
    };
    let edits = tdx::forge::Edits { info: &fallen, ..tdx::forge::Edits::default() };
    for piece in pieces(&INTEL.issue_edited(&intel_recipe(), edits).unwrap()) {
        put(&mut stock, piece).unwrap();
    }
    let refused =
        rejudge_with(&mut ChainCache::new(), &held, &policy, &stock.assemble(2).0, now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::TcbTooLow, "{refused}");
}

#[test]
fn a_newer_list_makes_a_peer_last_longer_and_its_evidence_no_younger() {
    let policy = policy(0);
    let list = |until| {
        Piece::SnpList(
            super::support::AMD
                .revocation_list(&super::support::amd_recipe(), dates(-60 - until, until), false)
                .unwrap(),
        )
    };
    let mut stock = holding([list(600)]);
    let held = judged(&snp_message(&policy), &policy, &stock.assemble(1).0, now()).unwrap();
    let newer = Piece::SnpList(
        super::support::AMD.revocation_list(&super::support::amd_recipe(), dates(-10, 3600), false).unwrap(),
    );
    put(&mut stock, newer).unwrap();
    let later = now().plus(10);
    let again = rejudge_with(&mut ChainCache::new(), &held, &policy, &stock.assemble(2).0, later).unwrap();
    assert!(again.expires() > held.expires());
    assert_eq!(again.evidence_time(), held.evidence_time());
    assert_eq!((held.edition(), again.edition()), (1, 2));
}

#[test]
fn collateral_that_is_gone_is_missed() {
    let policy = policy(0);
    let stock = holding([vec![snp_list(60, false)], pieces(&PLATFORM)].concat());
    let nothing = sealane_attestation::Stock::new(ROOTS.clone()).assemble(2).0;
    for message in [snp_message(&policy), tdx_message(&policy)] {
        let held = judged(&message, &policy, &stock.assemble(1).0, now()).unwrap();
        let refused = rejudge_with(&mut ChainCache::new(), &held, &policy, &nothing, now()).unwrap_err();
        assert_eq!(refused.reason(), Reason::CollateralMissing, "{refused}");
    }
}
