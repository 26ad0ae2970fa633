//! What documents may say and how refusals name the field.

use proptest::prelude::*;
use sealane_policy::{
    Advice, Document, PolicyError, Reference, SessionKind, SnpReference, Timestamp, advice, diff, limits,
    parse, verify,
};
use sealane_types::{
    Assurance, Carrier, Cipher, CongestionControl, CrlIssuer, ForwardPort, Platform, Reason, RootSource,
    UnixSeconds,
};
use serde_json::{Value, json};

use crate::support::*;

fn read(value: &Value) -> Result<Document, PolicyError> {
    parse(&bytes(value))
}

/// The document with the value at JSON pointer `place` replaced, or removed when `value` is null.
fn with(place: &str, value: Value) -> Value {
    let mut spoiled = document(1);
    let (parent, name) = place.rsplit_once('/').unwrap();
    let parent = spoiled.pointer_mut(parent).unwrap();
    match (parent, value) {
        (Value::Object(members), Value::Null) => drop(members.remove(name)),
        (Value::Object(members), value) => drop(members.insert(name.to_owned(), value)),
        (Value::Array(items), value) => items[name.parse::<usize>().unwrap()] = value,
        _ => panic!("{place}"),
    }
    spoiled
}

/// Asserts that the refusal names `path` and says `what`.
#[track_caller]
fn refused(place: &str, value: Value, path: &str, what: &str) {
    let shown = value.to_string();
    let error = read(&with(place, value)).expect_err(&shown);
    let text = error.to_string();
    assert!(text.contains(&format!("`{path}`")), "{shown}: {text}");
    assert!(text.contains(what), "{shown}: {text}");
    assert!(text.contains("for example"), "{shown}: {text}");
    assert_eq!(error.reason(), Reason::PolicyMalformed);
}

#[test]
fn a_document_reads_as_written() {
    let document = read(&document(7)).unwrap();
    assert_eq!((document.version, document.epoch), (1, 7));
    assert_eq!(document.authorities.threshold, 2);
    let entry = &document.peers[&"embedder".parse().unwrap()].entries[0];
    assert_eq!((entry.kind(), entry.assurance), (Platform::SevSnp, Assurance::Pod));
    let Reference::SevSnp(snp) = &entry.reference else { panic!("{entry:?}") };
    assert_eq!((snp.min_tcb.fmc, snp.min_tcb.microcode), (None, Some(219)));
    assert_eq!(snp.permissions, sealane_policy::SnpPermissions::default());
    assert!(!document.peers[&"embedder".parse().unwrap()].shared_evidence);
    assert!(document.sessions[0].to.contains(&"ranker".parse().unwrap()));
}

#[test]
fn a_connection_lives_a_day_unless_the_document_says_otherwise() {
    let seconds = |limits| read(&with("/limits", limits)).unwrap().limits.session_seconds;
    assert_eq!(read(&document(1)).unwrap().limits.session_seconds, 86_400);
    assert_eq!(seconds(json!({})), 86_400);
    assert_eq!(seconds(json!({"sessionSeconds": 10})), 10);
    assert_eq!(seconds(json!({"sessionSeconds": 2_592_000})), 2_592_000);
}

#[test]
fn a_document_says_how_long_an_attestation_counts() {
    assert_eq!(read(&document(1)).unwrap().limits.reattest_seconds, 86_400);
    for seconds in [10, 600, 86_400] {
        let limits = json!({"sessionSeconds": 60, "reattestSeconds": seconds});
        let document = read(&with("/limits", limits)).unwrap();
        assert_eq!((document.limits.session_seconds, document.limits.reattest_seconds), (60, seconds));
        assert_eq!(parse(&document.to_bytes()).unwrap(), document);
    }
    let alone = read(&with("/limits", json!({"reattestSeconds": 60}))).unwrap();
    assert_eq!(parse(&alone.to_bytes()).unwrap(), alone);
    for wrong in [9, 86_401] {
        refused("/limits", json!({"reattestSeconds": wrong}), "limits.reattestSeconds", "86400");
    }
}

