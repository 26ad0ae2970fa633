//! The figures of all pools as bars, suite by suite.

use sealane_results::{Better, Line, Verdict, number};

use super::markup::Escaped;
use super::plot;
use super::rows::{SUITES, caption, suite};
use crate::bench::findings::{Doubt, Findings};
use crate::bench::pools::{Pool, reach, rows};

const LEGEND: &str = "<p class=\"legend\"><span class=\"key reported\">figure</span> \
     <span class=\"key whisker\">95 % bounds</span> <span class=\"key missed\">worse than it was, or wrong</span> \
     <span class=\"key unclear\">the machine was busy</span></p>\n";

pub(super) fn figures(findings: &Findings<'_>) -> String {
    let rows = rows(&findings.pools);
    let (mut page, mut legend) = (String::new(), LEGEND);
    for name in SUITES {
        let of_suite: Vec<_> = rows.iter().filter(|row| suite(&row.id) == name).collect();
        if of_suite.is_empty() {
            continue;
        }
        page.push_str(&format!("<section>\n<h2>{name}</h2>\n{legend}"));
        legend = "";
        of_suite.into_iter().for_each(|row| page.push_str(&figure(findings, row)));
        page.push_str("</section>\n");
    }
    page
}

/// One row: a bar for each pool, all on one scale.
fn figure(findings: &Findings<'_>, row: &Line) -> String {
    let pools: Vec<(&Pool<'_>, &Line)> =
        findings.pools.iter().filter_map(|pool| Some((pool, pool.line(row)?))).collect();
    let ends =
        pools.iter().map(|(_, line)| line.bounds.map_or(line.ours, |bounds| bounds.high.max(line.ours)));
    let most = ends.fold(0.0, f64::max);
    let mut text = format!("<figure>\n<figcaption>{}</figcaption>\n", heading(row));
    for (pool, line) in pools {
        let class = class(findings, &pool.name, line);
        text.push_str(&format!(
            "<div class=\"line\"><div class=\"id\">{}</div>{}<div class=\"value {class}\">{}<small>{}</small></div></div>\n",
            Escaped(&pool.name),
            plot::bar(line, most, class),
            number(line.ours),
            words(findings, &pool.name, line)
        ));
    }
    text + "</figure>\n"
}

/// Which row it is, and how to read it.
pub(super) fn heading(row: &Line) -> String {
    let better = match row.better {
        Better::Higher => "more is better",
        Better::Lower => "less is better",
    };
    let caption = caption(&row.id);
    let separator = if caption.is_empty() { "" } else { "; " };
    format!("<code>{}</code> {caption}{separator}{}, {better}", Escaped(&row.id.0), row.unit)
}

/// How a figure is coloured.
pub(super) fn class(findings: &Findings<'_>, pool: &str, line: &Line) -> &'static str {
    match findings.regressed(pool, &line.id) {
        Some(_) if line.correct => "missed",
        _ => doubt_class(line),
    }
}

/// The same where nothing is known of regressions.
pub(super) const fn doubt_class(line: &Line) -> &'static str {
    match Doubt::of(line) {
        Doubt::Wrong => "wrong",
        Doubt::Noisy => "unclear",
        Doubt::None => "reported",
    }
}

fn words(findings: &Findings<'_>, pool: &str, line: &Line) -> String {
    let doubt = match Doubt::of(line) {
        Doubt::None => None,
        Doubt::Noisy => Some("busy machine".to_owned()),
        Doubt::Wrong => Some("WRONG result".to_owned()),
    };
    let verdict = line.verdict.map(|verdict| match verdict {
        Verdict::Met => "limit met",
        Verdict::Missed => "limit missed",
        Verdict::Unclear => "limit unclear",
    });
    let worse = findings.regressed(pool, &line.id);
    let words = [
        reach(line).map(|reach| format!("±{}", number(reach))),
        line.ratio.map(|ratio| format!("{}× its peer", number(ratio))),
        verdict.map(str::to_owned),
        worse.map(|worse| format!("{} % worse", worse.percent.unsigned_abs())),
        doubt,
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}
