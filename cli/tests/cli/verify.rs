//! `kubectl sealane verify` against real sidecars on loopback, whose platform is simulated.

mod rogue;
mod world;

use serde_json::{Value, json};

use self::world::{Desk, MEASUREMENT_OF_NOBODY, Sidecar, document, key_of, stale_document};

/// Names of the checks that came out as `status`.
fn checks(report: &Value, status: &str) -> Vec<String> {
    let checks = report["pods"][0]["checks"].as_array().unwrap();
    let of = checks.iter().filter(|check| check["status"] == status);
    of.map(|check| check["check"].as_str().unwrap().to_owned()).collect()
}

fn check<'r>(report: &'r Value, about: &str) -> &'r Value {
    let checks = report["pods"][0]["checks"].as_array().unwrap();
    checks.iter().find(|check| check["check"] == about).unwrap_or_else(|| panic!("no {about}: {report:#}"))
}

#[test]
fn a_replica_is_verified_check_by_check() {
    let desk = Desk::new();
    let sidecar = Sidecar::start(&desk, "ranker-0", &document(&desk, 1));
    let report = desk.passes(&sidecar, &["--pod", "ranker-0"]);
    assert_eq!(report["verdict"], "PassedDegraded", "software protects nothing: {report:#}");
    assert_eq!(checks(&report, "degraded"), ["assurance"]);
    let ok = checks(&report, "ok");
    let expected = [
        "reached",
        "handshake",
        "key exchange",
        "pod identity",
        "policy",
        "admission",
        "evidence",
        "binding",
        "certificates",
        "revocation",
        "collateral",
        "platform",
        "simulated root",
        "measurement",
        "host data",
        "product",
        "TCB",
        "permissions",
        "policy expiry",
    ];
    for about in expected {
        assert!(ok.iter().any(|found| found == about), "{about} is missing: {ok:?}");
    }
    assert_eq!(check(&report, "pod identity")["seen"], "demo/ranker-0/uid-0");
    assert!(check(&report, "measurement")["seen"].as_str().unwrap().contains("14196d12732f"), "{report:#}");
    assert_eq!(report["policy"]["roots"]["from"], "Roots");
    let words = desk.verify(&sidecar, &[]).into_iter().filter(|word| word != "-o" && word != "json");
    let text = desk.folder.run(&words.collect::<Vec<_>>());
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("ok        measurement") && text.contains("PassedDegraded"), "{text}");
}

#[test]
fn an_auditor_that_the_policy_does_not_list_is_told_what_to_do() {
    let desk = Desk::new();
    let sidecar = Sidecar::start(&desk, "ranker-0", &document(&desk, 1));
    desk.folder.good(&["policy", "keygen", "--auditor", "--out", "stranger.pem"]);
    let report = desk.fails(&sidecar, &["--key", "stranger.pem"]);
    assert_eq!(checks(&report, "failed"), ["admission"]);
    let admission = check(&report, "admission");
    assert_eq!(admission["reason"], "AuditorUnknown");
    assert!(admission["remedy"].as_str().unwrap().contains("policy init --auditor"), "{admission}");

    let mut closed = document(&desk, 2);
    closed.as_object_mut().unwrap().remove("auditors");
    let nobody = Sidecar::start(&desk, "ranker-1", &closed);
    let report = desk.fails(&nobody, &[]);
    assert_eq!(check(&report, "admission")["reason"], "AuditorUnknown", "under a policy without auditors");
}

#[test]
fn a_measurement_that_the_trusted_policy_does_not_list_is_the_one_failed_check() {
    let desk = Desk::new();
    let sidecar = Sidecar::start(&desk, "ranker-0", &document(&desk, 1));
    let mut next = document(&desk, 2);
    next["peers"]["ranker"]["entries"][0]["measurements"] = json!([MEASUREMENT_OF_NOBODY]);
    desk.sign("next.json", &next, &[1, 2]);
    let report = desk.fails(&sidecar, &["--policy", "next.json"]);
    assert_eq!(checks(&report, "failed"), ["measurement"], "{report:#}");
    assert_eq!(check(&report, "measurement")["reason"], "MeasurementMismatch");
    assert_eq!(checks(&report, "degraded"), ["policy"], "the replica was behind: {report:#}");
}

