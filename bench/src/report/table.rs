//! The table that a terminal shows.

use super::Report;
use super::words::{figure, interval, limits, ratio, standing, summary};
use crate::row::Row;

const HEADINGS: [&str; 8] = ["row", "ours", "±", "theirs", "ratio", "95 %", "limit", "verdict"];

/// A row in one line, for a log.
#[must_use]
pub fn line(row: &Row) -> String {
    let theirs = row.theirs.map(|_| format!(" against {}: {}", figure(row.theirs, row.unit), ratio(row)));
    format!(
        "{:<28} {}{} [{}]",
        row.id.0,
        figure(Some(row.ours), row.unit),
        theirs.unwrap_or_default(),
        standing(row)
    )
}

/// All rows, what is missing, and what failed.
#[must_use]
pub fn table(report: &Report) -> String {
    let cells = |row: &Row| {
        [
            row.id.0.clone(),
            figure(Some(row.ours), row.unit),
            super::words::number(row.spread),
            figure(row.theirs, row.unit),
            ratio(row),
            interval(row.ratio_interval),
            limits(row),
            standing(row).to_owned(),
        ]
    };
    let rows: Vec<_> = report.rows.iter().map(cells).collect();
    let mut widths = HEADINGS.map(|heading| heading.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in std::iter::once(HEADINGS.map(str::to_owned)).chain(rows) {
        for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            // Words begin where the column begins; figures end where it ends.
            let padded = if index == 0 || index == 7 {
                format!("{cell}{padding}")
            } else {
                format!("{padding}{cell}")
            };
            text.push_str(&padded);
            text.push_str("  ");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    for row in report.rows.iter().filter(|row| row.noisy || !row.correct) {
        text.push_str(&format!("{}: {}\n", row.id, row.note));
    }
    for failure in &report.failures {
        text.push_str(&format!("suite {} failed: {}\n", failure.suite.word(), failure.error));
    }
    if !report.missing.is_empty() {
        let ids: Vec<_> = report.missing.iter().map(|missing| missing.id.0.as_str()).collect();
        text.push_str(&format!("not measured: {}\n", ids.join(", ")));
    }
    text.push_str(&summary(report));
    text.push('\n');
    text
}
