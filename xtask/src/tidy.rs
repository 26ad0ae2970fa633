//! `cargo xtask tidy`: the rules of the codebase that a compiler does not check.
//!
//! Every finding names the file, the rule and the way out. A rule that needs an exception gets it here, with its
//! reason, and nowhere else.

pub mod answers;
mod source;
mod waits;
mod walls;

use std::path::Path;

use anyhow::{Result, bail};

use crate::progress::{note, print};

/// One broken rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Where: a path relative to the repository, with a line when there is one.
    pub(crate) place: String,
    pub(crate) message: String,
}

/// Checks the whole tree.
///
/// # Errors
/// Any broken rule, after printing each; or a tree that cannot be read.
pub fn run(root: &Path) -> Result<()> {
    let mut findings = walls::check(root)?;
    findings.extend(source::check(root)?);
    findings.extend(waits::check(root)?);
    findings.extend(answers::check(root)?);
    for finding in &findings {
        note(&format!("{}: {}", finding.place, finding.message));
    }
    if findings.is_empty() {
        print("tidy: walls, source rules and layout hold");
        return Ok(());
    }
    bail!("tidy: {} finding(s)", findings.len())
}
