//! `cargo xtask cluster …`.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Subcommand;

use super::{Cluster, keeper, place::Place, start};
use crate::progress::{note, print};

#[derive(Clone, Debug, Subcommand)]
pub enum ClusterCommand {
    /// Bring the two-node cluster up, or reuse the one that is up
    Up,
    /// Take the cluster down; only the cache of built programs stays
    Down,
    /// Say whether the cluster is up and its nodes are ready
    Status,
    /// Put OCI image archives onto both nodes
    Load {
        #[arg(required = true)]
        archives: Vec<PathBuf>,
    },
    /// Run a command inside a node, or on the network between the nodes: `control`
    Exec {
        node: String,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Fail if a cluster that was taken down left anything behind
    VerifyDown,
    /// The steps of `up` that need root
    #[command(hide = true)]
    Start,
    /// The process that stays outside the cluster's namespaces
    #[command(hide = true)]
    Keep { state: PathBuf },
}

impl ClusterCommand {
    pub fn run(self) -> Result<()> {
        match self {
            Self::Up => {
                introduce(&super::up()?);
                Ok(())
            }
            Self::Down => super::down(),
            Self::Status => {
                introduce(&Cluster::running()?);
                Ok(())
            }
            Self::Load { archives } => super::load(&archives),
            Self::Exec { node, command } => super::exec(&node, &command),
            Self::VerifyDown => match super::leftovers()?.as_slice() {
                [] => Ok(()),
                left => bail!("left behind:\n  {}", left.join("\n  ")),
            },
            Self::Start => start::run(&Place::from_env()?),
            Self::Keep { state } => {
                let place = Place::from_env()?;
                ensure!(place.state == state, "the keeper is started by `cargo xtask cluster up` only");
                keeper::run(&place)
            }
        }
    }
}

fn introduce(cluster: &Cluster) {
    note("Two nodes are ready. kubectl and helm of the right version are in");
    note(&format!("  {}", cluster.bin.display()));
    note("To use the cluster from this shell; `make cluster-down` takes it down:");
    print(&format!("export KUBECONFIG={}", cluster.kubeconfig.display()));
}
