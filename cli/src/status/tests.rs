use super::*;

fn declared() -> Declared {
    let peer = json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": "Peer", "metadata": {"name": "embedder"},
        "spec": {"selector": {}, "trustPolicyRef": {"name": "demo"}},
        "status": {"desired": 2, "ready": 1, "platform": "Simulated", "replicas": [
            {"pod": "embedder-0", "ready": true, "platform": "Simulated", "simulatedForm": "Tdx",
             "assurance": "Simulated", "rootSource": "Injected", "tcbStatus": "UpToDate", "policyEpoch": 4,
             "evidenceTime": "2026-01-01T00:00:00Z", "collateralExpires": "2026-01-02T00:00:00Z"},
            {"pod": "embedder-1", "ready": false, "reason": "PolicyExpired", "message": "sign the next epoch"},
        ], "conditions": [{
            "type": "Ready", "status": "False", "reason": "PodsNotInjected", "message": "1 of 2 pods has no sidecar",
            "lastTransitionTime": "2026-11-20T00:00:00Z",
        }]},
    });
    let session = json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": "TransferSession", "metadata": {"name": "activations"},
        "spec": {"from": {"peer": "embedder"}, "to": [{"peer": "ranker"}], "stream": {}},
    });
    Declared {
        namespace: Some("demo".to_owned()),
        peers: vec![serde_json::from_value(peer).unwrap()],
        sessions: vec![serde_json::from_value(session).unwrap()],
        policies: vec![],
        failures: vec![],
        strange: vec![],
    }
}

#[test]
fn what_is_not_ready_says_why() {
    let text = text(&declared());
    assert!(text.contains("peer/embedder: PodsNotInjected: 1 of 2 pods has no sidecar"), "{text}");
    assert!(text.contains("transfersession/activations: NotReported"), "{text}");
    assert!(text.contains("embedder -> ranker"), "{text}");
    assert!(text.contains("1/2"), "{text}");
    assert!(text.contains("pod/embedder-1: PolicyExpired: sign the next epoch"), "{text}");
    assert!(!text.contains("pod/embedder-0"), "{text}");
    assert!(!text.contains("NAMESPACE"), "{text}");
}

/// Without an operator a Ready of long ago must not look like one of now.
#[test]
fn a_status_that_no_operator_keeps_up_to_date_is_stale() {
    let mut declared = declared();
    let status = declared.peers[0].status.as_mut().unwrap();
    status.conditions[0].status = "True".to_owned();
    status.stale_after = Some(Time("2026-01-01T00:00:00Z".parse().unwrap()));
    let told = text(&declared);
    assert!(told.starts_with("STALE: no operator has kept 1 of 2 statuses up to date, for "), "{told}");
    assert!(told.contains("peer/embedder") && told.contains("kubectl sealane check"), "{told}");
    let row = told.lines().find(|line| line.starts_with("embedder ")).unwrap();
    assert!(row.contains(" STALE ") && !row.contains("True"), "{row}");
    assert_eq!(value(&declared)["stale"]["objects"][0]["object"], "peer/embedder");
    declared.peers[0].status.as_mut().unwrap().stale_after =
        Some(Time("2126-01-01T00:00:00Z".parse().unwrap()));
    assert!(!text(&declared).contains("STALE"));
    assert_eq!(value(&declared)["stale"], json!(null));
}

#[test]
fn a_peer_whose_work_is_over_has_no_replicas_to_count() {
    let mut declared = declared();
    let status = declared.peers[0].status.as_mut().unwrap();
    (status.desired, status.ready, status.replicas) = (Some(0), Some(0), vec![]);
    (status.conditions[0].status, status.conditions[0].reason) = ("True".to_owned(), "Finished".to_owned());
    let text = text(&declared);
    assert!(text.contains("finished") && !text.contains("0/0"), "{text}");
}

#[test]
fn sidecars_of_another_version_are_told_with_what_to_do() {
    let mut declared = declared();
    assert!(!text(&declared).contains("Versions differ"));
    let status = declared.peers[0].status.as_mut().unwrap();
    status.operator_version = Some("0.2.0".to_owned());
    status.replicas[0].version = Some("0.1.0".to_owned());
    let told = text(&declared);
    assert!(told.contains("peer/embedder: sidecars of 0.1.0"), "{told}");
    assert!(told.contains("kubectl sealane restart --outdated"), "{told}");
    assert_eq!(value(&declared)["outdated"][0]["pods"], json!(["embedder-0"]));
}

#[test]
fn an_object_of_another_release_hides_no_other() {
    let mut declared = declared();
    declared.strange = vec![Strange {
        namespace: None,
        what: "transfersession/new".to_owned(),
        message: "cannot be read by this release".to_owned(),
    }];
    let text = text(&declared);
    assert!(text.contains("transfersession/new: cannot be read") && text.contains("activations"), "{text}");
}