#[test]
fn collateral_counts_for_the_grace_that_owners_signed() {
    let desk = Desk::new();
    let graced = stale_document(&desk, 1, 24 * 3600);
    let sidecar = Sidecar::stale("ranker-0", &graced);
    desk.sign("graced.json", &graced, &[1, 2]);
    let report = desk.passes(&sidecar, &["--policy", "graced.json"]);
    let collateral = check(&report, "collateral");
    assert_eq!(
        (&collateral["status"], &collateral["reason"]),
        (&json!("degraded"), &json!("CollateralStale"))
    );
    assert!(collateral["seen"].as_str().unwrap().contains("within the policy's grace"), "{collateral}");
    assert_eq!(check(&report, "revocation")["status"], "ok");
    assert!(
        !check(&report, "assurance")["seen"].as_str().unwrap().contains("grace"),
        "said once: {report:#}"
    );

    // A refusal for something else leaves it as it is.
    let mut other = stale_document(&desk, 2, 24 * 3600);
    other["peers"]["ranker"]["entries"][0]["mrConfigId"] = json!([MEASUREMENT_OF_NOBODY]);
    desk.sign("other.json", &other, &[1, 2]);
    let report = desk.fails(&sidecar, &["--policy", "other.json"]);
    assert_eq!(check(&report, "collateral")["status"], "degraded", "{report:#}");

    let strict = stale_document(&desk, 3, 0);
    desk.sign("strict.json", &strict, &[1, 2]);
    let report = desk.fails(&sidecar, &["--policy", "strict.json"]);
    assert_eq!(checks(&report, "failed"), ["collateral"], "{report:#}");
    assert_eq!(check(&report, "collateral")["reason"], "CollateralExpired");
}

#[test]
fn evidence_for_another_peer_s_guest_is_refused() {
    let desk = Desk::new();
    let sidecar = Sidecar::proving("embedder", &desk, "ranker-0", &document(&desk, 1));
    let report = desk.fails(&sidecar, &[]);
    assert_eq!(checks(&report, "failed"), ["host data"], "{report:#}");
}

#[test]
fn another_policy_of_the_epoch_is_noticed() {
    let desk = Desk::new();
    let sidecar = Sidecar::start(&desk, "ranker-0", &document(&desk, 1));
    let mut fork = document(&desk, 1);
    fork["floors"] = json!({"complete": false, "postQuantum": true});
    fork["expires"] = json!("2126-01-01T00:00:00Z");
    desk.sign("fork.json", &fork, &[1, 2]);
    let report = desk.fails(&sidecar, &["--policy", "fork.json"]);
    assert_eq!(check(&report, "policy")["reason"], "PolicyConflict", "{report:#}");
}

#[test]
fn a_policy_that_the_trusted_owners_did_not_sign_judges_nobody() {
    let desk = Desk::new();
    let sidecar = Sidecar::start(&desk, "ranker-0", &document(&desk, 1));
    desk.sign("strangers.json", &document(&desk, 1), &[7, 8]);
    let refused = desk.folder.run(&desk.verify(&sidecar, &["--policy", "strangers.json"]));
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{errors}");
    assert!(errors.contains("does not hold against the roots of roots.json"), "{errors}");
}

#[test]
fn a_newer_policy_of_the_replica_is_taken_if_it_is_signed_on() {
    let desk = Desk::new();
    let mut newer = document(&desk, 3);
    newer["sessions"] = json!([]);
    let sidecar = Sidecar::start(&desk, "ranker-0", &newer);
    let report = desk.passes(&sidecar, &[]);
    assert!(check(&report, "policy")["seen"].as_str().unwrap().contains("newer"), "{report:#}");
}