#[test]
fn collateral_counts_until_it_is_over_unless_owners_sign_a_grace() {
    assert_eq!(read(&document(1)).unwrap().collateral.grace_seconds, 0);
    let most = limits::COLLATERAL_GRACE_SECONDS_MAX;
    for seconds in [0, 1, most] {
        let document = read(&with("/collateral", json!({"graceSeconds": seconds}))).unwrap();
        assert_eq!(document.collateral.grace_seconds, seconds);
        assert_eq!(parse(&document.to_bytes()).unwrap(), document);
    }
    refused("/collateral", json!({"graceSeconds": most + 1}), "collateral.graceSeconds", "604800");
    refused("/collateral", json!({}), "collateral", "is empty");
    refused("/collateral", json!({"graceSeconds": 1, "grace": 1}), "collateral.grace", "");
}

#[test]
fn owners_bound_what_collateral_is_judged_by() {
    let rules = json!({
        "maxAgeSeconds": 34_560_000, "minTcbEvaluation": 20,
        "minCrlIssued": {"IntelRoot": "2026-02-26T00:00:00Z", "IntelPlatform": "2026-10-01T00:00:00Z"},
        "minCrlNumber": {"Milan": 6, "Genoa": 5, "Turin": 2, "IntelRoot": 1, "IntelProcessor": 1, "IntelPlatform": 1},
    });
    let document = read(&with("/collateral", rules)).unwrap();
    let collateral = &document.collateral;
    assert_eq!((collateral.grace_seconds, collateral.max_age_seconds), (0, Some(34_560_000)));
    assert_eq!(collateral.min_crl_number.len(), CrlIssuer::ALL.len());
    assert!(
        !collateral.permits_number(CrlIssuer::Genoa, Some(4))
            && !collateral.permits_number(CrlIssuer::Genoa, None)
    );
    assert!(collateral.permits_number(CrlIssuer::Genoa, Some(5)));
    let issued = |time: &str| {
        let time: Timestamp = time.parse().unwrap();
        collateral.permits_issue(CrlIssuer::IntelPlatform, time.unix())
    };
    assert!(issued("2026-10-01T00:00:00Z") && !issued("2026-09-30T23:59:59Z"));
    assert!(collateral.permits_issue(CrlIssuer::Genoa, UnixSeconds(0)), "of another issuer nothing is said");
    assert_eq!([19, 20].map(|number| collateral.permits_evaluation(number)), [false, true]);
    assert_eq!(parse(&document.to_bytes()).unwrap(), document);
    for (wrong, path, about) in [
        (json!({"maxAgeSeconds": 86_399}), "collateral.maxAgeSeconds", "86400"),
        (json!({"maxAgeSeconds": 63_072_001}), "collateral.maxAgeSeconds", "63072000"),
        (json!({"minCrlNumber": {}}), "collateral.minCrlNumber", "is empty"),
        (json!({"minCrlNumber": {"Rome": 1}}), "collateral.minCrlNumber", "Milan, Genoa, Turin, IntelRoot"),
        (json!({"minCrlIssued": {}}), "collateral.minCrlIssued", "is empty"),
        (json!({"minCrlIssued": {"Genoa": 5}}), "collateral.minCrlIssued.Genoa", "a text"),
        (json!({"minCrlIssued": {"Genoa": "2026-10-01"}}), "collateral.minCrlIssued.Genoa", "a time in UTC"),
        (json!({"minCrlNumber": {"Genoa": 0}}), "collateral.minCrlNumber.Genoa", "from 1"),
        (json!({"minTcbEvaluation": "20"}), "collateral.minTcbEvaluation", "a number"),
    ] {
        refused("/collateral", wrong, path, about);
    }
}

/// Lists of roots are a year old before the next one comes, and Intel numbers none.
#[test]
fn what_a_bound_on_collateral_costs_or_does_not_do_is_told() {
    let told = |rules: Value| advice(&read(&with("/collateral", rules)).unwrap());
    assert!(told(json!({"maxAgeSeconds": 86_400 * 30})).contains(&Advice::YearlyListsOutlived));
    assert!(!told(json!({"maxAgeSeconds": 86_400 * 400})).contains(&Advice::YearlyListsOutlived));
    let unnumbered = |issuer| Advice::ListsUnnumbered { issuer };
    assert!(
        told(json!({"minCrlNumber": {"IntelPlatform": 1}})).contains(&unnumbered(CrlIssuer::IntelPlatform))
    );
    let of_amd = told(json!({"minCrlNumber": {"Genoa": 5}}));
    assert!(!of_amd.iter().any(|advice| matches!(advice, Advice::ListsUnnumbered { .. })));
}

