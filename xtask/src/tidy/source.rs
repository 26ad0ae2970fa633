//! Rules about source files: who may name what, how long a file is, what a name says.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::Finding;

/// A word that only some files may contain.
struct Reserved {
    /// The tree the rule is about.
    within: &'static str,
    word: &'static str,
    /// Path prefixes where the word belongs.
    only: &'static [&'static str],
    why: &'static str,
}

const RESERVED: &[Reserved] = &[
    Reserved {
        within: "protocol/src",
        word: "snow::",
        only: &["protocol/src/handshake"],
        why: "only handshake/ names snow",
    },
    Reserved {
        within: "protocol/src",
        word: "aead::",
        only: &["protocol/src/record", "protocol/src/handshake"],
        why: "only record/ (and the Noise resolver) uses an AEAD",
    },
    Reserved {
        within: "protocol",
        word: "Instant::now",
        only: &["protocol/examples"],
        why: "the protocol is told the time",
    },
    Reserved {
        within: "protocol",
        word: "SystemTime::now",
        only: &["protocol/attestation/simulated"],
        why: "the protocol is told the time",
    },
    Reserved {
        within: "",
        word: "test_root",
        only: &["protocol/attestation/src", "xtask/judge", "xtask/src/tidy"],
        why: "only `cargo xtask judge --test-roots` takes roots that say they are simulated for a vendor's",
    },
    Reserved {
        within: "sidecar/src",
        word: "SystemTime::now",
        only: &["sidecar/src/session/clock"],
        why: "only session/clock reads the wall clock",
    },
    Reserved {
        within: "sidecar/src",
        word: "sealane_sidecar_api",
        only: &[
            "sidecar/src/agent/csi",
            "sidecar/src/agent/runtime",
            "sidecar/src/control",
            "sidecar/src/door/grpc/convert",
            // The bounds that the decoder itself holds.
            "sidecar/src/door/grpc/limits",
            "sidecar/src/door/grpc/service",
        ],
        why: "only control/, the agent's csi and runtime, and the gRPC door's convert and service see protobuf",
    },
    Reserved {
        within: "bench/src",
        word: "Command::new",
        only: &["bench/src/programs/child"],
        why: "only programs/child begins commands: it keeps the key of the run from them",
    },
    Reserved {
        within: "operator/src/reconcile/plan",
        word: "Client",
        only: &[],
        why: "plan is pure: it takes no client",
    },
    Reserved {
        within: "operator/src/reconcile/validate",
        word: "Client",
        only: &[],
        why: "validate is pure: it takes no client",
    },
    Reserved {
        within: "operator/injection/src",
        word: "Client",
        only: &[],
        why: "inject is pure: it takes no client",
    },
];

/// A file has one reason to change; past this many lines of code it has two. Tests at the end of a file, comments and
/// blank lines do not count: nobody shall be tempted to write less of them.
const FILE_LINES_MAX: usize = 400;

const SKIPPED_FOLDERS: &[&str] =
    &["target", ".git", "node_modules", "corpus", "__pycache__", ".pytest_cache"];

/// What a generator wrote, as long as it likes. A test compares it with its source.
const GENERATED: &str = "sidecar/api/src/generated/";

pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let written = files(root)?;
    let ours = written.iter().filter(|(path, _)| path.ends_with(".rs") && !path.starts_with(GENERATED));
    Ok(ours.flat_map(|(path, text)| judge(path, text)).collect())
}

/// Every source file in Rust or Python, with its path from the root on.
pub(super) fn files(root: &Path) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    let read = |file: PathBuf| {
        let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).with_context(|| format!("reading {path}"))?;
        Ok((path, text))
    };
    files.into_iter().map(read).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped) {
            collect(&path, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|end| end == "rs" || end == "py") {
            files.push(path);
        }
    }
    Ok(())
}

fn judge(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |line: Option<usize>, message: String| {
        let place = line.map_or_else(|| path.to_owned(), |line| format!("{path}:{line}"));
        findings.push(Finding { place, message });
    };
    let name = path.rsplit('/').next().unwrap_or(path);
    if matches!(name, "mod.rs" | "utils.rs" | "util.rs" | "helpers.rs" | "common.rs") {
        report(None, format!("`{name}` says nothing about its content: name the file after its reason"));
    }
    if path.ends_with("src/lib.rs") && !text.starts_with("//!") {
        report(None, "a crate opens with its invariant and what is deliberately absent (`//! …`)".to_owned());
    }
    let in_tests = path.contains("/tests/") || name == "tests.rs";
    let product: Vec<&str> = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").collect();
    let blank = |line: &&&str| line.trim().is_empty() || line.trim_start().starts_with("//");
    let code = product.iter().filter(|line| !blank(line)).count();
    if !in_tests && code > FILE_LINES_MAX {
        report(None, format!("{code} lines of code; split it by reason (at most {FILE_LINES_MAX})"));
    }
    for (index, line) in product.iter().enumerate() {
        let comment = line.trim_start().starts_with("//");
        for rule in RESERVED {
            let here = path.starts_with(rule.within) && !rule.only.iter().any(|only| path.starts_with(only));
            if here && !in_tests && !comment && line.contains(rule.word) {
                report(Some(index + 1), rule.why.to_owned());
            }
        }
        let open_task = ["TO", "DO"].concat();
        if line.contains(&open_task) && !line.contains(&format!("{open_task}(")) {
            report(Some(index + 1), "an open task needs an owner and a reason: (name): why".to_owned());
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        judge(path, text).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn reserved_words_stay_in_their_room() {
        assert_eq!(messages("protocol/src/record/seal.rs", "use snow::Builder;").len(), 1);
        assert!(messages("protocol/src/handshake/noise.rs", "use snow::Builder;").is_empty());
        assert!(messages("protocol/src/record/seal.rs", "// not snow::Builder").is_empty());
        assert_eq!(messages("operator/src/reconcile/plan/peer.rs", "use kube::Client;").len(), 1);
    }

    #[test]
    fn long_files_and_empty_names_are_found() {
        let long = "let a = 1;\n".repeat(FILE_LINES_MAX + 1);
        assert_eq!(messages("sidecar/src/link.rs", &long).len(), 1);
        let tested = format!("fn a() {{}}\n#[cfg(test)]\n{long}");
        assert!(messages("sidecar/src/link.rs", &tested).is_empty());
        assert_eq!(messages("sidecar/src/link/mod.rs", "").len(), 1);
    }

    #[test]
    fn an_open_task_has_an_owner() {
        let word = ["TO", "DO"].concat();
        assert_eq!(messages("cli/src/main.rs", &format!("// {word}: later")).len(), 1);
        assert!(messages("cli/src/main.rs", &format!("// {word}(ada): needs kernel 6.20")).is_empty());
    }
}
