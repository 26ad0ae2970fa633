//! `make demo`: the main job, end to end, as a user would do it.

mod policy;
mod progress;
mod summary;
mod variant;

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result};

use crate::{
    cluster, images, install,
    kubectl::Kubectl,
    progress::{print, step},
    target::{Target, image},
};

pub use variant::Carrier;

const NAMESPACE: &str = "demo";

/// Brings everything up, streams, checks every byte, and leaves the cluster for a look around.
///
/// # Errors
/// Any step that fails, in the words of the tool that failed, with where to look next.
pub fn run(root: &Path, carrier: Carrier) -> Result<()> {
    let started = Instant::now();
    print("Sealane demo: MiniLM split over two nodes, activations through attested, encrypted lanes");
    let target = step("cluster", Target::resolve)?;
    let images = step("images", || target.supply(&images::NAMES))?;
    let plugin = step("kubectl sealane", || images::program(root, "kubectl-sealane"))?;
    install::run(root, &target, &images, true)?;
    let kubectl = &target.kubectl;
    let state = state_folder()?;
    step("namespace, peers, session", || declare(root, kubectl, carrier))?;
    step("policy: drafted, signed by two owners, applied", || policy::apply(&plugin, kubectl, &state))?;
    let image = image(&images, "sealane-demo")?.reference();
    step("workloads", || workloads(root, kubectl, carrier, &image))?;
    let report = progress::follow(kubectl).with_context(|| look_here(kubectl))?;
    summary::print(kubectl, &report, carrier)?;
    print(&format!("\nDone in {:.0} s. The cluster stays up:", started.elapsed().as_secs_f64()));
    print(&format!("  export KUBECONFIG={}", kubectl.kubeconfig().display()));
    print(&format!("  export PATH={}:$PATH", root.join("target/debug").display()));
    print(&format!("  kubectl get sealane -n {NAMESPACE}"));
    print(&format!("  kubectl sealane status -n {NAMESPACE}"));
    print(&format!("  kubectl describe transfersession activations -n {NAMESPACE}"));
    print(&format!("  kubectl logs -n {NAMESPACE} job/embedder -c sealane"));
    print("  make cluster-down        # leaves nothing behind");
    Ok(())
}

/// Owners' keys and drafts of the demo's policy live outside the tree.
fn state_folder() -> Result<PathBuf> {
    let folder = cluster::cache_folder()?.join("demo");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}

fn declare(root: &Path, kubectl: &Kubectl, carrier: Carrier) -> Result<()> {
    for name in ["namespace", "peers", "session"] {
        kubectl.apply(&example(root, carrier, name)?)?;
    }
    Ok(())
}

/// A file of the examples, with what the carrier needs.
fn example(root: &Path, carrier: Carrier, name: &str) -> Result<String> {
    let path = root.join(format!("examples/{name}.yaml"));
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(carrier.applied(name, &text))
}

fn workloads(root: &Path, kubectl: &Kubectl, carrier: Carrier, image: &str) -> Result<()> {
    let text = example(root, carrier, "demo/workloads")?;
    // A Job's template cannot change, so an earlier run's Jobs make room first.
    kubectl.run(&["-n", NAMESPACE, "delete", "job", "embedder", "ranker", "--ignore-not-found", "--wait"])?;
    kubectl.run(&["-n", NAMESPACE, "wait", "--for=delete", "pod", "-l", "demo=minilm", "--timeout=120s"])?;
    kubectl.apply(&text.replace("image: sealane-demo", &format!("image: {image}")))?;
    Ok(())
}

fn look_here(kubectl: &Kubectl) -> String {
    let peers = kubectl
        .run(&["-n", NAMESPACE, "get", "pods,peers,transfersessions,trustpolicies", "-o", "wide"])
        .unwrap_or_else(|error| format!("{error:#}"));
    format!(
        "the stream did not finish; this is how things stand:\n{peers}\nkubectl -n {NAMESPACE} describe tells more"
    )
}
