//! The vectors in `tests/vectors`, which a Python test recomputes from the text of the protocol.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::binding::{Leaf, MerklePath, Purpose, ReportSubject, Role, Tree, report_data};
use sealane_attestation::{
    Collateral, Evidence, EvidenceMessage, Expected, Format, KEY_PAYLOAD_TYPE, Rejection, StatedWorkload,
    TrustConfiguration, inspect, key_report,
};
use sealane_policy::{SigningKey, SnpPermissions};
use sealane_types::{Digest, Platform, PodIdentity, PublicKey, Roots, UnixSeconds};
use serde_json::{Value, json};

use crate::support::{
    BINDING_KEY, HANDSHAKE_HASH, INITDATA, PROVER, Prover, VERIFIER, honest, now, pod, said, trust,
};

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../tests/vectors", name].iter().collect()
}

fn read(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path(name)).unwrap()).unwrap()
}

fn cases(file: &Value, list: &str) -> Vec<Value> {
    let cases = file[list].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

/// A case names the platform only: its evidence has the form of SEV-SNP wherever it is simulated.
fn format_of(case: &Value) -> Format {
    let platform = text(case, "platform");
    *Format::ALL.iter().find(|format| format.platform().as_str() == platform).unwrap()
}

fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case[field].as_str().unwrap()
}

fn number(case: &Value, field: &str) -> u32 {
    case[field].as_u64().unwrap().try_into().unwrap()
}

fn bytes<const N: usize>(text: &Value) -> [u8; N] {
    hex::decode(text.as_str().unwrap()).unwrap().try_into().unwrap()
}

fn all_bytes<const N: usize>(list: &Value) -> Vec<[u8; N]> {
    list.as_array().unwrap().iter().map(bytes).collect()
}

fn pod_of(case: &Value) -> PodIdentity {
    PodIdentity::try_from(text(case, "pod").to_owned()).unwrap()
}

/// What a node agent stated, in the cases that are a node's.
fn workload_of(case: &Value) -> Option<StatedWorkload> {
    let workload = case.get("workload")?;
    let images = workload["images"].as_object().unwrap().iter();
    let images = images.map(|(name, digest)| (name.clone(), Digest::new(bytes(digest)))).collect();
    Some(StatedWorkload::new(text(workload, "serviceAccount").to_owned(), images).unwrap())
}

fn leaf_of(case: &Value) -> Leaf {
    let purposes = [Purpose::Handshake, Purpose::Reattest, Purpose::Audit];
    let roles = [Role::Initiator, Role::Responder];
    let purpose = purposes.into_iter().find(|word| format!("{word:?}") == text(case, "purpose")).unwrap();
    let role = roles.into_iter().find(|word| format!("{word:?}") == text(case, "role")).unwrap();
    let [h, key, own, peer] =
        ["handshakeHash", "bindingKey", "ownStatic", "peerStatic"].map(|part| bytes(&case[part]));
    Leaf::new(purpose, role, &h, &key, &own, &peer)
}

#[test]
fn leaves() {
    let cases = cases(&read("binding.json"), "leaves");
    assert_eq!(cases.len(), 6);
    for case in cases {
        assert_eq!(hex::encode(leaf_of(&case).as_bytes()), text(&case, "leaf"), "{case}");
    }
}

#[test]
fn trees() {
    for case in cases(&read("binding.json"), "trees") {
        let zero = [0; 32];
        let of_handshake =
            |h: &[u8; 32]| Leaf::new(Purpose::Handshake, Role::Initiator, h, &zero, &zero, &zero);
        let leaves: Vec<Leaf> = all_bytes(&case["handshakeHashes"]).iter().map(of_handshake).collect();
        let tree = Tree::new(&leaves).unwrap();
        assert_eq!(hex::encode(tree.root()), text(&case, "root"));
        for (index, siblings) in case["paths"].as_array().unwrap().iter().enumerate() {
            let path = tree.path(index.try_into().unwrap()).unwrap();
            assert_eq!(path.siblings(), all_bytes::<32>(siblings));
            assert_eq!(path.root(&leaves[index]), *tree.root());
        }
    }
}

#[test]
fn invalid_paths() {
    for case in cases(&read("binding.json"), "invalidPaths") {
        let siblings = vec![[0; 32]; number(&case, "siblings") as usize];
        let path = MerklePath::new(number(&case, "leaves"), number(&case, "index"), siblings);
        assert!(path.is_err(), "{case}");
    }
}

#[test]
fn reports() {
    for case in cases(&read("binding.json"), "reports") {
        let platform: Platform = text(&case, "platform").parse().unwrap();
        let [policy, trust] = ["policy", "trust"].map(|part| Digest::new(bytes(&case[part])));
        let [own_static, root] = ["ownStatic", "root"].map(|part| bytes(&case[part]));
        let (pod, leaves, workload) = (pod_of(&case), number(&case, "leaves"), workload_of(&case));
        let subject = ReportSubject {
            platform,
            pod: &pod,
            own_static: &own_static,
            policy: &policy,
            trust: &trust,
            workload: workload.as_ref(),
        };
        let data = report_data(&subject, leaves, &root);
        assert_eq!(hex::encode(data), text(&case, "reportData"), "{case}");
    }
}

