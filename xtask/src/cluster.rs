//! A real two-node Kubernetes on this machine, from package registries alone.
//!
//! etcd, the control plane and CoreDNS run in one set of namespaces; each node is a further set with its own
//! containerd, kubelet and kube-proxy. No container engine, no virtual machine, no image registry.
//!
//! Invariant: the machine's own network, firewall, sysctls and packages are never changed. Everything that runs is in
//! cgroups named by `Place::group`, everything on disk is in the cache and the state folder, and
//! [`down`] fails if anything but the cache is left.
//!
//! Deliberately absent: more than one control plane, upgrades in place, persistence (the store is in memory), and a
//! second way to reach the cluster besides the kubeconfig.

mod cache;
mod cgroup;
mod clients;
mod command;
mod config;
mod debs;
mod keeper;
mod load;
mod pki;
mod place;
mod privilege;
mod processes;
mod relay;
mod start;
mod stop;
mod tools;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

pub use command::ClusterCommand;
use place::Place;
pub use tools::{BUSYBOX_IMAGE, PAUSE_IMAGE};

use crate::process::start_error;

/// A running cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// For `KUBECONFIG`; works from this machine's shell.
    pub kubeconfig: PathBuf,
    /// A folder with `kubectl` and `helm` of the right versions.
    pub bin: PathBuf,
}

impl Cluster {
    fn of(place: &Place) -> Self {
        Self { kubeconfig: place.kubeconfig(), bin: place.state.join("bin") }
    }

    /// The cluster that runs, if it is complete and all nodes are ready.
    pub fn running() -> Result<Self> {
        let place = Place::from_env()?;
        ensure!(place.has_state(), "the cluster is not running: `make cluster` starts it");
        start::all_ready(&place).context("the cluster is not healthy: `make cluster` replaces it")?;
        Ok(Self::of(&place))
    }

    pub fn kubectl(&self) -> Command {
        self.command("kubectl")
    }

    pub fn helm(&self) -> Command {
        self.command("helm")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.env("KUBECONFIG", &self.kubeconfig);
        command
    }
}

/// Builds and fetches what [`up`] needs and the cache lacks; the first time, Kubernetes. Only a machine without package
/// lists needs root for it, to fetch them.
pub fn prepare() -> Result<()> {
    tools::Tools::prepare(&Place::from_env()?).map(drop)
}

/// Whether [`prepare`] once built Kubernetes.
pub(crate) fn is_prepared() -> Result<bool> {
    tools::are_built(&Place::from_env()?)
}

/// Asks for the password of sudo, if there is one, while nothing else is on the screen.
pub(crate) fn ask_for_root() -> Result<()> {
    privilege::ask()
}

/// Brings the cluster up, or returns the one that is up and healthy. The first time, this builds Kubernetes.
pub fn up() -> Result<Cluster> {
    let place = Place::from_env()?;
    if !privilege::is_root() {
        // Builds belong to the person, in folders the person owns.
        tools::Tools::prepare(&place)?;
    }
    privilege::as_root(&place, &["start".as_ref()], || start::run(&place))?;
    Ok(Cluster::of(&place))
}

/// Takes the cluster down and checks that nothing of it is left, apart from the cache.
pub fn down() -> Result<()> {
    let place = Place::from_env()?;
    privilege::as_root(&place, &["down".as_ref()], || stop::run(&place))
}

/// Puts OCI image archives onto both nodes, leaving out what they have already.
pub fn load(archives: &[impl AsRef<Path>]) -> Result<()> {
    let place = Place::from_env()?;
    let absolute =
        |path: &Path| std::path::absolute(path).with_context(|| format!("find {}", path.display()));
    let archives: Vec<_> = archives.iter().map(|path| absolute(path.as_ref())).collect::<Result<_>>()?;
    let mut arguments = vec![OsStr::new("load")];
    arguments.extend(archives.iter().map(|path| path.as_os_str()));
    privilege::as_root(&place, &arguments, || load::run(&place, &archives))
}

/// Runs a command inside a node, with the person's terminal.
pub fn exec(node: &str, words: &[String]) -> Result<()> {
    let place = Place::from_env()?;
    let mut arguments: Vec<&OsStr> = vec!["exec".as_ref(), node.as_ref(), "--".as_ref()];
    arguments.extend(words.iter().map(OsStr::new));
    privilege::as_root(&place, &arguments, || {
        let mut command = load::inside(&place, node)?;
        let status = command.args(words).status().map_err(|error| start_error(&command, error))?;
        ensure!(status.success(), "{} failed with {status}", words.join(" "));
        Ok(())
    })
}

/// Where everything that was built or downloaded is kept: `SEALANE_CACHE`, by default `~/.cache/sealane`.
pub fn cache_folder() -> Result<PathBuf> {
    Ok(Place::from_env()?.cache)
}

/// A command that runs as root, through sudo if need be.
pub fn root_command(program: &str) -> Result<Command> {
    privilege::command(program)
}

/// The Go compiler. It collects its garbage less often than it would, which saves time, and takes no more than 2 GiB for
/// that.
fn golang() -> Command {
    let mut go = Command::new("go");
    go.env_remove("GOFLAGS").env("GOGC", "400").env("GOMEMLIMIT", "2GiB");
    go
}

/// What a cluster left behind, in words; nothing after [`down`].
pub fn leftovers() -> Result<Vec<String>> {
    Ok(processes::leftovers(&Place::from_env()?, &cgroup::Layout::of_this_machine()?))
}
