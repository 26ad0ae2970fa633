//! The answers, and how to take each of them away.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::suite::Suite;

const LIST: &str = "tests/removals.yaml";

/// One answer, the edit without which it is gone, and the tests that must fail then.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Removal {
    pub(super) attack: String,
    pub(super) file: PathBuf,
    pub(super) find: String,
    pub(super) replace: String,
    package: String,
    /// `lib`, the name of a test target, or a file of tests of the Python client.
    suite: String,
    /// What the names of its tests contain.
    pub(super) tests: String,
}

impl Removal {
    pub(super) fn suite(&self) -> Suite<'_> {
        Suite { package: &self.package, name: &self.suite }
    }

    pub(super) fn apply(&self, source: &str) -> Result<String> {
        let found = source.matches(&self.find).count();
        ensure!(
            found == 1,
            "`{}` occurs {found} times in {}, and once is wanted",
            self.find,
            self.file.display()
        );
        Ok(source.replacen(&self.find, &self.replace, 1))
    }
}

/// The removals whose attack or suite contains `only`; those of one test program lie together, and in there those of one
/// file.
pub(super) fn chosen(root: &Path, only: Option<&str>) -> Result<Vec<Removal>> {
    let mut removals = list(root)?;
    let is_meant =
        |removal: &Removal, word| removal.attack.contains(word) || removal.suite().to_string().contains(word);
    removals.retain(|removal| only.is_none_or(|word| is_meant(removal, word)));
    ensure!(!removals.is_empty(), "no attack or suite in {LIST} contains {:?}", only.unwrap_or_default());
    removals.sort_by(|one, other| (one.suite(), &one.file).cmp(&(other.suite(), &other.file)));
    Ok(removals)
}

fn list(root: &Path) -> Result<Vec<Removal>> {
    let text = std::fs::read(root.join(LIST)).with_context(|| format!("reading {LIST}"))?;
    let removals: Vec<Removal> =
        serde_norway::from_slice(&text).with_context(|| format!("parsing {LIST}"))?;
    let attacks: BTreeSet<_> = removals.iter().map(|removal| &removal.attack).collect();
    ensure!(attacks.len() == removals.len(), "two entries of {LIST} have one name");
    Ok(removals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn every_answer_is_where_the_list_says() {
        let removals = list(root()).unwrap();
        assert!(removals.len() > 100, "{} entries", removals.len());
        for removal in &removals {
            let source = std::fs::read_to_string(root().join(&removal.file)).unwrap();
            let without = removal.apply(&source).expect(&removal.attack);
            assert_ne!(without, source, "{}", removal.attack);
        }
    }

    #[test]
    fn what_has_one_test_program_lies_together() {
        let removals = chosen(root(), None).unwrap();
        let suites: Vec<_> = removals.chunk_by(|one, next| one.suite() == next.suite()).collect();
        let distinct: BTreeSet<_> = removals.iter().map(Removal::suite).collect();
        assert_eq!(suites.len(), distinct.len());
        assert!(chosen(root(), Some("no attack has this name")).is_err());
    }
}
