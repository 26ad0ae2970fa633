//! The rows, and how each is written.

use serde_json::{Value, json};

use crate::Member;

/// What a row asks of its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// Pods that the restricted standard forbids.
    Privileged,
    /// The quota that counts its pods alone, see [`quota`].
    Quota,
    /// The [`limit_range`], which concerns every pod made after it.
    LimitRange,
    /// The webhook of somebody else, see [`super::Second`].
    Second,
    /// Addresses of both families, where the nodes have them.
    DualStack,
}

/// What manifests are written for.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Metadata and spec of pods: a sender of Peer `left`.
    template: Value,
    /// The longest name of a pod.
    name_max: usize,
}

/// The longest name that the API server takes.
const NAME_MAX: usize = 253;
/// The longest file name. The kubelet keeps logs of a pod in the folder `NAMESPACE_NAME_UID`.
const FILE_NAME_MAX: usize = 255;
const UID: usize = 36;

impl Scene {
    /// Pods that are only asked for.
    #[must_use]
    pub fn asked(image: &str) -> Self {
        Self { template: template(image), name_max: NAME_MAX }
    }

    /// Pods that run, so that a kubelet can keep their logs.
    #[must_use]
    pub fn running(image: &str, namespace: &str) -> Self {
        let name_max = FILE_NAME_MAX - namespace.len() - UID - 2;
        Self { template: template(image), name_max }
    }
}

/// A few tensors a second: many pods send them at once, and their bytes are looked at. The scheduler chooses their
/// nodes: one alone has no room for the requests of all rows.
fn template(image: &str) -> Value {
    let mut template = Member::sender(0).plan(json!({"pause": 0.1, "large_every": 50})).template(image);
    template["spec"]["nodeSelector"] = json!({});
    template
}

/// One way in which people make pods.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its label `row`; names of objects begin with it.
    pub name: &'static str,
    /// The pods that come of it.
    pub pods: usize,
    /// Whether tensors flow through it at every landing, and not in long runs alone.
    pub flows_at_landings: bool,
    pub needs: Needs,
    write: fn(&Self, &Scene) -> Value,
}

impl Row {
    const fn new(name: &'static str, write: fn(&Self, &Scene) -> Value) -> Self {
        Self { name, pods: 1, flows_at_landings: false, needs: Needs::Nothing, write }
    }

    const fn pods(self, pods: usize) -> Self {
        Self { pods, ..self }
    }

    const fn at_landings(self) -> Self {
        Self { flows_at_landings: true, ..self }
    }

    const fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    /// The object that people apply.
    #[must_use]
    pub fn object(&self, scene: &Scene) -> Value {
        (self.write)(self, scene)
    }

    /// What selects its pods.
    #[must_use]
    pub fn selector(&self) -> String {
        format!("row={}", self.name)
    }

    fn template(&self, scene: &Scene) -> Value {
        let mut template = scene.template.clone();
        template["metadata"]["labels"]["row"] = self.name.into();
        template
    }

    /// A workload of `kind` that makes pods from `template`.
    fn workload(&self, kind: &str, template: Value, more: Value) -> Value {
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": self.name},
            "spec": {"selector": {"matchLabels": {"row": self.name}}, "template": template},
        });
        extend(&mut object["spec"], more);
        object
    }

    fn job(&self, scene: &Scene, more: Value) -> Value {
        let mut template = self.template(scene);
        template["spec"]["restartPolicy"] = "OnFailure".into();
        let spec = json!({"backoffLimit": 4, "template": template});
        let mut job =
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": self.name}, "spec": spec});
        extend(&mut job["spec"], more);
        job
    }

    /// A pod by itself.
    fn pod(&self, scene: &Scene, change: impl FnOnce(&mut Value)) -> Value {
        let mut pod = self.template(scene);
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = self.name.into();
        change(&mut pod);
        pod
    }
}