#[test]
fn another_pod_that_answers_is_noticed() {
    let desk = Desk::new();
    let document = document(&desk, 1);
    let (_asked, other) =
        (Sidecar::start(&desk, "ranker-0", &document), Sidecar::start(&desk, "ranker-1", &document));
    // Whoever stands between leads to the other pod, whose evidence is as good.
    let relay = rogue::relay(other.address);
    let report = desk.fails_at(relay, &["--pod", "ranker-0"]);
    assert_eq!(checks(&report, "failed"), ["pod identity"], "{report:#}");
    assert!(check(&report, "pod identity")["seen"].as_str().unwrap().contains("ranker-1"), "{report:#}");
}

#[test]
fn evidence_that_was_made_for_somebody_else_is_noticed() {
    let desk = Desk::new();
    let document = document(&desk, 1);
    let sidecar = Sidecar::start(&desk, "ranker-0", &document);
    let captured = rogue::capture(&sidecar, &desk, key_of("accomplice"));
    let impostor = rogue::impersonate(&sidecar, captured);
    let report = desk.fails_at(impostor, &["--pod", "ranker-0"]);
    assert_eq!(checks(&report, "failed"), ["binding"], "{report:#}");
    assert_eq!(check(&report, "binding")["reason"], "EvidenceNotBound");
}

#[test]
fn simulated_evidence_is_judged_only_when_asked_for() {
    let desk = Desk::new();
    let sidecar = Sidecar::start(&desk, "ranker-0", &document(&desk, 1));
    let words: Vec<String> =
        desk.verify(&sidecar, &[]).into_iter().filter(|word| word != "--simulated").collect();
    let refused = desk.folder.run(&words);
    assert_eq!(refused.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(check(&report, "evidence format")["reason"], "SimulationNotAllowed");
}

#[test]
fn who_is_no_sidecar_fails() {
    let desk = Desk::new();
    desk.sign("policy.json", &document(&desk, 1), &[1, 2]);
    let report = desk.fails_at(rogue::stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n"), &[]);
    assert_eq!(checks(&report, "failed"), ["handshake"], "{report:#}");
    let report = desk.fails_at(rogue::stranger(b""), &[]);
    assert_eq!(check(&report, "handshake")["reason"], "LinkLost");
    let (_bound, nobody) = rogue::nobody();
    let report = desk.fails_at(nobody, &[]);
    assert_eq!(check(&report, "reached")["reason"], "Unreachable");
}

#[test]
fn bad_usage_exits_with_two() {
    let desk = Desk::new();
    let code = |words: &[&str]| desk.folder.run(words).status.code();
    assert_eq!(code(&["verify"]), Some(2), "no Peer");
    assert_eq!(code(&["verify", "ranker"]), Some(2), "no key");
    assert_eq!(code(&["verify", "No_Name", "--key", "auditor.pem"]), Some(2));
    assert_eq!(code(&["verify", "ranker", "--key", "nowhere.pem"]), Some(1));
}

#[test]
fn an_auditor_s_key_is_for_its_owner_alone_and_no_other_kind_of_key() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::new();
    let mode = std::fs::metadata(desk.folder.path("auditor.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let printed = desk.folder.good(&["policy", "keygen", "--auditor", "--out", "other.pem", "-o", "json"]);
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed["auditors"], json!({"publicKeys": [printed["publicKey"]]}));
    desk.folder.good(&["policy", "keygen", "--out", "owner.pem"]);
    let errors = desk.folder.bad(1, &["verify", "ranker", "--key", "owner.pem"]);
    assert!(errors.contains("is no auditor's key"), "{errors}");
    let errors = desk.folder.bad(1, &["policy", "keygen", "--auditor", "--out", "other.pem"]);
    assert!(errors.contains("never overwritten"), "{errors}");
}
