//! The report as a page of text.

use std::fmt::Write as _;

use super::Report;
use super::family::Family;
use super::part::{Cell, Column, Part, Table, Text};
use super::sections::sections;
use super::words::{figure, limits, number, ratio, size, standing};
use crate::row::Row;

pub(super) fn render(report: &Report) -> String {
    let mut page = "# Sealane benchmark report\n".to_owned();
    for section in sections(report) {
        put(&mut page, format_args!("\n## {}\n", section.title));
        parts(&mut page, &section.parts);
    }
    page
}

fn parts(page: &mut String, all: &[Part<'_>]) {
    for part in all {
        page.push('\n');
        match part {
            Part::Heading(words) => put(page, format_args!("### {words}\n")),
            Part::Say(words) => put(page, format_args!("{words}\n")),
            Part::Alarm(words) => put(page, format_args!("**{words}**\n")),
            Part::List(items) => {
                items.iter().for_each(|item| put(page, format_args!("- {}\n", line(item))));
            }
            Part::Facts(facts) => {
                page.push_str("| | |\n|---|---|\n");
                facts
                    .iter()
                    .for_each(|(name, value)| put(page, format_args!("| {name} | {} |\n", escape(value))));
            }
            Part::Table(all) => table(page, all),
            Part::Folded(title, inner) => {
                put(page, format_args!("<details><summary>{title}</summary>\n"));
                parts(page, inner);
                page.push_str("\n</details>\n");
            }
            Part::Listing(title, lines) => {
                put(
                    page,
                    format_args!("<details><summary>{title}</summary>\n\n```\n{lines}\n```\n\n</details>\n"),
                );
            }
            Part::Tiles(rows) => tiles(page, rows),
            // The tables of the results hold the same.
            Part::Bars(_) => {}
            Part::Quantiles(rows) => latencies(page, rows),
            Part::Curves(families) => families.iter().for_each(|family| curve(page, family)),
        }
    }
}

fn table(page: &mut String, table: &Table) {
    let names: Vec<_> = table.columns.iter().map(|column| column.name()).collect();
    let rules = table.columns.iter().map(|column| match column {
        Column::Words(_) => "---",
        Column::Figures(_) => "---:",
    });
    put(page, format_args!("| {} |\n|{}|\n", names.join(" | "), rules.collect::<Vec<_>>().join("|")));
    for cells in &table.rows {
        let cells: Vec<_> = cells.iter().map(content).collect();
        put(page, format_args!("| {} |\n", cells.join(" | ")));
    }
}

fn content(cell: &Cell) -> String {
    let lines: Vec<_> = cell.lines.iter().map(|text| escape(&line(text))).collect();
    lines.join("<br>")
}

fn line(text: &Text) -> String {
    match &text.id {
        None => text.words.clone(),
        Some(id) if text.words.is_empty() => format!("`{id}`"),
        Some(id) => format!("`{id}` {}", text.words),
    }
}

fn tiles(page: &mut String, rows: &[&Row]) {
    page.push_str("| row | what | ours | ratio | limit | verdict |\n|---|---|---:|---:|---:|---|\n");
    for row in rows {
        put(
            page,
            format_args!(
                "| `{}` | {} | {} | {} | {} | {} |\n",
                row.id,
                escape(&row.name),
                figure(Some(row.ours), row.unit),
                ratio(row),
                limits(row),
                standing(row)
            ),
        );
    }
}

fn latencies(page: &mut String, rows: &[&Row]) {
    page.push_str(
        "| single operations | p50 | p90 | p99 | p99.9 | max | count |\n|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in rows {
        let Some(latency) = &row.latency else { continue };
        let both = [(Some(latency.ours), "ours"), (latency.theirs, "theirs")];
        for (quantiles, whose) in both.into_iter().filter_map(|(some, whose)| Some((some?, whose))) {
            let cells = [quantiles.p50, quantiles.p90, quantiles.p99, quantiles.p999, quantiles.max];
            let cells = cells.map(|value| figure(Some(value), row.unit)).join(" | ");
            put(page, format_args!("| `{}` {whose} | {cells} | {} |\n", row.id, quantiles.count));
        }
    }
}

fn curve(page: &mut String, family: &Family<'_>) {
    let grown = family
        .growth()
        .map(|(size, figure)| format!(": {} × the size, {} × the figure", number(size), number(figure)));
    put(page, format_args!("\n`{}`{}\n\n", family.title, grown.unwrap_or_default()));
    page.push_str("| at | ours | theirs | ratio |\n|---:|---:|---:|---:|\n");
    for member in &family.members {
        let row = member.row;
        put(
            page,
            format_args!(
                "| {} | {} | {} | {} |\n",
                size(member.size),
                figure(Some(row.ours), row.unit),
                figure(row.theirs, row.unit),
                ratio(row)
            ),
        );
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
