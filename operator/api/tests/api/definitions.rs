//! What every definition must hold, whatever its fields: bounds, defaults that match the Rust defaults, names.

use std::{fs, path::Path};

use sealane_operator_api::{
    BenchmarkSpec, Peer, PeerSpec, TransferSession, TransferSessionSpec, TrustPolicySpec, definitions,
};
use serde_json::{Value, json};

fn schemas() -> Vec<(String, Value)> {
    let schema = |version: Value| version["schema"]["openAPIV3Schema"].clone();
    definitions()
        .into_iter()
        .map(|definition| {
            let definition = serde_json::to_value(definition).unwrap();
            let kind = definition["spec"]["names"]["kind"].as_str().unwrap().to_owned();
            (kind, schema(definition["spec"]["versions"][0].clone()))
        })
        .collect()
}

/// Calls `visit` on `schema` and everything inside it, with its path.
fn walk(path: &str, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), property, visit);
    }
    for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            walk(&format!("{path}{suffix}"), &schema[key], visit);
        }
    }
}

/// Both folders hold the same files; `crds/` is for users who install without the chart.
const FOLDERS: [&str; 2] = ["crds", "charts/sealane/files/crds"];
const HEADER: &str =
    "# Generated from operator/api, as item 8 of CONTRIBUTING.md says; edit the types there instead.\n";

/// With `SEALANE_WRITE_CRDS` set, the test writes the files before it compares them.
#[test]
fn crds_are_what_the_types_generate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let write = std::env::var_os("SEALANE_WRITE_CRDS").is_some();
    let mut differing = Vec::new();
    for definition in definitions() {
        let text = format!("{HEADER}{}", serde_norway::to_string(&definition).unwrap());
        for folder in FOLDERS {
            let file = format!("{folder}/{}.yaml", definition.spec.names.plural);
            if write {
                fs::write(root.join(&file), &text).unwrap();
            }
            if fs::read_to_string(root.join(&file)).ok().as_ref() != Some(&text) {
                differing.push(file);
            }
        }
    }
    assert!(
        differing.is_empty(),
        "these files differ from operator/api; item 8 of CONTRIBUTING.md says how to write them: {differing:?}"
    );
}

#[test]
fn every_string_list_and_map_is_bounded() {
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, schema| {
            let has = |keys: &[&str]| keys.iter().any(|key| !schema[key].is_null());
            match schema["type"].as_str() {
                Some("string") => assert!(has(&["maxLength", "enum", "format"]), "{path} has no maxLength"),
                Some("array") => assert!(has(&["maxItems"]), "{path} has no maxItems"),
                Some("object") => {
                    assert!(has(&["properties", "maxProperties"]), "{path} has no maxProperties");
                }
                Some("integer" | "boolean") => {}
                None => assert_eq!(schema["x-kubernetes-int-or-string"], true, "{path} has no type"),
                Some(other) => panic!("{path} has type {other}"),
            }
        });
    }
}

#[test]
fn null_is_a_value_only_where_nothing_else_can_be_left_of_an_empty_structure() {
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, schema| {
            let may_be_empty = schema["type"] == "object"
                && schema["properties"].is_object()
                && schema["required"].is_null()
                && schema["default"].is_null()
                && schema["x-kubernetes-map-type"] != "atomic";
            let inside = path.starts_with(&format!("{kind}.spec.")) && !path.ends_with("[]");
            assert_eq!(schema["nullable"] == true, may_be_empty && inside, "{path}");
            // The API server takes null for absent there, and fills in the default.
            assert!(!(may_be_empty && path == format!("{kind}.spec")), "{path} has no default");
            let words = schema["enum"].as_array().into_iter().flatten();
            assert!(words.into_iter().all(Value::is_string), "{path} admits null");
        });
    }
}

#[test]
fn null_is_read_as_an_empty_structure() {
    let with = |stream: Value| -> TransferSessionSpec {
        serde_json::from_value(json!({"from": {"peer": "a"}, "to": [{"peer": "b"}], "stream": stream}))
            .unwrap()
    };
    assert!(with(Value::Null).stream.is_some());
    assert_eq!(with(Value::Null), with(json!({})));
    let forward =
        json!({"from": {"peer": "a"}, "to": [{"peer": "b"}], "forward": {"listen": 1, "target": 2}});
    assert_eq!(serde_json::from_value::<TransferSessionSpec>(forward).unwrap().stream, None);
    let with = |regression: Value| -> BenchmarkSpec {
        serde_json::from_value(json!({"regression": regression})).unwrap()
    };
    assert!(with(Value::Null).regression.is_some());
    assert_eq!(with(Value::Null), with(json!({})));
    assert_eq!(serde_json::from_value::<BenchmarkSpec>(json!({})).unwrap().regression, None);
}

