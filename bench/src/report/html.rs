//! The report as one page that needs nothing else: styles and plots are inside.

mod plot;

use std::fmt::Write as _;

use super::Report;
use super::style::STYLE;
use super::words::{METHOD, facts, figure, interval, limits, number, ratio, standing, summary};
use crate::row::Row;

const HEADINGS: [&str; 9] =
    ["Row", "Ours", "±", "Theirs", "Ratio", "95 % interval", "Limit", "Verdict", "Samples"];

pub(super) fn render(report: &Report) -> String {
    let mut page = String::new();
    page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.push_str(
        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>Sealane benchmark report</title>\n",
    );
    put(&mut page, format_args!("<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"));
    put(&mut page, format_args!("<h1>Sealane benchmark report</h1>\n<p>{}.</p>\n", escape(&summary(report))));
    failures(&mut page, report);
    overview(&mut page, report);
    for suite in report.suites() {
        put(&mut page, format_args!("<section>\n<h2>{}</h2>\n", escape(&capitalised(suite))));
        table(&mut page, report.of_suite(suite));
        distributions(&mut page, report.of_suite(suite));
        notes(&mut page, report.of_suite(suite));
        page.push_str("</section>\n");
    }
    missing(&mut page, report);
    closing(&mut page, report);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// Ratios of all rows on one scale, with their limits.
fn overview(page: &mut String, report: &Report) {
    let rows: Vec<_> = report.rows.iter().filter(|row| row.ratio.is_some()).collect();
    let Some(scale) = plot::Scale::of(rows.iter().copied()) else { return };
    page.push_str("<section>\n<h2>Ours against theirs</h2>\n<p class=\"legend\">");
    for word in ["met", "missed", "unclear", "reported"] {
        put(page, format_args!("<span class=\"key {word}\">{}</span> ", legend(word)));
    }
    page.push_str(
        "<span class=\"key tick\">limit</span> <span class=\"key whisker\">95 % interval</span></p>\n",
    );
    page.push_str("<div class=\"bars\">\n");
    put(page, format_args!("<div class=\"line\"><div></div>{}<div></div></div>\n", plot::axis(&scale)));
    for row in rows {
        let class = standing(row);
        put(
            page,
            format_args!(
                "<div class=\"line\"><div class=\"id\"><code>{}</code><small>{}</small></div>{}\
                 <div class=\"value {class}\">{}</div></div>\n",
                escape(&row.id.0),
                escape(row.peer.as_deref().unwrap_or_default()),
                plot::bar(row, &scale, class),
                ratio(row)
            ),
        );
    }
    page.push_str("</div>\n</section>\n");
}

fn legend(word: &str) -> &'static str {
    match word {
        "met" => "meets its limit",
        "missed" => "misses its limit",
        "unclear" => "unclear",
        _ => "no limit",
    }
}

fn table<'a>(page: &mut String, rows: impl Iterator<Item = &'a Row>) {
    page.push_str("<table>\n<thead><tr>");
    for heading in HEADINGS {
        put(page, format_args!("<th>{heading}</th>"));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        let class = standing(row);
        let cells = [
            figure(Some(row.ours), row.unit),
            number(row.spread),
            figure(row.theirs, row.unit),
            ratio(row),
            interval(row.ratio_interval),
            limits(row),
            format!("<span class=\"key {class}\">{class}</span>"),
            row.samples.to_string(),
        ];
        let (id, name) = (escape(&row.id.0), escape(&row.name));
        let peer = row.peer.as_deref().map(|peer| format!("; peer: {}", escape(peer))).unwrap_or_default();
        put(page, format_args!("<tr><th scope=\"row\"><code>{id}</code><small>{name}{peer}</small></th>"));
        for (heading, cell) in HEADINGS.iter().skip(1).zip(cells) {
            put(page, format_args!("<td data-name=\"{heading}\">{cell}</td>"));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n");
}

/// Where single operations were timed: quantiles of both sides on a scale of their own.
fn distributions<'a>(page: &mut String, rows: impl Iterator<Item = &'a Row>) {
    for row in rows {
        let Some(latency) = &row.latency else { continue };
        put(
            page,
            format_args!(
                "<figure>\n<figcaption><code>{}</code> single operations: from p50 to p90 dark, to p99 light, marks at p99.9 and the maximum; logarithmic</figcaption>\n",
                escape(&row.id.0)
            ),
        );
        page.push_str(&plot::quantiles(latency));
        let both = [(Some(latency.ours), "ours"), (latency.theirs, "theirs")];
        for (quantiles, whose) in both.into_iter().filter_map(|(some, whose)| Some((some?, whose))) {
            let values = [
                ("p50", quantiles.p50),
                ("p90", quantiles.p90),
                ("p99", quantiles.p99),
                ("p99.9", quantiles.p999),
                ("max", quantiles.max),
            ];
            let values =
                values.map(|(name, value)| format!("{name} {}", figure(Some(value), row.unit))).join(" · ");
            put(page, format_args!("<p class=\"quantiles {whose}\"><b>{whose}</b> {values}</p>\n"));
        }
        page.push_str("</figure>\n");
    }
}

fn notes<'a>(page: &mut String, rows: impl Iterator<Item = &'a Row>) {
    let notes: Vec<_> = rows.filter(|row| !row.note.is_empty()).collect();
    if notes.is_empty() {
        return;
    }
    page.push_str("<ul class=\"notes\">\n");
    for row in notes {
        put(page, format_args!("<li><code>{}</code> {}</li>\n", escape(&row.id.0), escape(&row.note)));
    }
    page.push_str("</ul>\n");
}

fn failures(page: &mut String, report: &Report) {
    for failure in &report.failures {
        let (suite, error) = (failure.suite.word(), escape(&failure.error));
        put(page, format_args!("<p class=\"failure\">The suite {suite} failed: {error}</p>\n"));
    }
}

fn missing(page: &mut String, report: &Report) {
    if report.missing.is_empty() {
        return;
    }
    page.push_str("<section>\n<h2>Not measured</h2>\n<ul class=\"missing\">\n");
    for missing in &report.missing {
        put(page, format_args!("<li><code>{}</code> {}</li>\n", escape(&missing.id.0), escape(&missing.why)));
    }
    page.push_str("</ul>\n</section>\n");
}

fn closing(page: &mut String, report: &Report) {
    page.push_str("<section>\n<h2>Machine and build</h2>\n<dl>\n");
    for (name, value) in facts(report) {
        put(page, format_args!("<dt>{name}</dt><dd>{}</dd>\n", escape(&value)));
    }
    page.push_str("</dl>\n");
    if !report.build.crates.is_empty() {
        page.push_str("<details><summary>Crates and their features</summary>\n<pre>");
        page.push_str(&escape(&report.build.crates.join("\n")));
        page.push_str("</pre></details>\n");
    }
    page.push_str("</section>\n<section>\n<h2>How to read this</h2>\n<ul>\n");
    for sentence in METHOD {
        put(page, format_args!("<li>{}</li>\n", escape(sentence)));
    }
    page.push_str("</ul>\n</section>\n");
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Writing to a string cannot fail.
fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(text);
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_measured_becomes_markup() {
        assert_eq!(escape("<b a=\"1\">&"), "&lt;b a=&quot;1&quot;&gt;&amp;");
    }
}
