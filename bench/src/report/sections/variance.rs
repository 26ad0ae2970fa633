//! How much samples varied, and which rows allow no verdict.

use super::{Cell, Column, Part, Report, Section, Table, Text, list};
use crate::plan::Level;
use crate::report::words::{figure, interval, number};
use crate::row::{Row, Verdict};
use crate::statistics::{median, quantile, relative_spread};

const COLUMNS: &[Column] = &[
    Column::Words("Row"),
    Column::Figures("Samples"),
    Column::Figures("Lower quartile"),
    Column::Figures("Median"),
    Column::Figures("Upper quartile"),
    Column::Figures("95 % of the median"),
    Column::Figures("Spread"),
    Column::Figures("Their spread"),
    Column::Figures("Fixed work"),
    Column::Words("Noisy"),
];

pub(super) fn section(report: &Report) -> Option<Section<'_>> {
    if report.rows.is_empty() {
        return None;
    }
    let mut parts = vec![list(summary(report))];
    let doubtful: Vec<Text> =
        report.rows.iter().filter_map(|row| Some(Text::new(&row.id, doubt(report, row)?))).collect();
    if !doubtful.is_empty() {
        parts.push(Part::Heading("Rows that allow no verdict".to_owned()));
        parts.push(Part::List(doubtful));
    }
    let rows = report.rows.iter().map(cells).collect();
    let table = Part::Table(Table { columns: COLUMNS, rows });
    parts.push(Part::Folded(format!("Spread of every row: {}", report.rows.len()), vec![table]));
    Some(Section { title: "Variance", parts })
}

fn summary(report: &Report) -> Vec<String> {
    let spreads: Vec<f64> = report.rows.iter().filter_map(|row| relative_spread(&row.sampled.ours)).collect();
    let mut controls: Vec<&[f64]> = report.rows.iter().map(|row| row.sampled.control.as_slice()).collect();
    // Rows of one contest have the same rounds, and so the same fixed work.
    controls.dedup();
    let control_spreads: Vec<f64> = controls.iter().copied().filter_map(relative_spread).collect();
    let all: Vec<f64> = controls.concat();
    let noisy = report.rows.iter().filter(|row| row.noisy).count();
    vec![
        format!(
            "The spread of our samples, the width between their quartiles as a share of the median, is {} in the middle \
             row and {} in the widest.",
            percent(median(&spreads)),
            percent(most(&spreads))
        ),
        format!(
            "The fixed work took {} ms in the middle round. Its spread within the rounds of a row was {} in the middle \
             and {} at most, over {} contests.",
            median(&all).map_or_else(|| "–".to_owned(), number),
            percent(median(&control_spreads)),
            percent(most(&control_spreads)),
            controls.len()
        ),
        format!("{noisy} of {} rows are noisy.", report.rows.len()),
    ]
}

/// Why a row has no verdict; none where it has one, or has no limit and nothing against it.
fn doubt(report: &Report, row: &Row) -> Option<String> {
    let limits = if row.limits.is_empty() { "; it has no limit" } else { "" };
    match (row.correct, &row.doubt, row.verdict()) {
        (false, ..) => Some(format!("a timed result was wrong{limits}")),
        (true, Some(doubt), _) => Some(format!("{doubt}{limits}")),
        (true, None, Some(Verdict::Unclear)) if report.level == Level::Smoke => {
            Some("the counts of a smoke run allow none".to_owned())
        }
        (true, None, Some(Verdict::Unclear)) => Some("a limit lies inside the 95 % interval".to_owned()),
        _ => None,
    }
}

fn cells(row: &Row) -> Vec<Cell> {
    let ours = &row.sampled.ours;
    let at = |share: f64| figure(quantile(ours, share), row.unit);
    let noisy = if row.noisy { Cell::tone("unclear", "noisy") } else { Cell::of("–") };
    vec![
        Cell::named(&row.id, ""),
        Cell::of(row.samples.to_string()),
        Cell::of(at(0.25)),
        Cell::of(at(0.5)),
        Cell::of(at(0.75)),
        Cell::of(interval(row.ours_interval)),
        Cell::of(percent(relative_spread(ours))),
        Cell::of(percent(relative_spread(&row.sampled.theirs))),
        Cell::of(percent(relative_spread(&row.sampled.control))),
        noisy,
    ]
}

fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}
