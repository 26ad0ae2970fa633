//! Rules across fields. Each test breaks one rule of a document that is otherwise clean.

use sealane_policy::{Finding, PolicyError, Problem, Reference, limits, parse, verify};
use sealane_types::{Reason, Roots};
use serde_json::{Value, json};

use crate::support::*;

fn findings(document: &Value) -> Vec<Finding> {
    match parse(&bytes(document)) {
        Ok(_) => Vec::new(),
        Err(PolicyError::Lint(findings)) => findings,
        Err(other) => panic!("{other}"),
    }
}

fn with_entry(change: impl Fn(&mut Value)) -> Vec<Finding> {
    let mut spoiled = document(1);
    change(&mut spoiled["peers"]["ranker"]["entries"][0]);
    findings(&spoiled)
}

fn remove(value: &mut Value, name: &str) {
    value.as_object_mut().unwrap().remove(name);
}

#[test]
fn a_clean_document_has_no_findings() {
    assert_eq!(findings(&document(1)), []);
}

#[test]
fn every_platform_entry_pins_a_measurement() {
    for empty in [Value::Null, json!([])] {
        let found = with_entry(|entry| match &empty {
            Value::Null => remove(entry, "measurements"),
            empty => entry["measurements"] = empty.clone(),
        });
        assert!(matches!(&found[..], [Finding::NoMeasurement { entry: 0, .. }]), "{found:?}");
    }
    let found = with_entry(|entry| *entry = json!({"kind": "Simulated", "root": "00".repeat(32)}));
    assert!(matches!(&found[..], [Finding::NoMeasurement { .. }]), "{found:?}");
}

#[test]
fn every_sev_snp_entry_sets_a_tcb_floor() {
    let found = with_entry(|entry| entry["minTcb"] = json!({}));
    assert!(matches!(&found[..], [Finding::NoTcbFloor { .. }]), "{found:?}");
    let found = with_entry(|entry| remove(entry, "minTcb"));
    assert!(matches!(&found[..], [Finding::NoTcbFloor { .. }]), "{found:?}");
    // Milan and Genoa have no FMC.
    let found = with_entry(|entry| entry["minTcb"] = json!({"fmc": 1}));
    assert!(matches!(&found[..], [Finding::NoTcbFloor { .. }]), "{found:?}");
}

#[test]
fn a_key_entry_pins_a_key() {
    let found = with_entry(|entry| *entry = json!({"kind": "Key"}));
    assert!(matches!(&found[..], [Finding::NoPublicKey { .. }]), "{found:?}");
}

#[test]
fn a_peer_has_a_way_to_prove_itself() {
    let mut spoiled = document(1);
    spoiled["peers"]["ranker"]["entries"] = json!([]);
    let found = findings(&spoiled);
    assert!(matches!(&found[..], [Finding::NoEntries { .. }]), "{found:?}");
}

#[test]
fn node_assurance_says_what_it_does_not_prove() {
    let node = |entry: &mut Value| entry["assurance"] = json!("Node");
    let found = with_entry(node);
    assert!(matches!(&found[..], [Finding::WorkloadUnstated { .. }]), "{found:?}");
    let accepted = with_entry(|entry| {
        node(entry);
        entry["allowUnverifiedWorkload"] = json!(true);
    });
    assert_eq!(accepted, []);
    let stated = with_entry(|entry| {
        node(entry);
        entry["workload"] = json!({"serviceAccount": "ranker"});
    });
    assert_eq!(stated, []);
    let simulated = with_entry(|entry| {
        *entry = json!({
            "kind": "Simulated", "root": "0a".repeat(32), "measurements": ["ab".repeat(48)],
            "workload": {"serviceAccount": "ranker"},
        });
    });
    assert_eq!(simulated, [], "a simulation stands for a node too");
    let unchecked = with_entry(|entry| entry["workload"] = json!({"serviceAccount": "ranker"}));
    assert!(matches!(&unchecked[..], [Finding::WorkloadUnchecked { .. }]), "{unchecked:?}");
}

