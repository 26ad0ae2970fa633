//! What injection needs to know about a pod, and what it cannot inject into.

use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use sealane_operator_api::well_known::{DOOR_DIRECTORY, SIDECAR_CONTAINER, SIMULATED_FORM_ANNOTATION};
use sealane_types::SimulatedForm;

use crate::bounds::amount;

/// Volumes that injection adds.
pub(crate) const DOOR_VOLUME: &str = "sealane-door";
pub(crate) const TOKEN_VOLUME: &str = "sealane-token";
pub(crate) const INITDATA_VOLUME: &str = "sealane-initdata";
pub(crate) const TARGETS_VOLUME: &str = "sealane-target";
pub(crate) const KEY_VOLUME: &str = "sealane-key";
pub(crate) const AGENT_VOLUME: &str = "sealane-agent";
pub(crate) const COLLATERAL_VOLUME: &str = "sealane-collateral";
pub(crate) const STATE_VOLUME: &str = "sealane-state";
/// Annotation with the port of a sidecar's metrics on the host's network.
pub(crate) const ADMIN_PORT_ANNOTATION: &str = "sealane.dev/admin-port";
const VOLUMES: [&str; 8] = [
    DOOR_VOLUME,
    TOKEN_VOLUME,
    INITDATA_VOLUME,
    TARGETS_VOLUME,
    KEY_VOLUME,
    AGENT_VOLUME,
    COLLATERAL_VOLUME,
    STATE_VOLUME,
];

/// Kubernetes' label of a node's operating system.
const OS_LABEL: &str = "kubernetes.io/os";
/// Kubernetes' default of `terminationGracePeriodSeconds`.
const GRACE_SECONDS: u64 = 30;
/// Left for the kubelet between the sidecar's drain deadline and the kill.
const GRACE_MARGIN_SECONDS: u64 = 5;

/// Why the sidecar cannot be added to a pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InjectError {
    #[error("the pod has no spec")]
    NoSpec,
    #[error("volume `{0}` is reserved for the Sealane sidecar: rename the pod's volume")]
    ReservedVolume(String),
    #[error(
        "container `{0}` mounts something of its own in {DOOR_DIRECTORY}, where the Sealane door belongs: mount it elsewhere"
    )]
    ReservedMount(String),
    #[error(
        "container `{container}` mounts volume `{volume}`, which is for the Sealane sidecar alone: leave it out"
    )]
    SidecarVolume { container: String, volume: String },
    #[error("annotation {annotation}: `{value}` is not a Kubernetes quantity such as `250m` or `512Mi`")]
    Quantity { annotation: &'static str, value: String },
    #[error(
        "annotation {annotation}: {value} is above the {most} that {bound} leaves for the Sealane sidecar; lower the annotation, or raise that"
    )]
    TooMuch { annotation: &'static str, value: String, most: String, bound: String },
    #[error(
        "annotation {annotation}: {value} is below the {least} that {bound} asks for; raise the annotation"
    )]
    TooLittle { annotation: &'static str, value: String, least: String, bound: String },
    #[error(
        "{bound} leaves the Sealane sidecar {most} of {resource}, and it needs {least}; raise that, or give the pod's other containers less"
    )]
    NoRoom { resource: &'static str, bound: String, most: String, least: &'static str },
    #[error(
        "ResourceQuota `{quota}` has {left} of {key} left beside the pod's other containers, and the Sealane sidecar asks for {asked}; lower it by {setting}, raise the quota, or end other pods"
    )]
    QuotaUsed { quota: String, key: String, left: String, asked: String, setting: String },
    #[error("annotation {ADMIN_PORT_ANNOTATION}: `{0}` is not a port from 1024 to 65535")]
    AdminPort(String),
    #[error("annotation {SIMULATED_FORM_ANNOTATION}: `{0}` is not SevSnp, Tdx or Nitro")]
    Form(String),
    #[error(
        "this installation has no simulated platform in the form of {0}; `sealane-sidecar-sim root` adds it to the Secret"
    )]
    FormMissing(SimulatedForm),
    #[error(
        "the Sealane sidecar runs on Linux only: label the pod sealane.dev/inject: \"false\", or leave it out of the Peer's selector"
    )]
    Windows,
}

