//! Pods and pod templates in a manifest.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use sealane_injection::{Injected, InjectionContext, has_sidecar, inject, on_host_network};
use sealane_operator_api::well_known::{INJECT_LABEL, SIDECAR_CONTAINER};
use serde_json::{Value, json};

use super::yaml;

/// Kata's annotation with the initdata.
pub(super) const INITDATA: &str = "io.katacontainers.config.hypervisor.cc_init_data";
/// Kata's annotation with what is added to the command line of the guest's kernel.
const KERNEL_PARAMETERS: &str = "io.katacontainers.config.hypervisor.kernel_params";
/// Kata's annotation with a policy of the agent that nothing measures, which genpolicy writes.
const AGENT_POLICY: &str = "io.katacontainers.config.agent.policy";
/// Has the guest's agent answer over HTTP, raw evidence included.
const REST: &str = "agent.guest_components_rest_api=";
const REST_ALL: &str = "agent.guest_components_rest_api=all";

/// What makes a pod a guest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guest<'a> {
    pub(super) runtime_class: &'a str,
    /// The annotation's text.
    pub(super) initdata: &'a str,
}

/// The objects of a file.
#[derive(Debug)]
pub(super) struct Manifest(Vec<Value>);

impl Manifest {
    /// # Errors
    /// It is no YAML, or has no pod in it.
    pub(super) fn read(text: &str) -> Result<Self> {
        let objects: Vec<Value> = yaml::read(text)?.into_iter().flat_map(listed).collect();
        ensure!(
            objects.iter().any(|object| pod_place(object).is_some()),
            "has no Pod, and no Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job or CronJob"
        );
        Ok(Self(objects))
    }

    /// Gives every pod its sidecar and its guest. Returns what whoever renders should know.
    ///
    /// # Errors
    /// A pod and a sidecar that cannot live together.
    pub(super) fn render(
        &mut self,
        context: &InjectionContext<'_>,
        guest: &Guest<'_>,
    ) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let pods = self.0.iter().filter(|object| pod_place(object).is_some()).count();
        if pods > 1 {
            warnings.push(format!(
                "{pods} objects have pods, and all get one initdata: to whoever verifies them they are one Peer; render each Peer by itself, with --peer"
            ));
        }
        for object in &mut self.0 {
            let name = object["metadata"]["name"].as_str().unwrap_or("without a name").to_owned();
            let about = format!("{} {name}", object["kind"].as_str().unwrap_or_default());
            let Some(place) = pod_place(object) else {
                if has_containers(object) {
                    warnings.push(format!(
                        "{about} has containers, and stays as it is: render knows no such kind"
                    ));
                }
                continue;
            };
            let pod = object.pointer_mut(place).with_context(|| format!("{about} has no pod template"))?;
            let said = render(pod, context, guest).with_context(|| about.clone())?;
            warnings.extend(said.into_iter().map(|warning| format!("{about}: {warning}")));
        }
        Ok(warnings)
    }

    pub(super) fn to_yaml(&self) -> String {
        yaml::write(&self.0)
    }
}

/// The objects of a List, which `kubectl get` writes; another object is one.
fn listed(mut object: Value) -> Vec<Value> {
    let is_list = object["kind"] == "List";
    match object.get_mut("items").filter(|_| is_list).map(Value::take) {
        Some(Value::Array(items)) => items.into_iter().flat_map(listed).collect(),
        _ => vec![object],
    }
}

fn has_containers(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            members.get("containers").is_some_and(Value::is_array) || members.values().any(has_containers)
        }
        Value::Array(items) => items.iter().any(has_containers),
        _ => false,
    }
}

/// Where an object has its pod.
fn pod_place(object: &Value) -> Option<&'static str> {
    match object["kind"].as_str()? {
        "Pod" => Some(""),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" | "Job" => {
            Some("/spec/template")
        }
        "CronJob" => Some("/spec/jobTemplate/spec/template"),
        _ => None,
    }
}

fn render(pod: &mut Value, context: &InjectionContext<'_>, guest: &Guest<'_>) -> Result<Vec<String>> {
    let read = json!({"metadata": pod["metadata"], "spec": pod["spec"]});
    let typed: Pod = serde_json::from_value(read).context("is not a pod")?;
    let spec = typed.spec.as_ref().context("the pod has no spec")?;
    if on_host_network(spec) {
        bail!("a pod on the host's network is no guest: its network is the host's");
    }
    let mut said = Vec::new();
    if has_sidecar(spec) {
        same_sidecar(pod, context)?;
        said.push("it has its sidecar already: its initdata is made anew, and nothing else".to_owned());
    }
    let Injected { patch, warnings } = inject(&typed, context)?;
    said.extend(warnings);
    for member in ["labels", "annotations"] {
        let map = &mut pod["metadata"][member];
        if map.is_null() {
            *map = json!({});
        }
    }
    json_patch::patch(pod, &patch).context("the pod is not what it seems")?;
    // What a tool left of a policy would be a second one beside that of the initdata.
    if pod["metadata"]["annotations"].as_object_mut().is_some_and(|all| all.remove(AGENT_POLICY).is_some()) {
        said.push(format!(
            "annotation {AGENT_POLICY} is taken out: the agent's policy is in the initdata (--agent-policy)"
        ));
    }
    // The webhook leaves what carries this, and evidence says what the guest was started with.
    pod["metadata"]["labels"][INJECT_LABEL] = json!("false");
    let annotations = &mut pod["metadata"]["annotations"];
    annotations[INITDATA] = json!(guest.initdata);
    let parameters = annotations[KERNEL_PARAMETERS].as_str().unwrap_or_default().to_owned();
    match parameters.split_whitespace().find(|parameter| parameter.starts_with(REST)) {
        Some(REST_ALL) => {}
        Some(other) => said.push(format!(
            "annotation {KERNEL_PARAMETERS} says {other}, and the sidecar finds evidence only with {REST_ALL}"
        )),
        None => {
            let with = format!("{parameters} {REST_ALL}");
            annotations[KERNEL_PARAMETERS] = json!(with.trim_start());
        }
    }
    let class = &mut pod["spec"]["runtimeClassName"];
    match class.as_str() {
        None => *class = json!(guest.runtime_class),
        Some(own) if own != guest.runtime_class => said.push(format!(
            "its RuntimeClass is {own}, where {} was expected: --guest says whose guest it becomes",
            guest.runtime_class
        )),
        Some(_) => {}
    }
    Ok(said)
}

/// That a sidecar which is there already is the one that is asked for: rendering again changes none.
fn same_sidecar(pod: &Value, context: &InjectionContext<'_>) -> Result<()> {
    let containers =
        ["initContainers", "containers"].iter().filter_map(|list| pod["spec"][list].as_array()).flatten();
    for sidecar in containers.filter(|container| container["name"] == SIDECAR_CONTAINER) {
        let value = |name: &str| {
            let variables = sidecar["env"].as_array()?;
            variables.iter().find(|variable| variable["name"] == name)?["value"].as_str()
        };
        for (what, found, asked) in [
            ("image", sidecar["image"].as_str(), context.settings.image.as_str()),
            ("SEALANE_CONTROL_CA", value("SEALANE_CONTROL_CA"), context.authorities),
        ] {
            ensure!(
                found == Some(asked),
                "its sidecar has another {what} than is asked for: render from the manifest without a sidecar"
            );
        }
    }
    Ok(())
}
