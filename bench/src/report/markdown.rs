//! The report as a page of text.

use std::fmt::Write as _;

use super::Report;
use super::words::{METHOD, facts, figure, interval, limits, number, ratio, standing, summary};
use crate::row::Row;

pub(super) fn render(report: &Report) -> String {
    let mut page = format!("# Sealane benchmark report\n\n{}.\n\n| | |\n|---|---|\n", summary(report));
    for (name, value) in facts(report) {
        put(&mut page, format_args!("| {name} | {} |\n", escape(&value)));
    }
    for suite in report.suites() {
        put(&mut page, format_args!("\n## {suite}\n\n"));
        page.push_str(
            "| row | what | ours | ± | peer | theirs | ratio | 95 % | limit | verdict | samples |\n",
        );
        page.push_str("|---|---|---:|---:|---|---:|---:|---:|---:|---|---:|\n");
        for row in report.of_suite(suite) {
            put(&mut page, format_args!("{}", line(row)));
        }
        latencies(&mut page, report.of_suite(suite));
        for row in report.of_suite(suite).filter(|row| !row.note.is_empty()) {
            put(&mut page, format_args!("\n`{}`: {}\n", row.id, row.note));
        }
    }
    if !report.failures.is_empty() {
        page.push_str("\n## Suites that failed\n\n");
    }
    for failure in &report.failures {
        put(&mut page, format_args!("- {}: {}\n", failure.suite.word(), failure.error));
    }
    if !report.missing.is_empty() {
        page.push_str("\n## Not measured\n\n| row | why |\n|---|---|\n");
    }
    for missing in &report.missing {
        put(&mut page, format_args!("| `{}` | {} |\n", missing.id, escape(&missing.why)));
    }
    page.push_str("\n## How to read this\n\n");
    for sentence in METHOD {
        put(&mut page, format_args!("- {sentence}\n"));
    }
    if !report.build.crates.is_empty() {
        page.push_str("\n<details><summary>Crates and their features</summary>\n\n```\n");
        page.push_str(&report.build.crates.join("\n"));
        page.push_str("\n```\n\n</details>\n");
    }
    page
}

fn line(row: &Row) -> String {
    format!(
        "| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        row.id,
        escape(&row.name),
        figure(Some(row.ours), row.unit),
        number(row.spread),
        escape(row.peer.as_deref().unwrap_or("–")),
        figure(row.theirs, row.unit),
        ratio(row),
        interval(row.ratio_interval),
        limits(row),
        standing(row),
        row.samples,
    )
}

fn latencies<'a>(page: &mut String, rows: impl Iterator<Item = &'a Row>) {
    let mut headed = false;
    for row in rows {
        let Some(latency) = &row.latency else { continue };
        if !headed {
            page.push_str("\n| single operations | p50 | p90 | p99 | p99.9 | max | count |\n|---|---:|---:|---:|---:|---:|---:|\n");
            headed = true;
        }
        let both = [(Some(latency.ours), "ours"), (latency.theirs, "theirs")];
        for (quantiles, whose) in both.into_iter().filter_map(|(some, whose)| Some((some?, whose))) {
            let cells = [quantiles.p50, quantiles.p90, quantiles.p99, quantiles.p999, quantiles.max];
            let cells = cells.map(|value| figure(Some(value), row.unit)).join(" | ");
            put(page, format_args!("| `{}` {whose} | {cells} | {} |\n", row.id, quantiles.count));
        }
    }
}

/// Writing to a string cannot fail.
fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(text);
}

/// Text in a cell of a table.
fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
