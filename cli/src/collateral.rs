//! `kubectl sealane collateral`: what evidence of hardware is judged by, for sidecars that do not fetch it.

mod bundle;
mod contents;
mod gather;
mod import;
mod show;

use anyhow::Result;
use clap::Subcommand;

use crate::cluster::Connection;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Put revocation lists, TCB information and certificates of chips into a bundle, signed by an owner.
    Bundle(bundle::Arguments),
    /// Verify a bundle and put it where the sidecars of a namespace find it.
    Import(import::Arguments),
    /// Say what a bundle holds, and until when.
    Show(show::Arguments),
}

pub(crate) fn run(command: Command, connection: &Connection) -> Result<()> {
    match command {
        Command::Bundle(arguments) => bundle::run(&arguments),
        Command::Import(arguments) => import::run(&arguments, connection),
        Command::Show(arguments) => show::run(&arguments),
    }
}
