//! `cargo xtask judge`: starts the program in `xtask/judge`, which needs the verifiers of evidence. xtask itself builds
//! without them.

use std::{ffi::OsString, os::unix::process::CommandExt, path::Path, process::Command};

use anyhow::{Context, Result};

use crate::images;

/// What the program takes
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Options {
    /// See `cargo xtask judge --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "INDEX")]
    arguments: Vec<OsString>,
}

impl Options {
    /// Builds the program and becomes it, so that its exit status is the command's.
    ///
    /// # Errors
    /// A build that fails, or a program that cannot be started.
    pub fn run(&self, root: &Path) -> Result<()> {
        let program = images::program(root, "sealane-judge")?;
        Err(Command::new(&program).args(&self.arguments).exec())
            .with_context(|| format!("start {}", program.display()))
    }
}