/// All of them. Whatever admission does to pods by themselves it does to those of controllers, whose names, labels and
/// fields differ.
pub static ROWS: [Row; 22] = [
    Row::new("deployment", |row, scene| row.workload("Deployment", row.template(scene), json!({})))
        .at_landings(),
    Row::new("stateful-set", |row, scene| stateful_set(row, scene, json!({}))),
    Row::new("start-ordinals", |row, scene| stateful_set(row, scene, json!({"ordinals": {"start": 5}})))
        .at_landings(),
    // One on every node.
    Row::new("daemon-set", |row, scene| row.workload("DaemonSet", row.template(scene), json!({})))
        .pods(2)
        .at_landings(),
    Row::new("job", |row, scene| row.job(scene, json!({}))),
    Row::new("indexed-job", |row, scene| {
        row.job(scene, json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2}))
    })
    .pods(2)
    .at_landings(),
    Row::new("cron-job", cron_job),
    Row::new("bare-pod", |row, scene| row.pod(scene, |_| ())),
    Row::new("host-network", |row, scene| {
        row.pod(scene, |pod| {
            pod["spec"]["hostNetwork"] = true.into();
            // As people leave it, which is the node's own resolver.
            pod["spec"]["dnsPolicy"] = "ClusterFirst".into();
        })
    })
    .needs(Needs::Privileged),
    Row::new("guaranteed", |row, scene| {
        row.pod(scene, |pod| {
            program(pod)["resources"] = json!({"limits": {"cpu": "300m", "memory": "256Mi"}});
        })
    }),
    Row::new("restricted", |row, scene| row.pod(scene, restricted)),
    Row::new("quota", |row, scene| row.pod(scene, counted)).needs(Needs::Quota),
    Row::new("limit-range", |row, scene| row.pod(scene, |_| ())).needs(Needs::LimitRange),
    Row::new("init-sends", |row, scene| row.pod(scene, init_sends)).at_landings(),
    Row::new("read-only-root", |row, scene| {
        row.pod(scene, |pod| program(pod)["securityContext"]["readOnlyRootFilesystem"] = true.into())
    }),
    Row::new("random-uid", |row, scene| row.pod(scene, random_uid)).at_landings(),
    Row::new("generate-name", |row, scene| {
        row.pod(scene, |pod| pod["metadata"] = generated(&pod["metadata"], row.name))
    }),
    Row::new("name-of-63", |row, scene| {
        let mut object = row.workload("Deployment", row.template(scene), json!({}));
        object["metadata"]["name"] = filled(row.name, 63).into();
        object
    }),
    Row::new("name-of-253", |row, scene| {
        row.pod(scene, |pod| pod["metadata"]["name"] = filled(row.name, scene.name_max).into())
    }),
    // The API server asks webhooks in the order of the names of their configurations.
    Row::new("second-before", |row, scene| row.pod(scene, |pod| second(pod, "before"))).needs(Needs::Second),
    Row::new("second-after", |row, scene| row.pod(scene, |pod| second(pod, "after"))).needs(Needs::Second),
    Row::new("dual-stack", |row, scene| row.pod(scene, |_| ())).needs(Needs::DualStack),
];

fn extend(object: &mut Value, more: Value) {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
}

/// A name of so many characters.
fn filled(name: &str, length: usize) -> String {
    format!("{name}{}", "x".repeat(length.saturating_sub(name.len())))
}

/// The application's container.
fn program(pod: &mut Value) -> &mut Value {
    &mut pod["spec"]["containers"][0]
}

fn stateful_set(row: &Row, scene: &Scene, more: Value) -> Value {
    let mut object = row.workload("StatefulSet", row.template(scene), json!({"serviceName": row.name}));
    extend(&mut object["spec"], more);
    object
}

