use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::check::Outcome::{self, Failed, Good, Warning};
use crate::check::probe::Answer;

const NOW: &str = "2026-11-20T00:00:00Z";

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// An installation with nothing wrong, and nothing declared.
pub(in crate::check) fn healthy() -> Facts {
    let established = |definition: CustomResourceDefinition| {
        let mut value = serde_json::to_value(definition).unwrap();
        let condition = json!({"type": "Established", "status": "True"});
        value["status"] = json!({"conditions": [condition]});
        object::<CustomResourceDefinition>(value)
    };
    let client = json!({"caBundle": "AA==", "service": {"name": "s", "namespace": "n"}});
    let webhook = json!([{
        "name": "w", "clientConfig": client, "sideEffects": "None", "admissionReviewVersions": ["v1"],
    }]);
    Facts {
        version: (1, 33),
        definitions: Ok(definitions().into_iter().map(established).collect()),
        operator: Ok(Some(deployment(2))),
        operator_pods: Ok(vec![]),
        webhook: Ok(Some(deployment(2))),
        mutating: Ok(Some(object(json!({"metadata": {}, "webhooks": webhook})))),
        validating: Ok(Some(object(json!({"metadata": {}, "webhooks": webhook})))),
        injection: Some(Answer::Right),
        validation: Answer::Right,
        lease: Ok(Some(lease("2026-11-19T23:59:50Z"))),
        leaders: Ok(vec![object(json!({"metadata": {"name": "operator-0"}}))]),
        namespaces: Ok(vec![object(json!({
            "metadata": {"name": "demo", "labels": {"sealane.dev/injection": "enabled"}},
        }))]),
        pods: Ok(vec![]),
        usage: vec![],
        nodes: Ok(vec![]),
        peers: Ok(vec![]),
        sessions: Ok(vec![]),
        policies: Ok(vec![]),
        strange: vec![],
        failures: vec![],
    }
}

fn deployment(ready: i32) -> Deployment {
    object(json!({
        "metadata": {}, "status": {"readyReplicas": ready},
        "spec": {"replicas": 2, "selector": {}, "template": {}},
    }))
}

fn lease(renewed: &str) -> Lease {
    let renewed = renewed.replace('Z', ".000000Z");
    object(json!({
        "metadata": {},
        "spec": {"holderIdentity": "operator-0", "leaseDurationSeconds": 15, "renewTime": renewed},
    }))
}

fn outcome(facts: &Facts, what: &str) -> Outcome {
    let lines = judge(facts, "sealane-system", NOW.parse().unwrap());
    let line = lines.iter().find(|line| line.what == what).unwrap();
    assert_eq!(line.remedy.is_none(), line.outcome == Good, "every failed line says what to do: {line:?}");
    line.outcome
}

#[test]
fn a_healthy_installation_has_no_failed_line() {
    let lines = judge(&healthy(), "sealane-system", NOW.parse().unwrap());
    assert!(lines.iter().all(|line| line.outcome != Failed), "{lines:?}");
}

#[test]
fn each_fault_has_its_line() {
    let spoiled = |spoil: fn(&mut Facts), what| {
        let mut facts = healthy();
        assert_ne!(outcome(&facts, what), Failed, "{what}");
        spoil(&mut facts);
        outcome(&facts, what)
    };
    assert_eq!(spoiled(|facts| facts.version = (1, 32), "API server"), Failed);
    assert_eq!(spoiled(|facts| facts.definitions = Ok(vec![]), "custom resources"), Failed);
    assert_eq!(spoiled(|facts| facts.definitions = Ok(definitions()), "custom resources"), Failed);
    assert_eq!(spoiled(|facts| facts.operator = Ok(None), "operator"), Failed);
    assert_eq!(spoiled(|facts| facts.operator = Ok(Some(deployment(0))), "operator"), Failed);
    assert_eq!(spoiled(|facts| facts.operator = Ok(Some(deployment(1))), "operator"), Warning);
    assert_eq!(spoiled(|facts| facts.operator = Err("forbidden".into()), "operator"), Failed);
    assert_eq!(spoiled(|facts| facts.webhook = Ok(Some(deployment(0))), "webhook"), Failed);
    assert_eq!(spoiled(|facts| facts.webhook = Ok(Some(deployment(1))), "webhook"), Warning);
    assert_eq!(spoiled(|facts| facts.webhook = Err("forbidden".into()), "webhook"), Failed);
    assert_eq!(spoiled(|facts| facts.mutating = Ok(None), "injection webhook"), Failed);
    assert_eq!(spoiled(|facts| facts.validating = Ok(None), "validation webhook"), Failed);
    assert_eq!(spoiled(without_bundle, "injection webhook"), Failed);
    let unreached = |facts: &mut Facts| facts.injection = Some(Answer::NotReached("x509".to_owned()));
    assert_eq!(spoiled(unreached, "injection webhook"), Failed);
    let bypassed = |facts: &mut Facts| facts.validation = Answer::Bypassed("it was admitted".to_owned());
    assert_eq!(spoiled(bypassed, "validation webhook"), Failed);
    assert_eq!(spoiled(|facts| facts.nodes = Err("forbidden".into()), "nodes"), Failed);
    assert_eq!(spoiled(|facts| facts.lease = Ok(None), "leader"), Failed);
    assert_eq!(spoiled(|facts| facts.lease = Ok(Some(lease("2026-11-19T23:00:00Z"))), "leader"), Failed);
    assert_eq!(spoiled(|facts| facts.leaders = Ok(vec![]), "leader"), Failed);
    assert_eq!(spoiled(|facts| facts.namespaces = Ok(vec![]), "namespaces"), Warning);
    assert_eq!(spoiled(|facts| facts.pods = Err("forbidden".into()), "sidecars"), Failed);
    assert_eq!(spoiled(|facts| facts.policies = Err("forbidden".into()), "policies"), Failed);
}

