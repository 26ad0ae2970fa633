//! Taking images to the nodes of a cluster.

use std::process::Command;

use anyhow::{Result, bail};

use super::{Image, timer::Timer};
use crate::process;

/// Where images can be loaded. Other clusters can only pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The cluster of `cargo xtask cluster`.
    Local,
    /// A kind cluster, by its name.
    Kind(String),
}

impl Target {
    /// `context` is a kubeconfig context; none means the local cluster.
    pub fn of_context(context: Option<&str>) -> Result<Self> {
        let Some(context) = context.filter(|context| !context.is_empty()) else { return Ok(Self::Local) };
        match context.strip_prefix("kind-") {
            Some(cluster) if !cluster.is_empty() => Ok(Self::Kind(cluster.to_owned())),
            _ => bail!("images cannot be loaded into {context}: give it a registry with REGISTRY=HOST/PATH"),
        }
    }
}

/// Loads each image's archive into a kind cluster's nodes.
pub(super) fn kind(cluster: &str, images: &[Image]) -> Result<()> {
    for image in images {
        let timer = Timer::start();
        let mut kind = Command::new("kind");
        process::text(kind.args(["load", "image-archive", "--name", cluster]).arg(&image.archive))?;
        timer.done(format!("loaded {} into kind cluster {cluster}", image.reference()), image.size()?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clusters_of_this_machine_can_be_loaded() {
        assert_eq!(Target::of_context(None).unwrap(), Target::Local);
        assert_eq!(Target::of_context(Some("")).unwrap(), Target::Local);
        assert_eq!(Target::of_context(Some("kind-dev")).unwrap(), Target::Kind("dev".into()));
        for foreign in ["production", "kind-"] {
            let error = Target::of_context(Some(foreign)).unwrap_err();
            assert!(error.to_string().contains("REGISTRY="), "{error}");
        }
    }
}
