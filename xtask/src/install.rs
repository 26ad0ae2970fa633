//! `cargo xtask install`: images built and loaded, the chart installed, ready to use.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    kubectl::{Kubectl, output},
    step::step,
    target::Target,
};

/// The release's namespace; the chart refuses to inject there.
pub const NAMESPACE: &str = "sealane-system";
const SIMULATION: &str = "sealane-simulation";

/// What an installation runs: image tags by component.
#[derive(Debug, Clone)]
pub struct Tags {
    pub registry: String,
    pub operator: String,
    pub sidecar: String,
    pub simulated: String,
}

/// Installs or upgrades the release and waits until the operator is ready.
///
/// # Errors
/// Any step that fails, in the words of the tool that failed.
pub fn run(root: &Path, target: &Target, tags: &Tags, simulated: bool) -> Result<()> {
    let kubectl = &target.kubectl;
    namespace(kubectl)?;
    if simulated {
        step("simulated platform", || simulation(root, kubectl))?;
    }
    step("chart", || chart(root, kubectl, tags, simulated))?;
    step("operator ready", || {
        kubectl.run(&[
            "-n",
            NAMESPACE,
            "rollout",
            "status",
            "deployment/sealane-operator",
            "--timeout=180s",
        ])?;
        admission_open(kubectl)
    })
}

fn namespace(kubectl: &Kubectl) -> Result<()> {
    kubectl.apply(&format!(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n  labels:\n    pod-security.kubernetes.io/enforce: restricted\n"
    ))?;
    Ok(())
}

/// Makes the root of this installation's simulated platform once; a second install keeps it, because signed
/// policies name its fingerprint.
fn simulation(root: &Path, kubectl: &Kubectl) -> Result<()> {
    if kubectl.run(&["-n", NAMESPACE, "get", "secret", SIMULATION, "-o", "name"]).is_ok()
        && kubectl.run(&["-n", NAMESPACE, "get", "configmap", SIMULATION, "-o", "name"]).is_ok()
    {
        return Ok(());
    }
    let folder = tempfile::tempdir().context("making a folder for the simulated root")?;
    let file = folder.path().join("platform.json");
    let printed = output(
        std::process::Command::new(root.join("target/debug/sealane-sidecar-sim"))
            .args(["root", "--out"])
            .arg(&file),
    )?;
    let facts: Value = serde_json::from_str(&printed).context("sealane-sidecar-sim root")?;
    let text = std::fs::read_to_string(&file).context("reading the simulated platform")?;
    let manifests = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SIMULATION, "namespace": NAMESPACE},
         "stringData": {"platform.json": text}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SIMULATION, "namespace": NAMESPACE},
         "data": {"fingerprint": facts["fingerprint"], "measurement": facts["measurement"]}},
    ]});
    kubectl.apply(&manifests.to_string())?;
    Ok(())
}

fn chart(root: &Path, kubectl: &Kubectl, tags: &Tags, simulated: bool) -> Result<()> {
    output(
        kubectl
            .helm()
            .args(["upgrade", "--install", "sealane"])
            .arg(root.join("charts/sealane"))
            .args(["--namespace", NAMESPACE, "--wait", "--timeout", "180s"])
            .args(["--set", &format!("image.registry={}", tags.registry)])
            .args(["--set-string", &format!("operator.image.tag={}", tags.operator)])
            .args(["--set-string", &format!("sidecar.image.tag={}", tags.sidecar)])
            .args(["--set-string", &format!("simulation.image.tag={}", tags.simulated)])
            .args(["--set", &format!("simulation.enabled={simulated}")]),
    )?;
    Ok(())
}

/// The operator fills its CA into the webhook configurations after it has started; until then opted-in namespaces
/// refuse pods.
fn admission_open(kubectl: &Kubectl) -> Result<()> {
    for configuration in
        ["mutatingwebhookconfiguration/sealane-inject", "validatingwebhookconfiguration/sealane-validate"]
    {
        kubectl.run(&[
            "wait",
            configuration,
            "--for=jsonpath={.webhooks[0].clientConfig.caBundle}",
            "--timeout=120s",
        ])?;
    }
    Ok(())
}
