//! `cargo xtask install`: images built and loaded, the chart installed, ready to use.

use std::path::Path;

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::{
    images::Image,
    kubectl::Kubectl,
    process,
    progress::step,
    target::{Target, image},
};

/// The release's namespace; the chart refuses to inject there.
pub const NAMESPACE: &str = "sealane-system";
const SIMULATION: &str = "sealane-simulation";

/// The images an installation runs.
pub const IMAGES: [&str; 4] = ["sealane-operator", "sealane-sidecar", "sealane-sidecar-sim", "sealane-bench"];

/// Which value of the chart names the tag of which image.
const TAGS: [(&str, &str); 4] = [
    ("sealane-operator", "operator.image.tag"),
    ("sealane-sidecar", "sidecar.image.tag"),
    ("sealane-sidecar-sim", "simulation.image.tag"),
    ("sealane-bench", "benchmarks.image.tag"),
];

/// Installs or upgrades the release and waits until the operator is ready.
///
/// # Errors
/// Any step that fails, in the words of the tool that failed.
pub fn run(root: &Path, target: &Target, images: &[Image], simulated: bool) -> Result<()> {
    let kubectl = &target.kubectl;
    namespace(kubectl)?;
    if simulated {
        step("simulated platform", || simulation(root, kubectl))?;
    }
    step("chart", || chart(root, kubectl, images, simulated))?;
    step("operator ready", || {
        for deployment in ["deployment/sealane-operator", "deployment/sealane-webhook"] {
            kubectl.run(&["-n", NAMESPACE, "rollout", "status", deployment, "--timeout=180s"])?;
        }
        admission_open(kubectl)
    })
}

fn namespace(kubectl: &Kubectl) -> Result<()> {
    kubectl.apply(&format!(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n  labels:\n    pod-security.kubernetes.io/enforce: restricted\n"
    ))?;
    Ok(())
}

/// Makes the roots of this installation's simulated platforms once; a second install keeps them, because signed
/// policies name their fingerprints, and adds those of forms that the first one did not know.
fn simulation(root: &Path, kubectl: &Kubectl) -> Result<()> {
    let folder = tempfile::tempdir().context("making a folder for the simulated roots")?;
    let file = folder.path().join("platform.json");
    let kept = ["-n", NAMESPACE, "get", "secret", SIMULATION, "-o", r"jsonpath={.data.platform\.json}"];
    if let Ok(kept) = kubectl.run(&kept) {
        let kept = STANDARD.decode(kept.trim()).context("reading the Secret of the simulated platform")?;
        std::fs::write(&file, kept).context("keeping the simulated platform")?;
    }
    let printed = process::text(
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
         "data": facts},
    ]});
    kubectl.apply(&manifests.to_string())?;
    Ok(())
}

/// Images that `images` has not keep the names that an earlier installation gave them.
fn chart(root: &Path, kubectl: &Kubectl, images: &[Image], simulated: bool) -> Result<()> {
    let operator = image(images, "sealane-operator")?;
    let registry = operator.name.strip_suffix("/sealane-operator").unwrap_or(&operator.name);
    let mut helm = kubectl.helm();
    helm.args(["upgrade", "--install", "sealane"])
        .arg(root.join("charts/sealane"))
        .args(["--namespace", NAMESPACE, "--wait", "--timeout", "180s"])
        .args(["--set", &format!("image.registry={registry}")])
        .args(["--set", &format!("simulation.enabled={simulated}")]);
    for (name, value) in TAGS {
        match image(images, name) {
            Ok(image) => helm.args(["--set-string", &format!("{value}={}", image.tag)]),
            Err(_) => helm.arg("--reset-then-reuse-values"),
        };
    }
    process::text(&mut helm)?;
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
