//! What the owners sign about collateral binds whoever delivers it: how old it may be, and which numbers are too low.

use sealane_attestation::{Collateral, Piece, Rejection, VendorRoots, VerifiedPiece, rejudge};
use sealane_policy::CollateralRules;
use sealane_simulated::tdx;
use sealane_types::{CrlIssuer, Reason, UnixSeconds};
use x509_cert::crl::TbsCertList;
use x509_cert::der::Encode;
use x509_cert::der::asn1::{OctetString, Uint};
use x509_cert::der::oid::AssociatedOid;
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, CrlNumber};

use super::support::{
    AMD, INTEL, ROOTS, amd_recipe, dates, holding, intel, intel_recipe, judged, now, pieces, policy_with,
    put, snp_message, tdx_message,
};

const DAY: u64 = 86_400;

/// Gives a list another number, or none but an extension that says nothing.
fn numbered(list: &mut TbsCertList, number: Option<&[u8]>) {
    let extension = &mut list.crl_extensions.as_mut().unwrap()[0];
    match number {
        Some(octets) => {
            let number = CrlNumber(Uint::new(octets).unwrap()).to_der().unwrap();
            extension.extn_value = OctetString::new(number).unwrap();
        }
        None => extension.extn_id = AuthorityKeyIdentifier::OID,
    }
}

/// AMD's list that was issued so many seconds ago.
fn snp_list(age: i64, number: Option<&[u8]>) -> Piece {
    let validity = dates(-age, 3600);
    let list = AMD.revocation_list_edited(&amd_recipe(), validity, false, |list| numbered(list, number));
    Piece::SnpList(list.unwrap())
}

/// What Intel says, with a number for each of its lists.
fn intel_lists(root: u8, platform: u8) -> Vec<Piece> {
    let list = |place: tdx::forge::Place, list: &mut TbsCertList| {
        let number = if place == tdx::forge::Place::Root { root } else { platform };
        numbered(list, Some(&[number]));
    };
    let edits = tdx::forge::Edits { list: &list, ..tdx::forge::Edits::default() };
    pieces(&INTEL.issue_edited(&intel_recipe(), edits).unwrap())
}

fn verified(piece: Piece) -> VerifiedPiece {
    ROOTS.verify(piece, now()).unwrap()
}

fn demanding(issuer: CrlIssuer, number: u64) -> CollateralRules {
    CollateralRules { min_crl_number: [(issuer, number)].into(), ..CollateralRules::default() }
}

fn assembled(pieces: Vec<Piece>) -> Collateral {
    holding(pieces).assemble(1).0
}

#[test]
fn a_list_below_the_signed_number_is_refused() {
    for (number, least, accepted) in [
        (Some(&[4][..]), 5, false),
        (Some(&[5][..]), 5, true),
        (Some(&[1, 0][..]), 255, true),
        (Some(&[1, 0][..]), 257, false),
        (None, 1, false),
        // Twenty octets are the most that a list may have.
        (Some(&[0x7f; 20][..]), 9_007_199_254_740_991, true),
    ] {
        let policy = policy_with(demanding(CrlIssuer::Genoa, least));
        let collateral = assembled(vec![snp_list(60, number)]);
        let verdict = judged(&snp_message(&policy), &policy, &collateral, now());
        assert_eq!(verdict.is_ok(), accepted, "{number:?} for {least}: {verdict:?}");
        if let Err(refused) = verdict {
            assert!(matches!(refused, Rejection::CrlNumber { issuer: CrlIssuer::Genoa, .. }), "{refused}");
            assert_eq!(refused.reason(), Reason::CollateralExpired);
        }
        let rules = &policy.document().collateral;
        assert_eq!(verified(snp_list(60, number)).counts(rules, now()), accepted);
    }
    // Another issuer's number is another series.
    let policy = policy_with(demanding(CrlIssuer::Milan, 9));
    judged(&snp_message(&policy), &policy, &assembled(vec![snp_list(60, Some(&[1]))]), now()).unwrap();
}

