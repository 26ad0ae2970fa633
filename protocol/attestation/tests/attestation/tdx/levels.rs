//! How Intel's statements judge a platform, its TDX module and its quoting enclave.

use std::collections::BTreeSet;

use sealane_attestation::{Claims, Rejection};
use sealane_simulated::tdx::Body;
use sealane_simulated::tdx::forge::{Edits, Recipe};
use sealane_types::TcbStatus::{self, ConfigurationNeeded, OutOfDate, SoftwareHardeningNeeded, UpToDate};
use serde_json::{Value, json};

use super::support::{
    AUTHORITY, assert_missing, assert_untrusted, drafted, evidence, inspected, issued, platform, recipe,
    said, with_identity, with_info,
};

fn statuses(outcome: Result<Claims, Rejection>) -> Vec<TcbStatus> {
    said(&outcome.unwrap()).statuses().iter().copied().collect()
}

/// The level that the honest platform reaches exactly.
fn level(info: &mut Value) -> &mut Value {
    &mut info["tcbLevels"][0]
}

#[test]
fn every_component_counts() {
    for component in 0..16 {
        let honest = recipe().processor.components[component];
        let raised = with_info(|info| {
            level(info)["tcb"]["sgxtcbcomponents"][component]["svn"] = json!(honest + 1);
        });
        assert_eq!(statuses(raised), [OutOfDate], "{component}");
    }
    let raised = with_info(|info| level(info)["tcb"]["pcesvn"] = json!(12));
    assert_eq!(statuses(raised), [OutOfDate]);
    // The module's own levels judge the first two of these; without any that fits, nothing is known.
    for component in 0..16 {
        let honest = recipe().processor.tee_tcb[component];
        let raised = with_info(|info| {
            level(info)["tcb"]["tdxtcbcomponents"][component]["svn"] = json!(honest + 1);
            info["tcbLevels"][1]["tcb"]["tdxtcbcomponents"] = json!(vec![json!({"svn": 0}); 16]);
        });
        let expected = if component < 2 { UpToDate } else { OutOfDate };
        assert_eq!(statuses(raised), [expected], "{component}");
    }
}

#[test]
fn a_platform_below_every_level_is_unknown() {
    let raised = with_info(|info| {
        for level in info["tcbLevels"].as_array_mut().unwrap() {
            level["tcb"]["pcesvn"] = json!(12);
        }
    });
    assert_untrusted(raised);
    assert_untrusted(with_info(|info| info["tcbLevels"] = json!([])));
    assert_untrusted(with_info(|info| {
        info["tdxModuleIdentities"][0]["tcbLevels"][0]["tcb"]["isvsvn"] = json!(6);
    }));
    assert_untrusted(with_identity(|identity| identity["tcbLevels"][0]["tcb"]["isvsvn"] = json!(5)));
    assert_untrusted(with_identity(|identity| identity["tcbLevels"] = json!([])));
}

#[test]
fn the_order_of_levels_does_not_matter() {
    let reversed = |info: &mut Value| info["tcbLevels"].as_array_mut().unwrap().reverse();
    assert_eq!(statuses(with_info(reversed)), [UpToDate]);
    let older = |levels: &mut Value| {
        let mut older = levels[0].clone();
        older["tcb"]["isvsvn"] = json!(1);
        older["tcbStatus"] = json!("OutOfDate");
        levels.as_array_mut().unwrap().insert(0, older);
    };
    assert_eq!(statuses(with_identity(|identity| older(&mut identity["tcbLevels"]))), [UpToDate]);
    let module = |info: &mut Value| older(&mut info["tdxModuleIdentities"][0]["tcbLevels"]);
    assert_eq!(statuses(with_info(module)), [UpToDate]);
}

#[test]
fn intels_words_are_ours() {
    for (word, expected) in [
        ("UpToDate", &[UpToDate][..]),
        ("SWHardeningNeeded", &[SoftwareHardeningNeeded]),
        ("ConfigurationNeeded", &[ConfigurationNeeded]),
        ("ConfigurationAndSWHardeningNeeded", &[ConfigurationNeeded, SoftwareHardeningNeeded]),
        ("OutOfDate", &[OutOfDate]),
        ("OutOfDateConfigurationNeeded", &[OutOfDate, ConfigurationNeeded]),
        ("TDRelaunchAdvised", &[OutOfDate]),
        ("TDRelaunchAdvisedConfigurationNeeded", &[OutOfDate, ConfigurationNeeded]),
    ] {
        let claims = with_info(|info| level(info)["tcbStatus"] = json!(word)).unwrap();
        assert_eq!(claims.tcb_status(), Some(expected[0]), "{word}: the weakest");
        assert_eq!(said(&claims).statuses().iter().copied().collect::<Vec<_>>(), expected, "{word}");
        // Each of them has to be accepted.
        let all: BTreeSet<_> = expected.iter().copied().collect();
        assert_eq!(said(&claims).accepted(&all), Ok(()));
        for missing in expected {
            let mut accepted: BTreeSet<_> = TcbStatus::ALL.iter().copied().collect();
            accepted.remove(missing);
            assert_eq!(said(&claims).accepted(&accepted), Err(Rejection::TcbStatus(*missing)), "{word}");
        }
    }
    assert_missing(with_info(|info| level(info)["tcbStatus"] = json!("Fine")));
}

