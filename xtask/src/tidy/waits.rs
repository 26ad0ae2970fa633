//! Rules about tests: none judges a wall clock, a speed or chance, and none sleeps until something should have happened.
//!
//! What a rule must not be asked about stands in `tests/waits.txt`, with its reason.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};

use super::{Finding, source};

const EXCEPTIONS: &str = "tests/waits.txt";
const EXCEPTIONS_MAX: usize = 10;
/// A pause between two looks at a condition is no longer than this.
const PAUSE_MILLIS_MAX: u64 = 20;
/// What decides that something does not happen any more takes at least this.
const DEADLINE_SECONDS_MIN: u64 = 30;

/// `PATH<TAB>PART OF THE LINE<TAB>REASON`.
struct Exception {
    path: String,
    part: String,
}

pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let exceptions = exceptions(root)?;
    let mut findings = Vec::new();
    for (path, text) in source::files(root)? {
        let found = if path.ends_with(".rs") {
            rust(&path, &text)
        } else if path.ends_with(".py") && path.contains("tests/") && !path.contains("e2e/programs") {
            python(&path, &text)
        } else {
            continue;
        };
        let is_excepted =
            |line: &str| exceptions.iter().any(|one| one.path == path && line.contains(&one.part));
        findings.extend(found.into_iter().filter(|(line, _)| !is_excepted(line)).map(|(_, finding)| finding));
    }
    Ok(findings)
}

fn exceptions(root: &Path) -> Result<Vec<Exception>> {
    let text = fs::read_to_string(root.join(EXCEPTIONS)).with_context(|| format!("reading {EXCEPTIONS}"))?;
    let mut exceptions = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let parts: Vec<_> = line.split('\t').collect();
        let [path, part, reason] = parts[..] else {
            anyhow::bail!("{EXCEPTIONS}: {line:?} has not three columns")
        };
        let there = fs::read_to_string(root.join(path)).is_ok_and(|text| text.contains(part));
        ensure!(there && !reason.is_empty(), "{EXCEPTIONS}: {path} has no {part:?}, or there is no reason");
        exceptions.push(Exception { path: path.to_owned(), part: part.to_owned() });
    }
    ensure!(exceptions.len() <= EXCEPTIONS_MAX, "{EXCEPTIONS} has more than {EXCEPTIONS_MAX} exceptions");
    Ok(exceptions)
}

/// Findings with their lines. Code under a paused clock may sleep and time out as it likes: no time passes there.
fn rust<'a>(path: &str, text: &'a str) -> Vec<(&'a str, Finding)> {
    let is_test = path.contains("tests/") || path.ends_with("tests.rs");
    let lines = text.lines().enumerate();
    let is_paused = text.contains("start_paused");
    let mut measured: Vec<&str> = Vec::new();
    let mut findings = Vec::new();
    let tests = lines.skip_while(|(_, line)| !is_test && !line.trim_start().starts_with("#[cfg(test)]"));
    for (index, line) in tests.filter(|(_, line)| !line.trim_start().starts_with("//")) {
        let mut report = |message: &str| findings.push((line, finding(path, index, message)));
        let by_variable = measured.iter().any(|name| line.contains(&format!("{name} < ")));
        if line.contains(".elapsed() <") || by_variable {
            report("a test does not judge how fast a machine is: tell the figure, or hold the clock");
        }
        if let Some((name, value)) =
            line.trim_start().strip_prefix("let ").and_then(|line| line.split_once(" = "))
            && value.contains(".elapsed()")
        {
            measured.push(name.trim_start_matches("mut "));
        }
        if is_paused {
            continue;
        }
        if duration(line, "sleep(").is_some_and(|millis| millis > PAUSE_MILLIS_MAX) {
            report("a test waits for a condition and does not sleep until it should hold");
        }
        if duration(line, "timeout(").is_some_and(|millis| millis < DEADLINE_SECONDS_MIN * 1000) {
            report("what decides a pass by its absence has a generous deadline");
        }
    }
    findings
}

/// The milliseconds of a literal `Duration` that stands first in the brackets of a call.
fn duration(line: &str, call: &str) -> Option<u64> {
    let (before, arguments) = line.split_once(call)?;
    // `handle_timeout(` is another function.
    if before.ends_with('_') {
        return None;
    }
    let (_, value) = arguments
        .split_once("Duration::from_")
        .filter(|(path, _)| path.is_empty() || path.ends_with("::"))?;
    let (unit, number) = value.split_once('(')?;
    let digits: String =
        number.chars().take_while(|letter| letter.is_ascii_digit() || *letter == '_').collect();
    let number: u64 = digits.replace('_', "").parse().ok()?;
    match unit {
        "secs" => Some(number * 1000),
        "millis" => Some(number),
        "micros" => Some(number / 1000),
        _ => None,
    }
}

