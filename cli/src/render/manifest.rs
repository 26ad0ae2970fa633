//! Pods and pod templates in a manifest.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use sealane_injection::{Injected, InjectionContext, has_sidecar, inject, on_host_network};
use sealane_operator_api::well_known::INJECT_LABEL;
use serde::Deserialize as _;
use serde_json::{Value, json};

/// Kata's annotation with the initdata.
pub(super) const INITDATA: &str = "io.katacontainers.config.hypervisor.cc_init_data";
/// Kata's annotation with what is added to the command line of the guest's kernel.
const KERNEL_PARAMETERS: &str = "io.katacontainers.config.hypervisor.kernel_params";
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
        let documents = serde_norway::Deserializer::from_str(text);
        let read = documents.map(Value::deserialize).collect::<Result<Vec<_>, _>>();
        let objects: Vec<Value> =
            read.context("is not YAML")?.into_iter().filter(|value| !value.is_null()).collect();
        ensure!(
            objects.iter().any(|object| pod_place(object).is_some()),
            "has no Pod, and no Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob"
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
            let Some(place) = pod_place(object) else { continue };
            let name = object["metadata"]["name"].as_str().unwrap_or("without a name").to_owned();
            let about = format!("{} {name}", object["kind"].as_str().unwrap_or_default());
            let pod = object.pointer_mut(place).with_context(|| format!("{about} has no pod template"))?;
            let said = render(pod, context, guest).with_context(|| about.clone())?;
            warnings.extend(said.into_iter().map(|warning| format!("{about}: {warning}")));
        }
        Ok(warnings)
    }

    pub(super) fn to_yaml(&self) -> Result<String> {
        let texts = self.0.iter().map(serde_norway::to_string).collect::<Result<Vec<_>, _>>();
        Ok(texts.context("cannot write YAML")?.join("---\n"))
    }
}

/// Where an object has its pod.
fn pod_place(object: &Value) -> Option<&'static str> {
    match object["kind"].as_str()? {
        "Pod" => Some(""),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job" => Some("/spec/template"),
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
