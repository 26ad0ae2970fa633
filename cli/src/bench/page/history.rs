//! The figures that matter most, from run to run.

use sealane_results::{Line, figure, number};

use super::figures::{class, doubt_class, heading};
use super::markup::Escaped;
use super::plot::{Point, span, track};
use crate::bench::findings::Findings;
use crate::bench::pools::{Pool, pools, rows};
use crate::bench::runs::Run;

/// Rows with a history; a runner puts those that matter most first.
const ROWS_MAX: usize = 6;

/// A run that is kept, and what its pools found.
struct Kept<'a> {
    run: &'a Run,
    pools: Vec<Pool<'a>>,
}

/// None where there is only one run to show.
pub(super) fn history(findings: &Findings<'_>) -> Option<String> {
    // Other levels measure for shorter or longer: their figures do not stand in one line with these.
    let alike = findings.runs.runs.iter().rev().filter(|run| run.level() == findings.run.level());
    let kept: Vec<Kept<'_>> = alike.map(|run| Kept { run, pools: pools(run) }).collect();
    let (first, last) = (kept.first()?.run, kept.last()?.run);
    if kept.len() < 2 {
        return None;
    }
    let mut text = format!(
        "<section>\n<h2>History</h2>\n<p class=\"faint\">{} runs, from {} to {}; bounds at 95 %, each pool on a scale of its own.</p>\n",
        kept.len(),
        first.start_time.0,
        last.start_time.0
    );
    for row in rows(&findings.pools).into_iter().take(ROWS_MAX) {
        text.push_str(&format!("<figure>\n<figcaption>{}</figcaption>\n", heading(row)));
        findings.pools.iter().for_each(|pool| text.push_str(&lane(findings, &kept, pool, row)));
        text.push_str("</figure>\n");
    }
    Some(text + "</section>\n")
}

fn lane(findings: &Findings<'_>, kept: &[Kept<'_>], pool: &Pool<'_>, row: &Line) -> String {
    let steps = kept.len().saturating_sub(1).max(1) as f64;
    let places = kept.iter().enumerate().map(|(step, kept)| (step as f64 / steps, kept));
    let points: Vec<Point<'_>> =
        places.filter_map(|(place, kept)| point(findings, kept, place, &pool.name, row)).collect();
    let Some(last) = points.last() else { return String::new() };
    let span = span(&points);
    format!(
        "<div class=\"line\"><div class=\"id\">{}<small>{} … {}</small></div>{}<div class=\"value {}\">{}</div></div>\n",
        Escaped(&pool.name),
        number(span.low),
        figure(span.high, row.unit),
        track(&points, span),
        last.class,
        number(last.line.ours)
    )
}

fn point<'a>(
    findings: &Findings<'_>,
    kept: &Kept<'a>,
    place: f64,
    pool: &str,
    row: &Line,
) -> Option<Point<'a>> {
    let line = kept.pools.iter().find(|of| of.name == pool)?.line(row)?.clone();
    // Regressions are known of the run that is shown.
    let class = match kept.run.id == findings.run.id {
        true => class(findings, pool, &line),
        false => doubt_class(&line),
    };
    Some(Point { place, run: &kept.run.id, line, class })
}
