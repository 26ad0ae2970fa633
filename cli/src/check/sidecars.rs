//! What became of the sidecar containers, and of the nodes that they run on.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Node, Pod};
use kube::core::DynamicObject;
use sealane_operator_api::{ByteQuantity, well_known};
use sealane_policy::Timestamp;

use super::Line;
use super::gather::Facts;
use super::judge::unreadable;
use super::names::{full_name, some};
use super::workloads::{has_sidecar, runs};

/// A container that ended longer ago is no news.
const RECENT_SECONDS: i64 = 60 * 60;
/// From this share of its limit on, a sidecar is about to be killed by the kernel.
const MEMORY_PERCENT_MAX: u64 = 90;

pub(super) fn judge(facts: &Facts, now: Timestamp) -> Vec<Line> {
    // Pods that cannot be read have their line already.
    let Ok(pods) = &facts.pods else { return Vec::new() };
    let with_sidecar: Vec<&Pod> = pods.iter().filter(|pod| runs(pod) && has_sidecar(pod)).collect();
    let mut lines = containers(&with_sidecar, now);
    lines.extend(memory(&with_sidecar, &facts.usage));
    lines.push(match &facts.nodes {
        Ok(nodes) => nodes_line(&with_sidecar, nodes),
        Err(error) => unreadable("nodes", error),
    });
    lines
}

/// One way in which a sidecar container is not well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ailment {
    NoImage,
    CannotStart,
    OutOfMemory,
    Crashing,
    Restarted,
    NotStarted,
}

impl Ailment {
    const fn says(self) -> &'static str {
        match self {
            Self::NoImage => "the sidecar's image cannot be pulled",
            Self::CannotStart => "the sidecar's container cannot be made",
            Self::OutOfMemory => "killed because it reached its memory limit",
            Self::Crashing => "crashes again and again",
            Self::Restarted => "restarted within the last hour",
            Self::NotStarted => "runs and has not become ready to start the application",
        }
    }

    fn remedy(self, pod: &str) -> String {
        let (namespace, name) = pod.split_once('/').unwrap_or(("NAMESPACE", pod));
        match self {
            Self::NoImage | Self::CannotStart => format!(
                "kubectl -n {namespace} describe pod {name}; the chart's sidecar.image, image.registry and image.pullSecrets name the image"
            ),
            Self::OutOfMemory => format!(
                "raise the limit with the pod annotation {}, with which its arenas grow, or with the chart's sidecar.resources; or lower the chart's sidecar.arenaBytes",
                well_known::MEMORY_LIMIT_ANNOTATION
            ),
            Self::Crashing | Self::Restarted => format!(
                "kubectl -n {namespace} logs {name} -c {} --previous says why; applications connect again by themselves",
                well_known::SIDECAR_CONTAINER
            ),
            Self::NotStarted => {
                format!("kubectl -n {namespace} logs {name} -c {}", well_known::SIDECAR_CONTAINER)
            }
        }
    }
}

fn containers(pods: &[&Pod], now: Timestamp) -> Vec<Line> {
    let mut ailing: BTreeMap<Ailment, Vec<String>> = BTreeMap::new();
    for pod in pods {
        if let Some(ailment) = status(pod).and_then(|status| ailment(status, now)) {
            ailing.entry(ailment).or_default().push(full_name(pod));
        }
    }
    if ailing.is_empty() {
        return vec![Line::good("sidecar containers", format!("{} run", pods.len()))];
    }
    let line = |(ailment, pods): (Ailment, Vec<String>)| {
        let detail = format!("{}: {}", ailment.says(), some(&pods));
        let remedy = ailment.remedy(pods.first().map_or("", String::as_str));
        match ailment {
            Ailment::Restarted | Ailment::NotStarted => Line::warning("sidecar containers", detail, remedy),
            _ => Line::failed("sidecar containers", detail, remedy),
        }
    };
    ailing.into_iter().map(line).collect()
}

fn status(pod: &Pod) -> Option<&ContainerStatus> {
    let statuses = pod.status.as_ref()?.init_container_statuses.as_ref()?;
    statuses.iter().find(|status| status.name == well_known::SIDECAR_CONTAINER)
}