#[test]
fn trust_configurations() {
    for case in cases(&read("binding.json"), "trustConfigurations") {
        let keys = all_bytes(&case["keys"]).into_iter().map(PublicKey::new).collect();
        let roots = Roots {
            namespace: text(&case, "namespace").parse().unwrap(),
            policy: text(&case, "policy").parse().unwrap(),
            threshold: number(&case, "threshold"),
            keys,
            minimum_epoch: case["minimumEpoch"].as_u64().unwrap(),
        };
        let (source, simulation) = (text(&case, "source").parse().unwrap(), case["simulation"] == true);
        let configuration = TrustConfiguration { source, roots, simulation };
        let stated = hex::decode(text(&case, "stated")).unwrap();
        assert_eq!(configuration.to_bytes(), stated, "{case}");
        assert_eq!(TrustConfiguration::parse(&stated).unwrap().to_bytes(), stated);
        assert_eq!(configuration.digest().to_string(), text(&case, "digest"));
    }
}

#[test]
fn messages() {
    for case in cases(&read("evidence.json"), "messages") {
        let certificates = case["certificates"].as_array().unwrap();
        let certificates = certificates.iter().map(|der| hex::decode(der.as_str().unwrap()).unwrap());
        let message = EvidenceMessage {
            pod: pod_of(&case),
            policy: Digest::new(bytes(&case["policy"])),
            path: MerklePath::new(
                number(&case, "leaves"),
                number(&case, "index"),
                all_bytes(&case["siblings"]),
            )
            .unwrap(),
            evidence: Evidence {
                format: format_of(&case),
                report: hex::decode(text(&case, "report")).unwrap(),
                certificates: certificates.collect(),
            },
            workload: workload_of(&case),
        };
        let encoded = hex::decode(text(&case, "encoded")).unwrap();
        assert_eq!(message.encode().unwrap(), encoded, "{case}");
        assert_eq!(EvidenceMessage::decode(&encoded).unwrap(), message);
    }
}

#[test]
fn malformed_messages() {
    for case in cases(&read("evidence.json"), "malformed") {
        let outcome = EvidenceMessage::decode(&hex::decode(text(&case, "encoded")).unwrap());
        assert!(matches!(outcome, Err(Rejection::Malformed(_))), "{case}");
    }
}

#[test]
fn statements_of_keys() {
    for case in cases(&read("evidence.json"), "keys") {
        let key = SigningKey::from_seed(&bytes(&case["seed"])).unwrap();
        assert_eq!(key.public_key().to_string(), text(&case, "publicKey"), "{case}");
        let [policy, trust] = ["policy", "trust"].map(|part| Digest::new(bytes(&case[part])));
        let (leaf, own_static) = (leaf_of(&case), bytes(&case["ownStatic"]));
        let subject = ReportSubject {
            platform: Platform::Key,
            pod: &pod_of(&case),
            own_static: &own_static,
            policy: &policy,
            trust: &trust,
            workload: None,
        };
        let data = report_data(&subject, 1, leaf.as_bytes());
        let report = key_report(&key.public_key(), &data, &key.sign_as(KEY_PAYLOAD_TYPE, &data));
        assert_eq!(hex::encode(&report), text(&case, "report"), "{case}");
        let evidence = Evidence { format: Format::Key, report, certificates: vec![] };
        assert_eq!(hex::encode(evidence.encode().unwrap()), text(&case, "evidence"), "{case}");
        assert_eq!(inspect(&evidence, &Collateral::empty(), now()).unwrap().report_data(), Some(&data));
    }
}

/// Stored evidence, judged at a stored time, so that a later verifier still understands it.
#[test]
fn simulated_evidence() {
    let case = &read("evidence.json")["simulated"];
    let base64 = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
    let evidence = Evidence {
        format: Format::SimulatedSevSnp,
        report: base64(&case["report"]),
        certificates: case["certificates"].as_array().unwrap().iter().map(base64).collect(),
    };
    let at = UnixSeconds(case["now"].as_u64().unwrap());
    let claims = inspect(&evidence, &Collateral::empty().allowing_simulated(), at).unwrap();
    assert_eq!(claims.root().to_string(), text(case, "root"));
    said(&claims).permitted(&SnpPermissions::default()).unwrap();
    let pod = pod_of(case);
    let policies = [Digest::new(bytes(&case["policy"]))];
    let path = MerklePath::new(1, 0, vec![]).unwrap();
    let message = EvidenceMessage { pod: pod.clone(), policy: policies[0], path, evidence, workload: None };
    let prover_static = bytes(&case["ownStatic"]);
    let trust = Arc::new(TrustConfiguration::parse(&hex::decode(text(case, "trust")).unwrap()).unwrap());
    let expected = Expected {
        leaf: leaf_of(case),
        prover_static: &prover_static,
        pod: &pod,
        trust: &trust,
        policies: &policies,
    };
    assert_eq!(Some(expected.bind(&message).unwrap().report_data()), claims.report_data());
}

#[test]
#[ignore = "writes tests/vectors/evidence.json anew; run it only when the evidence has to change"]
fn write_simulated_evidence() {
    let policy = honest();
    let message = Prover::honest(&policy).send();
    let mut file = read("evidence.json");
    let base64 = |bytes: &Vec<u8>| STANDARD.encode(bytes);
    file["simulated"] = json!({
        "now": now().0,
        "pod": pod().as_str(),
        "policy": policy.digest().to_string(),
        "trust": hex::encode(trust().to_bytes()),
        "purpose": "Handshake",
        "role": "Initiator",
        "handshakeHash": hex::encode(HANDSHAKE_HASH),
        "bindingKey": hex::encode(BINDING_KEY),
        "ownStatic": hex::encode(PROVER),
        "peerStatic": hex::encode(VERIFIER),
        "initdata": std::str::from_utf8(INITDATA).unwrap(),
        "root": crate::support::MATERIAL.fingerprint().to_string(),
        "report": base64(&message.evidence.report),
        "certificates": message.evidence.certificates.iter().map(base64).collect::<Vec<_>>(),
    });
    std::fs::write(path("evidence.json"), format!("{file:#}\n")).unwrap();
}
