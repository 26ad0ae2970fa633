//! `make demo`: the main job, end to end, as a user would do it.

mod estimate;
mod policy;
mod progress;
mod summary;
mod variant;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Instant,
};

use anyhow::{Context, Result, anyhow};

use self::estimate::{Estimate, Part};
use crate::{
    cluster,
    images::{self, Programs, Workspace},
    install,
    kubectl::Kubectl,
    progress::{Overview, note, print, step},
    target::{Target, image},
};

pub use variant::Carrier;

const NAMESPACE: &str = "demo";

/// What the demo runs, and no more: production's sidecar and the benchmarks come with `make install`.
const IMAGES: [&str; 3] = ["sealane-operator", "sealane-sidecar-sim", "sealane-demo"];
const PLUGIN: &str = "kubectl-sealane";
/// All of our programs that the demo runs, in images or here: one call of cargo builds them.
const PROGRAMS: [&str; 3] = ["sealane-operator", "sealane-sidecar-sim", PLUGIN];

/// Brings everything up, streams, checks every byte, and leaves the cluster for a look around.
///
/// # Errors
/// Any step that fails, in the words of the tool that failed, with where to look next.
pub fn run(root: &Path, carrier: Carrier) -> Result<()> {
    let started = Instant::now();
    print("Sealane demo: MiniLM split over two nodes, activations through attested, encrypted lanes");
    let state = state_folder()?;
    let estimate = Arc::new(Estimate::read(root, &cluster::cache_folder()?)?);
    print(&format!("{}; what takes long is done once", estimate.left()));
    make(root, &estimate)?;
    let cluster = format!("cluster ({})", estimate.left());
    let target = estimate.measure(Part::Cluster, || step(&cluster, Target::resolve))?;
    let overview = overview(&estimate);
    let images = estimate.measure(Part::Images, || {
        step("images, loaded into the cluster", || target.supply_of(Programs::AsBuilt, &IMAGES))
    })?;
    let kubectl = &target.kubectl;
    let plugin = root.join("target/debug").join(PLUGIN);
    estimate.measure(Part::Chart, || {
        install::run(root, &target, &images, true)?;
        step("namespace, peers, session", || declare(root, kubectl, carrier))?;
        step("policy: drafted, signed by two owners, applied", || policy::apply(&plugin, kubectl, &state))
    })?;
    let image = image(&images, "sealane-demo")?.reference();
    let report = estimate.measure(Part::Job, || {
        step("workloads", || workloads(root, kubectl, carrier, &image))?;
        progress::follow(kubectl, overview, &|| estimate.left()).with_context(|| look_here(kubectl))
    })?;
    summary::print(kubectl, &report, carrier)?;
    estimate.remember()?;
    print(&format!("\nDone in {:.0} s. The cluster stays up:", started.elapsed().as_secs_f64()));
    print(&format!("  export KUBECONFIG={}", kubectl.kubeconfig().display()));
    print(&format!("  export PATH={}:$PATH", root.join("target/debug").display()));
    print(&format!("  kubectl get sealane -n {NAMESPACE}"));
    print(&format!("  kubectl sealane status -n {NAMESPACE}"));
    print(&format!("  kubectl describe transfersession activations -n {NAMESPACE}"));
    print(&format!("  kubectl logs -n {NAMESPACE} job/embedder -c sealane"));
    print("  make install SIMULATED=1   # adds the images of benchmarks and of production's sidecar");
    print("  make cluster-down          # leaves nothing behind");
    Ok(())
}

/// The line that says what goes on and what is left.
fn overview(estimate: &Arc<Estimate>) -> Overview {
    let estimate = Arc::clone(estimate);
    Overview::begin(move || estimate.left())
}

/// Makes everything that takes minutes the first time: the packages of images and Kubernetes, and our programs beside them.
/// Packages and Kubernetes are one after the other, because both may have to refresh the lists of packages.
fn make(root: &Path, estimate: &Arc<Estimate>) -> Result<()> {
    if Target::is_local() {
        cluster::ask_for_root()?;
    }
    let _overview = overview(estimate);
    let workspace = Workspace::locate(Programs::AsBuilt)?;
    let packages = || {
        estimate.measure(Part::Packages, || {
            step("packages of the images", || images::fetch(&workspace, &IMAGES))
        })?;
        estimate.measure(Part::Kubernetes, || if Target::is_local() { cluster::prepare() } else { Ok(()) })
    };
    let programs = || {
        let progress = |done| estimate.advance(Part::Programs, done);
        estimate.measure(Part::Programs, || {
            step("compiling the operator, the sidecar and kubectl-sealane", || {
                images::programs(root, &PROGRAMS, progress)
            })
        })
    };
    thread::scope(|scope| {
        let packages = scope.spawn(packages);
        let programs = programs();
        let packages = packages.join().unwrap_or_else(|_| Err(anyhow!("fetching packages failed")));
        match (programs, packages) {
            (Err(first), Err(second)) => {
                note(&format!("error: {first:#}"));
                Err(second)
            }
            (programs, packages) => programs.map(drop).and(packages),
        }
    })
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
