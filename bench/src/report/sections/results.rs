//! All rows, area by area.

use super::{Cell, Column, Part, Report, Section, Table, Text};
use crate::report::area::Area;
use crate::report::words::{figure, interval, limits, number, ratio, standing};
use crate::row::Row;

const COLUMNS: &[Column] = &[
    Column::Words("Row"),
    Column::Figures("Ours"),
    Column::Figures("±"),
    Column::Figures("Theirs"),
    Column::Figures("Ratio"),
    Column::Figures("95 %"),
    Column::Figures("Limit"),
    Column::Figures("Verdict"),
    Column::Figures("Samples"),
];

pub(super) fn section(report: &Report) -> Option<Section<'_>> {
    let mut parts = Vec::new();
    for area in Area::ALL {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| Area::of(row) == area).collect();
        if rows.is_empty() {
            continue;
        }
        parts.push(Part::Heading(area.title().to_owned()));
        parts
            .push(Part::Table(Table { columns: COLUMNS, rows: rows.iter().map(|row| cells(row)).collect() }));
        let timed: Vec<_> = rows.iter().copied().filter(|row| row.latency.is_some()).collect();
        if !timed.is_empty() {
            parts.push(Part::Quantiles(timed));
        }
        let noted = rows.iter().filter(|row| !row.note.is_empty());
        let notes: Vec<_> = noted.map(|row| Text::new(&row.id, &row.note)).collect();
        if !notes.is_empty() {
            parts.push(Part::List(notes));
        }
    }
    (!parts.is_empty()).then_some(Section { title: "Results by area", parts })
}

fn cells(row: &Row) -> Vec<Cell> {
    let peer = row.peer.as_deref().map(|peer| format!("; peer: {peer}")).unwrap_or_default();
    let standing = standing(row);
    vec![
        Cell::named(&row.id, format!("{}{peer}", row.name)),
        Cell::of(figure(Some(row.ours), row.unit)),
        Cell::of(number(row.spread)),
        Cell::of(figure(row.theirs, row.unit)),
        Cell::of(ratio(row)),
        Cell::of(interval(row.ratio_interval)),
        Cell::of(limits(row)),
        Cell::tone(standing, standing),
        Cell::of(row.samples.to_string()),
    ]
}
