//! Real quotes: those that this crate may carry, and those of a checkout beside this one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sealane_attestation::{
    Claims, Collateral, Evidence, Format, Rejection, Revocation, TdxCollateral, TdxRoot, inspect,
};
use sealane_fixtures::skip;
use sealane_policy::TdxPermissions;
use sealane_types::{Reason, TcbStatus, UnixSeconds};
use serde_json::Value;

use super::support::said;

/// A real quote with what it is judged by, and when.
struct Case {
    quote: Vec<u8>,
    collateral: Vec<u8>,
    root: TdxRoot,
    now: UnixSeconds,
    entry: Value,
}

impl Case {
    fn read(folder: &Path, entry: &Value) -> Self {
        let file = |name: &str| fs::read(folder.join(entry["files"][name].as_str().unwrap())).unwrap();
        Self {
            quote: file("quote"),
            collateral: file("collateral"),
            root: TdxRoot::new(&file("root")).unwrap(),
            now: UnixSeconds(entry["now"].as_u64().unwrap()),
            entry: entry.clone(),
        }
    }

    /// One of this repository, which is accepted.
    fn honest(id: &str) -> Self {
        let folder = own_folder();
        let entry = entries(&folder).into_iter().find(|entry| entry["id"] == id).unwrap();
        Self::read(&folder, &entry)
    }

    fn held(&self) -> Collateral {
        let tdx = TdxCollateral::from_json_under(&self.collateral, &self.root).unwrap();
        Collateral::empty().with_tdx(tdx)
    }

    fn claims(&self) -> Result<Claims, Rejection> {
        let evidence = Evidence { format: Format::Tdx, report: self.quote.clone(), certificates: vec![] };
        let tdx = TdxCollateral::from_json_under(&self.collateral, &self.root)?;
        inspect(&evidence, &Collateral::empty().with_tdx(tdx), self.now)
    }

    /// The verdict of the entry's own policy.
    fn outcome(&self) -> Result<Claims, Rejection> {
        let claims = self.claims()?;
        let policy = &self.entry["policy"];
        let allows = |name: &str| policy[name].as_bool().unwrap_or_default();
        let permissions = TdxPermissions {
            debug: allows("allow_debug"),
            dynamic_platform: allows("allow_dynamic_platform"),
            cached_keys: allows("allow_cached_keys"),
            smt: allows("allow_smt"),
            ..TdxPermissions::default()
        };
        said(&claims).permitted(&permissions)?;
        said(&claims).accepted(&statuses(&policy["tcb_status"]))?;
        Ok(claims)
    }
}

/// Intel's words in ours.
fn statuses(words: &Value) -> BTreeSet<TcbStatus> {
    let words = words.as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    words.map(|word| word.replace("SWHardening", "SoftwareHardening").parse().unwrap()).collect()
}

fn own_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/tdx")
}

fn entries(folder: &Path) -> Vec<Value> {
    let index: Value = serde_json::from_slice(&fs::read(folder.join("index.json")).unwrap()).unwrap();
    let entries = index["entries"].as_array().unwrap().iter();
    entries.filter(|entry| entry["kind"] == "tdx").cloned().collect()
}

fn check(folder: &Path) -> Vec<(String, Result<Claims, Rejection>)> {
    let outcomes = entries(folder).into_iter().map(|entry| {
        let outcome = Case::read(folder, &entry).outcome();
        let accepted = if outcome.is_ok() { "accept" } else { "reject" };
        assert_eq!(entry["expect"], accepted, "{}: {outcome:?}", entry["id"]);
        (entry["id"].as_str().unwrap().to_owned(), outcome)
    });
    outcomes.collect()
}

#[test]
fn quotes_of_this_repository() {
    let outcomes = check(&own_folder());
    assert_eq!(outcomes.len(), 5);
    for (id, outcome) in outcomes {
        let reason = outcome.err().map(|refused| refused.reason());
        let expected = match id.as_str() {
            "tdx/v4-stale-collateral" => Some(Reason::CollateralExpired),
            "tdx/v4-outofdate" => Some(Reason::TcbTooLow),
            "tdx/v4-tampered-mrtd" => Some(Reason::EvidenceUntrusted),
            _ => None,
        };
        assert_eq!(reason, expected, "{id}");
    }
}

