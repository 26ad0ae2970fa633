//! The tests that a change added or edited, which a gate runs many times.

use std::{collections::BTreeSet, path::Path, process::Command};

use anyhow::Result;

use crate::process;

/// Where tests are that can run many times: those of the chart need what a cluster brings.
const PLACES: [&str; 3] = ["*.rs", "clients/python/tests/test_*.py", "tests/vectors/test_*.py"];

/// `cargo xtask tidy` refuses a file that is anywhere near as long.
const LINES_MAX: usize = 10_000;

/// Tests whose lines differ from a commit.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// Names of functions.
    pub(super) rust: BTreeSet<String>,
    /// `FILE::FUNCTION`, as pytest takes them.
    pub(super) python: BTreeSet<String>,
}

impl Touched {
    /// What differs from `base`.
    ///
    /// # Errors
    /// git fails, or a file cannot be read.
    pub(super) fn since(root: &Path, base: &str) -> Result<Self> {
        let git = |arguments: &[&str]| process::text(Command::new("git").args(arguments).current_dir(root));
        let left = git(&["merge-base", "HEAD", base])?;
        let range = ["diff", "--unified=0", "--find-renames=90%", left.trim(), "--"];
        let diff = git(&[&range[..], &PLACES].concat())?;
        let untracked = git(&[&["ls-files", "--others", "--exclude-standard", "--"][..], &PLACES].concat())?;
        let whole = untracked.lines().map(|path| (path, (1..=LINES_MAX).collect()));
        let mut touched = Self::default();
        for (path, lines) in changed_lines(&diff).into_iter().chain(whole) {
            // Deleted, or moved meanwhile.
            let Ok(text) = std::fs::read_to_string(root.join(path)) else { continue };
            if path.ends_with(".rs") {
                touched.rust.extend(rust_tests(&text, &lines));
            } else {
                touched.python.extend(python_tests(&text, &lines).map(|name| format!("{path}::{name}")));
            }
        }
        Ok(touched)
    }
}

/// Files of a diff without context, and the numbers of their new lines.
fn changed_lines(diff: &str) -> Vec<(&str, BTreeSet<usize>)> {
    let mut files: Vec<(&str, BTreeSet<usize>)> = Vec::new();
    for line in diff.lines() {
        if let Some(path) = line.strip_prefix("+++ b/") {
            files.push((path, BTreeSet::new()));
        } else if let Some((_, new)) = line.strip_prefix("@@ -").and_then(|hunk| hunk.split_once(" +")) {
            let range = new.split(' ').next().unwrap_or_default();
            let (first, count) = range.split_once(',').unwrap_or((range, "1"));
            if let (Some((_, lines)), Ok(first), Ok(count)) =
                (files.last_mut(), first.parse::<usize>(), count.parse::<usize>())
            {
                lines.extend(first..first + count);
            }
        }
    }
    files
}

/// The test functions of a file that hold one of these lines. A function ends where its closing brace stands below its
/// beginning, as rustfmt writes it.
fn rust_tests(text: &str, lines: &BTreeSet<usize>) -> Vec<String> {
    let all: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in all.iter().enumerate() {
        let code = line.trim_start();
        let Some(rest) = code.strip_prefix("async fn ").or_else(|| code.strip_prefix("fn ")) else {
            continue;
        };
        let above = all[..index].iter().rev().take_while(|line| {
            let line = line.trim_start();
            line.starts_with("#[") || line.starts_with("//")
        });
        let attributes: Vec<_> = above.collect();
        if !attributes.iter().any(|line| line.contains("test]") || line.contains("test(")) {
            continue;
        }
        let indent = &line[..line.len() - code.len()];
        let length = all[index..].iter().position(|line| *line == format!("{indent}}}")).unwrap_or(0);
        let begin = index + 1 - attributes.len();
        if lines.range(begin..=index + 1 + length).next().is_some() {
            found.push(rest.split('(').next().unwrap_or_default().to_owned());
        }
    }
    found
}

/// The test functions of a module that hold one of these lines. A function ends where the next line begins that is not
/// indented.
fn python_tests<'a>(text: &'a str, lines: &BTreeSet<usize>) -> impl Iterator<Item = &'a str> {
    let all: Vec<_> = text.lines().collect();
    let is_outside = |line: &&str| !line.is_empty() && !line.starts_with([' ', ')', '#']);
    let defined = all.clone().into_iter().enumerate().filter_map(|(index, line)| {
        let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ")?;
        rest.starts_with("test_").then(|| (index, rest.split('(').next().unwrap_or_default()))
    });
    let is_touched = move |index: usize| {
        let decorators = all[..index].iter().rev().take_while(|line| line.starts_with('@')).count();
        let length = all[index + 1..].iter().position(&is_outside).unwrap_or(all.len() - index - 1);
        lines.range(index + 1 - decorators..=index + 1 + length).next().is_some()
    };
    defined.filter(move |(index, _)| is_touched(*index)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edited_tests_are_found_by_their_lines() {
        let diff = "diff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -3 +3,2 @@ mod tests\n+a\n+b\n@@ -9,0 +12 @@\n+c\n@@ -20,2 +22,0 @@\n-d\n";
        assert_eq!(changed_lines(diff), [("x.rs", BTreeSet::from([3, 4, 12]))]);
        let text = "mod tests {\n    #[test]\n    fn one() {\n        a();\n    }\n\n    #[tokio::test]\n    async fn two() {\n        b();\n    }\n\n    fn helper() {\n        c();\n    }\n}\n";
        assert_eq!(rust_tests(text, &BTreeSet::from([4])), ["one"]);
        assert_eq!(rust_tests(text, &BTreeSet::from([7])), ["two"]);
        assert!(rust_tests(text, &BTreeSet::from([13])).is_empty());
    }

    #[test]
    fn edited_python_tests_are_found_by_their_lines() {
        let text = "import x\n\n@mark\ndef test_one(\n    a: int,\n) -> None:\n    assert a\n\n    b()\n\n\ndef helper():\n    pass\n\n\nasync def test_two():\n    c()\n";
        let of = |line| python_tests(text, &BTreeSet::from([line])).collect::<Vec<_>>();
        assert_eq!([3, 5, 9].map(of), [["test_one"], ["test_one"], ["test_one"]]);
        assert_eq!([of(17), of(13), of(1)], [vec!["test_two"], vec![], vec![]]);
    }
}
