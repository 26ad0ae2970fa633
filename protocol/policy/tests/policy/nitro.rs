//! Entries for AWS Nitro Enclaves.

use sealane_policy::{
    Advice, Document, Entry, Finding, NitroPermissions, NitroReference, Pinnable, PolicyError, Reference,
    advice, parse,
};
use sealane_types::{Assurance, Platform};
use serde_json::{Value, json};

use crate::support::*;

fn measurement(image: u8) -> Value {
    let pcr = |index: u8| format!("{:02x}", image + index).repeat(48);
    json!({"pcr0": pcr(0), "pcr1": pcr(1), "pcr2": pcr(2)})
}

fn entry(image: u8) -> Value {
    json!({"kind": "Nitro", "assurance": "Pod", "measurements": [measurement(image)]})
}

/// Two Peers proved by one Nitro entry each.
fn of_two(embedder: Value, ranker: Value) -> Result<Document, PolicyError> {
    let mut written = document(1);
    written["peers"]["embedder"]["entries"][0] = embedder;
    written["peers"]["ranker"]["entries"][0] = ranker;
    parse(&bytes(&written))
}

fn read(entry: Value) -> Result<Entry, PolicyError> {
    let document = of_two(entry, snp(2))?;
    Ok(document.peers[&"embedder".parse().unwrap()].entries[0].clone())
}

fn nitro(entry: &Entry) -> &NitroReference {
    match &entry.reference {
        Reference::Nitro(nitro) => nitro,
        other => panic!("{other:?}"),
    }
}

