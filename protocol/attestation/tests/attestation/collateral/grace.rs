//! Collateral counts until it is over, and longer only where owners signed that it does.

use sealane_attestation::{Degradation, rejudge};
use sealane_simulated::tdx;
use sealane_types::Reason;

use super::support::{
    AMD, amd_recipe, dates, holding, intel, intel_recipe, judged, now, policy, snp_message, tdx_message,
};
use sealane_attestation::Piece;

/// Lists and statements that ended so many seconds ago.
fn over(seconds: i64) -> sealane_attestation::Collateral {
    let ended = dates(-3600, -seconds);
    let recipe =
        tdx::forge::Recipe { root_list: ended, list: ended, info: ended, identity: ended, ..intel_recipe() };
    let list = Piece::SnpList(AMD.revocation_list(&amd_recipe(), ended, false).unwrap());
    holding([vec![list], intel(&recipe, 20)].concat()).assemble(1).0
}

#[test]
fn nothing_counts_after_its_end_by_default() {
    let policy = policy(0);
    for message in [snp_message(&policy), tdx_message(&policy)] {
        let refused = judged(&message, &policy, &over(60), now()).unwrap_err();
        assert_eq!(refused.reason(), Reason::CollateralExpired, "{refused}");
    }
}

#[test]
fn grace_counts_and_is_shown() {
    let policy = policy(600);
    for message in [snp_message(&policy), tdx_message(&policy)] {
        let verified = judged(&message, &policy, &over(60), now()).unwrap();
        assert!(verified.degradations().contains(&Degradation::CollateralStale), "{verified:?}");
        assert!(verified.expires() < now(), "grace does not make anything fresh");
        let again = rejudge(&verified, &policy, now()).unwrap();
        assert!(again.degradations().contains(&Degradation::CollateralStale));
        let late = rejudge(&verified, &policy, verified.expires().plus(601)).unwrap_err();
        assert_eq!(late.reason(), Reason::CollateralExpired);
        let strict = super::support::policy(0);
        let refused = rejudge(&verified, &strict, now()).unwrap_err();
        assert_eq!(refused.reason(), Reason::CollateralExpired, "a later policy may take it back");
        let refused = judged(&message, &policy, &over(700), now()).unwrap_err();
        assert_eq!(refused.reason(), Reason::CollateralExpired, "{refused}");
    }
}

#[test]
fn fresh_collateral_is_not_degraded() {
    let policy = policy(600);
    let list = Piece::SnpList(AMD.revocation_list(&amd_recipe(), dates(-60, 3600), false).unwrap());
    let collateral = holding([vec![list], intel(&intel_recipe(), 20)].concat()).assemble(1).0;
    for message in [snp_message(&policy), tdx_message(&policy)] {
        let verified = judged(&message, &policy, &collateral, now()).unwrap();
        assert!(!verified.degradations().contains(&Degradation::CollateralStale));
    }
}

#[test]
fn grace_begins_after_the_last_second() {
    let policy = policy(600);
    for message in [snp_message(&policy), tdx_message(&policy)] {
        let verified = judged(&message, &policy, &over(-600), now()).unwrap();
        let stale = |at| {
            let again = rejudge(&verified, &policy, at).unwrap();
            again.degradations().contains(&Degradation::CollateralStale)
        };
        assert!(!stale(verified.expires()));
        assert!(stale(verified.expires().plus(1)));
    }
}

#[test]
fn grace_does_not_reach_certificates() {
    let policy = policy(7 * 24 * 3600);
    // The signer's certificate is over, and everything that it signed holds.
    let recipe = tdx::forge::Recipe { signer: dates(-3600, -60), ..intel_recipe() };
    let collateral = holding(intel(&recipe, 20)).assemble(1).0;
    let refused = judged(&tdx_message(&policy), &policy, &collateral, now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::CollateralExpired, "{refused}");
    // By itself: what the whole verdict lasts is held against the time once more, and names nothing.
    assert!(refused.to_string().contains("the signer's certificate"), "{refused}");
    // Nor to what begins later.
    let list = Piece::SnpList(AMD.revocation_list(&amd_recipe(), dates(600, 3600), false).unwrap());
    let refused = judged(&snp_message(&policy), &policy, &holding([list]).assemble(1).0, now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::CollateralExpired, "{refused}");
}
