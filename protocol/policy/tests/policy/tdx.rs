//! Entries of kind Tdx, and simulations of them.

use sealane_policy::{
    Advice, Document, Entry, Finding, Pinnable, PolicyError, Problem, Reference, TdxReference, advice, parse,
};
use sealane_types::{Assurance, Platform, TcbStatus};
use serde_json::{Value, json};

use crate::support::{bytes, document};

fn measurement(mrtd: u8) -> Value {
    let register = |byte: u8| format!("{byte:02x}").repeat(48);
    json!({"mrtd": register(mrtd), "rtmr0": register(0), "rtmr1": register(1), "rtmr2": register(2)})
}

fn tdx(mrtd: u8) -> Value {
    json!({
        "kind": "Tdx",
        "assurance": "Pod",
        "measurements": [measurement(mrtd)],
        "tcbStatuses": ["UpToDate"],
        "allowAnyInitdata": true,
    })
}

/// Every member that an entry may have.
fn full(mrtd: u8) -> Value {
    let register = |byte: u8| json!([format!("{byte:02x}").repeat(48)]);
    let mut entry = tdx(mrtd);
    entry["measurements"][0]["rtmr3"] = json!("03".repeat(48));
    entry["tcbStatuses"] = json!(["OutOfDate", "ConfigurationNeeded", "SoftwareHardeningNeeded", "UpToDate"]);
    entry["minTcbEvaluation"] = json!(20);
    entry["mrConfigId"] = register(4);
    entry["mrOwner"] = register(5);
    entry["mrOwnerConfig"] = register(6);
    entry["mrServiceTd"] = register(7);
    entry["fmspcs"] = json!(["90c06f000000", "b0c06f000000"]);
    entry["platformIds"] = json!(["5a".repeat(16)]);
    entry["mrSeam"] = register(8);
    entry["minTeeTcbSvn"] = json!("05010200000000000000000000000000");
    entry["refusedAdvisories"] = json!(["INTEL-SA-01245"]);
    entry["attributes"] = json!(["0000001000000000"]);
    entry["xfam"] = json!(["e702060000000000"]);
    for permission in PERMISSIONS {
        entry[permission] = json!(true);
    }
    entry
}

const PERMISSIONS: [&str; 8] = [
    "allowDebug",
    "allowMigration",
    "allowSeptVe",
    "allowPerfmon",
    "allowKeyLocker",
    "allowDynamicPlatform",
    "allowCachedKeys",
    "allowSmt",
];

fn with(entry: &Value) -> Value {
    let mut document = document(1);
    document["peers"]["ranker"]["entries"] = json!([entry]);
    document
}

fn read(entry: &Value) -> Result<(Document, Entry), PolicyError> {
    let document = parse(&bytes(&with(entry)))?;
    let entry = document.peers[&"ranker".parse().unwrap()].entries[0].clone();
    Ok((document, entry))
}