#[test]
fn floors_default_to_the_safe_side() {
    let floors = read(&document(1)).unwrap().floors;
    assert!(floors.post_quantum && !floors.complete);
    assert_eq!(floors.ciphers, [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305].into());
    let listed = with("/floors", json!({"ciphers": ["Aes128Gcm"], "carriers": []}));
    let floors = read(&listed).unwrap().floors;
    assert_eq!(floors.ciphers, [Cipher::Aes128Gcm].into());
    // These and no others, whatever carriers there are by now: whoever signed an empty list did not know of them.
    let first = [Carrier::Tcp, Carrier::Udp, Carrier::AfXdp].into();
    assert_eq!(floors.carriers, first, "an empty list permits those of the first release");
    let absent = read(&with("/floors", json!({"complete": true}))).unwrap().floors;
    assert!(absent.complete && absent.carriers == first, "as does none");
    let both = [CongestionControl::Cubic, CongestionControl::Bbr].into();
    assert_eq!(floors.congestion, both, "likewise");
    let cubic = read(&with("/floors", json!({"congestion": ["Cubic"]}))).unwrap();
    assert_eq!(cubic.floors.congestion, [CongestionControl::Cubic].into());
    assert_eq!(parse(&cubic.to_bytes()).unwrap(), cubic);
    assert_eq!(floors.root_source, RootSource::Injected);
    assert_eq!(
        read(&with("/floors", json!({"rootSource": "File"}))).unwrap().floors.root_source,
        RootSource::File
    );
}

#[test]
fn every_required_field_is_named_when_it_is_missing() {
    for name in ["version", "namespace", "name", "epoch", "notBefore", "expires", "authorities", "peers"] {
        refused(&format!("/{name}"), Value::Null, name, "is missing");
    }
    for (place, path) in [
        ("/authorities/threshold", "authorities.threshold"),
        ("/authorities/keys", "authorities.keys"),
        ("/peers/ranker/entries", "peers.ranker.entries"),
        ("/peers/ranker/entries/0/kind", "peers.ranker.entries[0].kind"),
        ("/peers/ranker/entries/0/assurance", "peers.ranker.entries[0].assurance"),
        ("/sessions/0/from", "sessions[0].from"),
        ("/sessions/0/to", "sessions[0].to"),
    ] {
        refused(place, Value::Null, path, "is missing");
    }
}

#[test]
fn unknown_fields_are_named_with_the_known_ones() {
    refused("/sesions", json!([]), "sesions", "sessions");
    refused("/authorities/keyz", json!([]), "authorities.keyz", "threshold, keys");
    refused("/peers/ranker/entry", json!([]), "peers.ranker.entry", "entries, sharedEvidence");
    refused(
        "/peers/ranker/entries/0/measurement",
        json!([]),
        "peers.ranker.entries[0].measurement",
        "measurements",
    );
    refused("/peers/ranker/entries/0/root", json!("00"), "peers.ranker.entries[0].root", "not a known field");
    refused(
        "/peers/ranker/entries/0/publicKeys",
        json!([]),
        "peers.ranker.entries[0].publicKeys",
        "not a known",
    );
    refused(
        "/peers/ranker/entries/0/minTcb/ucode",
        json!(1),
        "peers.ranker.entries[0].minTcb.ucode",
        "microcode",
    );
    refused("/sessions/0/stream/x", json!(1), "sessions[0].stream.x", "known are none");
    refused("/floors", json!({"cipher": []}), "floors.cipher", "ciphers");
    refused("/limits", json!({"session": 60}), "limits.session", "sessionSeconds");
    refused("/auditors", json!({"keys": []}), "auditors.publicKeys", "is missing");
}

