//! `kubectl sealane policy`: from a draft to a TrustPolicy that is ready to apply.

mod describe;
mod diff;
mod draft;
mod init;
mod keygen;
mod learn;
mod manifest;
mod owner;
pub(crate) mod reference;
mod show;
mod sign;
mod simulated;
mod verify;

use anyhow::Result;
use clap::Subcommand;

use crate::cluster::Connection;

pub(crate) use describe::short;
pub(crate) use owner::{OwnerKey, read_key};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make an owner's signing key, or an auditor's key.
    Keygen(keygen::Arguments),
    /// Draft the next document from the Peers and TransferSessions of a namespace, or from flags.
    Init(Box<init::Arguments>),
    /// Say in words what a policy permits and what it demands.
    Show(show::Arguments),
    /// Add one owner's signature to a draft or bundle.
    Sign(sign::Arguments),
    /// Check signatures, quorum, rotations and dates as a sidecar would.
    Verify(verify::Arguments),
    /// What changed between two policies.
    Diff(diff::Arguments),
    /// The TrustPolicy, ready for kubectl apply.
    Manifest(manifest::Arguments),
}

pub(crate) fn run(command: Command, connection: &Connection) -> Result<()> {
    match command {
        Command::Keygen(arguments) => keygen::run(&arguments),
        Command::Init(arguments) => init::run(&arguments, connection),
        Command::Show(arguments) => show::run(&arguments),
        Command::Sign(arguments) => sign::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Manifest(arguments) => manifest::run(&arguments, connection),
    }
}