#[test]
fn every_rule_says_what_to_do() {
    let mut rules = 0;
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, schema| {
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                assert!(rule["message"].as_str().is_some_and(|message| message.len() > 10), "{path}");
                rules += 1;
            }
        });
    }
    assert!(rules >= 12, "only {rules} rules: has one been lost?");
}

#[test]
fn names_and_columns_are_the_contract() {
    let names = |index: usize| {
        let definition = serde_json::to_value(&definitions()[index]).unwrap();
        let columns: Vec<String> = definition["spec"]["versions"][0]["additionalPrinterColumns"]
            .as_array()
            .unwrap()
            .iter()
            // The others are for `-o wide`.
            .filter(|column| column["priority"].is_null())
            .map(|column| column["name"].as_str().unwrap().to_uppercase())
            .collect();
        assert_eq!(definition["spec"]["names"]["categories"], json!(["sealane"]));
        assert_eq!(definition["spec"]["scope"], "Namespaced");
        (definition["spec"]["names"]["shortNames"][0].as_str().unwrap().to_owned(), columns.join(" "))
    };
    let table = |short: &str, columns: &str| (short.to_owned(), columns.to_owned());
    assert_eq!(names(0), table("slp", "READY REPLICAS DESIRED PLATFORM ASSURANCE TCB AGE"));
    assert_eq!(names(1), table("slt", "READY PHASE CONNECTIONS DESIRED CARRIER TENSORS BYTES AGE"));
    assert_eq!(names(2), table("slpol", "READY REPLICAS DESIRED EPOCH EXPIRES AGE"));
}

#[test]
fn defaults_in_rust_and_in_the_schema_are_the_same() {
    let spec: TransferSessionSpec =
        serde_json::from_value(json!({"from": {"peer": "a"}, "to": [{"peer": "b"}], "stream": {}})).unwrap();
    let written = serde_json::to_value(&spec).unwrap();
    let (_, schema) = &schemas()[1];
    let fields = &schema["properties"]["spec"]["properties"];
    for field in ["carrier", "cipher", "rekey", "suspend"] {
        assert_eq!(written[field], fields[field]["default"], "{field}");
    }
    for field in ["delivery", "fanout"] {
        assert_eq!(written["stream"][field], fields["stream"]["properties"][field]["default"], "{field}");
    }
    let benchmark: BenchmarkSpec = serde_json::from_value(json!({})).unwrap();
    let benchmark = serde_json::to_value(&benchmark).unwrap();
    let (_, schema) = &schemas()[3];
    let fields = &schema["properties"]["spec"]["properties"];
    assert_eq!(benchmark["recommendation"], json!({"validSeconds": 2_592_000, "hysteresisPercent": 10}));
    assert_eq!(benchmark["recommendation"], fields["recommendation"]["default"]);
    assert_eq!(spec.rekey.bytes.bytes(), Ok(64 << 30));
    assert_eq!(spec.rekey.interval.seconds(), Ok(600));
}

#[test]
fn kinds_read_what_the_contract_shows() {
    let peer: PeerSpec = serde_json::from_value(json!({
        "selector": {"matchLabels": {"app": "embedder"}},
        "trustPolicyRef": {"name": "demo"},
    }))
    .unwrap();
    assert_eq!(Peer::new("embedder", peer).spec.attestation.provider.as_str(), "Auto");
    let session = json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": "TransferSession",
        "metadata": {"name": "activations", "namespace": "demo"},
        "spec": {"from": {"peer": "embedder"}, "to": [{"peer": "ranker"}],
                 "stream": {"delivery": "Broadcast", "fanout": 4},
                 "rekey": {"bytes": 1_048_576, "messages": 1000, "interval": "1h"}},
    });
    let session: TransferSession = serde_json::from_value(session).unwrap();
    assert_eq!(session.spec.rekey.bytes.bytes(), Ok(1 << 20));
}

#[test]
fn a_trust_policy_converts_to_what_the_data_plane_reads() {
    let key = "ab".repeat(32);
    let mut spec: TrustPolicySpec = serde_json::from_value(json!({
        "roots": {"threshold": 1, "keys": [key]},
        "document": "e30=",
        "signatures": [{"keyId": key, "signature": "c2ln"}],
    }))
    .unwrap();
    let roots = spec.roots("demo", "demo").unwrap();
    assert_eq!((roots.threshold, roots.minimum_epoch, roots.keys.len()), (1, 1, 1));
    assert_eq!(spec.chain().unwrap().signatures.len(), 1);

    spec.signatures[0].key_id = "AB".repeat(32);
    assert!(spec.chain().unwrap_err().to_string().starts_with("spec.signatures[0].keyId: "));
    spec.roots.threshold = 0;
    assert_eq!(
        spec.roots("demo", "demo").unwrap_err().to_string(),
        "spec.roots.threshold: must be at least 1"
    );
}