#[test]
fn a_carrier_says_how_it_reaches_the_devices() {
    let mut declared = declared();
    let row = |declared: &Declared| {
        let text = text(declared);
        text.lines().find(|line| line.starts_with("activations")).unwrap().to_owned()
    };
    let status = declared.sessions[0].status.insert(sealane_operator_api::TransferSessionStatus::default());
    (status.carrier, status.carrier_mode) = (Some("AfXdp".to_owned()), Some("Generic".to_owned()));
    assert!(row(&declared).contains(" AfXdp (Generic) "), "{}", row(&declared));
    let status = declared.sessions[0].status.insert(sealane_operator_api::TransferSessionStatus::default());
    status.carrier = Some("Udp".to_owned());
    assert!(row(&declared).contains(" Udp ") && !row(&declared).contains('('), "{}", row(&declared));
}

#[test]
fn json_holds_the_same() {
    let value = value(&declared());
    assert_eq!(value["notReady"][0]["reason"], "PodsNotInjected");
    assert_eq!(value["peers"][0]["status"]["desired"], 2);
}

#[test]
fn an_empty_namespace_says_so() {
    let empty = Declared { peers: vec![], sessions: vec![], ..declared() };
    assert!(text(&empty).contains("Nothing of Sealane"));
}

#[test]
fn every_complaint_has_its_remedy() {
    let text = text(&declared());
    let complaints =
        text.lines().filter(|line| line.starts_with("  ") && !line.starts_with("      ")).count();
    let remedies = text.lines().filter(|line| line.starts_with("      -> ")).count();
    assert!(complaints == 3 && remedies == 3, "{text}");
    assert!(text.contains("-> Sign and apply the next epoch"), "{text}");
}

#[test]
fn a_degradation_is_told_apart_from_what_is_not_ready() {
    let mut declared = declared();
    let condition = |type_: &str, reason: &str| -> Condition {
        serde_json::from_value(json!({
            "type": type_, "status": "True", "reason": reason, "message": "m",
            "lastTransitionTime": "2026-11-20T00:00:00Z",
        }))
        .unwrap()
    };
    let status = declared.peers[0].status.as_mut().unwrap();
    status.replicas.clear();
    status.conditions = vec![condition("Ready", "AllReady"), condition("Degraded", "ClockSuspect")];
    let value = value(&declared);
    assert_eq!(value["notReady"].as_array().unwrap().len(), 1, "the session");
    assert_eq!(value["degraded"][0]["reason"], "ClockSuspect");
    assert!(value["degraded"][0]["remedy"].as_str().unwrap().contains("clock"));
}

#[test]
fn all_namespaces_are_told_apart() {
    let mut declared = declared();
    declared.namespace = None;
    declared.peers[0].metadata.namespace = Some("ml".to_owned());
    let text = text(&declared);
    assert!(text.contains("NAMESPACE   PEER") && text.contains("ml          embedder"), "{text}");
    assert!(text.contains("  ml peer/embedder: PodsNotInjected"), "{text}");
}

#[test]
fn each_replica_says_what_it_proved_and_how_long_that_holds() {
    let text = text(&declared());
    let row = text.lines().find(|line| line.starts_with("embedder-0")).unwrap();
    for cell in ["Simulated (Tdx)", "Injected", "UpToDate", "EXPIRED", "days"] {
        assert!(row.contains(cell), "{cell}: {row}");
    }
    assert!(text.contains("APPRAISED") && text.contains("COLLATERAL"), "{text}");
}

#[test]
fn a_peer_whose_pods_cannot_be_made_says_why() {
    let mut declared = declared();
    let status = declared.peers[0].status.as_mut().unwrap();
    (status.conditions[0].reason, status.replicas) = ("NoReplicas".to_owned(), vec![]);
    declared.peers[0].metadata.namespace = Some("demo".to_owned());
    let complaint = |declared: &Declared| value(declared)["notReady"][0].clone();
    let alone = complaint(&declared);
    assert!(!alone["remedy"].as_str().unwrap().contains("other side"), "{alone}");
    declared.failures = vec![Failure {
        namespace: "demo".to_owned(),
        workload: "replicaset/embedder-5d8".to_owned(),
        message: "must specify limits.cpu for: sealane".to_owned(),
    }];
    let told = complaint(&declared)["message"].as_str().unwrap().to_owned();
    assert!(
        told.contains("pods of replicaset/embedder-5d8 cannot be made: must specify limits.cpu"),
        "{told}"
    );
    // Of another namespace it says nothing, and nothing of a Peer that has pods.
    declared.failures[0].namespace = "other".to_owned();
    assert!(!complaint(&declared).to_string().contains("cannot be made"));
}