#[test]
fn wrong_types_are_named() {
    refused("/epoch", json!("1"), "epoch", "expected a number, found a text");
    refused("/namespace", json!(1), "namespace", "expected a text, found a number");
    refused("/peers", json!([]), "peers", "expected an object, found a list");
    refused("/sessions", json!({}), "sessions", "expected a list, found an object");
    refused(
        "/sessions/0/stream",
        json!(true),
        "sessions[0].stream",
        "expected an object, found true or false",
    );
    refused("/sessions/0/from", json!({"peer": "embedder"}), "sessions[0].from", "found an object");
    refused("/floors", json!({"postQuantum": "yes"}), "floors.postQuantum", "expected true or false");
}

#[test]
fn wrong_values_are_named() {
    refused("/version", json!(2), "version", "from 1 to 1, found 2");
    refused("/epoch", json!(0), "epoch", "found 0");
    refused("/name", json!("Demo"), "name", "found `Demo`");
    refused("/notBefore", json!("2026-11-20"), "notBefore", "2026-11-20T00:00:00Z");
    refused("/expires", json!("2026-11-27T00:00:00+00:00"), "expires", "whole seconds");
    refused("/expires", json!("2026-11-20T00:00:00Z"), "expires", "at or before `notBefore`");
    refused("/previous", json!("AB".repeat(32)), "previous", "lower-case hex");
    refused("/authorities/threshold", json!(0), "authorities.threshold", "found 0");
    refused("/authorities/threshold", json!(3), "authorities.threshold", "3 signatures from 2 keys");
    refused("/authorities/keys/0", json!("00"), "authorities.keys[0]", "32-byte public key");
    let repeated = public(&[1])[0].to_string();
    refused("/authorities/keys", json!([repeated, repeated]), "authorities.keys[1]", "repeats");
    refused("/peers", json!({"A": {"entries": []}}), "peers", "found `A`");
    refused("/sessions/0/to", json!([]), "sessions[0].to", "is empty");
    refused("/sessions/0/to", json!(["ranker", "ranker"]), "sessions[0].to[1]", "repeats");
    refused("/floors", json!({"ciphers": ["Rc4"]}), "floors.ciphers[0]", "Aes256Gcm");
    refused("/floors", json!({"carriers": ["Pigeon"]}), "floors.carriers[0]", "one of Tcp");
    refused("/floors", json!({"congestion": ["Auto"]}), "floors.congestion[0]", "one of Cubic, Bbr");
    refused("/limits", json!({"sessionSeconds": 9}), "limits.sessionSeconds", "from 10 to 2592000, found 9");
    refused("/limits", json!({"sessionSeconds": 2_592_001}), "limits.sessionSeconds", "found 2592001");
    refused("/auditors", json!({"publicKeys": ["x"]}), "auditors.publicKeys[0]", "found `x`");
}

#[test]
fn wrong_entries_are_named() {
    let entry = |name: &str, value: Value, path: &str, what: &str| {
        let path = format!("peers.ranker.entries[0].{path}");
        refused(&format!("/peers/ranker/entries/0/{name}"), value, &path, what);
    };
    entry("kind", json!("Sgx"), "kind", "SevSnp, Tdx, Nitro, Key, Simulated");

    entry("assurance", json!("Key"), "assurance", "one of Pod, Node");
    entry("assurance", json!("Simulated"), "assurance", "one of Pod, Node");
    entry("measurements", json!(["ab"]), "measurements[0]", "96 lower-case hex digits");
    entry("measurements", json!("ab"), "measurements", "expected a list");
    entry("hostData", json!(["zz".repeat(32)]), "hostData[0]", "64 lower-case hex digits");
    entry("chipIds", json!(["00".repeat(8)]), "chipIds[0]", "128 lower-case hex digits");
    entry("products", json!(["Rome"]), "products[0]", "Milan, Genoa, Turin");
    entry("minTcb", json!({"snp": 256}), "minTcb.snp", "from 0 to 255");
    entry("maxVmpl", json!(4), "maxVmpl", "from 0 to 3");
    entry("allowDebug", json!(1), "allowDebug", "expected true or false");
    entry("workload", json!({"serviceAccount": ""}), "workload.serviceAccount", "service account");
    entry("workload", json!({"serviceAccount": "a b"}), "workload.serviceAccount", "found `a b`");
    for image in ["registry.example/app:latest", "registry.example/app@sha256:00"] {
        let workload = json!({"serviceAccount": "a", "images": [image]});
        entry("workload", workload, "workload.images[0]", "an image by digest");
    }
}