fn python<'a>(path: &str, text: &'a str) -> Vec<(&'a str, Finding)> {
    let lines: Vec<_> = text.lines().collect();
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.trim_start().starts_with('#')) {
        let mut report = |message: &str| findings.push((*line, finding(path, index, message)));
        if line.contains("assert") && line.contains("monotonic()") && line.contains(" < ") {
            report("a test does not judge how fast a machine is");
        }
        let slept =
            line.split_once("sleep(").and_then(|(_, rest)| rest.split(')').next()?.parse::<f64>().ok());
        if slept.is_some_and(|seconds| seconds * 1000.0 > PAUSE_MILLIS_MAX as f64) {
            report("a test waits for a condition and does not sleep until it should hold");
        }
        let deadline = line.split_once("timeout=").and_then(|(_, rest)| number(rest));
        // Below a second it is what is tested: that it is given up in time.
        if deadline.is_some_and(|seconds| (1.0..DEADLINE_SECONDS_MIN as f64).contains(&seconds)) {
            report("what decides a pass by its absence has a generous deadline");
        }
        if line.contains("urandom") {
            report("a test takes the same input every time: all values, or a seed");
        }
        if line.contains("importorskip(\"sealane") {
            report("our own modules are there: import them");
        }
        if line.contains("._lane.") && !line.contains("under_lock(") && !is_under_lock(&lines, index) {
            report("fields of a lane change beside the test: look at them under the door's lock");
        }
    }
    findings
}

fn number(text: &str) -> Option<f64> {
    text.split(|letter: char| !letter.is_ascii_digit() && letter != '.').next()?.parse().ok()
}

/// Whether a line stands in the block of a `with … lock:`, or in a function that is handed to `under_lock`.
fn is_under_lock(lines: &[&str], index: usize) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut depth = indent(lines[index]);
    for line in lines[..index].iter().rev().filter(|line| !line.trim().is_empty()) {
        if indent(line) >= depth {
            continue;
        }
        depth = indent(line);
        let code = line.trim_start();
        if code.starts_with("with ") && code.contains("lock") {
            return true;
        }
        let function = code.strip_prefix("def ").and_then(|rest| rest.split('(').next());
        if function.is_some_and(|name| {
            lines.iter().any(|line| line.contains("lock(") && line.contains(name) && !line.contains("def "))
        }) {
            return true;
        }
    }
    false
}

fn finding(path: &str, index: usize, message: &str) -> Finding {
    Finding {
        place: format!("{path}:{}", index + 1),
        message: format!("{message}; exceptions: {EXCEPTIONS}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_tests_judge_no_clock_and_do_not_sleep() {
        let count = |line: &str| rust("sidecar/tests/x.rs", line).len();
        assert_eq!(count(&["assert!(began.elapsed()", " < LIMIT);"].concat()), 1);
        assert_eq!(count("let took = began.elapsed();\nassert!(took < LIMIT);"), 1);
        assert_eq!(count("sleep(Duration::from_millis(100)).await;"), 1);
        assert_eq!(count("std::thread::sleep(std::time::Duration::from_millis(5));"), 0);
        assert_eq!(count("timeout(Duration::from_secs(5), x).await"), 1);
        assert_eq!(count("side.handle_timeout(Duration::from_secs(5));"), 0);
        assert_eq!(count("#[tokio::test(start_paused = true)]\ntimeout(Duration::from_secs(5), x)"), 0);
        assert!(rust("sidecar/src/x.rs", "sleep(Duration::from_secs(9))").is_empty());
        assert_eq!(rust("sidecar/src/x.rs", "#[cfg(test)]\nsleep(Duration::from_secs(9))").len(), 1);
    }

    #[test]
    fn python_tests_take_no_chances() {
        let count = |line: &str| python("clients/python/tests/x.py", line).len();
        assert_eq!(count("assert time.monotonic() - began < 2"), 1);
        assert_eq!(count("time.sleep(0.5)"), 1);
        assert_eq!(count("lane.put(1, timeout=5)"), 1);
        assert_eq!(count("lane.put(1, timeout=0.2)\nlane.put(1, timeout=120)"), 0);
        assert_eq!(count("os.urandom(1)\nimportorskip(\"sealane.aio\")"), 2);
        assert_eq!(count("x = receiver._lane.ready"), 1);
        assert_eq!(count("with receiver._core.lock:\n    x = receiver._lane.ready"), 0);
        assert_eq!(count("def look():\n    return a._lane.ready\nunder_lock(a, look)"), 0);
    }
}
