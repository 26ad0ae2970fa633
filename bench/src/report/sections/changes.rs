//! What became better or worse since an earlier report.

use sealane_results::{Change, Comparison, figure};

use super::{Cell, Column, Part, Report, Section, Table, list};
use crate::report::baseline::Baseline;

const COLUMNS: &[Column] = &[
    Column::Words("Row"),
    Column::Figures("Before"),
    Column::Figures("Now"),
    Column::Figures("Better by"),
    Column::Figures("Change"),
];

pub(super) fn section(report: &Report) -> Section<'_> {
    let parts = match &report.baseline {
        Some(baseline) => parts(baseline),
        None => vec![Part::Say(
            "There was no earlier report to compare with: none was named with --baseline, and none lay where this \
             one is written."
                .to_owned(),
        )],
    };
    Section { title: "Comparison with the stored baseline", parts }
}

fn parts<'a>(baseline: &Baseline) -> Vec<Part<'a>> {
    let Baseline { file, began, cpu, kernel, build, level, tolerance_percent, unlike, rows, gone } = baseline;
    let mut parts = vec![Part::Facts(vec![
        ("Baseline", format!("{file}, as it was before this run")),
        ("Began", began.clone()),
        ("Level", level.word().to_owned()),
        ("CPU", cpu.clone()),
        ("Kernel", kernel.clone()),
        ("Program", build.clone()),
    ])];
    if !unlike.is_empty() {
        parts.push(Part::Say(
            "It is not compared: speed is compared only on one machine, at one level, with one kind of build.".to_owned(),
        ));
        parts.push(list(unlike));
        return parts;
    }
    let [better, same, worse, unclear] =
        [Change::Better, Change::Same, Change::Worse, Change::Unclear].map(|change| baseline.count(change));
    parts.push(Part::Say(format!(
        "{} rows are in both: {better} better, {same} the same, {worse} worse, {unclear} unclear. A row differs by more \
         than {tolerance_percent} %, and is better or worse only where the 95 % intervals of our figures lie apart, \
         neither run was noisy, and every result was right. The two runs were not taken in turn: what else the machine \
         did may be in the difference.",
        rows.len()
    )));
    let (same, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.change == Change::Same);
    let table = |rows: Vec<&Comparison>| {
        Part::Table(Table { columns: COLUMNS, rows: rows.into_iter().map(cells).collect() })
    };
    if !others.is_empty() {
        parts.push(table(others));
    }
    if !same.is_empty() {
        parts.push(Part::Folded(format!("The same: {}", same.len()), vec![table(same)]));
    }
    if !gone.is_empty() {
        let ids: Vec<_> = gone.iter().map(|id| id.0.as_str()).collect();
        parts.push(Part::Say(format!("Only in the baseline: {}.", ids.join(", "))));
    }
    parts
}

fn cells(row: &Comparison) -> Vec<Cell> {
    let Comparison { id, unit, before, after, percent, change } = row;
    let (tone, word) = match change {
        Change::Better => ("met", "better"),
        Change::Same => ("reported", "same"),
        Change::Worse => ("missed", "worse"),
        Change::Unclear => ("unclear", "unclear"),
    };
    vec![
        Cell::named(id, ""),
        Cell::of(figure(*before, *unit)),
        Cell::of(figure(*after, *unit)),
        // A negative nothing is nothing.
        Cell::of(format!("{:+.0} %", percent.round() + 0.0)),
        Cell::tone(tone, word),
    ]
}
