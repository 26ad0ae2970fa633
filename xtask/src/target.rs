//! Which cluster a command works on: the local one, or another that the user names with CONTEXT.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::{cluster, kubectl::Kubectl};

/// Where images come from and where manifests go.
#[derive(Debug, Clone)]
pub struct Target {
    pub kubectl: Kubectl,
    pub images: Images,
}

/// How a cluster gets images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Images {
    /// Imported into the local cluster's nodes.
    Local,
    /// Loaded by `kind load image-archive` into the named kind cluster.
    Kind(String),
    /// Pushed to a registry.
    Registry(String),
}

impl Target {
    /// The local cluster, brought up if needed; or, with CONTEXT set, another one.
    ///
    /// # Errors
    /// A context without a way to get images there; a local cluster that does not come up.
    pub fn resolve() -> Result<Self> {
        let context = std::env::var("CONTEXT").ok().filter(|context| !context.is_empty());
        let Some(context) = context else { return Self::local() };
        let registry = std::env::var("REGISTRY").ok().filter(|registry| !registry.is_empty());
        let images = match (context.strip_prefix("kind-"), registry) {
            (_, Some(registry)) => Images::Registry(registry),
            (Some(kind), None) => Images::Kind(kind.to_owned()),
            (None, None) => bail!(
                "CONTEXT={context} needs REGISTRY=host/path for its images (or a kind cluster); nothing was changed"
            ),
        };
        println!("cluster: context {context} of your kubeconfig");
        let kubeconfig = std::env::var_os("KUBECONFIG").map_or_else(
            || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".kube/config"),
            PathBuf::from,
        );
        let bin = PathBuf::from("/usr/bin");
        Ok(Self { kubectl: Kubectl::new(&bin, &kubeconfig).with_context(&context), images })
    }

    /// The local cluster, brought up if needed.
    ///
    /// # Errors
    /// A cluster that does not come up.
    pub fn local() -> Result<Self> {
        let cluster = cluster::up()?;
        Ok(Self { kubectl: Kubectl::new(&cluster.bin, &cluster.kubeconfig), images: Images::Local })
    }
}
