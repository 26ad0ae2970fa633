use serde_json::{Value, json};

use super::*;

/// 2026-11-21T00:00:00Z, when the vectors' documents are in force.
const NOW: UnixSeconds = UnixSeconds(1_795_219_200);

fn ask(kind: &str, name: &str, spec: Value) -> Result<Option<String>, String> {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": "demo"}, "spec": spec,
    }))
    .unwrap();
    check(kind, "demo", &object, NOW).map_err(|invalid| invalid.to_string())
}

fn complaint(kind: &str, spec: Value) -> String {
    ask(kind, "demo", spec).unwrap_err()
}

#[test]
fn peers_need_a_selector_that_selects_something() {
    let peer = |selector: Value| json!({"selector": selector, "trustPolicyRef": {"name": "not-there-yet"}});
    assert_eq!(ask("Peer", "embedder", peer(json!({"matchLabels": {"app": "embedder"}}))), Ok(None));
    assert!(complaint("Peer", peer(json!({}))).starts_with("spec.selector is empty"));
    let malformed = json!({"matchExpressions": [{"key": "app", "operator": "Like", "values": ["x"]}]});
    assert!(complaint("Peer", peer(malformed)).starts_with("spec.selector: "));
}

#[test]
fn peers_outside_of_the_cluster_have_addresses_and_a_key() {
    let peer = |addresses: Value, key: &str| json!({"external": {"addresses": addresses, "publicKey": key}, "trustPolicyRef": {"name": "p"}});
    let key = "0a".repeat(32);
    assert_eq!(ask("Peer", "laptop", peer(json!(["203.0.113.7:14710"]), &key)), Ok(None));
    for address in ["laptop:14710", "203.0.113.7", "127.0.0.1:14710", "203.0.113.7:0"] {
        let complaint = complaint("Peer", peer(json!(["203.0.113.7:1", address]), &key));
        assert!(complaint.starts_with("spec.external.addresses[1]: "), "{complaint}");
        assert!(complaint.contains("for example 203.0.113.7:14710"), "{complaint}");
    }
    assert!(complaint("Peer", peer(json!([]), "xy")).starts_with("spec.external.publicKey: "));
}

#[test]
fn sessions_need_names_and_numbers() {
    let session = |change: fn(&mut Value)| {
        let mut spec = json!({"from": {"peer": "a"}, "to": [{"peer": "b"}], "stream": {}});
        change(&mut spec);
        spec
    };
    assert_eq!(ask("TransferSession", "activations", session(|_| ())), Ok(None));
    let bytes = session(|spec| spec["rekey"] = json!({"bytes": "64GiB"}));
    assert!(complaint("TransferSession", bytes).starts_with("spec.rekey.bytes: `64GiB`"));
    let interval = session(|spec| spec["rekey"] = json!({"interval": "ten minutes"}));
    assert!(complaint("TransferSession", interval).starts_with("spec.rekey.interval: "));
    let peer = session(|spec| spec["to"] = json!([{"peer": "B"}]));
    assert!(complaint("TransferSession", peer).starts_with("spec.to[].peer: `B`"));
}

#[test]
fn sessions_have_a_kind_and_null_is_an_empty_stream() {
    let session = |stream: Option<Value>| {
        let mut spec = json!({"from": {"peer": "a"}, "to": [{"peer": "b"}]});
        stream.into_iter().for_each(|stream| spec["stream"] = stream);
        spec
    };
    for stream in [json!({}), json!({"fanout": 4}), Value::Null] {
        assert_eq!(ask("TransferSession", "activations", session(Some(stream))), Ok(None));
    }
    let complaint = complaint("TransferSession", session(None));
    assert!(complaint.contains("exactly one kind: set either stream"), "{complaint}");
}

fn policy(document: &[u8]) -> Value {
    let key = "ab".repeat(32);
    json!({
        "roots": {"threshold": 1, "keys": [key], "minimumEpoch": 1},
        "document": BASE64_STANDARD.encode(document),
        "signatures": [{"keyId": key, "signature": BASE64_STANDARD.encode([0; 64])}],
    })
}

/// A document that reads well, for policy `demo` of namespace `demo`; who signed it is no question of admission.
fn document() -> Vec<u8> {
    let vectors = include_str!("../../../../tests/vectors/policy.json");
    let vectors: Value = serde_json::from_str(vectors).unwrap();
    BASE64_STANDARD.decode(vectors["chains"][0]["chain"]["document"].as_str().unwrap()).unwrap()
}

#[test]
fn policy_documents_must_read_well_and_be_for_this_policy() {
    assert!(ask("TrustPolicy", "demo", policy(&document())).is_ok());
    let elsewhere = ask("TrustPolicy", "other", policy(&document())).unwrap_err();
    assert_eq!(elsewhere, "spec.document: the document is for demo/demo, but this TrustPolicy is demo/other");
    assert!(complaint("TrustPolicy", policy(b"{}")).starts_with("spec.document: "));
    let mut garbled = policy(&document());
    garbled["document"] = json!("%%%");
    assert!(complaint("TrustPolicy", garbled).starts_with("spec.document: not standard base64"));
    let mut rotated = policy(&document());
    rotated["rotations"] = json!([{"document": BASE64_STANDARD.encode("[]"), "signatures": []}]);
    assert!(complaint("TrustPolicy", rotated).starts_with("spec.rotations[0].document: "));
}

#[test]
fn fields_that_are_no_keys_are_named() {
    let mut spec = policy(&document());
    spec["roots"]["keys"][0] = json!("XY");
    assert!(complaint("TrustPolicy", spec).starts_with("spec.roots.keys[0]: "));
    let mut spec = policy(&document());
    spec["signatures"][0]["keyId"] = json!("");
    assert!(complaint("TrustPolicy", spec).starts_with("spec.signatures[0].keyId: "));
}

#[test]
fn schedules_that_never_come_are_refused_with_an_example() {
    assert_eq!(
        ask("Benchmark", "nightly", json!({"schedule": "0 3 * * *", "timeZone": "Europe/Berlin"})),
        Ok(None)
    );
    let complaint = |spec| ask("Benchmark", "nightly", spec).unwrap_err();
    assert!(
        complaint(json!({"schedule": "at night"})).starts_with("spec.schedule: `at night` is not a schedule")
    );
    assert!(
        complaint(json!({"schedule": "@daily", "timeZone": "Berlin"})).starts_with("spec.timeZone: `Berlin`")
    );
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    assert!(complaint(json!({"nodePools": {"selector": selector}})).starts_with("spec.nodePools.selector: "));
    assert!(ask("Benchmark", &"n".repeat(53), json!({})).unwrap_err().starts_with("metadata.name: "));
}

#[test]
fn other_kinds_are_none_of_its_business() {
    assert_eq!(ask("ConfigMap", "x", json!(null)), Ok(None));
}

#[test]
fn a_policy_that_sidecars_refuse_is_admitted_with_a_warning() {
    let spec = |index: usize| {
        let vectors: Value =
            serde_json::from_str(include_str!("../../../../tests/vectors/policy.json")).unwrap();
        let chain = &vectors["chains"][index]["chain"];
        json!({
            "roots": {"threshold": 2, "keys": vectors["roots"]["keys"], "minimumEpoch": 1},
            "document": chain["document"], "signatures": chain["signatures"],
        })
    };
    assert_eq!(ask("TrustPolicy", "demo", spec(0)), Ok(None));
    let warning = ask("TrustPolicy", "demo", spec(1)).unwrap().unwrap();
    assert!(warning.starts_with("sidecars refuse this policy as it is: "), "{warning}");
}