#[test]
fn complete_floors_leave_nothing_open() {
    for (open, named) in [("hostData", "hostData"), ("products", "products")] {
        let mut spoiled = document(1);
        // Another measurement keeps the two Peers apart whatever else is open.
        spoiled["peers"]["ranker"]["entries"][0]["measurements"] = json!(["cd".repeat(48)]);
        remove(&mut spoiled["peers"]["ranker"]["entries"][0], open);
        spoiled["peers"]["ranker"]["entries"][0]["allowAnyInitdata"] = json!(true);
        assert_eq!(findings(&spoiled), [], "accepted, and shown as absent");
        let entry = &parse(&bytes(&spoiled)).unwrap().peers[&"ranker".parse().unwrap()].entries[0];
        assert_eq!(entry.absent().iter().map(ToString::to_string).collect::<Vec<_>>(), [named]);
        spoiled["floors"] = json!({"complete": true});
        let found = findings(&spoiled);
        assert!(matches!(&found[..], [Finding::Incomplete { .. }]), "{found:?}");
        assert!(found[0].to_string().contains(named), "{}", found[0]);
    }
    for component in ["bootloader", "tee", "snp", "microcode"] {
        let mut spoiled = document(1);
        spoiled["floors"] = json!({"complete": true});
        assert_eq!(findings(&spoiled), []);
        remove(&mut spoiled["peers"]["ranker"]["entries"][0]["minTcb"], component);
        let found = findings(&spoiled);
        assert!(found[0].to_string().contains(&format!("minTcb.{component}")), "{}", found[0]);
    }
    let turin = |products: &[&str]| {
        let mut turin = document(1);
        turin["floors"] = json!({"complete": true});
        turin["peers"]["ranker"]["entries"][0]["products"] = json!(products);
        findings(&turin)
    };
    let found = turin(&["Turin"]);
    assert!(matches!(&found[..], [Finding::Incomplete { .. }]), "{found:?}");
    assert!(found[0].to_string().ends_with(": minTcb.fmc"), "{}", found[0]);
    assert_eq!(turin(&["Genoa", "Turin"]), [], "whether it is missed shows with the evidence");
}

#[test]
fn sessions_name_known_peers() {
    for (field, name) in [("from", "stranger"), ("to", "nobody")] {
        let mut spoiled = document(1);
        spoiled["sessions"][0][field] = json!(name);
        let found = findings(&spoiled);
        assert!(matches!(&found[..], [Finding::UnknownPeer { session: 0, .. }]), "{found:?}");
        assert!(found[0].to_string().contains(name), "{}", found[0]);
    }
}

/// Both Peers with the entry of `ranker`, after `change` on that of `embedder`.
fn twins(change: impl Fn(&mut Value)) -> Value {
    let mut twins = document(1);
    twins["peers"]["embedder"]["entries"][0] = snp(2);
    change(&mut twins["peers"]["embedder"]["entries"][0]);
    twins
}

#[test]
fn two_peers_do_not_share_evidence() {
    let found = findings(&twins(|_| ()));
    assert!(
        matches!(&found[..], [Finding::SharedEvidence { first_entry: 0, second_entry: 0, .. }]),
        "{found:?}"
    );
    // A value that is left open accepts what the other pins.
    for open in ["hostData", "products"] {
        let open = twins(|entry| {
            remove(entry, open);
            entry["allowAnyInitdata"] = json!(true);
        });
        assert_eq!(findings(&open).len(), 1, "{open}");
    }
    for (name, value) in [
        ("measurements", json!(["cd".repeat(48)])),
        ("hostData", json!(["05".repeat(32)])),
        ("products", json!(["Turin"])),
    ] {
        assert_eq!(findings(&twins(|entry| entry[name] = value.clone())), [], "{name} tells them apart");
    }
    let mut chips = twins(|entry| entry["chipIds"] = json!(["01".repeat(64)]));
    assert_eq!(findings(&chips).len(), 1);
    chips["peers"]["ranker"]["entries"][0]["chipIds"] = json!(["02".repeat(64)]);
    assert_eq!(findings(&chips), []);
}

#[test]
fn shared_evidence_is_declared_by_both() {
    let mut shared = twins(|_| ());
    shared["peers"]["embedder"]["sharedEvidence"] = json!(true);
    assert_eq!(findings(&shared).len(), 1, "one of them is not enough");
    shared["peers"]["ranker"]["sharedEvidence"] = json!(true);
    assert_eq!(findings(&shared), []);
}

#[test]
fn simulated_roots_and_keys_tell_peers_apart() {
    let simulated = |root: u8| json!({"kind": "Simulated", "root": format!("{root:02x}").repeat(32), "measurements": ["ab".repeat(48)]});
    let pair = |first: Value, second: Value| {
        let mut pair = document(1);
        pair["peers"]["embedder"]["entries"] = json!([first]);
        pair["peers"]["ranker"]["entries"] = json!([second]);
        findings(&pair).len()
    };
    assert_eq!(pair(simulated(1), simulated(1)), 1);
    assert_eq!(pair(simulated(1), simulated(2)), 0);
    assert_eq!(pair(simulated(1), snp(1)), 0, "another kind");
    let key = |key: u8| json!({"kind": "Key", "publicKeys": [format!("{key:02x}").repeat(32)]});
    assert_eq!(pair(key(1), key(1)), 1);
    assert_eq!(pair(key(1), key(2)), 0);
}

