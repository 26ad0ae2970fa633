//! Injection. Pure: a pod and its context in, a JSON patch out.

use json_patch::Patch;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use sealane_operator_api::well_known::{
    CONTROL_SERVICE, DOOR_DIRECTORY, DOOR_SOCKET, GRPC_SOCKET, INITDATA_ANNOTATION, INJECTED_LABEL,
    TARGETS_DIRECTORY,
};
use sealane_types::PeerName;
use serde_json::json;

use crate::context::InjectionContext;
use crate::patch::Additions;
use crate::pod_shape::InjectError;
use crate::pod_shape::{
    ADMIN_PORT_ANNOTATION, DOOR_VOLUME, TARGETS_VOLUME, check, containers, has_cluster_dns, has_sidecar,
    on_host_network,
};
use crate::sidecar;
use crate::sizing::Sizing;

/// What becomes of a pod.
#[derive(Debug, Default, PartialEq)]
pub struct Injected {
    /// Adds the sidecar; empty for a pod that has one.
    pub patch: Patch,
    /// What whoever makes the pod should know.
    pub warnings: Vec<String>,
}

/// Adds the sidecar to `pod`.
///
/// # Errors
/// [`InjectError`] when the pod and the sidecar cannot live together.
pub fn inject(pod: &Pod, context: &InjectionContext<'_>) -> Result<Injected, InjectError> {
    let spec = pod.spec.as_ref().ok_or(InjectError::NoSpec)?;
    if has_sidecar(spec) {
        return Ok(Injected::default());
    }
    check(spec)?;
    let sizing = Sizing::new(pod, spec, context.settings, context.bounds)?;
    let mut additions = Additions::default();
    metadata(&mut additions, pod, context);
    for (list, index, container) in containers(spec) {
        open_door(&mut additions, list, index, container, on_host_network(spec));
    }
    for volume in sidecar::volumes(spec, context) {
        additions.append(&["spec", "volumes"], spec.volumes.is_some(), volume);
    }
    pull_secrets(&mut additions, spec, &context.settings.pull_secrets);
    // Last, because it shifts the other init containers; first in the list, so that it starts before them.
    let container = sidecar::container(pod, spec, &sizing, context)?;
    additions.prepend(&["spec", "initContainers"], spec.init_containers.is_some(), container);
    let warnings = sizing.warnings.into_iter().chain(resolver_warning(spec, context));
    let warnings = warnings.chain(tag_warning(spec, context)).collect();
    Ok(Injected { patch: additions.finish(), warnings })
}

fn metadata(additions: &mut Additions, pod: &Pod, context: &InjectionContext<'_>) {
    let labelled = pod.metadata.labels.is_some();
    additions.insert(&["metadata", "labels"], labelled, INJECTED_LABEL, json!("true"));
    let annotations = pod.metadata.annotations.as_ref();
    let lacks = |key: &str| annotations.is_none_or(|annotations| !annotations.contains_key(key));
    let mut annotate = |key: &str, value: String| {
        additions.insert(&["metadata", "annotations"], annotations.is_some(), key, json!(value));
    };
    if context.settings.simulation.is_some() && lacks(INITDATA_ANNOTATION) {
        annotate(INITDATA_ANNOTATION, simulated_initdata(context.namespace, context.peer));
    }
    // Without a named port this is how the PodMonitor finds it.
    if pod.spec.as_ref().is_some_and(on_host_network) && lacks(ADMIN_PORT_ANNOTATION) {
        annotate(ADMIN_PORT_ANNOTATION, context.admin_port.to_string());
    }
}

/// Pods whose resolver does not know the cluster: their sidecars do without it, and their own programs may not.
fn resolver_warning(spec: &PodSpec, context: &InjectionContext<'_>) -> Option<String> {
    if has_cluster_dns(spec) {
        return None;
    }
    let policy = spec.dns_policy.as_deref().unwrap_or("ClusterFirst");
    let place = if on_host_network(spec) { " on the host's network" } else { "" };
    let remedy = if on_host_network(spec) { "ClusterFirstWithHostNet" } else { "ClusterFirst" };
    let so = match context.control_ip {
        Some(ip) => {
            format!("its sidecar reaches the operator by the address {ip} of Service {CONTROL_SERVICE}")
        }
        None => format!(
            "and its sidecar will not find the operator, because the address of Service {CONTROL_SERVICE} is not known"
        ),
    };
    Some(format!(
        "spec.dnsPolicy {policy}{place} does not resolve names of the cluster: {so}; set dnsPolicy: {remedy} if names of Services are to mean something in this pod"
    ))
}

/// Images that the node agent will not state: it knows what a digest names, and not what a tag will.
fn tag_warning(spec: &PodSpec, context: &InjectionContext<'_>) -> Option<String> {
    let by_tag = |container: &Container| {
        let image = container.image.as_deref().unwrap_or_default();
        (!image.contains("@sha256:")).then(|| format!("`{}` ({image})", container.name))
    };
    let tagged: Vec<_> = containers(spec).filter_map(|(_, _, container)| by_tag(container)).collect();
    (context.node_agent && !tagged.is_empty()).then(|| {
        format!(
            "the node agent gives no evidence for a pod with images by tag: container {}; give them by digest",
            tagged.join(", ")
        )
    })
}

/// What the simulated platform measures as initdata. `kubectl sealane policy init --simulated` pins the SHA-256
/// of the same text.
#[must_use]
pub fn simulated_initdata(namespace: &str, peer: Option<&PeerName>) -> String {
    let peer = peer.map(PeerName::as_str).unwrap_or_default();
    format!("sealane simulated initdata\nnamespace: {namespace}\npeer: {peer}\n")
}

/// Where an application finds the sidecar's sockets.
const SOCKETS: [(&str, &str); 2] = [("SEALANE_DOOR", DOOR_SOCKET), ("SEALANE_GRPC", GRPC_SOCKET)];

/// Gives an application container the doors: read-only suffices to connect to a socket. Where a server listens on one,
/// it has to make it, in a volume in which nothing of the sidecar's lies.
fn open_door(additions: &mut Additions, list: &str, index: usize, container: &Container, host_network: bool) {
    let index = index.to_string();
    let door = json!({"name": DOOR_VOLUME, "mountPath": DOOR_DIRECTORY, "readOnly": true});
    let targets = host_network.then(|| json!({"name": TARGETS_VOLUME, "mountPath": TARGETS_DIRECTORY}));
    for mount in [Some(door), targets].into_iter().flatten() {
        additions.append(&["spec", list, &index, "volumeMounts"], container.volume_mounts.is_some(), mount);
    }
    let named = |name: &str| container.env.iter().flatten().any(|variable| variable.name == name);
    for (name, socket) in SOCKETS.iter().filter(|(name, _)| !named(name)) {
        let variable = json!({"name": name, "value": socket});
        additions.append(&["spec", list, &index, "env"], container.env.is_some(), variable);
    }
}

fn pull_secrets(additions: &mut Additions, spec: &PodSpec, names: &[String]) {
    let present = spec.image_pull_secrets.as_deref();
    for name in names {
        if !present.unwrap_or_default().iter().any(|secret| secret.name == *name) {
            additions.append(&["spec", "imagePullSecrets"], present.is_some(), json!({"name": name}));
        }
    }
}

#[cfg(test)]
mod tests;
