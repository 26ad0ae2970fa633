//! Tests that left something out, held against `tests/skips.txt`.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};

const ALLOWED: &str = "tests/skips.txt";

/// Reads what the tests of a run noted: reason by test.
pub(super) fn noted(file: &Path) -> Result<BTreeMap<String, String>> {
    if !file.exists() {
        return Ok(BTreeMap::new());
    }
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    Ok(pairs(&text).collect())
}

/// What a landing may not leave out: a test that is not in the list, or is there for another reason.
///
/// # Errors
/// There is no list.
pub(super) fn troubles(root: &Path, skips: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let allowed = fs::read_to_string(root.join(ALLOWED)).with_context(|| format!("reading {ALLOWED}"))?;
    let allowed: Vec<_> = pairs(&allowed).collect();
    let is_allowed = |name: &str, reason: &str| {
        // A name that ends with a star stands for every test that begins so.
        allowed.iter().any(|(listed, why)| {
            why == reason && listed.strip_suffix('*').map_or(listed == name, |start| name.starts_with(start))
        })
    };
    let refused = skips.iter().filter(|(name, reason)| !is_allowed(name, reason));
    Ok(refused
        .map(|(name, reason)| format!("{name} was skipped ({reason}), which {ALLOWED} does not allow"))
        .collect())
}

fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('\t')).map(|(name, reason)| (name.to_owned(), reason.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_tests_may_skip_and_only_for_their_reason() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("tests")).unwrap();
        fs::write(root.path().join(ALLOWED), "# why\na::b\tno torch\ntest_x.py::test_t*\tno torch\n")
            .unwrap();
        let skips = |lines: &str| pairs(lines).collect::<BTreeMap<_, _>>();
        let troubles = |lines: &str| super::troubles(root.path(), &skips(lines)).unwrap();
        assert!(troubles("a::b\tno torch\ntest_x.py::test_t[1]\tno torch\n").is_empty());
        assert_eq!(troubles("a::b\tno disk\na::c\tno torch\n").len(), 2);
    }
}