#[test]
fn workloads_tell_peers_apart_by_digest_and_only_where_both_insist() {
    let node = |account: &str, unverified: bool| {
        let mut entry = snp(1);
        entry["assurance"] = json!("Node");
        entry["workload"] = json!({"serviceAccount": account});
        entry["allowUnverifiedWorkload"] = json!(unverified);
        entry
    };
    let pair = |first: Value, second: Value| {
        let mut pair = document(1);
        pair["peers"]["embedder"]["entries"] = json!([first]);
        pair["peers"]["ranker"]["entries"] = json!([second]);
        findings(&pair).len()
    };
    assert_eq!(pair(node("a", false), node("b", false)), 0);
    assert_eq!(pair(node("a", false), node("a", false)), 1);
    assert_eq!(pair(node("a", false), node("b", true)), 1);
    let named = |name: &str, image: u8| {
        let mut entry = node("a", false);
        let digest = format!("{image:02x}").repeat(32);
        entry["workload"]["images"] = json!([format!("registry.example/{name}@sha256:{digest}")]);
        entry
    };
    let running = |image| named("app", image);
    assert_eq!(pair(running(1), running(1)), 1);
    assert_eq!(pair(running(1), running(2)), 0);
    assert_eq!(pair(running(1), named("mirror/app", 1)), 1, "one image under two names");
    let simulated = |account: &str| {
        let workload = json!({"serviceAccount": account});
        json!({"kind": "Simulated", "root": "01".repeat(32), "measurements": ["ab".repeat(48)], "workload": workload})
    };
    assert_eq!(pair(simulated("a"), simulated("a")), 1);
    assert_eq!(pair(simulated("a"), simulated("b")), 0);
}

#[test]
fn a_key_for_which_anybody_can_sign_is_refused() {
    for key in ["00".repeat(32), format!("{}80", "00".repeat(31)), format!("01{}", "00".repeat(31))] {
        let mut weak = document(1);
        weak["peers"]["ranker"]["entries"] = json!([{"kind": "Key", "publicKeys": ["0a".repeat(32), key]}]);
        let found = findings(&weak);
        assert!(matches!(&found[..], [Finding::WeakPublicKey { entry: 0, .. }]), "{found:?}");
        for member in ["/authorities/keys", "/auditors/publicKeys"] {
            let mut weak = document(1);
            weak["auditors"] = json!({"publicKeys": []});
            let keys = weak.pointer_mut(member).unwrap().as_array_mut().unwrap();
            keys.insert(0, json!(key));
            let Err(PolicyError::Field(error)) = parse(&bytes(&weak)) else { panic!("{member}: {key}") };
            assert_eq!(error.problem, Problem::WeakKey);
            assert_eq!(format!("/{}", error.path.replace('.', "/")), format!("{member}[0]"));
        }
        let weak = Roots { keys: [public(&[1]), vec![key.parse().unwrap()]].concat(), ..roots() };
        let error = verify(&chain(&document(1), &[1, 2]), &weak, now(), None).unwrap_err();
        assert_eq!(error, PolicyError::WeakRoot { key: key.parse().unwrap() });
        assert_eq!(error.reason(), Reason::PolicyRootsMissing);
    }
}

/// Keys of auditors agree rather than sign, so that other points are weak.
#[test]
fn an_auditor_s_key_binds_the_auditor() {
    let order_eight = "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157";
    let mut weak = document(1);
    weak["auditors"] = json!({"publicKeys": [order_eight]});
    let Err(PolicyError::Field(error)) = parse(&bytes(&weak)) else { panic!() };
    assert_eq!(error.problem, Problem::WeakKey);
}

/// What lint says of a rotation is passed over, since an earlier release may have signed it; a weak key is not.
#[test]
fn a_rotation_to_a_key_for_which_anybody_can_sign_is_refused() {
    let mut weak = document(1);
    weak["authorities"] = json!({"threshold": 1, "keys": ["00".repeat(32)]});
    let chain = rotated(vec![signed(&weak, &[1, 2])], &document(2), &[1, 2]);
    let Err(PolicyError::Field(error)) = verify(&chain, &roots(), now(), None) else { panic!() };
    assert_eq!(error.problem, Problem::WeakKey);
}

#[test]
fn documents_made_in_code_are_linted_too() {
    let mut made = parse(&bytes(&document(1))).unwrap();
    let entry = &mut made.peers.get_mut(&"ranker".parse().unwrap()).unwrap().entries[0];
    entry.reference = Reference::Key([].into());
    let found = sealane_policy::lint(&made);
    assert!(matches!(&found[..], [Finding::NoPublicKey { .. }]), "{found:?}");
}

#[test]
fn a_large_document_is_linted_quickly_and_reports_little() {
    let peers: serde_json::Map<_, _> =
        (0..limits::PEERS_MAX).map(|index| (format!("p{index}"), json!({"entries": [snp(1)]}))).collect();
    let mut large = document(1);
    large["peers"] = peers.into();
    large["sessions"] = json!([]);
    assert_eq!(findings(&large).len(), limits::FINDINGS_MAX);
}