/// `../shared/vectors` beside the repository, with more quotes than may be committed here.
#[test]
fn quotes_beside_this_repository() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors");
    if !folder.join("index.json").exists() {
        skip(concat!(module_path!(), "::quotes_beside_this_repository"), "there is no ../shared/vectors");
        return;
    }
    let outcomes = check(&folder);
    eprintln!("{} pieces of TDX evidence judged", outcomes.len());
    assert!(outcomes.len() >= 7);
    let debug = outcomes.into_iter().find(|(id, _)| id == "tdx/v4-debug");
    assert_eq!(debug.unwrap().1.unwrap_err(), Rejection::Debug);
}

/// The root that this crate pins is the one under which real quotes verify.
#[test]
fn a_real_quote_says_what_its_platform_said() {
    let case = Case::honest("tdx/v5-td15ex");
    let collateral = TdxCollateral::from_json(&case.collateral).unwrap();
    assert_eq!(collateral.root(), TdxRoot::intel().fingerprint());
    assert_eq!((collateral.fmspc().to_string(), collateral.tcb_evaluation()), ("b0c06f000000".into(), 20));
    let claims = case.claims().unwrap();
    assert_eq!(claims.revocation(), Revocation::Checked);
    assert_eq!(claims.expires(), UnixSeconds(1_794_008_711));
    assert_eq!(claims.tcb_status(), Some(TcbStatus::UpToDate));
    let tdx = said(&claims);
    assert_eq!((tdx.quote_version(), tdx.tcb_evaluation()), (5, 20));
    assert_eq!(tdx.attributes().to_string(), "0000001000000000");
    assert_eq!(tdx.xfam().to_string(), "e702060000000000");
    assert!(tdx.measurement().mrtd.to_string().starts_with("2a674327c502"));
    assert!(tdx.mr_config_id().to_string().starts_with("0151ed70bddb"));
}

#[test]
fn the_newer_statement_says_what_the_older_platform_lacks() {
    let claims = Case::honest("tdx/v4-outofdate").claims().unwrap();
    assert_eq!(claims.tcb_status(), Some(TcbStatus::OutOfDate));
    let advisories: Vec<_> = said(&claims).advisories().iter().map(String::as_str).collect();
    assert_eq!(advisories, ["INTEL-SA-01192", "INTEL-SA-01245", "INTEL-SA-01312", "INTEL-SA-01313"]);
    assert!(!said(&claims).relaunch_advised());
}

/// The clouds' platforms say of themselves that they are dynamic, cached and multithreaded.
#[test]
fn real_platforms_need_their_permissions() {
    let claims = Case::honest("tdx/v4-uptodate").claims().unwrap();
    let all =
        TdxPermissions { dynamic_platform: true, cached_keys: true, smt: true, ..TdxPermissions::default() };
    assert_eq!(said(&claims).permitted(&all), Ok(()));
    for spoiled in [
        TdxPermissions { dynamic_platform: false, ..all.clone() },
        TdxPermissions { cached_keys: false, ..all.clone() },
        TdxPermissions { smt: false, ..all.clone() },
    ] {
        let refused = said(&claims).permitted(&spoiled).unwrap_err();
        assert_eq!(refused.reason(), Reason::PermissionNotAllowed);
    }
}

#[test]
fn a_flipped_bit_anywhere_in_a_real_quote_is_refused() {
    for id in ["tdx/v4-uptodate", "tdx/v5-td15ex"] {
        let case = Case::honest(id);
        let (collateral, mut quote) = (case.held(), case.quote.clone());
        for position in 0..quote.len() {
            quote[position] ^= 1 << (position % 8);
            let evidence = Evidence { format: Format::Tdx, report: quote.clone(), certificates: vec![] };
            assert!(inspect(&evidence, &collateral, case.now).is_err(), "{id}: {position:#x}");
            quote[position] ^= 1 << (position % 8);
        }
    }
}

/// No assertion on speed: the figures are for whoever reads the output.
#[test]
fn how_long_one_verification_takes() {
    const ROUNDS: u32 = 200;
    let case = Case::honest("tdx/v5-td15ex");
    let started = Instant::now();
    for _ in 0..ROUNDS {
        TdxCollateral::from_json(&case.collateral).unwrap();
    }
    eprintln!("TDX collateral read and verified: {:?}", started.elapsed() / ROUNDS);
    let collateral = case.held();
    let evidence = Evidence { format: Format::Tdx, report: case.quote.clone(), certificates: vec![] };
    let started = Instant::now();
    for _ in 0..ROUNDS {
        inspect(&evidence, &collateral, case.now).unwrap();
    }
    eprintln!("one TDX verification: {:?}", started.elapsed() / ROUNDS);
}
