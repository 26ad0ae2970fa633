//! The command line.

use clap::{Parser, Subcommand};

use crate::{bench, check, cluster, collateral, explain, policy, render, restart, status, verify};

/// Attested, post-quantum data lanes between confidential workloads: policies, status, diagnosis and audits.
#[derive(Debug, Parser)]
#[command(name = "kubectl-sealane", bin_name = "kubectl sealane", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) connection: cluster::Connection,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Draft, sign, verify and explain the signed policy of a namespace.
    #[command(subcommand)]
    Policy(policy::Command),
    /// Revocation lists and TCB information for sidecars that do not fetch them: make, import and look at bundles.
    #[command(subcommand)]
    Collateral(collateral::Command),
    /// Make the manifest of a confidential guest: its sidecar, its initdata with the owners' roots, and the digest to pin.
    Render(Box<render::Arguments>),
    /// Peers, TransferSessions and TrustPolicies of a namespace, and why one is not ready.
    Status(status::Arguments),
    /// Workloads whose sidecars are of another version than the operator: what would be made again, or with --yes is.
    Restart(restart::Arguments),
    /// Ask the replicas of a Peer themselves for their evidence, and verify it here, check by check.
    Verify(Box<verify::Arguments>),
    /// Diagnose the installation; each failed line says what to do.
    Check(check::Arguments),
    /// Run a Benchmark on the node pools of a cluster, report what it found, and compare runs.
    #[command(subcommand)]
    Bench(bench::Command),
    /// The cause of a reason that conditions, events, logs and exceptions show, and its remedy.
    Explain(explain::Arguments),
}