#[test]
fn promises_of_later_releases_are_refused_not_ignored() {
    for (place, path) in [
        ("/heartbeat", "heartbeat"),
        ("/renewal", "renewal"),
        ("/transparency", "transparency"),
        ("/emergency", "emergency"),
        ("/sessions/0/object", "sessions[0].object"),
        ("/sessions/0/shaping", "sessions[0].shaping"),
    ] {
        refused(place, json!({}), path, "not implemented in this release");
    }
}

/// The session with a forward in place of its stream.
fn forwarding(forward: Value) -> Value {
    json!({"name": "grpc", "from": "embedder", "to": "ranker", "forward": forward})
}

#[test]
fn a_forward_names_its_ports() {
    let document = read(&with("/sessions/0", forwarding(json!({"targets": [8002, 8001]})))).unwrap();
    let targets = [8001, 8002].map(|port| ForwardPort::new(port).unwrap()).into();
    assert_eq!(document.sessions[0].kind, SessionKind::Forward { targets });
    assert_eq!(parse(&document.to_bytes()).unwrap(), document);
    let most = Value::from((1..=limits::FORWARD_TARGETS_MAX).collect::<Vec<_>>());
    assert!(read(&with("/sessions/0", forwarding(json!({"targets": most})))).is_ok());
}

#[test]
fn wrong_forwards_are_named() {
    let forward = |forward: Value, path: &str, what: &str| {
        refused("/sessions/0", forwarding(forward), &format!("sessions[0].forward{path}"), what);
    };
    let targets = |targets: Value, path: &str, what: &str| {
        forward(json!({"targets": targets}), &format!(".targets{path}"), what);
    };
    forward(json!({}), ".targets", "is missing");
    forward(json!([8001]), "", "expected an object");
    forward(json!({"targets": [8001], "listen": 18001}), ".listen", "not a known field");
    targets(json!(8001), "", "expected a list");
    targets(json!(["8001"]), "[0]", "expected a number");
    targets(json!([8001, 8002, 8001]), "[2]", "repeats an earlier value");
    for reserved in sealane_types::RESERVED_PORTS {
        targets(json!([8001, reserved]), "[1]", &format!("port {reserved} belongs to Sealane"));
    }
    for impossible in [json!(0), json!(65_536), json!(4_294_967_297_u64), json!(9_007_199_254_740_991_u64)] {
        targets(json!([impossible]), "[0]", "from 1 to 65535");
    }
    let many = Value::from((1..=limits::FORWARD_TARGETS_MAX + 1).collect::<Vec<_>>());
    targets(many, "", "are allowed");
    targets(json!([]), "", "names no port");
}

#[test]
fn a_session_says_how_many_senders_it_needs() {
    let min = |senders: Value| match read(&with("/sessions/0/senders", senders)).unwrap().sessions[0].kind {
        SessionKind::Stream { senders_min } => senders_min,
        SessionKind::Forward { .. } => panic!("a stream"),
    };
    assert_eq!((min(Value::Null), min(json!({"min": 1})), min(json!({"min": 4_096}))), (0, 1, 4_096));
    for wrong in [0, 4_097] {
        refused("/sessions/0/senders", json!({"min": wrong}), "sessions[0].senders.min", "4096");
    }
    refused("/sessions/0/senders", json!({}), "sessions[0].senders.min", "missing");
    let mut forward = forwarding(json!({"targets": [1]}));
    forward["senders"] = json!({"min": 1});
    refused("/sessions/0", forward, "sessions[0].senders", "not a known field");
}