/// One that never comes by its schedule: tests make its Jobs.
fn cron_job(row: &Row, scene: &Scene) -> Value {
    let job = row.job(scene, json!({}));
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": row.name},
        "spec": {"schedule": "0 0 31 2 *", "suspend": true, "jobTemplate": {"spec": job["spec"]}},
    })
}

/// Everything that the restricted standard wants is said by the container, and nothing by the pod.
fn restricted(pod: &mut Value) {
    pod["spec"]["securityContext"] = json!({});
    program(pod)["securityContext"] = json!({
        "runAsNonRoot": true, "runAsUser": 1000, "allowPrivilegeEscalation": false,
        "seccompProfile": {"type": "RuntimeDefault"}, "capabilities": {"drop": ["ALL"]},
    });
}

/// A pod whose time is limited is of the scope that [`quota`] counts.
fn counted(pod: &mut Value) {
    pod["spec"]["activeDeadlineSeconds"] = 3600.into();
    program(pod)["resources"] = json!({
        "requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"},
    });
}

fn init_sends(pod: &mut Value) {
    let mut early = program(pod).clone();
    early["name"] = "early".into();
    let plan = json!({"pause": 0.02, "large_every": 0, "puts": 30, "exits": true});
    early["env"] = json!([{"name": "PLAN", "value": plan.to_string()}]);
    pod["spec"]["initContainers"] = json!([early]);
}

/// As OpenShift gives them out, for the whole pod.
fn random_uid(pod: &mut Value) {
    pod["spec"]["securityContext"]["runAsUser"] = 1_000_650_123.into();
    pod["spec"]["securityContext"]["fsGroup"] = 1_000_650_123.into();
}

fn generated(metadata: &Value, name: &str) -> Value {
    json!({"generateName": format!("{name}-"), "labels": metadata["labels"], "annotations": metadata["annotations"]})
}

fn second(pod: &mut Value, when: &str) {
    pod["metadata"]["labels"]["second"] = when.into();
}

/// A quota of the pods whose time is limited: of those of row `quota` alone.
#[must_use]
pub fn quota() -> Value {
    let hard = json!({
        "requests.cpu": "1", "requests.memory": "1Gi", "limits.cpu": "2", "limits.memory": "1536Mi",
    });
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "matrix"},
        "spec": {"scopes": ["Terminating"], "hard": hard},
    })
}

/// Bounds of every container that is made from now on. The chart's 1 GiB is too much for it.
#[must_use]
pub fn limit_range() -> Value {
    let container = json!({
        "type": "Container", "max": {"cpu": "1", "memory": "512Mi"}, "min": {"memory": "16Mi"},
        "default": {"cpu": "200m", "memory": "128Mi"}, "defaultRequest": {"cpu": "50m", "memory": "64Mi"},
    });
    json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "matrix"},
        "spec": {"limits": [container]},
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rows_have_names_of_their_own_and_six_flow_at_landings() {
        let names: BTreeSet<_> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
        assert_eq!(ROWS.iter().filter(|row| row.flows_at_landings).count(), 6);
        let plain = |row: &&Row| row.flows_at_landings && row.needs == Needs::Nothing;
        assert_eq!(ROWS.iter().filter(plain).count(), 6, "they share a namespace with nothing else in it");
    }

    #[test]
    fn long_names_are_as_long_as_they_say() {
        let scene = Scene::asked("image");
        let lengths = ROWS
            .iter()
            .filter(|row| row.name.starts_with("name-of"))
            .map(|row| row.object(&scene)["metadata"]["name"].as_str().unwrap_or_default().len());
        assert_eq!(lengths.collect::<Vec<_>>(), [63, 253]);
        let running = Scene::running("image", "e2e-matrix");
        let longest = ROWS.iter().find(|row| row.name == "name-of-253").unwrap().object(&running);
        let name = longest["metadata"]["name"].as_str().unwrap();
        assert_eq!(format!("e2e-matrix_{name}_{}", "u".repeat(UID)).len(), FILE_NAME_MAX);
    }
}
