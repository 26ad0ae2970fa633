//! The tests that SECURITY.md names are there.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result};

use super::Finding;

const TABLE: &str = "SECURITY.md";

pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let text = std::fs::read_to_string(root.join(TABLE)).with_context(|| format!("reading {TABLE}"))?;
    let mut sources = BTreeMap::new();
    let mut findings = Vec::new();
    for (line, path, test) in named(&text) {
        let source = sources
            .entry(path)
            .or_insert_with(|| path.and_then(|path| std::fs::read_to_string(root.join(path)).ok()));
        let defined =
            |source: &String| ["fn ", "def "].iter().any(|word| source.contains(&format!("{word}{test}(")));
        if !source.as_ref().is_some_and(defined) {
            let place = format!("{TABLE}:{line}");
            let message = format!("no test `{test}` in `{}`", path.unwrap_or("no file"));
            findings.push(Finding { place, message });
        }
    }
    Ok(findings)
}

/// Line, file and name of each test in the table: a path holds for the names behind it, up to the end of its row.
fn named(text: &str) -> impl Iterator<Item = (usize, Option<&str>, &str)> {
    text.lines().enumerate().filter(|(_, line)| line.starts_with('|')).flat_map(|(number, line)| {
        let words = line.split('`').skip(1).step_by(2);
        words
            .scan(None, |path, word| {
                let test = word.strip_prefix("::");
                if test.is_none() && word.contains('/') {
                    *path = Some(word);
                }
                Some(test.map(|test| (*path, test)))
            })
            .flatten()
            .map(move |(path, test)| (number + 1, path, test))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_holds_for_the_names_behind_it() {
        let text = "`::not_a_row`\n| an attack | `Word` answers | `a/b.rs` `::one`, `::two`; `c.py` `c/d.py` `::three` |\n| | | `::four` |";
        let found: Vec<_> = named(text).collect();
        let expected = [
            (2, Some("a/b.rs"), "one"),
            (2, Some("a/b.rs"), "two"),
            (2, Some("c/d.py"), "three"),
            (3, None, "four"),
        ];
        assert_eq!(found, expected);
    }
}
