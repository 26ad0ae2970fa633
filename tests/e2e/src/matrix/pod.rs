//! The pod that a controller makes of a workload: admission sees pods alone.

use serde_json::{Value, json};

/// Longest name of a Job that a CronJob may make: a CronJob's, and a number of eleven characters.
const RUN: &str = "-29400000";

/// The first pod that comes of `object`, as its controller asks for it.
#[must_use]
pub fn pod_of(object: &Value) -> Value {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let spec = &object["spec"];
    let mut pod = spec["template"].clone();
    match object["kind"].as_str().unwrap_or_default() {
        "Deployment" => {
            pod["metadata"]["generateName"] = format!("{name}-7c9d8b6f5d-").into();
            pod["metadata"]["labels"]["pod-template-hash"] = "7c9d8b6f5d".into();
        }
        "StatefulSet" => {
            let ordinal = spec["ordinals"]["start"].as_u64().unwrap_or(0);
            let replica = format!("{name}-{ordinal}");
            pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] = ordinal.to_string().into();
            pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = replica.clone().into();
            pod["spec"]["hostname"] = replica.clone().into();
            pod["spec"]["subdomain"] = spec["serviceName"].clone();
            pod["metadata"]["name"] = replica.into();
        }
        "DaemonSet" => {
            pod["metadata"]["generateName"] = format!("{name}-").into();
            pod["metadata"]["labels"]["controller-revision-hash"] = "7c9d8b6f5d".into();
            let here = json!({"key": "metadata.name", "operator": "In", "values": ["node1"]});
            pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [here]}],
            }}});
        }
        "Job" => of_job(&mut pod, name, spec),
        "CronJob" => {
            let mut job = spec["jobTemplate"].clone();
            job["kind"] = "Job".into();
            job["metadata"]["name"] = format!("{name}{RUN}").into();
            return pod_of(&job);
        }
        _ => return object.clone(),
    }
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod
}

fn of_job(pod: &mut Value, name: &str, spec: &Value) {
    pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = name.into();
    pod["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
    if spec["completionMode"] != "Indexed" {
        pod["metadata"]["generateName"] = format!("{name}-").into();
        return;
    }
    let index = "batch.kubernetes.io/job-completion-index";
    pod["metadata"]["generateName"] = format!("{name}-0-").into();
    pod["metadata"]["annotations"][index] = "0".into();
    pod["metadata"]["labels"][index] = "0".into();
    pod["spec"]["hostname"] = format!("{name}-0").into();
    let field = json!({"fieldRef": {"fieldPath": format!("metadata.labels['{index}']")}});
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            if let Some(env) = container["env"].as_array_mut() {
                env.push(json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": field}));
            }
        }
    }
}
