//! What a TD report may state, and what permissions tolerate.

use std::collections::BTreeSet;

use sealane_attestation::{Claims, Permission, Rejection};
use sealane_policy::TdxPermissions;
use sealane_simulated::tdx::forge::{Edits, Recipe};
use sealane_simulated::tdx::{Body, Processor};
use sealane_types::Measurement;
use serde_json::{Value, json};

use super::support::{
    AUTHORITY, assert_malformed, assert_untrusted, drafted, evidence, inspected, issued, platform, recipe,
    said,
};

/// Bit of TDATTRIBUTES.
const SERVTD_EXT: u32 = 17;

/// A quote with this byte of its TD report changed.
fn with(body: Body, at: usize, value: u8) -> Result<Claims, Rejection> {
    drafted(body, |draft| draft.report[at] = value)
}

/// A quote with these TDATTRIBUTES, beside SEPT_VE_DISABLE.
fn with_attributes(bits: u64) -> Result<Claims, Rejection> {
    let attributes = bits | 1 << 28;
    drafted(Body::V4, |draft| draft.report[120..128].copy_from_slice(&attributes.to_le_bytes()))
}

fn with_xfam(xfam: u64) -> Result<Claims, Rejection> {
    drafted(Body::V4, |draft| draft.report[128..136].copy_from_slice(&xfam.to_le_bytes()))
}

#[test]
fn the_module_is_signed_by_intel() {
    for at in [64, 111, 112, 119] {
        assert_untrusted(with(Body::V4, at, 1));
    }
}

/// Whatever the TCB info says of modules: other signers are not asked for.
#[test]
fn a_statement_allows_no_other_signer() {
    for (member, at, value) in [("mrsigner", 64, "01".repeat(48)), ("attributes", 112, "01".repeat(8))] {
        let allow = |info: &mut Value| info["tdxModuleIdentities"][0][member] = json!(value);
        let material = AUTHORITY.issue_edited(&recipe(), Edits { info: &allow, ..Edits::default() }).unwrap();
        let quote = platform(&material).quote_edited([7; 64], |draft| {
            draft.report[at..at + value.len() / 2].fill(1);
        });
        assert_untrusted(inspected(&evidence(quote.unwrap())));
    }
}

#[test]
fn only_defined_attributes_are_set() {
    const DEFINED: [u32; 11] = [0, 4, 5, 6, 16, 27, 28, 29, 30, 31, 63];
    for bit in 0..64 {
        let outcome = with_attributes(1 << bit);
        if DEFINED.contains(&bit) {
            assert!(outcome.is_ok(), "{bit}: {outcome:?}");
        } else if bit != SERVTD_EXT {
            assert_malformed(outcome);
        }
    }
}

/// Bound after the guest was created, they are seen in the extended report alone.
#[test]
fn service_tds_are_shown_by_the_quote() {
    for body in Body::ALL {
        let later = drafted(*body, |draft| draft.report[122] |= 1 << (SERVTD_EXT - 16));
        if *body == Body::Td15Ex {
            assert!(later.is_ok(), "{later:?}");
        } else {
            assert_untrusted(later);
        }
    }
}

#[test]
fn only_defined_features_are_used_and_the_first_two_always() {
    const DEFINED: [u32; 14] = [0, 1, 2, 5, 6, 7, 8, 9, 11, 12, 14, 15, 17, 18];
    for bit in 0..64 {
        let outcome = with_xfam(0b11 | 1 << bit);
        if DEFINED.contains(&bit) {
            assert!(outcome.is_ok(), "{bit}: {outcome:?}");
        } else {
            assert_malformed(outcome);
        }
    }
    for xfam in [0, 0b01, 0b10] {
        assert_malformed(with_xfam(xfam));
    }
}

#[test]
fn partitions_and_devices_are_not_judged_and_so_refused() {
    assert_untrusted(with(Body::Td15Ex, 648, 1));
    for at in [681, 728] {
        assert_untrusted(with(Body::Td15Ex, at, 1));
    }
    // TD_ID is another for every start, and where the guest began says nothing of now.
    for at in [649, 680, 785, 816] {
        assert!(with(Body::Td15Ex, at, 1).is_ok(), "{at}");
    }
}

