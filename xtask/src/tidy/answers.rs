//! Attacks, what answers them, and the tests that say so: `tests/attacks.yaml`, and the page that is made of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Finding;
use crate::progress::print;

const LIST: &str = "tests/attacks.yaml";
const PAGE: &str = "docs/attacks.md";
const HEAD: &str = "# Attacks and their answers

What is tried against Sealane, what answers it, and the tests that fail when the answer is removed. [SECURITY.md](../SECURITY.md)
says what is trusted and what remains. `cargo xtask removals` takes the answers of
[tests/removals.yaml](../tests/removals.yaml) away one by one, in a copy of the tree, and demands that a test notices.
`make model` looks for attacks on the handshake itself with a symbolic analyser
([PROTOCOL.md](../protocol/PROTOCOL.md#12-the-model) says what it found and what it leaves out).

This page is made of [tests/attacks.yaml](../tests/attacks.yaml) by `cargo xtask attacks`.
";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    section: String,
    about: String,
    attacks: Vec<Attack>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attack {
    attack: String,
    answer: String,
    /// Names by the file that they are in.
    tests: BTreeMap<String, Vec<String>>,
}

/// Writes the page.
///
/// # Errors
/// The list cannot be read, or the page not be written.
pub fn write(root: &Path) -> Result<()> {
    std::fs::write(root.join(PAGE), page(&read(root)?)).with_context(|| format!("writing {PAGE}"))?;
    print(&format!("{PAGE} is what {LIST} says"));
    Ok(())
}

/// Tests that are not there, and a page that is another.
pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let sections = read(root)?;
    let mut findings: Vec<_> = sections.iter().flat_map(|section| missing(root, section)).collect();
    if std::fs::read_to_string(root.join(PAGE)).ok() != Some(page(&sections)) {
        let message = format!("it is not what {LIST} says; `cargo xtask attacks` writes it");
        findings.push(Finding { place: PAGE.to_owned(), message });
    }
    Ok(findings)
}

fn read(root: &Path) -> Result<Vec<Section>> {
    let text = std::fs::read(root.join(LIST)).with_context(|| format!("reading {LIST}"))?;
    serde_norway::from_slice(&text).with_context(|| format!("reading {LIST}"))
}

fn missing(root: &Path, section: &Section) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Attack { attack, tests, .. } in &section.attacks {
        for (path, names) in tests {
            let source = std::fs::read_to_string(root.join(path)).unwrap_or_default();
            let defined =
                |test: &str| ["fn ", "def "].iter().any(|word| source.contains(&format!("{word}{test}(")));
            for test in names.iter().filter(|test| !defined(test)) {
                let place = format!("{LIST}, `{attack}`");
                findings.push(Finding { place, message: format!("no test `{test}` in `{path}`") });
            }
        }
        if tests.is_empty() {
            findings.push(Finding { place: format!("{LIST}, `{attack}`"), message: "no test".to_owned() });
        }
    }
    findings
}

fn page(sections: &[Section]) -> String {
    let mut page = HEAD.to_owned();
    for Section { section, about, attacks } in sections {
        let _ = write!(page, "\n## {section}\n{about}\n\n| attack | answer | tests |\n|---|---|---|\n");
        for Attack { attack, answer, tests } in attacks {
            let tests: Vec<_> = tests.iter().map(|(path, names)| of_file(path, names)).collect();
            let _ = writeln!(page, "| {attack} | {answer} | {} |", tests.join("; "));
        }
    }
    page
}

fn of_file(path: &str, names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`::{name}`")).collect();
    format!("`{path}` {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "
- section: Everywhere
  about: Anything.
  attacks:
    - attack: Somebody tries
      answer: nobody can
      tests: {xtask/src/tidy/answers.rs: [a_test_has_to_be_there, this_one_is_not]}
    - {attack: Another, answer: none, tests: {}}
";

    #[test]
    fn a_test_has_to_be_there() {
        let sections: Vec<Section> = serde_norway::from_str(YAML).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let found: Vec<_> = missing(root, &sections[0]).into_iter().map(|finding| finding.message).collect();
        assert_eq!(found, ["no test `this_one_is_not` in `xtask/src/tidy/answers.rs`", "no test"]);
    }

    #[test]
    fn a_row_names_each_file_once() {
        let sections: Vec<Section> = serde_norway::from_str(YAML).unwrap();
        let row = "| Somebody tries | nobody can | `xtask/src/tidy/answers.rs` `::a_test_has_to_be_there`, `::this_one_is_not` |";
        assert!(page(&sections).lines().any(|line| line == row), "{}", page(&sections));
    }
}
