//! From facts to lines. Pure: the moment is given.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use sealane_operator_api::definitions;
use sealane_policy::Timestamp;

use super::gather::{Fact, Facts};
use super::{Line, policies, workloads};

/// Native sidecars are stable from here on.
const KUBERNETES_MIN: (u32, u32) = (1, 33);
const INSTALL: &str = "install or upgrade the chart: make install, or helm upgrade --install sealane charts/sealane -n sealane-system --create-namespace";

pub(super) fn judge(facts: &Facts, release: &str, now: Timestamp) -> Vec<Line> {
    let mut lines = vec![version(facts.version)];
    lines.push(read("custom resources", &facts.definitions, |found| self::definitions_line(found)));
    lines.push(read("operator", &facts.operator, |found| operator(found.as_ref(), release)));
    let mutating = facts.mutating.as_ref().map(|found| {
        found.as_ref().map(|found| {
            let webhooks = found.webhooks.iter().flatten();
            webhooks.map(|webhook| webhook.client_config.ca_bundle.is_some()).collect()
        })
    });
    lines.push(webhook("injection webhook", "sealane-inject", mutating, release));
    let validating = facts.validating.as_ref().map(|found| {
        found.as_ref().map(|found| {
            let webhooks = found.webhooks.iter().flatten();
            webhooks.map(|webhook| webhook.client_config.ca_bundle.is_some()).collect()
        })
    });
    lines.push(webhook("validation webhook", "sealane-validate", validating, release));
    lines.push(leader(&facts.lease, &facts.leaders, release, now));
    lines.extend(workloads::judge(facts));
    lines.extend(policies::judge(&facts.policies, now));
    lines
}

/// The line for a fact, or one that says that it could not be read.
pub(super) fn read<T>(what: &str, fact: &Fact<T>, line: impl FnOnce(&T) -> Line) -> Line {
    match fact {
        Ok(found) => line(found),
        Err(error) => unreadable(what, error),
    }
}

pub(super) fn unreadable(what: &str, error: &str) -> Line {
    Line::failed(what, format!("cannot be read: {error}"), "use a kubeconfig whose user may read it")
}

fn version(found: (u32, u32)) -> Line {
    let shown = format!("Kubernetes {}.{}", found.0, found.1);
    if found >= KUBERNETES_MIN {
        return Line::good("API server", shown);
    }
    let (major, minor) = KUBERNETES_MIN;
    Line::failed("API server", shown, format!("native sidecars need Kubernetes {major}.{minor} or later"))
}

fn definitions_line(found: &[CustomResourceDefinition]) -> Line {
    let what = "custom resources";
    let wanted: Vec<String> =
        definitions().into_iter().filter_map(|definition| definition.metadata.name).collect();
    let established = |name: &String| {
        found.iter().any(|definition| {
            let status = definition.status.as_ref();
            let conditions = status.and_then(|status| status.conditions.as_ref());
            definition.metadata.name.as_ref() == Some(name)
                && conditions.is_some_and(|conditions| {
                    conditions
                        .iter()
                        .any(|condition| condition.type_ == "Established" && condition.status == "True")
                })
        })
    };
    let missing: Vec<&str> = wanted.iter().filter(|name| !established(name)).map(String::as_str).collect();
    if missing.is_empty() {
        return Line::good(what, format!("{} are established", wanted.len()));
    }
    Line::failed(what, format!("not established: {}", missing.join(", ")), INSTALL)
}

fn operator(found: Option<&Deployment>, release: &str) -> Line {
    let what = "operator";
    let Some(deployment) = found else {
        return Line::failed(
            what,
            format!("there is no Deployment sealane-operator in namespace {release}"),
            format!("{INSTALL}; if the release is elsewhere, name it with --release-namespace"),
        );
    };
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    let detail = format!("{ready} of {wanted} replicas ready");
    if ready == 0 {
        let remedy = format!(
            "kubectl -n {release} describe deployment sealane-operator; kubectl -n {release} logs deployment/sealane-operator"
        );
        return Line::failed(what, detail, remedy);
    }
    if ready < wanted {
        let remedy = format!("kubectl -n {release} get pods -l app.kubernetes.io/name=sealane");
        return Line::warning(what, detail, remedy);
    }
    Line::good(what, detail)
}