/// As somebody sees it whose rights end at a namespace.
#[test]
fn what_may_not_be_seen_is_skipped_with_the_right_that_is_missing() {
    let forbidden = |resource: &str| {
        format!(
            "{resource} is forbidden: User \"dev\" cannot list resource \"{resource}\" in API group \"\" at the cluster scope"
        )
    };
    let mut facts = healthy();
    facts.definitions = Err(forbidden("customresourcedefinitions"));
    facts.operator = Err(forbidden("deployments"));
    facts.mutating = Err(forbidden("mutatingwebhookconfigurations"));
    facts.validation = Answer::Untried(forbidden("peers"));
    facts.lease = Err(forbidden("leases"));
    facts.namespaces = Err(forbidden("namespaces"));
    facts.nodes = Err(forbidden("nodes"));
    let lines = judge(&facts, "sealane-system", NOW.parse().unwrap());
    let skipped = |what: &str| {
        let line = lines.iter().find(|line| line.what == what).unwrap();
        line.outcome == Outcome::Skipped && line.detail.contains("the right to list resource")
    };
    for what in [
        "custom resources",
        "operator",
        "injection webhook",
        "validation webhook",
        "leader",
        "namespaces",
        "nodes",
    ] {
        assert!(skipped(what), "{what}: {lines:?}");
    }
    assert!(lines.iter().all(|line| line.outcome != Failed), "{lines:?}");
}

fn without_bundle(facts: &mut Facts) {
    let Ok(Some(configuration)) = &mut facts.mutating else { return };
    for webhook in configuration.webhooks.iter_mut().flatten() {
        webhook.client_config.ca_bundle = None;
    }
}

#[test]
fn an_older_release_has_no_webhook_of_its_own() {
    let mut facts = healthy();
    facts.webhook = Ok(None);
    let lines = judge(&facts, "sealane-system", NOW.parse().unwrap());
    assert!(lines.iter().all(|line| line.what != "webhook" && line.outcome != Failed), "{lines:?}");
    // One whose operator serves none by itself lacks it.
    let pod = |role: &str| json!({"containers": [{"name": "operator", "env": [{"name": "SEALANE_ROLE", "value": role}]}]});
    let with = |role: &str| {
        let mut deployment = deployment(2);
        deployment.spec.template.spec = Some(object(pod(role)));
        deployment
    };
    facts.operator = Ok(Some(with("Operator")));
    assert_eq!(outcome(&facts, "webhook"), Failed);
    facts.operator = Ok(Some(with("All")));
    let lines = judge(&facts, "sealane-system", NOW.parse().unwrap());
    assert!(lines.iter().all(|line| line.what != "webhook"), "{lines:?}");
}

#[test]
fn one_replica_is_a_warning_and_what_the_operator_waits_for_is_told() {
    let mut alone = deployment(1);
    alone.spec.replicas = Some(1);
    assert_eq!(operator(Some(&alone), &[], "sealane-system").outcome, Warning);
    let pod = json!({"metadata": {"name": "o"}, "status": {"containerStatuses": [{
        "name": "operator", "image": "i", "imageID": "", "ready": false, "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    }]}});
    let line = operator(Some(&deployment(0)), &[object(pod)], "sealane-system");
    assert_eq!(line.detail, "0 of 2 replicas ready (CrashLoopBackOff)");
}
