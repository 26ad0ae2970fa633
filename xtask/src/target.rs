//! Which cluster a command works on: the local one, or another that the user names with CONTEXT.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{
    cluster,
    images::{self, Image, Programs, Workspace},
    kubectl::Kubectl,
    progress,
};

/// A cluster, and how it gets images.
#[derive(Debug, Clone)]
pub struct Target {
    pub kubectl: Kubectl,
    supply: Supply,
}

#[derive(Debug, Clone)]
enum Supply {
    Load(images::Target),
    Push(String),
}

impl Target {
    /// Whether [`Self::resolve`] means the local cluster.
    #[must_use]
    pub fn is_local() -> bool {
        variable("CONTEXT").is_none()
    }

    /// The local cluster, brought up if needed; or, with CONTEXT set, another one.
    ///
    /// # Errors
    /// A context without a way to get images there; a local cluster that does not come up.
    pub fn resolve() -> Result<Self> {
        let Some(context) = variable("CONTEXT") else { return Self::local() };
        let supply = match variable("REGISTRY") {
            Some(registry) => Supply::Push(registry),
            None => Supply::Load(images::Target::of_context(Some(&context))?),
        };
        progress::print(&format!("cluster: context {context} of your kubeconfig"));
        let kubeconfig = match std::env::var_os("KUBECONFIG") {
            Some(path) => PathBuf::from(path),
            None => std::env::home_dir().context("no home folder: set KUBECONFIG")?.join(".kube/config"),
        };
        Ok(Self { kubectl: Kubectl::new(Path::new("/usr/bin"), &kubeconfig).with_context(&context), supply })
    }

    /// The local cluster, brought up if needed.
    ///
    /// # Errors
    /// A cluster that does not come up.
    pub fn local() -> Result<Self> {
        let cluster = cluster::up()?;
        let kubectl = Kubectl::new(&cluster.bin, &cluster.kubeconfig);
        Ok(Self { kubectl, supply: Supply::Load(images::Target::Local) })
    }

    /// Builds the named images and takes them to the cluster; they come back under the names pods use there.
    ///
    /// # Errors
    /// A build, load or push that fails.
    pub fn supply(&self, names: &[&str]) -> Result<Vec<Image>> {
        self.supply_of(Programs::Dev, names)
    }

    /// Likewise, of programs from where `programs` says.
    ///
    /// # Errors
    /// A build, load or push that fails.
    pub fn supply_of(&self, programs: Programs, names: &[&str]) -> Result<Vec<Image>> {
        let built = images::build(&Workspace::locate(programs)?, names)?;
        match &self.supply {
            Supply::Load(target) => {
                images::load(target, &built)?;
                Ok(built)
            }
            Supply::Push(registry) => images::push(registry, &built),
        }
    }
}

/// Finds one of the built images.
///
/// # Errors
/// A name that was not built.
pub fn image<'a>(images: &'a [Image], name: &str) -> Result<&'a Image> {
    images
        .iter()
        .find(|image| image.short_name() == name)
        .with_context(|| format!("image {name} was not built"))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