/// `bundles` says for each webhook of the configuration whether its caBundle is set.
fn webhook(what: &str, name: &str, bundles: Result<Option<Vec<bool>>, &String>, release: &str) -> Line {
    match bundles {
        Err(error) => unreadable(what, error),
        Ok(None) => Line::failed(what, format!("there is no configuration {name}"), INSTALL),
        Ok(Some(bundles)) if bundles.is_empty() || bundles.contains(&false) => Line::failed(
            what,
            format!("{name} has no caBundle, so the API server refuses what it should check"),
            format!("the operator's leader writes it: kubectl -n {release} logs deployment/sealane-operator"),
        ),
        Ok(Some(_)) => Line::good(what, format!("{name} is configured")),
    }
}

fn leader(lease: &Fact<Option<Lease>>, pods: &Fact<Vec<Pod>>, release: &str, now: Timestamp) -> Line {
    let what = "leader";
    let remedy =
        format!("only the leader serves sidecars: kubectl -n {release} logs deployment/sealane-operator");
    let (lease, pods) = match (lease, pods) {
        (Ok(lease), Ok(pods)) => (lease, pods),
        (Err(error), _) | (_, Err(error)) => return unreadable(what, error),
    };
    let Some(spec) = lease.as_ref().and_then(|lease| lease.spec.as_ref()) else {
        return Line::failed(what, "no operator has ever led", remedy);
    };
    let holder = spec.holder_identity.clone().unwrap_or_default();
    let renewed = spec.renew_time.as_ref().map_or(0, |time| time.0.as_second());
    let duration = i64::from(spec.lease_duration_seconds.unwrap_or(0));
    let now = i64::try_from(now.unix().0).unwrap_or(i64::MAX);
    if holder.is_empty() || renewed.saturating_add(duration) < now {
        return Line::failed(what, "the Lease sealane-operator is not held", remedy);
    }
    match pods.len() {
        1 => Line::good(what, holder),
        0 => Line::failed(
            what,
            format!(
                "{holder} holds the Lease, but no pod is labelled sealane.dev/leader=true, so Service sealane-control has no endpoint"
            ),
            remedy,
        ),
        count => Line::warning(
            what,
            format!("{count} pods are labelled sealane.dev/leader=true"),
            "wait: a former leader loses the label when it notices",
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::check::Outcome::{self, Failed, Good, Warning};

    const NOW: &str = "2026-11-20T00:00:00Z";

    fn object<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// An installation with nothing wrong, and nothing declared.
    fn healthy() -> Facts {
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
            operator: Ok(Some(deployment(1))),
            mutating: Ok(Some(object(json!({"metadata": {}, "webhooks": webhook})))),
            validating: Ok(Some(object(json!({"metadata": {}, "webhooks": webhook})))),
            lease: Ok(Some(lease("2026-11-19T23:59:50Z"))),
            leaders: Ok(vec![object(json!({"metadata": {"name": "operator-0"}}))]),
            namespaces: Ok(vec![object(json!({
                "metadata": {"name": "demo", "labels": {"sealane.dev/injection": "enabled"}},
            }))]),
            pods: Ok(vec![]),
            peers: Ok(vec![]),
            policies: Ok(vec![]),
        }
    }

    fn deployment(ready: i32) -> Deployment {
        object(json!({
            "metadata": {}, "status": {"readyReplicas": ready},
            "spec": {"replicas": 1, "selector": {}, "template": {}},
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
        assert_eq!(
            line.remedy.is_none(),
            line.outcome == Good,
            "every failed line says what to do: {line:?}"
        );
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
        assert_eq!(spoiled(|facts| facts.operator = Err("forbidden".into()), "operator"), Failed);
        assert_eq!(spoiled(|facts| facts.mutating = Ok(None), "injection webhook"), Failed);
        assert_eq!(spoiled(|facts| facts.validating = Ok(None), "validation webhook"), Failed);
        assert_eq!(spoiled(without_bundle, "injection webhook"), Failed);
        assert_eq!(spoiled(|facts| facts.lease = Ok(None), "leader"), Failed);
        assert_eq!(spoiled(|facts| facts.lease = Ok(Some(lease("2026-11-19T23:00:00Z"))), "leader"), Failed);
        assert_eq!(spoiled(|facts| facts.leaders = Ok(vec![]), "leader"), Failed);
        assert_eq!(spoiled(|facts| facts.namespaces = Ok(vec![]), "namespaces"), Warning);
        assert_eq!(spoiled(|facts| facts.pods = Err("forbidden".into()), "sidecars"), Failed);
        assert_eq!(spoiled(|facts| facts.policies = Err("forbidden".into()), "policies"), Failed);
    }

    fn without_bundle(facts: &mut Facts) {
        let Ok(Some(configuration)) = &mut facts.mutating else { return };
        for webhook in configuration.webhooks.iter_mut().flatten() {
            webhook.client_config.ca_bundle = None;
        }
    }
}
