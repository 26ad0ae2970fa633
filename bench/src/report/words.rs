//! Figures and verdicts as people write them.

pub(super) use sealane_results::number;

use crate::plan::Level;
use crate::report::Report;
use crate::row::{Limit, Row, Subject, Unit, Verdict};
use crate::statistics::Interval;

pub(super) fn figure(value: Option<f64>, unit: Unit) -> String {
    value.map_or_else(|| "–".to_owned(), |value| sealane_results::figure(value, unit))
}

pub(super) fn interval(interval: Option<Interval>) -> String {
    interval.map(|Interval { low, high }| format!("{} … {}", number(low), number(high))).unwrap_or_default()
}

pub(super) fn ratio(row: &Row) -> String {
    row.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{} ×", number(ratio)))
}

/// A size or a count: `1,048,576`.
pub(super) fn size(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What is asked, such as `≥ 12 ×` or `≤ 0.6 µs`.
fn limit(row: &Row, limit: &Limit) -> String {
    use crate::row::Better::{Higher, Lower};
    match (limit.on, row.better) {
        (Subject::Ratio, _) => format!("≥ {} ×", number(limit.value)),
        (Subject::Ours, Higher) => format!("≥ {} {}", number(limit.value), row.unit),
        (Subject::Ours, Lower) => format!("≤ {} {}", number(limit.value), row.unit),
    }
}

/// What is asked, and whether it is so.
pub(super) fn limits(row: &Row) -> String {
    let mark = |one: &Limit| match one.verdict {
        Verdict::Met => "✓",
        Verdict::Missed => "✗",
        Verdict::Unclear => "?",
    };
    let limits: Vec<_> = row.limits.iter().map(|one| format!("{} {}", limit(row, one), mark(one))).collect();
    if limits.is_empty() { "–".to_owned() } else { limits.join(", ") }
}

/// The word for a row's standing.
pub(super) fn standing(row: &Row) -> &'static str {
    match row.verdict() {
        _ if !row.correct => "wrong",
        Some(Verdict::Met) => "met",
        Some(Verdict::Missed) => "missed",
        Some(Verdict::Unclear) => "unclear",
        None => "reported",
    }
}

/// What the run amounts to, in a sentence.
pub(super) fn summary(report: &Report) -> String {
    let count = |word: &str| report.rows.iter().filter(|row| standing(row) == word).count();
    let [met, missed, unclear, reported, wrong] =
        ["met", "missed", "unclear", "reported", "wrong"].map(count);
    let mut text = format!(
        "{} rows: {met} meet their limit, {missed} miss it, {unclear} unclear, {reported} without a limit",
        report.rows.len()
    );
    if wrong > 0 {
        text.push_str(&format!("; {wrong} WRONG"));
    }
    if !report.failures.is_empty() {
        text.push_str(&format!("; {} suites failed", report.failures.len()));
    }
    if report.level == Level::Smoke {
        text.push_str(" (smoke run: figures mean nothing)");
    }
    text
}

/// Facts about machine and build, as names and values.
pub(super) fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let Report { machine, build, .. } = report;
    let dirty = match build.dirty {
        Some(true) => ", with changes",
        Some(false) => "",
        None => ", changes unknown",
    };
    let load = |load: &[f64]| load.iter().map(|value| format!("{value:.2}")).collect::<Vec<_>>().join(" ");
    vec![
        ("Began", format!("{} ({:.0} s)", report.began, report.seconds)),
        ("CPU", format!("{}, {} cores", machine.cpu, machine.cores)),
        ("Instructions", machine.features.join(" ")),
        ("Kernel", format!("{} ({})", machine.kernel, machine.architecture)),
        ("Memory", format!("{} MiB", machine.memory_mebibytes)),
        ("Load before", load(&machine.load_before)),
        ("Load after", load(&machine.load_after)),
        ("Program", format!("sealane-bench {}, commit {}{dirty}", build.version, build.commit)),
        ("Compiler", build.rustc.clone()),
        ("Profile", build.profile.clone()),
    ]
}

/// How to read the figures; the same in every form.
pub(super) const METHOD: &[&str] = &[
    "Ours and theirs were measured in turn in the same run, in the other order every other round; figures are medians \
     of the rounds, ± is the width between the quartiles.",
    "The ratio is ours against theirs; above 1 is better for us, whatever the unit. Its 95 % interval is a bootstrap \
     over whole rounds.",
    "A limit is met or missed only when the whole interval lies on one side of it. On a noisy machine nothing is called \
     significant.",
    "Every timed result was compared with what it had to be: all bytes in a first burst, and the beginning, the end \
     and a moving place of every message where time was taken.",
];
