//! Says what a bundle holds.

use std::path::PathBuf;

use anyhow::{Context, Result};
use sealane_attestation::bundle;

use super::contents::Contents;
use super::gather::read_file;
use crate::clock;
use crate::output::{self, Format};
use crate::source::shown;

/// Verifies each piece under the vendors' roots. Whether an owner signed the bundle is for `import` and for sidecars to
/// say, which know the policy.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// The bundle; `-` is stdin.
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { output: format, bundle: path } = arguments;
    let (bundle, signers) = bundle::read(&read_file(path)?).with_context(|| shown(path))?;
    let contents = Contents::of(&bundle, &signers, clock::now());
    match format {
        Format::Text => output::print(&contents.describe()),
        Format::Json => output::print_json(&contents),
    }
}