#[test]
fn the_worst_of_platform_module_and_enclave_counts() {
    let module = |word: &str| {
        let word = json!(word);
        with_info(move |info| info["tdxModuleIdentities"][0]["tcbLevels"][0]["tcbStatus"] = word.clone())
    };
    let enclave = |word: &str| {
        let word = json!(word);
        with_identity(move |identity| identity["tcbLevels"][0]["tcbStatus"] = word.clone())
    };
    assert_eq!(statuses(module("OutOfDate")), [OutOfDate]);
    assert_eq!(statuses(enclave("OutOfDate")), [OutOfDate]);
    let everywhere = issued(
        &recipe(),
        Edits {
            info: &|info| {
                level(info)["tcbStatus"] = json!("SWHardeningNeeded");
                info["tdxModuleIdentities"][0]["tcbLevels"][0]["tcbStatus"] = json!("OutOfDate");
            },
            identity: &|identity| {
                identity["tcbLevels"][0]["tcbStatus"] = json!("ConfigurationNeeded");
            },
            ..Edits::default()
        },
    );
    assert_eq!(statuses(everywhere), [OutOfDate, ConfigurationNeeded, SoftwareHardeningNeeded]);
    let platform = with_info(|info| level(info)["tcbStatus"] = json!("Revoked"));
    for revoked in [platform, module("Revoked"), enclave("Revoked")] {
        assert!(matches!(revoked, Err(Rejection::Revoked(_))), "{revoked:?}");
    }
}

#[test]
fn advisories_are_told() {
    let claims = issued(
        &recipe(),
        Edits {
            info: &|info| {
                level(info)["advisoryIDs"] = json!(["INTEL-SA-00001", "INTEL-SA-00002"]);
                info["tdxModuleIdentities"][0]["tcbLevels"][0]["advisoryIDs"] = json!(["INTEL-SA-00003"]);
            },
            identity: &|identity| {
                identity["tcbLevels"][0]["advisoryIDs"] = json!(["INTEL-SA-00004", "INTEL-SA-00002"]);
            },
            ..Edits::default()
        },
    );
    let claims = claims.unwrap();
    let told: Vec<_> = said(&claims).advisories().iter().map(|id| &id[9..]).collect();
    assert_eq!(told, ["00001", "00002", "00003", "00004"]);
}

#[test]
fn the_lower_evaluation_counts() {
    for (info, identity) in [(17, 20), (20, 17)] {
        let claims = issued(
            &recipe(),
            Edits {
                info: &|statement| statement["tcbEvaluationDataNumber"] = json!(info),
                identity: &|statement| statement["tcbEvaluationDataNumber"] = json!(identity),
                ..Edits::default()
            },
        );
        assert_eq!(said(&claims.unwrap()).tcb_evaluation(), 17);
    }
}

/// TEE_TCB_SVN of the quote: at launch, and now.
fn with_module(launched: [u8; 3], now: [u8; 3]) -> Result<Claims, Rejection> {
    let edits = Edits {
        info: &|info| {
            let levels = info["tdxModuleIdentities"][0]["tcbLevels"].as_array_mut().unwrap();
            let mut older = levels[0].clone();
            older["tcb"]["isvsvn"] = json!(3);
            older["tcbStatus"] = json!("OutOfDate");
            levels.push(older);
        },
        ..Edits::default()
    };
    let material = AUTHORITY.issue_edited(&recipe(), edits).unwrap();
    let quote = platform(&material).quoting(Body::Td15).quote_edited([7; 64], |draft| {
        draft.report[..3].copy_from_slice(&launched);
        draft.report[584..587].copy_from_slice(&now);
    });
    inspected(&evidence(quote.unwrap()))
}

#[test]
fn a_guest_is_judged_by_the_module_that_launched_it_and_by_the_one_that_runs() {
    let (current, old) = ([5, 1, 2], [3, 1, 2]);
    assert_eq!(statuses(with_module(current, current)), [UpToDate]);
    let updated = with_module(old, current).unwrap();
    assert!(said(&updated).relaunch_advised());
    let accepted = [UpToDate].into();
    assert_eq!(said(&updated).accepted(&accepted), Err(Rejection::RelaunchAdvised));
    assert_eq!(said(&updated).accepted(&[OutOfDate].into()), Ok(()));
    for module in [with_module(old, old), with_module(current, old)] {
        let claims = module.unwrap();
        assert!(!said(&claims).relaunch_advised());
        assert_eq!(said(&claims).accepted(&accepted), Err(Rejection::TcbStatus(OutOfDate)));
    }
    assert_untrusted(with_module(current, [2, 1, 2]));
    assert_untrusted(with_module([2, 1, 2], current));
}

