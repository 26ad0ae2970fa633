//! `kubectl sealane check`: gathers facts, judges them, prints a line each.

mod declared;
mod gather;
mod group;
mod judge;
mod names;
mod policies;
mod probe;
mod selector;
mod sidecars;
mod webhooks;
mod workloads;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::clock;
use crate::cluster::{Connection, RELEASE_NAMESPACE};
use crate::output::{self, Format};

/// Diagnoses the installation, or with --namespace what concerns that namespace: API server, CRDs, operator, webhooks (asked, with nothing stored), leader, opted-in
/// namespaces, sidecars and their nodes, policies, Peers and sessions. What the user has no right to see is SKIPPED. Exits 1 when
/// something is wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Namespace of the release.
    #[arg(long, value_name = "NAMESPACE", default_value = RELEASE_NAMESPACE)]
    release_namespace: String,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// One line of the diagnosis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    outcome: Outcome,
    what: String,
    /// What was found.
    detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Outcome {
    Good,
    Warning,
    /// The user has no right to look.
    Skipped,
    Failed,
}

impl Line {
    fn good(what: &str, detail: impl Into<String>) -> Self {
        Self { outcome: Outcome::Good, what: what.to_owned(), detail: detail.into(), remedy: None }
    }

    fn warning(what: &str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Warning,
            what: what.to_owned(),
            detail: detail.into(),
            remedy: Some(remedy.into()),
        }
    }

    fn skipped(what: &str, right: &str) -> Self {
        let remedy = "somebody with that right may see more; the rest of this diagnosis does without";
        Self {
            outcome: Outcome::Skipped,
            ..Self::warning(what, format!("needs the right to {right}"), remedy)
        }
    }

    fn failed(what: &str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failed, ..Self::warning(what, detail, remedy) }
    }
}

pub(crate) fn run(arguments: &Arguments, connection: &Connection) -> Result<()> {
    let release = arguments.release_namespace.as_str();
    let facts = connection.with_client(async |client, _| {
        gather::facts(&client, release, connection.namespace.as_deref()).await
    })?;
    let lines = group::group(judge::judge(&facts, release, clock::now()));
    match arguments.output {
        Format::Text => output::print(&text(&lines))?,
        Format::Json => output::print_json(&lines)?,
    }
    let failed = lines.iter().filter(|line| line.outcome == Outcome::Failed).count();
    if failed > 0 {
        bail!("{failed} of {} checks failed", lines.len());
    }
    Ok(())
}

fn text(lines: &[Line]) -> String {
    let mut text = String::new();
    for Line { outcome, what, detail, remedy } in lines {
        let word = match outcome {
            Outcome::Good => "ok  ",
            Outcome::Warning => "warn",
            Outcome::Skipped => "SKIPPED",
            Outcome::Failed => "FAIL",
        };
        text.push_str(&format!("{word}  {what}: {detail}\n"));
        if let Some(remedy) = remedy {
            text.push_str(&format!("      -> {remedy}\n"));
        }
    }
    text
}
