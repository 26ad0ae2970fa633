//! What made a pod, and how it makes it again.

use std::fmt;

use anyhow::{Result, anyhow};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;
use kube::{Api, Client};
use sealane_operator_api::well_known::RESTARTED_ANNOTATION;
use serde_json::{Value, json};

use crate::cluster::{FIELD_MANAGER, explain, words};

/// Workloads that replace their pods when the template of these changes.
const ROLLING: [&str; 3] = ["Deployment", "StatefulSet", "DaemonSet"];

/// What a pod is made again by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    kind: String,
    name: String,
}

impl fmt::Display for Owner {
    /// `KIND/NAME`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.to_lowercase(), self.name)
    }
}

impl Owner {
    pub(super) fn new(kind: &str, name: &str) -> Self {
        Self { kind: kind.to_owned(), name: name.to_owned() }
    }

    /// The controller of an object, if it has one.
    fn controller(meta: &ObjectMeta) -> Option<Self> {
        let owners = meta.owner_references.iter().flatten();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true))?;
        Some(Self::new(&controller.kind, &controller.name))
    }

    /// What somebody has to do, where no rollout makes the pods again.
    pub(super) fn remedy(&self, namespace: &str) -> Option<String> {
        let Self { kind, name } = self;
        match kind.as_str() {
            kind if ROLLING.contains(&kind) => None,
            "Pod" => Some(format!(
                "nothing makes this pod again: keep its manifest, kubectl -n {namespace} delete pod {name}, and apply it anew"
            )),
            "Job" => Some(
                "the pods of a Job run to their end, and its next ones get the new sidecar; a Job that never ends has to be made again".to_owned(),
            ),
            "ReplicaSet" | "ReplicationController" => Some(format!(
                "it has no rollout: delete its pods one after the other, kubectl -n {namespace} delete pod POD"
            )),
            kind => Some(format!("restart it as {kind} wants it, or delete its pods one after the other")),
        }
    }
}

/// What makes the pod again: itself where nothing does. None of a pod that is gone.
pub(super) async fn of(client: &Client, namespace: &str, pod: &str) -> Result<Option<Owner>> {
    let found = Api::<Pod>::namespaced(client.clone(), namespace).get_metadata_opt(pod).await;
    let Some(found) = found.map_err(|error| explain(&error, "pods"))? else { return Ok(None) };
    let Some(owner) = Owner::controller(&found.metadata) else { return Ok(Some(Owner::new("Pod", pod))) };
    if owner.kind != "ReplicaSet" {
        return Ok(Some(owner));
    }
    let sets = workloads(client, namespace, "ReplicaSet");
    let set = sets.get_metadata_opt(&owner.name).await.map_err(|error| explain(&error, "ReplicaSets"))?;
    Ok(Some(set.and_then(|set| Owner::controller(&set.metadata)).unwrap_or(owner)))
}

fn workloads(client: &Client, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", kind));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// Asks for a rollout of `object`, once for each version.
pub(super) async fn restart(client: &Client, namespace: &str, object: &str, version: &str) -> Result<()> {
    let Some((kind, name)) = object.split_once('/').and_then(|(kind, name)| {
        Some((ROLLING.into_iter().find(|rolling| rolling.eq_ignore_ascii_case(kind))?, name))
    }) else {
        return Err(anyhow!("{object} has no rollout"));
    };
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patched =
        workloads(client, namespace, kind).patch(name, &parameters, &Patch::Merge(&patch(version))).await;
    patched.map(drop).map_err(|error| anyhow!("cannot restart {object}: {}", words(&error)))
}

fn patch(version: &str) -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {RESTARTED_ANNOTATION: version}}}}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_rolls_is_restarted() {
        for kind in ROLLING {
            assert_eq!(Owner::new(kind, "a").remedy("demo"), None);
        }
        for kind in ["Pod", "Job", "ReplicaSet", "PyTorchJob"] {
            assert!(Owner::new(kind, "a").remedy("demo").is_some(), "{kind}");
        }
    }

    #[test]
    fn the_controller_is_what_makes_a_pod_again() {
        let meta: ObjectMeta = serde_json::from_value(json!({"ownerReferences": [
            {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "1"},
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "embedder", "uid": "2", "controller": true},
        ]}))
        .unwrap();
        assert_eq!(Owner::controller(&meta), Some(Owner::new("StatefulSet", "embedder")));
        assert_eq!(Owner::controller(&ObjectMeta::default()), None);
    }

    /// Otherwise a second call would make every pod again.
    #[test]
    fn asking_twice_for_a_version_asks_once() {
        assert_eq!(patch("0.2.0"), patch("0.2.0"));
        assert_ne!(patch("0.2.0"), patch("0.3.0"));
        assert_eq!(
            patch("0.2.0")["spec"]["template"]["metadata"]["annotations"]["sealane.dev/restarted-for"],
            "0.2.0"
        );
    }
}