#[track_caller]
fn permission(outcome: Result<Claims, Rejection>) -> Option<Permission> {
    match said(&outcome.unwrap()).permitted(&TdxPermissions::default()) {
        Ok(()) => None,
        Err(Rejection::Permission(permission)) => Some(permission),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn debugging_and_profiling_need_permission() {
    for bit in [0, 4, 5, 6] {
        let claims = with_attributes(1 << bit).unwrap();
        assert!(said(&claims).debug());
        assert_eq!(said(&claims).permitted(&TdxPermissions::default()), Err(Rejection::Debug));
        let debug = TdxPermissions { debug: true, ..TdxPermissions::default() };
        assert_eq!(said(&claims).permitted(&debug), Ok(()));
    }
}

/// Each permission is needed by one setting, and no other stands in for it.
#[test]
fn each_setting_needs_its_own_permission() {
    let refused = TdxPermissions::default;
    let without_sept_ve_disable = drafted(Body::V4, |draft| draft.report[120..128].fill(0));
    let processor = |change: &dyn Fn(&mut Processor)| {
        let mut recipe: Recipe = recipe();
        change(&mut recipe.processor);
        issued(&recipe, Default::default())
    };
    let cases = [
        (with_attributes(1 << 29), Permission::Migration, TdxPermissions { migration: true, ..refused() }),
        (without_sept_ve_disable, Permission::SeptVe, TdxPermissions { sept_ve: true, ..refused() }),
        (with_attributes(1 << 63), Permission::Perfmon, TdxPermissions { perfmon: true, ..refused() }),
        (with_attributes(1 << 31), Permission::KeyLocker, TdxPermissions { key_locker: true, ..refused() }),
        (
            processor(&|processor| processor.dynamic_platform = Some(true)),
            Permission::DynamicPlatform,
            TdxPermissions { dynamic_platform: true, ..refused() },
        ),
        (
            processor(&|processor| processor.cached_keys = Some(true)),
            Permission::CachedKeys,
            TdxPermissions { cached_keys: true, ..refused() },
        ),
        (
            processor(&|processor| processor.smt = Some(true)),
            Permission::Smt,
            TdxPermissions { smt: true, ..refused() },
        ),
    ];
    let all: Vec<_> = cases.iter().map(|(_, _, permissions)| permissions.clone()).collect();
    for (outcome, needed, _) in cases {
        let claims = outcome.unwrap();
        for permissions in std::iter::once(&refused()).chain(&all) {
            let outcome = said(&claims).permitted(permissions);
            let gives = match needed {
                Permission::Migration => permissions.migration,
                Permission::SeptVe => permissions.sept_ve,
                Permission::Perfmon => permissions.perfmon,
                Permission::KeyLocker => permissions.key_locker,
                Permission::DynamicPlatform => permissions.dynamic_platform,
                Permission::CachedKeys => permissions.cached_keys,
                _ => permissions.smt,
            };
            let expected = if gives { Ok(()) } else { Err(Rejection::Permission(needed)) };
            assert_eq!(outcome, expected, "{needed}");
        }
    }
}

/// A certificate of a single package says none of it; nothing is assumed in its favour.
#[test]
fn what_a_certificate_does_not_state_needs_permission() {
    let mut silent = recipe();
    silent.processor.dynamic_platform = None;
    silent.processor.cached_keys = None;
    silent.processor.smt = None;
    let claims = issued(&silent, Default::default()).unwrap();
    let all =
        TdxPermissions { dynamic_platform: true, cached_keys: true, smt: true, ..TdxPermissions::default() };
    assert_eq!(said(&claims).permitted(&all), Ok(()));
    for spoiled in [
        TdxPermissions { dynamic_platform: false, ..all.clone() },
        TdxPermissions { cached_keys: false, ..all.clone() },
        TdxPermissions { smt: false, ..all.clone() },
    ] {
        assert!(said(&claims).permitted(&spoiled).is_err());
    }
}

#[test]
fn service_tds_are_named_or_refused() {
    for (body, offsets) in [(Body::Td15, &[600_usize][..]), (Body::Td15Ex, &[600, 729, 829])] {
        for offset in offsets {
            assert_eq!(permission(with(body, *offset, 1)), Some(Permission::ServiceTd));
            assert_eq!(permission(with(body, *offset + 47, 1)), Some(Permission::ServiceTd));
        }
    }
    let bound = drafted(Body::Td15Ex, |draft| {
        draft.report[600..648].fill(1);
        draft.report[829..877].fill(2);
    })
    .unwrap();
    let allowing = |bytes: &[u8]| {
        let service_tds: BTreeSet<_> = bytes.iter().map(|byte| Measurement::new([*byte; 48])).collect();
        said(&bound).permitted(&TdxPermissions { service_tds, ..TdxPermissions::default() })
    };
    assert_eq!(*said(&bound).service_tds(), [1, 2].map(|byte| Measurement::new([byte; 48])).into());
    assert_eq!(allowing(&[1, 2]), Ok(()));
    for some in [&[1][..], &[2], &[0, 3]] {
        assert_eq!(allowing(some), Err(Rejection::Permission(Permission::ServiceTd)));
    }
    assert_eq!(permission(drafted(Body::Td15Ex, |_| {})), None);
}

#[test]
fn the_config_id_is_the_hash_of_the_initdata() {
    let claims = super::support::inspected(&super::support::quoted_by(&super::support::MATERIAL)).unwrap();
    let initdata = super::support::INITDATA;
    assert!(sealane_attestation::measures_initdata(&claims, initdata));
    assert!(!sealane_attestation::measures_initdata(&claims, &initdata[1..]));
}