#[test]
fn a_module_is_one_that_intel_describes() {
    let major = |version: u8| drafted(Body::V4, move |draft| draft.report[1] = version);
    assert!(major(1).is_ok());
    assert_untrusted(major(2));
    assert_untrusted(with_info(|info| info["tdxModuleIdentities"] = json!([])));
    for (member, value) in [("mrsigner", "01".repeat(48)), ("attributes", "01".repeat(8))] {
        let other = |info: &mut Value| info["tdxModuleIdentities"][0][member] = json!(value);
        assert_untrusted(with_info(other));
    }
    // Attributes that the mask leaves out do not matter.
    let unmasked = |info: &mut Value| {
        info["tdxModuleIdentities"][0]["attributes"] = json!("01".repeat(8));
        info["tdxModuleIdentities"][0]["attributesMask"] = json!("00".repeat(8));
    };
    assert!(with_info(unmasked).is_ok());
    // Two statements about one module: one reader takes the first and another the last.
    assert_missing(with_info(|info| {
        let again = info["tdxModuleIdentities"][0].clone();
        info["tdxModuleIdentities"].as_array_mut().unwrap().push(again);
    }));
    assert_missing(with_info(|info| info["tdxModuleIdentities"][0]["id"] = json!("SEAM_01")));
}

/// Modules of major version 0 have no levels of their own: all of their numbers are compared.
#[test]
fn the_first_modules_are_judged_by_the_platforms_levels() {
    let mut processor = recipe().processor;
    processor.tee_tcb = [3, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let recipe = Recipe { processor, ..recipe() };
    let with = |info: &dyn Fn(&mut Value)| issued(&recipe, Edits { info, ..Edits::default() });
    let without = |info: &mut Value| info["tdxModuleIdentities"] = json!([]);
    assert_eq!(statuses(with(&without)), [UpToDate]);
    let raised = |component: usize| {
        with(&move |info: &mut Value| {
            level(info)["tcb"]["tdxtcbcomponents"][component]["svn"] = json!(9);
            info["tcbLevels"][1]["tcb"]["tdxtcbcomponents"] = json!(vec![json!({"svn": 0}); 16]);
        })
    };
    for component in 0..16 {
        assert_eq!(statuses(raised(component)), [OutOfDate], "{component}");
    }
    assert_untrusted(with(&|info| info["tdxModule"]["mrsigner"] = json!("01".repeat(48))));
}

#[test]
fn statements_are_for_tdx() {
    for (member, value) in [("id", json!("SGX")), ("version", json!(2)), ("tcbType", json!(1))] {
        assert_missing(with_info(|info| info[member] = value.clone()));
    }
    for (member, value) in [("id", json!("QE")), ("version", json!(1))] {
        assert_missing(with_identity(|identity| identity[member] = value.clone()));
    }
    for member in ["issueDate", "nextUpdate", "fmspc", "pceId", "tdxModule", "tcbLevels"] {
        assert_missing(with_info(|info| drop(info.as_object_mut().unwrap().remove(member))));
        assert_missing(with_info(|info| info[member] = json!("x")));
    }
    for components in ["sgxtcbcomponents", "tdxtcbcomponents"] {
        assert_missing(with_info(|info| {
            level(info)["tcb"][components].as_array_mut().unwrap().pop();
        }));
    }
    assert_missing(with_info(|info| level(info)["tcb"]["sgxtcbcomponents"][0]["svn"] = json!(256)));
    assert_missing(with_info(|info| info["nextUpdate"] = json!("2026-02-30T00:00:00Z")));
}

#[test]
fn the_quoting_enclave_is_the_one_that_intel_describes() {
    for (member, value) in [
        ("mrsigner", json!("52".repeat(32))),
        ("isvprodid", json!(1)),
        ("miscselect", json!("00000001")),
        ("attributes", json!("13000000000000000000000000000000")),
    ] {
        assert_untrusted(with_identity(|identity| identity[member] = value.clone()));
    }
    // Bits that the mask leaves out do not matter.
    let edit = |identity: &mut Value| {
        identity["miscselect"] = json!("00000001");
        identity["miscselectMask"] = json!("FEFFFFFF");
    };
    assert_untrusted(with_identity(edit));
    assert!(drafted(Body::V4, |draft| draft.enclave_report[48] ^= 0b100).is_ok());
    // A debuggable enclave, whatever the identity's mask says.
    assert_untrusted(drafted(Body::V4, |draft| draft.enclave_report[48] |= 0b10));
    let unmasked = Edits {
        identity: &|identity| identity["attributesMask"] = json!("00".repeat(16)),
        ..Edits::default()
    };
    let material = AUTHORITY.issue_edited(&recipe(), unmasked).unwrap();
    let quote = platform(&material).quote_edited([7; 64], |draft| draft.enclave_report[48] |= 0b10);
    assert_untrusted(inspected(&evidence(quote.unwrap())));
}
