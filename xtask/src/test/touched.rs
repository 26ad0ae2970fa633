//! The tests that a change added or edited, which a gate runs many times.

use std::{collections::BTreeSet, path::Path, process::Command};

use anyhow::Result;

use crate::process;

/// Names of test functions in Rust whose lines differ from `base`.
///
/// # Errors
/// git fails, or a file cannot be read.
pub(super) fn tests(root: &Path, base: &str) -> Result<BTreeSet<String>> {
    let git = |arguments: &[&str]| process::text(Command::new("git").args(arguments).current_dir(root));
    let left = git(&["merge-base", "HEAD", base])?;
    let diff = git(&["diff", "--unified=0", "--find-renames=90%", left.trim(), "--", "*.rs"])?;
    let mut names = BTreeSet::new();
    for (path, lines) in changed_lines(&diff) {
        // Deleted, or moved meanwhile.
        let Ok(text) = std::fs::read_to_string(root.join(path)) else { continue };
        names.extend(functions(&text, &lines));
    }
    Ok(names)
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
fn functions(text: &str, lines: &BTreeSet<usize>) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edited_tests_are_found_by_their_lines() {
        let diff = "diff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -3 +3,2 @@ mod tests\n+a\n+b\n@@ -9,0 +12 @@\n+c\n@@ -20,2 +22,0 @@\n-d\n";
        assert_eq!(changed_lines(diff), [("x.rs", BTreeSet::from([3, 4, 12]))]);
        let text = "mod tests {\n    #[test]\n    fn one() {\n        a();\n    }\n\n    #[tokio::test]\n    async fn two() {\n        b();\n    }\n\n    fn helper() {\n        c();\n    }\n}\n";
        assert_eq!(functions(text, &BTreeSet::from([4])), ["one"]);
        assert_eq!(functions(text, &BTreeSet::from([7])), ["two"]);
        assert!(functions(text, &BTreeSet::from([13])).is_empty());
    }
}
