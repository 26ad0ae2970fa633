//! Container images without a container engine: packages, wheels and our own programs become OCI archives.
//!
//! Each image has layers from the slowest to the fastest changing: operating system (Debian packages, unpacked and
//! not installed), dependencies (Python and its wheels), ours. An image's tag is a hash of its content, so unchanged
//! sources give the same name, and a node never runs something old under a new name.
//!
//! Invariant: nothing is installed on the machine and nothing needs root, unless apt's package lists must be
//! refreshed. Every layer was checked by the image's own dynamic loader, and Python by starting it, before an
//! archive holds it.
//!
//! Deliberately absent: other architectures than this machine's, a shell in the images of our own programs, and
//! versions of Debian packages (see `xtask/images/debian.txt`).

mod binaries;
mod cargo;
mod closure;
mod compose;
mod debian;
mod layers;
mod load;
mod loader;
mod paths;
mod push;
mod python;
mod recipe;
mod timer;
mod torch;
mod tree;
mod unpack;
mod wheels;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

pub use load::Target;
pub(crate) use wheels::fetch_pinned as fetch_wheels;

use crate::{cluster, oci::Digest, progress::print};

const DEBIAN: &str = include_str!("../images/debian.txt");
const WHEELS: &str = include_str!("../images/wheels.txt");

const LOCK: &str = ".lock";

/// The images that installations, the demo and the tests need, in the order they are built.
pub const NAMES: [&str; 5] =
    ["sealane-operator", "sealane-sidecar", "sealane-sidecar-sim", "sealane-bench", "sealane-demo"];

/// Images that only long tests need, large ones; built when they are named.
pub const LONG: [&str; 1] = ["sealane-torch"];

/// A finished image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// With its registry and without a tag: `localhost/sealane-operator`.
    pub name: String,
    pub tag: String,
    pub archive: PathBuf,
    pub digest: Digest,
}

impl Image {
    /// What a pod's `image` says.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("{}:{}", self.name, self.tag)
    }

    /// One of [`NAMES`] or [`LONG`].
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    fn size(&self) -> Result<u64> {
        let archive =
            fs::metadata(&self.archive).with_context(|| format!("look at {}", self.archive.display()))?;
        Ok(archive.len())
    }
}

/// Where the executables in images come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Programs {
    /// cargo builds them as the tests' programs are built.
    Dev,
    /// cargo builds them optimised.
    Release,
    /// They lie in `target/debug`, as a build of the whole workspace has left them. cargo is not called.
    AsBuilt,
}

/// Where sources are and where results go.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The repository.
    pub root: PathBuf,
    /// `${SEALANE_CACHE:-~/.cache/sealane}`.
    pub cache: PathBuf,
    pub programs: Programs,
}

impl Workspace {
    /// This repository and the user's cache.
    pub fn locate(programs: Programs) -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the repository")?;
        Ok(Self { root: root.to_owned(), cache: cluster::cache_folder()?, programs })
    }

    fn images(&self) -> PathBuf {
        self.cache.join("images")
    }
}

/// One of our programs, built as those in images are.
///
/// # Errors
/// A build that fails.
pub fn program(root: &Path, name: &str) -> Result<PathBuf> {
    let mut built = programs(root, &[name], |_| {})?;
    built.remove(name).with_context(|| format!("{name} was not built"))
}

/// Several of our programs in one call of cargo; `progress` hears which part of the work is done.
///
/// # Errors
/// A build that fails.
pub fn programs(
    root: &Path,
    names: &[&str],
    progress: impl Fn(f64) + Send,
) -> Result<BTreeMap<String, PathBuf>> {
    binaries::build(root, names, false, progress)
}

/// Arguments of `cargo xtask images`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Load the images into the local cluster, or into the kind cluster of this kubeconfig context
    #[arg(long)]
    load: bool,
    /// The kubeconfig context to load into
    #[arg(long, env = "CONTEXT", value_name = "NAME")]
    context: Option<String>,
    /// Push the images to HOST[:PORT][/PATH]; login from SEALANE_REGISTRY_USER and SEALANE_REGISTRY_PASSWORD
    #[arg(long, value_name = "REGISTRY")]
    push: Option<String>,
    /// Only these images; sealane-torch, which long tests use, is built only if it is named here
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(known()))]
    only: Vec<String>,
    /// Build our programs with the release profile
    #[arg(long)]
    release: bool,
}

impl Options {
    /// Builds, and loads or pushes if asked; prints each image's name as a cluster shall use it.
    pub fn run(&self) -> Result<()> {
        let named = |name: &&str| self.only.iter().any(|only| only == name);
        let all = self.only.is_empty();
        let names: Vec<_> =
            known().filter(|name| if all { NAMES.contains(name) } else { named(name) }).collect();
        // Told before minutes of building, not after.
        let target = self.load.then(|| Target::of_context(self.context.as_deref())).transpose()?;
        let programs = if self.release { Programs::Release } else { Programs::Dev };
        let mut images = build(&Workspace::locate(programs)?, &names)?;
        if let Some(target) = target {
            load(&target, &images)?;
        }
        if let Some(registry) = &self.push {
            images = push(registry, &images)?;
        }
        for image in images {
            print(&image.reference());
        }
        Ok(())
    }
}

fn known() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain(LONG)
}

/// Builds `names` (of [`NAMES`] and [`LONG`]). What is unchanged since the last time is not built again.
pub fn build(workspace: &Workspace, names: &[&str]) -> Result<Vec<Image>> {
    for name in names {
        let there_are = || known().collect::<Vec<_>>().join(", ");
        ensure!(known().any(|known| known == *name), "there is no image {name}; there are {}", there_are());
    }
    let _lock = lock(workspace)?;
    compose::all(workspace, names)
}

/// Fetches and unpacks the packages that `names` stand on, unless they are here: what [`build`] does first otherwise.
pub fn fetch(workspace: &Workspace, names: &[&str]) -> Result<()> {
    let _lock = lock(workspace)?;
    compose::layers(workspace, names).map(drop)
}

/// The folder of images for this process alone, and nothing left in it by one that was interrupted.
fn lock(workspace: &Workspace) -> Result<fs::File> {
    let folder = workspace.images();
    let trees = folder.join("trees");
    fs::create_dir_all(&trees).with_context(|| format!("create {}", trees.display()))?;
    let lock = fs::File::create(folder.join(LOCK))?;
    // Two builds at once would remove each other's folders.
    lock.lock().with_context(|| format!("lock {}", folder.display()))?;
    for folder in [&folder, &trees] {
        tree::sweep(folder, LOCK)?;
    }
    Ok(lock)
}

/// Takes `images` to the nodes of a cluster.
pub fn load(target: &Target, images: &[Image]) -> Result<()> {
    match target {
        Target::Local => {
            let archives: Vec<_> = images.iter().map(|image| image.archive.clone()).collect();
            cluster::load(&archives)
        }
        Target::Kind(cluster) => load::kind(cluster, images),
    }
}

/// Pushes `images` to `registry` and returns them under the names they have there.
pub fn push(registry: &str, images: &[Image]) -> Result<Vec<Image>> {
    let registry = push::Registry::parse(registry)?;
    images.iter().map(|image| registry.push(image)).collect()
}
