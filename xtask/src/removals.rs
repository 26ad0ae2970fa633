//! Takes the answers of SECURITY.md away, one at a time, and demands that a test notices.
//!
//! The list is `tests/removals.yaml`. Every edit is made in a copy of the tree with a build folder of its own, so that
//! nothing which lacks an answer can ever be started by mistake.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::{process, progress};

const LIST: &str = "tests/removals.yaml";

/// One answer, and how to take it away.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Removal {
    attack: String,
    file: PathBuf,
    find: String,
    replace: String,
    package: String,
    tests: String,
}

/// What the tests said.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    NoTests,
    NotCompiled,
}

/// Runs every removal whose attack contains `only`.
///
/// # Errors
/// An answer that no test misses, a test that fails with the answer in place, or an edit that does not compile.
pub fn run(root: &Path, only: Option<&str>) -> Result<()> {
    let removals = list(root)?;
    let chosen: Vec<_> =
        removals.iter().filter(|removal| only.is_none_or(|word| removal.attack.contains(word))).collect();
    ensure!(!chosen.is_empty(), "no attack in {LIST} contains {:?}", only.unwrap_or_default());
    let copy = Copy::make(root)?;
    progress::note("building a copy of the tree, and its tests as they are");
    for removal in &chosen {
        let said = copy.test(removal)?;
        ensure!(said == Verdict::Passed, "{}: as it is, `{}` says {said:?}", removal.attack, removal.tests);
    }
    let mut troubles = Vec::new();
    for (number, removal) in chosen.iter().enumerate() {
        let trouble = judge(&copy, removal)?;
        let said = trouble.unwrap_or("noticed");
        progress::print(&format!("  {:>3}/{} {}: {said}", number + 1, chosen.len(), removal.attack));
        troubles.extend(trouble.map(|trouble| format!("{}: {trouble}", removal.attack)));
    }
    if !troubles.is_empty() {
        bail!("{} of {} answers:\n{}", troubles.len(), chosen.len(), troubles.join("\n"));
    }
    progress::print(&format!("{} answers, and a test that misses each of them", chosen.len()));
    Ok(())
}

/// What is wrong once the answer is gone, if anything is.
fn judge(copy: &Copy, removal: &Removal) -> Result<Option<&'static str>> {
    let path = copy.tree.join(&removal.file);
    let source = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    std::fs::write(&path, removal.apply(&source)?)?;
    let without = copy.test(removal);
    std::fs::write(&path, source)?;
    Ok(match without? {
        Verdict::Failed => None,
        Verdict::NotCompiled => Some("the edit does not compile"),
        Verdict::Passed | Verdict::NoTests => Some("NO TEST MISSES IT"),
    })
}

fn list(root: &Path) -> Result<Vec<Removal>> {
    let text = std::fs::read(root.join(LIST)).with_context(|| format!("reading {LIST}"))?;
    let removals: Vec<Removal> =
        serde_norway::from_slice(&text).with_context(|| format!("parsing {LIST}"))?;
    let attacks: BTreeSet<_> = removals.iter().map(|removal| &removal.attack).collect();
    ensure!(attacks.len() == removals.len(), "two entries of {LIST} have one name");
    Ok(removals)
}

impl Removal {
    fn apply(&self, source: &str) -> Result<String> {
        let found = source.matches(&self.find).count();
        ensure!(
            found == 1,
            "{}: `{}` occurs {found} times in {}, and once is wanted",
            self.attack,
            self.find,
            self.file.display()
        );
        Ok(source.replacen(&self.find, &self.replace, 1))
    }
}

/// A copy of the tree, which builds beside the real one.
struct Copy {
    tree: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn make(root: &Path) -> Result<Self> {
        let folder = root.join("target/removals");
        let copy = Self { tree: folder.join("tree"), target: folder.join("target") };
        let listed = process::text(
            Command::new("git")
                .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
                .current_dir(root),
        )?;
        for name in listed.split('\0').filter(|name| !name.is_empty()) {
            let (from, to) = (root.join(name), copy.tree.join(name));
            // Deleted, and not committed yet.
            let Ok(bytes) = std::fs::read(&from) else { continue };
            // What is unchanged keeps its time, so that it is not built again.
            if std::fs::read(&to).is_ok_and(|there| there == bytes) {
                continue;
            }
            std::fs::create_dir_all(to.parent().unwrap_or(&copy.tree))?;
            std::fs::write(&to, bytes).with_context(|| format!("copying {name}"))?;
        }
        Ok(copy)
    }

    fn test(&self, removal: &Removal) -> Result<Verdict> {
        let cargo = |arguments: &[&str]| {
            let mut command = Command::new("cargo");
            command
                .args(["test", "--quiet", "--package", &removal.package])
                .args(arguments)
                .env("CARGO_TARGET_DIR", &self.target)
                .current_dir(&self.tree)
                .stdin(Stdio::null());
            command.output().map_err(|error| process::start_error(&command, error))
        };
        if !cargo(&["--no-run"])?.status.success() {
            return Ok(Verdict::NotCompiled);
        }
        let output = cargo(&["--lib", "--tests", "--no-fail-fast", "--", &removal.tests])?;
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(match (output.status.success(), said.contains("test result: FAILED")) {
            (true, _) if said.contains(" passed; ") && !ran_nothing(&said) => Verdict::Passed,
            (true, _) => Verdict::NoTests,
            // A test that ends the whole process has noticed as well.
            (false, _) => Verdict::Failed,
        })
    }
}

/// Whether no suite ran a test.
fn ran_nothing(said: &str) -> bool {
    said.lines().filter(|line| line.starts_with("test result:")).all(|line| line.contains(" 0 passed;"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_where_the_list_says() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let removals = list(root).unwrap();
        assert!(removals.len() > 40, "{} entries", removals.len());
        for removal in &removals {
            let source = std::fs::read_to_string(root.join(&removal.file)).unwrap();
            removal.apply(&source).unwrap();
        }
    }

    #[test]
    fn suites_without_tests_are_seen() {
        assert!(ran_nothing("test result: ok. 0 passed; 0 failed\ntest result: ok. 0 passed; 0 failed\n"));
        assert!(!ran_nothing("test result: ok. 0 passed; 0 failed\ntest result: ok. 3 passed; 0 failed\n"));
    }
}
