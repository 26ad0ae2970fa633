//! From facts to lines. Pure: the moment is given.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use sealane_operator_api::definitions;
use sealane_policy::Timestamp;

use super::gather::{Fact, Facts};
use super::{Line, declared, policies, sidecars, webhooks, workloads};
use crate::cluster::missing_right;

/// Native sidecars are stable from here on.
const KUBERNETES_MIN: (u32, u32) = (1, 33);
/// Environment of the operator's processes.
const ROLE: &str = "SEALANE_ROLE";

pub(super) fn judge(facts: &Facts, release: &str, now: Timestamp) -> Vec<Line> {
    let mut lines = vec![version(facts.version)];
    lines.push(read("custom resources", &facts.definitions, |found| self::definitions_line(found, release)));
    let pods = facts.operator_pods.as_deref().unwrap_or_default();
    lines.push(read("operator", &facts.operator, |found| operator(found.as_ref(), pods, release)));
    match &facts.webhook {
        Ok(Some(found)) => lines.push(webhook(found, release)),
        Ok(None) => lines.extend(without_webhook(facts, release)),
        Err(error) => lines.push(unreadable("webhook", error)),
    }
    lines.extend(webhooks::judge(facts, release));
    lines.push(leader(&facts.lease, &facts.leaders, release, now));
    lines.extend(workloads::judge(facts));
    lines.extend(sidecars::judge(facts, now));
    lines.extend(policies::judge(&facts.policies, now));
    lines.extend(declared::judge(facts, now));
    lines
}

/// What brings the release into `namespace`, or makes it whole there.
pub(super) fn install(namespace: &str) -> String {
    format!(
        "install or upgrade the chart: helm upgrade --install sealane charts/sealane -n {namespace} --create-namespace"
    )
}

/// The line for a fact, or one that says that it could not be read.
pub(super) fn read<T>(what: &str, fact: &Fact<T>, line: impl FnOnce(&T) -> Line) -> Line {
    match fact {
        Ok(found) => line(found),
        Err(error) => unreadable(what, error),
    }
}

pub(super) fn unreadable(what: &str, error: &str) -> Line {
    if let Some(right) = missing_right(error) {
        return Line::skipped(what, right);
    }
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

fn definitions_line(found: &[CustomResourceDefinition], release: &str) -> Line {
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
    Line::failed(what, format!("not established: {}", missing.join(", ")), install(release))
}

fn operator(found: Option<&Deployment>, pods: &[Pod], release: &str) -> Line {
    let what = "operator";
    let Some(deployment) = found else {
        return Line::failed(
            what,
            format!("there is no Deployment sealane-operator in namespace {release}"),
            format!("{}; if the release is elsewhere, name it with --release-namespace", install(release)),
        );
    };
    let (wanted, ready) = replicas(deployment);
    let detail = format!("{ready} of {wanted} replicas ready{}", waiting(pods));
    let describe = format!("kubectl -n {release} describe pods -l app.kubernetes.io/component=operator");
    if ready == 0 {
        let remedy = format!(
            "sidecars keep what they were told, and hear nothing new until one runs: {describe}; kubectl -n {release} logs deployment/sealane-operator --previous"
        );
        return Line::failed(what, detail, remedy);
    }
    if ready < wanted {
        return Line::warning(what, detail, describe);
    }
    if wanted == 1 {
        let remedy =
            "while the only replica restarts, sidecars hear nothing new: install with operator.replicas=2";
        return Line::warning(what, detail, remedy);
    }
    Line::good(what, detail)
}

fn webhook(deployment: &Deployment, release: &str) -> Line {
    let what = "webhook";
    let (wanted, ready) = replicas(deployment);
    let detail = format!("{ready} of {wanted} replicas ready");
    let describe = format!("kubectl -n {release} describe pods -l app.kubernetes.io/component=webhook");
    if ready == 0 {
        let remedy = format!(
            "pods that opted in are refused until one runs: {describe}; kubectl -n {release} logs deployment/sealane-webhook --previous"
        );
        return Line::failed(what, detail, remedy);
    }
    if ready < wanted {
        return Line::warning(what, detail, describe);
    }
    if wanted == 1 {
        let remedy = "while the only replica restarts, pods that opted in are refused: install with webhook.replicas=2";
        return Line::warning(what, detail, remedy);
    }
    Line::good(what, detail)
}

/// A missing Deployment of the webhook. In older releases the operator serves admission itself, and has no role.
fn without_webhook(facts: &Facts, release: &str) -> Option<Line> {
    let operator = facts.operator.as_ref().ok()?.as_ref()?;
    let containers = &operator.spec.template.spec.as_ref()?.containers;
    let mut told = containers.iter().flat_map(|container| container.env.iter().flatten());
    let role = told.find(|variable| variable.name == ROLE)?.value.as_deref()?;
    (role == "Operator").then(|| {
        let detail = format!("there is no Deployment sealane-webhook in namespace {release}");
        Line::failed(
            "webhook",
            detail,
            format!("pods that opted in are refused without it; {}", install(release)),
        )
    })
}

/// Those that are wanted, and those that are ready.
fn replicas(deployment: &Deployment) -> (i32, i32) {
    let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    (deployment.spec.replicas.unwrap_or(1), ready)
}

/// What the operator's containers wait for, as Kubernetes puts it.
fn waiting(pods: &[Pod]) -> String {
    let statuses = pods.iter().filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref()).flatten();
    let mut reasons: Vec<&str> =
        statuses.filter_map(|status| status.state.as_ref()?.waiting.as_ref()?.reason.as_deref()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) }
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
pub(super) mod tests;