#[test]
fn each_list_of_intel_s_has_a_number_of_its_own() {
    for (issuer, root, platform, accepted) in [
        (CrlIssuer::IntelRoot, 3, 1, true),
        (CrlIssuer::IntelRoot, 2, 9, false),
        (CrlIssuer::IntelPlatform, 1, 3, true),
        (CrlIssuer::IntelPlatform, 9, 2, false),
        (CrlIssuer::IntelProcessor, 1, 1, true),
    ] {
        let policy = policy_with(demanding(issuer, 3));
        let lists = intel_lists(root, platform);
        let verdict = judged(&tdx_message(&policy), &policy, &assembled(lists.clone()), now());
        assert_eq!(verdict.is_ok(), accepted, "{issuer}, {root}, {platform}: {verdict:?}");
        let rules = &policy.document().collateral;
        let counts = lists.into_iter().all(|piece| verified(piece).counts(rules, now()));
        assert_eq!(counts, accepted, "{issuer}, {root}, {platform}");
    }
}

/// Intel numbers none of its lists: those that were stored in 2025 and in 2026 revoke other platforms under one number.
#[test]
fn lists_of_intel_s_are_told_apart_by_their_issue() {
    for (issuer, age, accepted) in [
        (CrlIssuer::IntelRoot, 600, true),
        (CrlIssuer::IntelRoot, 60, false),
        (CrlIssuer::IntelPlatform, 600, true),
        (CrlIssuer::IntelPlatform, 60, false),
        (CrlIssuer::IntelProcessor, 60, true),
    ] {
        let least = UnixSeconds(now().0 - age).into();
        let rules =
            CollateralRules { min_crl_issued: [(issuer, least)].into(), ..CollateralRules::default() };
        let policy = policy_with(rules.clone());
        let issued = dates(-300, 3600);
        let recipe = tdx::forge::Recipe { root_list: issued, list: issued, ..intel_recipe() };
        let lists = pieces(&INTEL.issue(&recipe).unwrap());
        let verdict = judged(&tdx_message(&policy), &policy, &assembled(lists.clone()), now());
        assert_eq!(verdict.is_ok(), accepted, "{issuer}, {age}: {verdict:?}");
        if let Err(refused) = verdict {
            assert!(matches!(refused, Rejection::CrlIssued { issuer: of, .. } if of == issuer), "{refused}");
            assert_eq!(refused.reason(), Reason::CollateralExpired);
        }
        let counts = lists.into_iter().all(|piece| verified(piece).counts(&rules, now()));
        assert_eq!(counts, accepted, "{issuer}, {age}");
    }
}

#[test]
fn genuine_lists_of_intel_s_have_one_number_and_other_dates() {
    let numbers = |library: &[u8]| {
        let roots = VendorRoots::pinned();
        let pieces =
            Piece::read(library).unwrap().into_iter().map(|piece| roots.verify(piece, now()).unwrap());
        let lists = pieces.filter(|piece| piece.crl_number().is_some());
        lists.map(|list| (list.id(), (list.crl_number(), list.term().from))).collect::<Vec<_>>()
    };
    let [earlier, later] = [
        numbers(include_bytes!("../../tdx/v4.collateral.json")),
        numbers(include_bytes!("../../tdx/v5-td15ex.collateral.json")),
    ];
    assert_eq!((earlier.len(), later.len()), (2, 2));
    for (one, other) in earlier.into_iter().zip(later) {
        assert_eq!(one.0, other.0);
        assert_eq!((one.1.0, other.1.0), (Some(1), Some(1)), "a number tells nothing");
        assert!(one.1.1 < other.1.1, "the date of issue does");
    }
}

#[test]
fn statements_below_the_signed_evaluation_are_refused() {
    let rules = CollateralRules { min_tcb_evaluation: Some(20), ..CollateralRules::default() };
    let policy = policy_with(rules.clone());
    for (evaluation, accepted) in [(19, false), (20, true)] {
        let pieces = intel(&intel_recipe(), evaluation);
        let verdict = judged(&tdx_message(&policy), &policy, &assembled(pieces.clone()), now());
        assert_eq!(verdict.is_ok(), accepted, "{verdict:?}");
        let all = pieces.into_iter().all(|piece| verified(piece).counts(&rules, now()));
        assert_eq!(all, accepted);
    }
}