#[test]
fn the_strictest_rule_for_a_session_says_how_many_senders_it_needs() {
    let rule = |name: Option<&str>, from: &str, min: u32| {
        let mut rule = json!({"from": from, "to": "ranker", "stream": {}, "senders": {"min": min}});
        if let Some(name) = name {
            rule["name"] = json!(name);
        }
        rule
    };
    let mut document = document(1);
    document["sessions"] = json!([
        rule(Some("activations"), "embedder", 2),
        rule(Some("gradients"), "embedder", 9),
        rule(None, "embedder", 3),
        rule(None, "ranker", 5),
    ]);
    let policy = verify(&chain(&document, &[1, 2]), &roots(), now(), None).unwrap();
    let least = |session: &str, to: &str, listed: &[&str]| -> Vec<(String, u32)> {
        let listed = |peer: &sealane_types::PeerName| listed.contains(&peer.as_str());
        let least = policy.senders_min(&session.parse().unwrap(), &to.parse().unwrap(), &listed);
        least.into_iter().map(|(peer, min)| (peer.to_string(), min)).collect()
    };
    assert_eq!(least("activations", "ranker", &["embedder"]), [("embedder".to_owned(), 3)]);
    // Whom the configuration leaves out is needed all the same where the rule names the session.
    assert_eq!(least("activations", "ranker", &[]), [("embedder".to_owned(), 2)]);
    assert_eq!(least("other", "ranker", &[]), []);
    assert_eq!(least("activations", "embedder", &["embedder"]), []);
}

#[test]
fn a_session_has_one_kind() {
    refused("/sessions/0/stream", Value::Null, "sessions[0]", "exactly one of stream, forward");
    refused("/sessions/0/forward", json!({"targets": [1]}), "sessions[0]", "exactly one of stream, forward");
}