/// All containers of a pod with the path of each, in the order in which the pod lists them.
pub(crate) fn containers(spec: &PodSpec) -> impl Iterator<Item = (&'static str, usize, &Container)> {
    let named = |list, containers| {
        let containers: &[Container] = containers;
        containers.iter().enumerate().map(move |(index, container)| (list, index, container))
    };
    named("initContainers", spec.init_containers.as_deref().unwrap_or_default())
        .chain(named("containers", &spec.containers))
}

/// Whether the pod was injected before, or carries a sidecar of its own.
#[must_use]
pub fn has_sidecar(spec: &PodSpec) -> bool {
    containers(spec).any(|(_, _, container)| container.name == SIDECAR_CONTAINER)
}

/// Refuses what injection would make invalid.
pub(crate) fn check(spec: &PodSpec) -> Result<(), InjectError> {
    let volumes = spec.volumes.iter().flatten();
    for volume in volumes {
        if VOLUMES.contains(&volume.name.as_str()) {
            return Err(InjectError::ReservedVolume(volume.name.clone()));
        }
    }
    for (_, _, container) in containers(spec) {
        for mount in container.volume_mounts.iter().flatten() {
            if Path::new(&mount.mount_path).starts_with(DOOR_DIRECTORY) {
                return Err(InjectError::ReservedMount(container.name.clone()));
            }
            // The pod has no such volume yet; once it has, this container would see its token or key.
            if VOLUMES.contains(&mount.name.as_str()) {
                let (container, volume) = (container.name.clone(), mount.name.clone());
                return Err(InjectError::SidecarVolume { container, volume });
            }
        }
    }
    let bound = spec.node_selector.as_ref().and_then(|labels| labels.get(OS_LABEL));
    let stated = spec.os.as_ref().map(|os| os.name.as_str()).or(bound.map(String::as_str));
    if stated == Some("windows") {
        return Err(InjectError::Windows);
    }
    Ok(())
}

/// Whether 127.0.0.1 is the node's for this pod.
#[must_use]
pub fn on_host_network(spec: &PodSpec) -> bool {
    spec.host_network == Some(true)
}

/// Whether names of the cluster's Services mean something to the pod. On the host's network `ClusterFirst`, the default, is
/// what `Default` is: the node's own resolver.
#[must_use]
pub fn has_cluster_dns(spec: &PodSpec) -> bool {
    match spec.dns_policy.as_deref() {
        Some("ClusterFirstWithHostNet") => true,
        None | Some("ClusterFirst") => !on_host_network(spec),
        // `None` names servers of its own, which may or may not know the cluster.
        Some(_) => false,
    }
}

/// Whether its containers make the pod one of the QoS class Guaranteed: cpu and memory limits everywhere, equal requests.
pub(crate) fn is_guaranteed(spec: &PodSpec) -> bool {
    containers(spec).all(|(_, _, container)| {
        let Some(resources) = &container.resources else { return false };
        ["cpu", "memory"].iter().all(|resource| {
            let limit = amount(resources.limits.as_ref(), resource).filter(|limit| !limit.is_zero());
            let request = amount(resources.requests.as_ref(), resource);
            // An absent request is defaulted to the limit.
            limit.is_some_and(|limit| request.is_none_or(|request| request == limit))
        })
    })
}

/// Where the sidecar of a pod on the host's network serves its metrics: where its author says, or at `default`.
pub(crate) fn admin_port(pod: &Pod, default: u16) -> Result<u16, InjectError> {
    let annotations = pod.metadata.annotations.as_ref();
    let Some(text) = annotations.and_then(|all| all.get(ADMIN_PORT_ANNOTATION)) else { return Ok(default) };
    let port = text.parse().ok().filter(|port| *port >= 1024);
    port.ok_or_else(|| InjectError::AdminPort(text.chars().take(64).collect()))
}

/// Which real platform the pod's simulated one resembles.
pub(crate) fn simulated_form(pod: &Pod) -> Result<SimulatedForm, InjectError> {
    let annotations = pod.metadata.annotations.as_ref();
    let Some(word) = annotations.and_then(|all| all.get(SIMULATED_FORM_ANNOTATION)) else {
        return Ok(SimulatedForm::default());
    };
    word.parse().map_err(|_| InjectError::Form(word.chars().take(64).collect()))
}

/// How long the sidecar may drain before the pod is killed.
pub(crate) fn drain_seconds(pod: &Pod) -> u64 {
    let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let grace = grace.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(GRACE_SECONDS);
    grace.saturating_sub(GRACE_MARGIN_SECONDS).max(1)
}
