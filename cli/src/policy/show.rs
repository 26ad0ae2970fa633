//! `policy show`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use sealane_policy::{advice, lint};
use serde_json::Value;

use super::describe::describe;
use crate::clock;
use crate::output::{self, Format};
use crate::source::{Source, shown};

/// Says in words who takes part, what each must prove, who may talk to whom, and what is left open.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// `json` prints the document itself, formatted.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// A draft, bundle or TrustPolicy; `-` is stdin.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let source = Source::read(&arguments.file)?;
    if arguments.output == Format::Json {
        let document: Value = serde_json::from_slice(&source.bytes).context("the document is not JSON")?;
        return output::print_json(&document);
    }
    let document = source.as_it_is().with_context(|| shown(&arguments.file))?;
    let mut text = describe(&document, clock::now());
    text.push_str(&match source.chain.signatures.len() {
        0 => "\nNot signed yet.\n".to_owned(),
        count => format!("\nSignatures: {count}; `kubectl sealane policy verify` checks them.\n"),
    });
    let findings = lint(&document);
    if !findings.is_empty() {
        text.push_str("\nSidecars refuse it as it is:\n");
    }
    for finding in findings {
        text.push_str(&format!("  - {finding}\n"));
    }
    let advice = advice(&document);
    if !advice.is_empty() {
        text.push_str("\nWorth knowing before it is signed:\n");
    }
    for advice in advice {
        text.push_str(&format!("  - {advice}\n"));
    }
    output::print(&text)
}
