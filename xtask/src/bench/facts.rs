//! How programs that measure came about, to be left beside them for their report.

use std::{path::Path, process::Command};

use anyhow::Result;
use serde_json::json;

use crate::process::text;

/// The file that `sealane-bench` looks for beside itself.
pub(crate) const FILE: &str = "sealane-bench.build.json";

/// The file's content. `profile` is the name of a Cargo profile, and what it stands for.
///
/// # Errors
/// A toolchain that does not answer.
pub(crate) fn told(root: &Path, profile: &str) -> Result<String> {
    let said = |program: &str, arguments: &[&str]| {
        text(Command::new(program).args(arguments).current_dir(root)).map(|text| text.trim().to_owned())
    };
    // A tree without its history can be measured too.
    let commit = said("git", &["rev-parse", "--short=12", "HEAD"]).ok();
    let dirty = said("git", &["status", "--porcelain"]).ok().map(|changes| !changes.is_empty());
    let tree = ["tree", "--locked", "--package", "sealane-bench", "--edges", "normal", "--prefix", "none"];
    let crates = said("cargo", &[tree.as_slice(), &["--format", "{p} {f}"]].concat())?;
    let facts = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "rustc": said("rustc", &["--version"])?,
        "profile": profile,
        "commit": commit.unwrap_or_else(|| "unknown".to_owned()),
        "dirty": dirty,
        "crates": names(&crates),
    });
    Ok(format!("{facts:#}\n"))
}

/// Each crate once, in order, without folders of this machine.
fn names(tree: &str) -> Vec<String> {
    let line = |line: &str| {
        let line = line.trim_end_matches(" (*)");
        let (before, after) = line.split_once(" (").unwrap_or((line, ""));
        let features = after.split_once(") ").map(|(_, features)| features).unwrap_or_default();
        format!("{before} {features}").trim_end().to_owned()
    };
    let mut names: Vec<_> = tree.lines().filter(|text| !text.trim().is_empty()).map(line).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_named_once_and_without_its_folder() {
        let tree = "sealane-bench v0.1.0 (/home/ada/sealane/bench) \n\
                    bytes v1.12.1 default,std\n\
                    serde_derive v1.0.229 (proc-macro) default\n\
                    bytes v1.12.1 default,std (*)\n";
        let expected = ["bytes v1.12.1 default,std", "sealane-bench v0.1.0", "serde_derive v1.0.229 default"];
        assert_eq!(names(tree), expected);
    }
}
