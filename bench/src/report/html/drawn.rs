//! What a page draws: headline figures, ratios, single operations, curves.

use super::markup::{escape, put};
use super::{curve, plot};
use crate::report::family::Family;
use crate::report::words::{figure, interval, limits, number, ratio, size, standing};
use crate::row::Row;

/// Figures that stand for the rest.
pub(super) fn tiles(page: &mut String, rows: &[&Row]) {
    page.push_str("<div class=\"tiles\">\n");
    for row in rows {
        let class = standing(row);
        let peer = row.peer.as_deref().filter(|_| row.ratio.is_some());
        let against = peer.map(|peer| format!("<p><b>{}</b> against {}</p>", ratio(row), escape(peer)));
        let limit = if row.limits.is_empty() { String::new() } else { format!(" {}", limits(row)) };
        put(
            page,
            format_args!(
                "<div class=\"tile\"><code>{}</code><b class=\"big\">{}</b>{}<p><span class=\"key {class}\">{class}</span>{}</p>\
                 <small>{}</small></div>\n",
                escape(&row.id.0),
                figure(Some(row.ours), row.unit),
                against.unwrap_or_default(),
                escape(&limit),
                escape(&row.name)
            ),
        );
    }
    page.push_str("</div>\n");
}

/// Ratios on one scale, with their limits.
pub(super) fn bars(page: &mut String, rows: &[&Row]) {
    let Some(scale) = plot::Scale::of(rows.iter().copied()) else { return };
    page.push_str("<h3>Ours against theirs, in turn in this run</h3>\n<p class=\"legend\">");
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
    page.push_str("</div>\n");
}

fn legend(word: &str) -> &'static str {
    match word {
        "met" => "meets its limit",
        "missed" => "misses its limit",
        "unclear" => "unclear",
        _ => "no limit",
    }
}

/// Where single operations were timed: quantiles of both sides on a scale of their own.
pub(super) fn quantiles(page: &mut String, rows: &[&Row]) {
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

/// A card for each family: its curve, and the same in figures.
pub(super) fn curves(page: &mut String, families: &[Family<'_>]) {
    page.push_str("<p class=\"legend\"><span class=\"key curve ours\">ours</span> <span class=\"key curve theirs\">theirs</span> \
                   <span class=\"key whisker\">95 % interval of ours</span></p>\n<div class=\"cards\">\n");
    for family in families {
        let peer = family.members.first().and_then(|member| member.row.peer.as_deref());
        let peer = peer.map(|peer| format!("against {}; ", escape(peer))).unwrap_or_default();
        let grown = family
            .growth()
            .map(|(size, figure)| format!("; {} × the size, {} × the figure", number(size), number(figure)));
        put(
            page,
            format_args!(
                "<figure class=\"card\">\n<figcaption><code>{}</code><small>{peer}{}{}</small></figcaption>\n",
                escape(&family.title),
                family.unit,
                grown.unwrap_or_default()
            ),
        );
        page.push_str(&curve::curve(family));
        page.push_str("<table class=\"figures\"><thead><tr><th>at</th><th>ours</th><th>theirs</th><th>ratio</th></tr></thead>\n<tbody>\n");
        for member in &family.members {
            let row = member.row;
            let bounds = interval(row.ours_interval);
            put(
                page,
                format_args!(
                    "<tr><th scope=\"row\">{}</th><td title=\"{bounds}\">{}</td><td>{}</td><td>{}</td></tr>\n",
                    size(member.size),
                    figure(Some(row.ours), row.unit),
                    figure(row.theirs, row.unit),
                    ratio(row)
                ),
            );
        }
        page.push_str("</tbody></table>\n</figure>\n");
    }
    page.push_str("</div>\n");
}