#[test]
fn ports_that_come_and_go_are_shown() {
    let with_ports =
        |ports: Value| read(&with("/sessions/0", forwarding(json!({"targets": ports})))).unwrap();
    let changes = diff(&with_ports(json!([8001, 8002])), &with_ports(json!([8002, 8003])));
    let shown: Vec<_> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["- sessions[0].forward.targets: 8001", "+ sessions[0].forward.targets: 8003"]);
    let changes = diff(&read(&document(1)).unwrap(), &with_ports(json!([8001])));
    let shown: Vec<_> = changes.iter().map(ToString::to_string).collect();
    assert!(shown.contains(&r#"+ sessions[0].forward: {"targets":[8001]}"#.to_owned()), "{shown:?}");
    assert!(shown.contains(&"- sessions[0].stream: {}".to_owned()), "{shown:?}");
}

#[test]
fn lists_are_bounded() {
    let hex = |bytes: usize| move |index: usize| Value::from(format!("{index:0width$x}", width = 2 * bytes));
    let list =
        |most: usize, value: &dyn Fn(usize) -> Value| Value::from((0..=most).map(value).collect::<Vec<_>>());
    let entry = "/peers/ranker/entries/0";
    let at = "peers.ranker.entries[0]";
    let cases = [
        (format!("{entry}/measurements"), format!("{at}.measurements"), list(limits::VALUES_MAX, &hex(48))),
        (format!("{entry}/hostData"), format!("{at}.hostData"), list(limits::VALUES_MAX, &hex(32))),
        (format!("{entry}/chipIds"), format!("{at}.chipIds"), list(limits::CHIP_IDS_MAX, &hex(64))),
        ("/authorities/keys".into(), "authorities.keys".into(), list(limits::AUTHORITY_KEYS_MAX, &hex(32))),
        (
            "/auditors".into(),
            "auditors.publicKeys".into(),
            json!({"publicKeys": list(limits::AUDITOR_KEYS_MAX, &hex(32))}),
        ),
        (
            "/peers/ranker/entries".into(),
            "peers.ranker.entries".into(),
            list(limits::ENTRIES_MAX, &|_| snp(2)),
        ),
        (
            "/sessions/0/to".into(),
            "sessions[0].to".into(),
            list(limits::RECEIVERS_MAX, &|index| format!("p{index}").into()),
        ),
        (
            format!("{entry}/workload"),
            format!("{at}.workload.images"),
            json!({"serviceAccount": "a", "images": list(limits::IMAGES_MAX, &|_| "x".into())}),
        ),
    ];
    for (place, path, value) in cases {
        refused(&place, value, &path, "are allowed");
    }
    let peers: serde_json::Map<_, _> =
        (0..=limits::PEERS_MAX).map(|index| (format!("p{index}"), json!({"entries": []}))).collect();
    refused("/peers", peers.into(), "peers", "are allowed");
    let text = "a".repeat(limits::TEXT_BYTES_MAX + 1);
    let path = format!("{at}.workload.serviceAccount");
    refused(&format!("{entry}/workload"), json!({"serviceAccount": text}), &path, "…");
}

#[test]
fn simulated_entries_never_claim_more_than_simulated() {
    let base = json!({"kind": "Simulated", "root": "0a".repeat(32), "measurements": ["ab".repeat(48)], "minTcb": {}});
    for assurance in [None, Some("Simulated"), Some("Pod"), Some("Node")] {
        let mut entry = base.clone();
        if let Some(assurance) = assurance {
            entry["assurance"] = json!(assurance);
            entry["allowUnverifiedWorkload"] = json!(true);
        }
        let read = read(&with("/peers/ranker/entries/0", entry)).unwrap();
        let entry = &read.peers[&"ranker".parse().unwrap()].entries[0];
        assert_eq!(entry.assurance, Assurance::Simulated);
        assert_eq!(entry.root, Some("0a".repeat(32).parse().unwrap()));
    }
    let mut stated = base.clone();
    stated["workload"] = json!({"serviceAccount": "ranker"});
    stated["allowUnverifiedWorkload"] = json!(true);
    let document = read(&with("/peers/ranker/entries/0", stated)).unwrap();
    let entry = &document.peers[&"ranker".parse().unwrap()].entries[0];
    assert_eq!(entry.workload.as_ref().unwrap().service_account, "ranker");
    assert!(entry.unverified_workload, "it grants something beside a workload");
    let mut strong = base.clone();
    strong["assurance"] = json!("Key");
    assert!(read(&with("/peers/ranker/entries/0", strong)).is_err());
    let mut rootless = base;
    rootless.as_object_mut().unwrap().remove("root");
    refused("/peers/ranker/entries/0", rootless, "peers.ranker.entries[0].root", "is missing");
}

#[test]
fn key_entries_pin_keys() {
    let entry = json!({"kind": "Key", "publicKeys": ["0a".repeat(32)]});
    let read = read(&with("/peers/ranker/entries/0", entry)).unwrap();
    let entry = &read.peers[&"ranker".parse().unwrap()].entries[0];
    assert_eq!((entry.kind(), entry.assurance), (Platform::Key, Assurance::Key));
    let measured = json!({"kind": "Key", "publicKeys": [], "measurements": []});
    refused("/peers/ranker/entries/0", measured, "peers.ranker.entries[0].measurements", "publicKeys");
}

#[test]
fn permissions_are_refused_unless_stated() {
    let mut entry = snp(2);
    for name in ["allowDebug", "allowMigration", "allowVlek", "allowSmt", "allowUnverifiedWorkload"] {
        entry[name] = json!(true);
    }
    entry["maxVmpl"] = json!(2);
    let read = read(&with("/peers/ranker/entries/0", entry)).unwrap();
    let entry = &read.peers[&"ranker".parse().unwrap()].entries[0];
    let Reference::SevSnp(SnpReference { permissions, .. }) = &entry.reference else { panic!("{entry:?}") };
    let all = [permissions.debug, permissions.migration, permissions.vlek, permissions.smt];
    assert_eq!(all, [true; 4]);
    assert!(entry.unverified_workload);
    assert_eq!(permissions.vmpl_max, 2);
}

#[test]
fn messages_quote_little_of_a_hostile_value() {
    let error = read(&with("/name", json!(format!("\u{1b}[2J{}", "x".repeat(100_000))))).unwrap_err();
    let text = error.to_string();
    assert!(text.len() < 400 && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_diff_names_what_changed_and_only_that() {
    let before = read(&document(1)).unwrap();
    assert_eq!(diff(&before, &before), []);
    let mut spelled = document(1);
    spelled["floors"] = json!({"postQuantum": true, "complete": false});
    spelled["limits"] = json!({"sessionSeconds": 86_400});
    spelled["sessions"][0]["to"] = json!(["ranker"]);
    assert_eq!(diff(&before, &read(&spelled).unwrap()), []);

    let mut after = document(2);
    after["peers"]["ranker"]["entries"][0]["hostData"] = json!(["07".repeat(32)]);
    after["peers"]["ranker"]["entries"][0]["allowSmt"] = json!(true);
    after["sessions"] = json!([]);
    after["limits"] = json!({"sessionSeconds": 3_600});
    let changes: Vec<String> =
        diff(&before, &read(&after).unwrap()).iter().map(ToString::to_string).collect();
    let (old, new) = ("02".repeat(32), "07".repeat(32));
    assert_eq!(
        changes,
        [
            "~ epoch: 1 -> 2".to_owned(),
            r#"+ limits: {"sessionSeconds":3600}"#.to_owned(),
            "+ peers.ranker.entries[0].allowSmt: true".to_owned(),
            format!("- peers.ranker.entries[0].hostData: \"{old}\""),
            format!("+ peers.ranker.entries[0].hostData: \"{new}\""),
            r#"- sessions[0]: {"from":"embedder","name":"activations","stream":{},"to":["ranker"]}"#
                .to_owned(),
        ]
    );
}

/// A document with every field that this release knows.
fn full() -> Value {
    let mut full = document(3);
    full["previous"] = json!("0b".repeat(32));
    full["auditors"] = json!({"publicKeys": ["0c".repeat(32)]});
    full["limits"] = json!({"sessionSeconds": 3_600});
    full["sessions"][0]["senders"] = json!({"min": 3});
    full["floors"] = json!({"postQuantum": false, "ciphers": ["Aes128Gcm"], "carriers": ["Tcp"], "congestion": ["Bbr"], "complete": true, "rootSource": "File"});
    let node = json!({
        "kind": "SevSnp", "assurance": "Node", "measurements": ["cd".repeat(48)], "hostData": ["0d".repeat(32)],
        "products": ["Genoa", "Turin"], "chipIds": ["0e".repeat(64)],
        "minTcb": {"fmc": 1, "bootloader": 2, "tee": 3, "snp": 4, "microcode": 5},
        "minFirmware": {"major": 1, "minor": 55, "build": 40}, "minGuestAbi": {"major": 1, "minor": 51},
        "workload": {"serviceAccount": "a", "images": [format!("r.example/a@sha256:{}", "0f".repeat(32))]},
        "allowDebug": true, "allowMigration": true, "allowVlek": true, "allowSmt": true, "maxVmpl": 1,
    });
    let key = json!({"kind": "Key", "publicKeys": ["1a".repeat(32)]});
    let simulated = json!({
        "kind": "Simulated", "root": "1b".repeat(32), "measurements": ["ef".repeat(48)], "hostData": ["1c".repeat(32)],
        "workload": {"serviceAccount": "a", "images": [format!("r.example/a@sha256:{}", "0f".repeat(32))]},
    });
    full["peers"]["ranker"] = json!({"entries": [node, key, simulated], "sharedEvidence": true});
    full
}

#[test]
fn what_is_written_reads_back() {
    for value in [document(1), full()] {
        let document = read(&value).unwrap();
        let written = document.to_bytes();
        assert_eq!(parse(&written).unwrap(), document);
    }
    // Nothing of the full document is lost on the way through the typed form.
    let mut spelled = full();
    spelled["sessions"][0]["to"] = json!(["ranker"]);
    assert_eq!(read(&full()).unwrap().to_bytes(), bytes(&spelled));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// No spoiled byte of a canonical document is read as something else without being noticed: it is refused,
    /// or it is a canonical document of its own.
    #[test]
    fn no_spoiled_byte_panics_or_passes_for_the_same(place: prop::sample::Index, byte: u8) {
        let original = bytes(&full());
        let mut spoiled = original.clone();
        let place = place.index(spoiled.len());
        spoiled[place] = byte;
        if let Ok(read) = parse(&spoiled)
            && spoiled != original
        {
            prop_assert_ne!(read, parse(&original).unwrap());
        }
    }

    #[test]
    fn no_cut_document_is_read(length: prop::sample::Index) {
        let original = bytes(&full());
        let cut = &original[..length.index(original.len())];
        prop_assert!(parse(cut).is_err());
    }
}
