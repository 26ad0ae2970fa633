//! `policy diff`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sealane_policy::{Change, Document, diff};
use serde_json::{Value, json};

use crate::output::{self, Format};
use crate::source::{Source, shown};

/// Lists every field that differs: `+` added, `-` removed, `~` changed. Documents that mean the same have no
/// differences, however they are formatted.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// A draft, bundle or TrustPolicy; `-` is stdin.
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// A draft, bundle or TrustPolicy.
    #[arg(value_name = "AFTER")]
    after: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let changes = diff(&read(&arguments.before)?, &read(&arguments.after)?);
    match arguments.output {
        Format::Text if changes.is_empty() => {
            output::say("No differences.");
            Ok(())
        }
        Format::Text => {
            output::print(&changes.iter().map(|change| format!("{change}\n")).collect::<String>())
        }
        Format::Json => output::print_json(&changes.iter().map(value).collect::<Vec<_>>()),
    }
}

fn read(path: &Path) -> Result<Document> {
    Source::read(path)?.as_it_is().with_context(|| shown(path))
}

fn value(change: &Change) -> Value {
    let parsed =
        |text: &Option<String>| text.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    json!({"path": change.path, "before": parsed(&change.before), "after": parsed(&change.after)})
}
