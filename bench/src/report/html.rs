//! The report as one page that needs nothing else: styles and plots are inside.

mod curve;
mod drawn;
mod markup;
mod plot;

use super::Report;
use super::part::{Cell, Column, Part, Section, Table, Text};
use super::sections::sections;
use super::style::STYLE;
use markup::{escape, put};

pub(super) fn render(report: &Report) -> String {
    let mut page = String::new();
    page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.push_str(
        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>Sealane benchmark report</title>\n",
    );
    put(&mut page, format_args!("<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"));
    page.push_str("<h1>Sealane benchmark report</h1>\n");
    let sections = sections(report);
    contents(&mut page, &sections);
    for section in &sections {
        let id = anchor(section.title);
        put(&mut page, format_args!("<section id=\"{id}\">\n<h2>{}</h2>\n", section.title));
        parts(&mut page, &section.parts);
        page.push_str("</section>\n");
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn contents(page: &mut String, sections: &[Section<'_>]) {
    page.push_str("<nav>");
    for section in sections {
        put(page, format_args!("<a href=\"#{}\">{}</a> ", anchor(section.title), section.title));
    }
    page.push_str("</nav>\n");
}

fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

fn parts(page: &mut String, all: &[Part<'_>]) {
    for part in all {
        match part {
            Part::Heading(words) => put(page, format_args!("<h3>{}</h3>\n", escape(words))),
            Part::Say(words) => put(page, format_args!("<p>{}</p>\n", escape(words))),
            Part::Alarm(words) => put(page, format_args!("<p class=\"failure\">{}</p>\n", escape(words))),
            Part::List(items) => list(page, items),
            Part::Facts(facts) => {
                page.push_str("<dl>\n");
                for (name, value) in facts {
                    put(page, format_args!("<dt>{name}</dt><dd>{}</dd>\n", escape(value)));
                }
                page.push_str("</dl>\n");
            }
            Part::Table(all) => table(page, all),
            Part::Folded(title, inner) => {
                put(page, format_args!("<details><summary>{}</summary>\n", escape(title)));
                parts(page, inner);
                page.push_str("</details>\n");
            }
            Part::Listing(title, lines) => {
                put(
                    page,
                    format_args!(
                        "<details><summary>{title}</summary>\n<pre>{}</pre></details>\n",
                        escape(lines)
                    ),
                );
            }
            Part::Tiles(rows) => drawn::tiles(page, rows),
            Part::Bars(rows) => drawn::bars(page, rows),
            Part::Quantiles(rows) => drawn::quantiles(page, rows),
            Part::Curves(families) => drawn::curves(page, families),
        }
    }
}

fn list(page: &mut String, items: &[Text]) {
    page.push_str("<ul class=\"notes\">\n");
    for item in items {
        put(page, format_args!("<li>{}</li>\n", line(item, "")));
    }
    page.push_str("</ul>\n");
}

/// An id, and words in `tag` behind it.
fn line(text: &Text, tag: &str) -> String {
    let words = escape(&text.words);
    match &text.id {
        None => words,
        Some(id) if words.is_empty() => format!("<code>{}</code>", escape(id)),
        Some(id) if tag.is_empty() => format!("<code>{}</code> {words}", escape(id)),
        Some(id) => format!("<code>{}</code><{tag}>{words}</{tag}>", escape(id)),
    }
}

fn table(page: &mut String, table: &Table) {
    page.push_str("<table>\n<thead><tr>");
    for column in table.columns {
        put(page, format_args!("<th{}>{}</th>", class(*column), column.name()));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for cells in &table.rows {
        page.push_str("<tr>");
        for (place, (column, cell)) in table.columns.iter().zip(cells).enumerate() {
            match place {
                0 => put(page, format_args!("<th scope=\"row\">{}</th>", content(cell, "small"))),
                _ => put(
                    page,
                    format_args!(
                        "<td{} data-name=\"{}\"><div>{}</div></td>",
                        class(*column),
                        column.name(),
                        content(cell, "")
                    ),
                ),
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n");
}

fn content(cell: &Cell, tag: &str) -> String {
    let whole = |text: &Text| match (tag, &text.id) {
        ("", Some(_)) => format!("<span class=\"whole\">{}</span>", line(text, tag)),
        _ => line(text, tag),
    };
    let lines: Vec<_> = cell.lines.iter().map(whole).collect();
    let lines = lines.join("<br>");
    match cell.tone {
        Some(tone) => format!("<span class=\"key {tone}\">{lines}</span>"),
        None => lines,
    }
}

const fn class(column: Column) -> &'static str {
    match column {
        Column::Words(_) => " class=\"words\"",
        Column::Figures(_) => "",
    }
}