fn ailment(status: &ContainerStatus, now: Timestamp) -> Option<Ailment> {
    let state = status.state.as_ref();
    let waiting =
        state.and_then(|state| state.waiting.as_ref()).and_then(|waiting| waiting.reason.as_deref());
    let ended = state.and_then(|state| state.terminated.as_ref());
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let ended = ended.or(last).filter(|ended| is_recent(ended, now));
    let killed = ended.is_some_and(|ended| ended.reason.as_deref() == Some("OOMKilled"));
    match waiting {
        Some("ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull") => {
            return Some(Ailment::NoImage);
        }
        Some("CreateContainerConfigError" | "CreateContainerError" | "RunContainerError") => {
            return Some(Ailment::CannotStart);
        }
        _ if killed => return Some(Ailment::OutOfMemory),
        Some("CrashLoopBackOff") => return Some(Ailment::Crashing),
        _ => {}
    }
    if ended.is_some() {
        return Some(Ailment::Restarted);
    }
    let running = state.and_then(|state| state.running.as_ref()).is_some();
    (running && status.started == Some(false)).then_some(Ailment::NotStarted)
}

/// A time that is not told counts as now.
fn is_recent(ended: &ContainerStateTerminated, now: Timestamp) -> bool {
    let now = i64::try_from(now.unix().0).unwrap_or(i64::MAX);
    ended.finished_at.as_ref().is_none_or(|at| at.0.as_second().saturating_add(RECENT_SECONDS) >= now)
}

/// Sidecars that are about to be killed for the memory that they use, where that can be seen.
fn memory(pods: &[&Pod], usage: &[DynamicObject]) -> Option<Line> {
    let full: Vec<String> = pods
        .iter()
        .filter_map(|pod| {
            let limit = limit(pod).filter(|limit| *limit > 0)?;
            let percent = used(pod, usage)?.saturating_mul(100) / limit;
            (percent >= MEMORY_PERCENT_MAX).then(|| format!("{} ({percent} %)", full_name(pod)))
        })
        .collect();
    (!full.is_empty()).then(|| {
        Line::warning(
            "sidecar memory",
            format!("close to the limit: {}", some(&full)),
            Ailment::OutOfMemory.remedy(""),
        )
    })
}

fn limit(pod: &Pod) -> Option<u64> {
    let containers = pod.spec.as_ref()?.init_containers.as_ref()?;
    let sidecar = containers.iter().find(|container| container.name == well_known::SIDECAR_CONTAINER)?;
    bytes(&sidecar.resources.as_ref()?.limits.as_ref()?.get("memory")?.0)
}

fn used(pod: &Pod, usage: &[DynamicObject]) -> Option<u64> {
    let same = |measured: &&DynamicObject| {
        measured.metadata.name == pod.metadata.name && measured.metadata.namespace == pod.metadata.namespace
    };
    let containers = usage.iter().find(same)?.data.get("containers")?.as_array()?;
    let sidecar = containers.iter().find(|container| container["name"] == well_known::SIDECAR_CONTAINER)?;
    bytes(sidecar["usage"]["memory"].as_str()?)
}

fn bytes(quantity: &str) -> Option<u64> {
    ByteQuantity::Text(quantity.to_owned()).bytes().ok()
}

/// Nodes that do not answer, with replicas on them.
fn nodes_line(pods: &[&Pod], nodes: &[Node]) -> Line {
    let what = "nodes";
    let lost: BTreeSet<&str> = nodes
        .iter()
        .filter(|node| !is_ready(node))
        .filter_map(|node| node.metadata.name.as_deref())
        .collect();
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let stranded: Vec<String> = pods
        .iter()
        .filter_map(|pod| Some((pod, node(pod).filter(|node| lost.contains(node.as_str()))?)))
        .map(|(pod, node)| format!("{} on {node}", full_name(pod)))
        .collect();
    if stranded.is_empty() {
        return Line::good(what, "every node with a replica is ready");
    }
    Line::failed(
        what,
        format!("not ready under replicas: {}", some(&stranded)),
        "kubectl describe node NODE; when it is gone for good, delete the node, and its pods are made again elsewhere",
    )
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests;