fn reference(entry: &Entry) -> &TdxReference {
    match &entry.reference {
        Reference::Tdx(tdx) => tdx,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(entry: &Value, member: &str) -> Problem {
    match read(entry) {
        Err(PolicyError::Field(error)) => {
            assert_eq!(error.path, format!("peers.ranker.entries[0].{member}"));
            error.problem
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_entry_reads_and_writes_back() {
    let (document, entry) = read(&full(9)).unwrap();
    assert_eq!(document.to_bytes(), bytes_of_read(&full(9)));
    let tdx = reference(&entry);
    assert_eq!((entry.kind(), entry.assurance), (Platform::Tdx, Assurance::Pod));
    assert_eq!(tdx.min_tcb_evaluation, Some(20));
    assert_eq!(tdx.fmspcs.len(), 2);
    assert_eq!((tdx.platform_ids.len(), tdx.mr_seams.len(), tdx.refused_advisories.len()), (1, 1, 1));
    assert_eq!(tdx.min_tee_tcb_svn.unwrap().as_bytes()[..3], [5, 1, 2]);
    assert!(tdx.tcb_statuses.contains(&TcbStatus::OutOfDate));
    assert!(tdx.permissions.debug && tdx.permissions.smt && tdx.permissions.sept_ve);
    assert_eq!(tdx.permissions.service_tds.len(), 1);
    assert_eq!(entry.absent(), []);
}

#[test]
fn a_pod_is_told_by_its_initdata() {
    let mut entry = tdx(1);
    assert!(reference(&read(&entry).unwrap().1).any_initdata);
    assert!(read(&entry).unwrap().1.absent().contains(&Pinnable::MrConfigId), "it is Degraded");
    entry["allowAnyInitdata"] = json!(false);
    let Err(PolicyError::Lint(findings)) = read(&entry) else { panic!("{:?}", read(&entry)) };
    assert!(
        matches!(&findings[..], [Finding::InitdataOpen { entry: 0, member: "mrConfigId", .. }]),
        "{findings:?}"
    );
    entry["mrConfigId"] = json!(["04".repeat(48)]);
    read(&entry).unwrap();
}

#[test]
fn owners_are_told_of_guests_without_initdata() {
    let told = |entry: &Value| {
        let said = advice(&read(entry).unwrap().0);
        said.into_iter().filter(|advice| matches!(advice, Advice::NoInitdata { .. })).collect::<Vec<_>>()
    };
    let mut entry = full(1);
    assert_eq!(told(&entry), []);
    entry["mrConfigId"] = json!(["00".repeat(48), "04".repeat(48)]);
    let said = told(&entry);
    assert_eq!(
        said,
        [Advice::NoInitdata { peer: "ranker".parse().unwrap(), entry: 0, member: "mrConfigId" }]
    );
    assert!(said[0].to_string().contains("`peers.ranker.entries[0].mrConfigId` accepts zero"), "{}", said[0]);
    // Nothing that hardware could do makes a simulation better.
    let mut simulated = tdx(1);
    simulated.as_object_mut().unwrap().remove("assurance");
    (simulated["kind"], simulated["form"]) = (json!("Simulated"), json!("Tdx"));
    (simulated["root"], simulated["mrConfigId"]) = (json!("1b".repeat(32)), entry["mrConfigId"].clone());
    assert_eq!(told(&simulated), []);
}

/// The written form of what `entry` was read as, read again.
fn bytes_of_read(entry: &Value) -> Vec<u8> {
    let (document, _) = read(entry).unwrap();
    let again = parse(&document.to_bytes()).unwrap();
    assert_eq!(again, document);
    let written: Value = serde_json::from_slice(&document.to_bytes()).unwrap();
    assert_eq!(written["peers"]["ranker"]["entries"][0], *entry, "nothing is lost and nothing appears");
    again.to_bytes()
}

#[test]
fn permissions_are_refused_unless_stated() {
    let (_, entry) = read(&tdx(9)).unwrap();
    assert_eq!(reference(&entry).permissions, Default::default());
}

#[test]
fn each_permission_is_its_own() {
    let mut seen = vec![Default::default()];
    for permission in PERMISSIONS {
        let mut entry = tdx(9);
        entry[permission] = json!(true);
        let (_, entry) = read(&entry).unwrap();
        let permissions = reference(&entry).permissions.clone();
        assert!(!seen.contains(&permissions), "{permission}");
        seen.push(permissions);
    }
}

#[test]
fn what_is_left_open_is_named() {
    let (_, entry) = read(&tdx(9)).unwrap();
    assert_eq!(
        entry.absent(),
        [
            Pinnable::Rtmr3,
            Pinnable::MrConfigId,
            Pinnable::MrOwner,
            Pinnable::MrOwnerConfig,
            Pinnable::Fmspcs,
            Pinnable::TcbEvaluation,
        ]
    );
    let mut complete = with(&tdx(9));
    complete["floors"] = json!({"complete": true});
    assert!(matches!(parse(&bytes(&complete)), Err(PolicyError::Lint(_))));
    complete["peers"]["ranker"]["entries"] = json!([full(9)]);
    parse(&bytes(&complete)).unwrap();
}

#[test]
fn a_simulation_of_it_pins_a_root() {
    let mut entry = full(9);
    entry["kind"] = json!("Simulated");
    entry["form"] = json!("Tdx");
    entry["root"] = json!("0a".repeat(32));
    entry.as_object_mut().unwrap().remove("assurance");
    let (_, read_entry) = read(&entry).unwrap();
    bytes_of_read(&entry);
    assert_eq!((read_entry.kind(), read_entry.assurance), (Platform::Simulated, Assurance::Simulated));
    assert_eq!(read_entry.reference.form(), Platform::Tdx);
    // Processors and collateral are not there to be pinned.
    for member in ["fmspcs", "minTcbEvaluation"] {
        entry.as_object_mut().unwrap().remove(member);
    }
    assert_eq!(read(&entry).unwrap().1.absent(), []);
}

#[test]
fn wrong_values_are_named() {
    for (member, value) in [
        ("measurements", json!(["ab"])),
        ("tcbStatuses", json!("UpToDate")),
        ("minTcbEvaluation", json!("20")),
        ("allowSmt", json!(1)),
    ] {
        let mut entry = tdx(9);
        entry[member] = value;
        let path = if member == "measurements" { "measurements[0]" } else { member };
        assert!(matches!(refused(&entry, path), Problem::WrongType { .. }), "{member}");
    }
    for (member, value) in [
        ("mrConfigId", "ab".repeat(47)),
        ("mrOwner", "AB".repeat(48)),
        ("fmspcs", "B0C06F000000".to_owned()),
        ("attributes", "00".repeat(7)),
        ("xfam", "e7".to_owned()),
        ("tcbStatuses", "SWHardeningNeeded".to_owned()),
    ] {
        let mut entry = tdx(9);
        entry[member] = json!([value]);
        assert!(matches!(refused(&entry, &format!("{member}[0]")), Problem::Malformed { .. }), "{member}");
    }
    for register in ["mrtd", "rtmr0", "rtmr1", "rtmr2"] {
        let mut entry = tdx(9);
        entry["measurements"][0].as_object_mut().unwrap().remove(register);
        assert_eq!(refused(&entry, &format!("measurements[0].{register}")), Problem::Missing);
    }
    let mut entry = tdx(9);
    entry["minTcbEvaluation"] = json!(1_u64 << 32);
    assert!(matches!(refused(&entry, "minTcbEvaluation"), Problem::OutOfRange { .. }));
}

#[test]
fn statuses_are_stated_and_revoked_is_none_of_them() {
    let mut entry = tdx(9);
    entry.as_object_mut().unwrap().remove("tcbStatuses");
    assert_eq!(refused(&entry, "tcbStatuses"), Problem::Missing);
    entry["tcbStatuses"] = json!(["UpToDate", "Revoked"]);
    assert!(matches!(refused(&entry, "tcbStatuses[1]"), Problem::Malformed { .. }));
    entry["tcbStatuses"] = json!([]);
    let Err(PolicyError::Lint(findings)) = read(&entry) else { panic!() };
    assert!(matches!(&findings[..], [Finding::NoTcbStatus { entry: 0, .. }]), "{findings:?}");
}

#[test]
fn a_measurement_is_pinned() {
    let mut entry = tdx(9);
    entry["measurements"] = json!([]);
    let Err(PolicyError::Lint(findings)) = read(&entry) else { panic!() };
    assert!(matches!(&findings[..], [Finding::NoMeasurement { entry: 0, .. }]), "{findings:?}");
}

/// How many pairs of Peers share evidence when they have these entries.
fn overlaps(first: &Value, second: &Value) -> usize {
    let mut document = with(first);
    document["peers"]["embedder"]["entries"] = json!([second]);
    match parse(&bytes(&document)) {
        Ok(_) => 0,
        Err(PolicyError::Lint(findings)) => findings.len(),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn evidence_for_two_peers_is_found() {
    assert_eq!(overlaps(&tdx(9), &tdx(9)), 1);
    assert_eq!(overlaps(&tdx(9), &tdx(8)), 0);
    for member in ["mrConfigId", "mrOwner", "mrOwnerConfig", "fmspcs", "attributes", "xfam"] {
        let pinned = |digit: &str| {
            let mut entry = full(9);
            let length = entry[member][0].as_str().unwrap().len();
            entry[member] = json!([digit.repeat(length)]);
            entry
        };
        assert_eq!(overlaps(&pinned("1"), &pinned("2")), 0, "{member}");
        let mut open = pinned("2");
        open.as_object_mut().unwrap().remove(member);
        assert_eq!(overlaps(&pinned("1"), &open), 1, "{member}");
    }
    // An entry that leaves RTMR3 open accepts what one that pins it accepts.
    let mut pinned = tdx(9);
    pinned["measurements"][0]["rtmr3"] = json!("03".repeat(48));
    assert_eq!(overlaps(&pinned, &tdx(9)), 1);
    let mut other = pinned.clone();
    other["measurements"][0]["rtmr3"] = json!("04".repeat(48));
    assert_eq!(overlaps(&pinned, &other), 0);
}
