//! What a report says, in the order in which it says it.

mod answers;
mod changes;
mod headline;
mod methodology;
mod results;
mod scaling;
mod variance;

use super::Report;
use super::part::{Cell, Column, Part, Section, Table, Text};

pub(super) fn sections(report: &Report) -> Vec<Section<'_>> {
    let all = [
        Some(methodology::section(report)),
        Some(headline::section(report)),
        results::section(report),
        Some(answers::section(report)),
        Some(changes::section(report)),
        scaling::section(report),
        variance::section(report),
        missing(report),
    ];
    all.into_iter().flatten().collect()
}

fn missing(report: &Report) -> Option<Section<'_>> {
    const COLUMNS: &[Column] = &[Column::Words("Row"), Column::Words("Why")];
    let row = |id: &str, why: &str| vec![Cell::named(id, ""), Cell::of(why)];
    let rows: Vec<_> = report.missing.iter().map(|missing| row(&missing.id.0, &missing.why)).collect();
    let parts = vec![Part::Table(Table { columns: COLUMNS, rows })];
    (!report.missing.is_empty()).then_some(Section { title: "Not measured", parts })
}

fn list<'a>(items: impl IntoIterator<Item = impl Into<String>>) -> Part<'a> {
    Part::List(items.into_iter().map(Text::words).collect())
}