#[test]
fn collateral_is_no_older_than_the_owners_sign_whatever_its_vendor_says() {
    let aged = CollateralRules { max_age_seconds: Some(DAY), ..CollateralRules::default() };
    let policy = policy_with(aged.clone());
    let issued = |ago: i64| {
        let dates = dates(-ago, 90_000_000);
        let list = Piece::SnpList(AMD.revocation_list(&amd_recipe(), dates, false).unwrap());
        let recipe = tdx::forge::Recipe {
            root_list: dates,
            list: dates,
            info: dates,
            identity: dates,
            ..intel_recipe()
        };
        [vec![list], pieces(&INTEL.issue(&recipe).unwrap())].concat()
    };
    let day = i64::try_from(DAY).unwrap();
    for (ago, accepted) in [(day - 60, true), (day + 60, false)] {
        let pieces = issued(ago);
        let collateral = assembled(pieces.clone());
        for message in [snp_message(&policy), tdx_message(&policy)] {
            let verdict = judged(&message, &policy, &collateral, now());
            assert_eq!(verdict.is_ok(), accepted, "{ago}: {verdict:?}");
            if let Err(refused) = verdict {
                assert_eq!(refused.reason(), Reason::CollateralExpired, "{refused}");
            }
        }
        let all = pieces.into_iter().map(verified).filter(|piece| !piece.counts(&aged, now()));
        let too_old: Vec<_> = all.map(|piece| (piece.id().to_string(), piece.term())).collect();
        assert_eq!(too_old.is_empty(), accepted, "{too_old:?}");
    }
    // Claims that are kept age with what they rest on, and no grace makes up for it.
    let held = judged(&snp_message(&policy), &policy, &assembled(issued(day - 600)), now()).unwrap();
    let end = held.claims().lasts(&aged);
    assert!(end.0.abs_diff(now().0 + 600) <= 5, "{end:?}");
    assert_eq!((held.counts_until(), held.ends()), (end, Some(end)), "and it is told ahead");
    let lenient = rejudge(&held, &policy_with(CollateralRules::default()), now()).unwrap();
    assert_eq!(lenient.ends(), Some(held.expires()), "the vendor's own end under a later epoch");
    let graced = policy_with(CollateralRules { grace_seconds: 3600, ..aged });
    for policy in [&policy, &graced] {
        let at = |seconds: u64| UnixSeconds(end.0 + seconds);
        rejudge(&held, policy, at(0)).unwrap();
        assert_eq!(rejudge(&held, policy, at(1)).unwrap_err().reason(), Reason::CollateralExpired);
    }
}

#[test]
fn a_later_policy_may_refuse_what_was_accepted() {
    let first = policy_with(CollateralRules::default());
    let held =
        judged(&snp_message(&first), &first, &assembled(vec![snp_list(60, Some(&[4]))]), now()).unwrap();
    let second = policy_with(demanding(CrlIssuer::Genoa, 5));
    let refused = rejudge(&held, &second, now()).unwrap_err();
    assert_eq!(refused, Rejection::CrlNumber { issuer: CrlIssuer::Genoa, found: 4 });
}

#[test]
fn the_higher_number_of_a_list_is_kept_whatever_their_dates() {
    let mut stock = holding([snp_list(120, Some(&[5]))]);
    put(&mut stock, snp_list(60, Some(&[4]))).unwrap();
    let number = |stock: &sealane_attestation::Stock| stock.pieces()[0].crl_number();
    assert_eq!(number(&stock), Some(5), "a list that was issued later and has a lower number");
    put(&mut stock, snp_list(180, Some(&[6]))).unwrap();
    assert_eq!(number(&stock), Some(6));
}