fn findings(outcome: Result<impl std::fmt::Debug, PolicyError>) -> Vec<Finding> {
    match outcome {
        Err(PolicyError::Lint(findings)) => findings,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(member: &str, value: Value, path: &str, what: &str) {
    let mut spoiled = entry(1);
    spoiled[member] = value;
    let text = read(spoiled).unwrap_err().to_string();
    assert!(text.contains(&format!("`peers.embedder.entries[0].{path}`")), "{text}");
    assert!(text.contains(what) && text.contains("for example"), "{text}");
}

#[test]
fn an_entry_reads_as_written() {
    let plain = read(entry(1)).unwrap();
    assert_eq!((plain.kind(), plain.assurance), (Platform::Nitro, Assurance::Pod));
    assert_eq!(nitro(&plain).max_age_seconds, 300);
    assert_eq!(nitro(&plain).permissions, NitroPermissions::default());
    assert!(!nitro(&plain).permissions.debug && nitro(&plain).module_ids.is_empty());

    let mut full = entry(1);
    for (index, pcr) in ["pcr3", "pcr9", "pcr31"].into_iter().enumerate() {
        full["measurements"][0][pcr] = json!(format!("{:02x}", 0xa0 + index).repeat(48));
    }
    full["moduleIds"] = json!(["i-0bee92034f3d60691-enc01943c5eaab3ad6a"]);
    let mut longest = full.clone();
    longest["moduleIds"] = json!(["i".repeat(512)]);
    assert!(read(longest).is_ok());
    full["maxAgeSeconds"] = json!(60);
    full["allowDebug"] = json!(true);
    let full = read(full).unwrap();
    let measured = nitro(&full).measurements.first().unwrap();
    assert_eq!(measured.image[2].as_bytes(), &[3; 48]);
    let others: Vec<_> = measured.registers.iter().map(|(index, pcr)| (*index, pcr.as_bytes()[0])).collect();
    assert_eq!(others, [(3, 0xa0), (9, 0xa1), (31, 0xa2)]);
    assert_eq!((nitro(&full).max_age_seconds, nitro(&full).permissions.debug), (60, true));
    assert_eq!(nitro(&full).module_ids.len(), 1);
    for entry in [plain, full] {
        let mut document = of_two(self::entry(1), snp(2)).unwrap();
        document.peers.get_mut(&"embedder".parse().unwrap()).unwrap().entries = vec![entry];
        assert_eq!(parse(&document.to_bytes()).unwrap(), document);
    }
}

#[test]
fn simulated_documents_have_a_form() {
    let mut simulated = entry(1);
    simulated["kind"] = json!("Simulated");
    simulated["form"] = json!("Nitro");
    simulated["root"] = json!("0a".repeat(32));
    let entry = read(simulated).unwrap();
    assert_eq!((entry.kind(), entry.assurance), (Platform::Simulated, Assurance::Simulated));
    assert_eq!(entry.reference.form(), Platform::Nitro);
}

#[test]
fn wrong_values_are_named() {
    refused("measurements", json!([{"pcr0": "00".repeat(48)}]), "measurements[0].pcr1", "is missing");
    let mut short = measurement(1);
    short["pcr3"] = json!("00".repeat(32));
    refused("measurements", json!([short]), "measurements[0].pcr3", "96 lower-case hex digits");
    let mut unknown = measurement(1);
    unknown["pcr32"] = json!("00".repeat(48));
    refused("measurements", json!([unknown]), "measurements[0].pcr32", "pcr0, pcr1, pcr2, pcr3, pcr4, pcr5");
    refused("measurements", json!([measurement(1), measurement(1)]), "measurements[1]", "repeats");
    refused("measurements", json!(["ab".repeat(48)]), "measurements[0]", "expected an object");
    for age in [0, 10_801] {
        refused("maxAgeSeconds", json!(age), "maxAgeSeconds", "from 1 to 10800");
    }
    refused("moduleIds", json!([""]), "moduleIds[0]", "module_id");
    refused("moduleIds", json!(["i 1"]), "moduleIds[0]", "found `i 1`");
    refused("moduleIds", json!(["i".repeat(513)]), "moduleIds[0]", "module_id");
    refused("allowDebug", json!("no"), "allowDebug", "expected true or false");
    refused("hostData", json!([]), "hostData", "not a known field");
    refused("minTcb", json!({}), "minTcb", "not a known field");
}

#[test]
fn a_measurement_of_zeros_is_a_debug_enclave() {
    let mut debug = entry(1);
    let zero = "00".repeat(48);
    debug["measurements"] = json!([measurement(1), {"pcr0": zero, "pcr1": zero, "pcr2": zero}]);
    let found = findings(read(debug.clone()));
    assert!(matches!(&found[..], [Finding::DebugMeasurement { entry: 0, .. }]), "{found:?}");
    debug["allowDebug"] = json!(true);
    read(debug).unwrap();
    let found = findings(read(json!({"kind": "Nitro", "assurance": "Pod"})));
    assert!(matches!(&found[..], [Finding::NoMeasurement { .. }]), "{found:?}");
}

/// The same image measures the same in everybody's account.
#[test]
fn an_open_role_is_shown() {
    assert_eq!(read(entry(1)).unwrap().absent(), [Pinnable::Pcr3]);
    let mut pinned = entry(1);
    pinned["measurements"][0]["pcr3"] = json!("ee".repeat(48));
    assert_eq!(read(pinned).unwrap().absent(), []);
}

#[test]
fn owners_are_told_of_instances_without_a_role() {
    let told = |pcr3: &str| {
        let mut entry = entry(1);
        entry["measurements"][0]["pcr3"] = json!(pcr3.repeat(48));
        let said = advice(&of_two(entry, snp(2)).unwrap());
        said.into_iter().find(|advice| matches!(advice, Advice::NoRole { .. }))
    };
    assert_eq!(told("0a"), None);
    let said = told("00").unwrap();
    assert_eq!(said, Advice::NoRole { peer: "embedder".parse().unwrap(), entry: 0 });
    assert!(said.to_string().contains("`peers.embedder.entries[0].measurements[].pcr3`"), "{said}");
}

#[test]
fn two_peers_are_told_apart_by_what_both_pin() {
    let shared = |change: fn(&mut Value, &mut Value)| {
        let (mut first, mut second) = (entry(1), entry(1));
        change(&mut first, &mut second);
        match of_two(first, second) {
            Ok(_) => false,
            Err(PolicyError::Lint(found)) => matches!(&found[..], [Finding::SharedEvidence { .. }]),
            Err(other) => panic!("{other}"),
        }
    };
    assert!(shared(|_, _| {}));
    assert!(shared(|first, _| first["maxAgeSeconds"] = json!(60)));
    assert!(shared(|first, _| first["allowDebug"] = json!(true)));
    for pcr in ["pcr3", "pcr8", "pcr16", "pcr31"] {
        let (mut first, mut second) = (entry(1), entry(1));
        first["measurements"][0][pcr] = json!("a1".repeat(48));
        // Who leaves it open accepts the other's as well.
        assert!(!findings(of_two(first.clone(), second.clone())).is_empty(), "{pcr}");
        second["measurements"][0][pcr] = json!("a2".repeat(48));
        of_two(first, second).unwrap();
    }
    assert!(shared(|first, _| first["moduleIds"] = json!(["a"])));
    assert!(!shared(|first, second| {
        first["moduleIds"] = json!(["a"]);
        second["moduleIds"] = json!(["b"]);
    }));
    assert!(!shared(|_, second| *second = entry(0x40)));
}
