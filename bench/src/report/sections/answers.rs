//! The published tables beside what this run measured, and how their figures have to be read.

use super::{Cell, Column, Part, Report, Section, Table, Text, list};
use crate::plan::Selection;
use crate::published::{Published, TABLES, singles};
use crate::report::words::figure;
use crate::row::{Missing, Row};
use crate::suites::not_measured;

const MEASURED: &[Column] = &[
    Column::Words("Row"),
    Column::Words("Published"),
    Column::Words("Measured in this run"),
    Column::Words("How to read the published figure"),
];
const ABSENT: &[Column] = &[
    Column::Words("Row"),
    Column::Words("Published"),
    Column::Words("Why this run has none"),
    Column::Words("How to read the published figure"),
];
const HOW: [&str; 2] = [
    "Published figures were taken on other machines, and some measured nothing. No ratio to them is computed: speed is \
     compared only on one machine in one run. Where a peer of ours is the published program, its ratio is in the results.",
    "Our figures are of the machine under Methodology. A row may answer several published ones, and may include more \
     work than they did; what it includes is said with the row.",
];

pub(super) fn section(report: &Report) -> Section<'_> {
    let mut parts = vec![list(HOW)];
    for table in &TABLES {
        let both = |one: &'static Published| (one, answers(report, one));
        let (measured, others): (Vec<_>, Vec<_>) =
            table.figures.iter().map(both).partition(|(_, rows)| !rows.is_empty());
        let measured: Vec<_> = measured.into_iter().map(|(one, rows)| answered(one, &rows)).collect();
        let absent: Vec<_> = others.into_iter().map(|(one, _)| unanswered(report, one)).collect();
        parts.push(Part::Heading(table.title.to_owned()));
        parts.push(Part::Say(format!("Measured on: {}.", table.machine)));
        let (there, count) = (measured.len(), absent.len());
        if there > 0 {
            parts.push(Part::Table(Table { columns: MEASURED, rows: measured }));
        }
        if count > 0 {
            let absent = Part::Table(Table { columns: ABSENT, rows: absent });
            parts.push(Part::Folded(format!("Not in this run: {count}"), vec![absent]));
        }
    }
    Section { title: "Published figures", parts }
}

/// The rows of this run that answer a published one. Those against other peers repeat our figure.
fn answers<'a>(report: &'a Report, one: &Published) -> Vec<&'a Row> {
    let is = |row: &&Row| !row.id.0.contains('@') && one.rows.iter().any(|filter| row.id.matches(filter));
    report.rows.iter().filter(is).collect()
}

fn answered(one: &Published, rows: &[&Row]) -> Vec<Cell> {
    let ours = rows.iter().map(|row| Text::new(&row.id, figure(Some(row.ours), row.unit))).collect();
    let [name, figure, reading] = theirs(one);
    vec![name, figure, Cell { lines: ours, tone: None }, reading]
}

fn unanswered(report: &Report, one: &Published) -> Vec<Cell> {
    let [name, figure, reading] = theirs(one);
    vec![name, figure, Cell::of(why(report, one)), reading]
}

fn theirs(one: &Published) -> [Cell; 3] {
    let Published { ids, operation, figure, reading, rows: _ } = *one;
    [Cell::named(ids, operation), Cell::of(figure), Cell::of(if reading.is_empty() { "–" } else { reading })]
}

/// Why no row of this run answers a published one.
fn why(report: &Report, one: &Published) -> String {
    let ids = singles(one.ids);
    let of = |all: &[Missing]| {
        let is = |missing: &&Missing| singles(&missing.id.0).iter().any(|id| ids.contains(id));
        all.iter().find(is).map(|missing| missing.why.clone())
    };
    // A run of some suites tells only what those do not have; what no suite has is the same in every run.
    let never = || one.rows.is_empty().then(|| of(&not_measured(&Selection::default()))).flatten();
    of(&report.missing).or_else(never).unwrap_or_else(|| "its suite was not selected, or failed".to_owned())
}
