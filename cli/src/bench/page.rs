//! A run as one page that needs nothing else: styles and plots are inside. It looks like the report of `sealane-bench`.

mod figures;
mod history;
mod markup;
mod plot;
mod rows;

use sealane_operator_api::RunOutcome;

use self::markup::Escaped;
use super::findings::Findings;
use super::pools::{Facts, Pool};
use super::runs::{Found, Run};

const STYLE: &str = include_str!("page/page.css");

/// How to read the figures.
const METHOD: &[&str] = &[
    "A figure of a pool is the median of its nodes; its bounds are the outermost of their 95 % bounds. A row that not \
     every node of a pool has is left out, and named.",
    "Against its peer means measured in turn with it, in the same run on the same node; above 1 is better for us, whatever \
     the unit.",
    "Bars of one row share a scale that begins at nothing. Rows do not share one.",
    "A figure is worse than it was only beyond doubt: by more than the tolerance of the Benchmark, with bounds that do not \
     overlap, on machines that were not busy, and with every result right.",
    "Every figure here was signed on its node with the key of its run and opened under the key that the Benchmark's status \
     names. Whoever can write that status can name another key. CPU, kernel and load are what the node said; the TEE is \
     what its labels say.",
];

pub(super) fn page(findings: &Findings<'_>) -> String {
    let name = Escaped(&findings.runs.benchmark);
    let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
    page.push_str(&format!("<title>Sealane benchmark {name}</title>\n<style>{STYLE}</style>\n</head>\n"));
    page.push_str(&format!("<body>\n<main>\n<h1>Sealane benchmark {name}</h1>\n"));
    let namespace = Escaped(&findings.runs.namespace);
    page.push_str(&format!("<p>{}; namespace {namespace}.</p>\n", Escaped(&findings.headline())));
    page.push_str(&notes(findings));
    page.push_str(&regressions(findings));
    page.push_str(&machines(findings));
    page.push_str(&recommended(findings));
    page.push_str(&figures::figures(findings));
    page.push_str(&history::history(findings).unwrap_or_default());
    page.push_str(&runs(findings));
    page.push_str("<section>\n<h2>How to read this</h2>\n<ul>\n");
    METHOD.iter().for_each(|sentence| page.push_str(&format!("<li>{}</li>\n", Escaped(sentence))));
    page + "</ul>\n</section>\n</main>\n</body>\n</html>\n"
}

/// What is wrong in boxes, the rest as a list.
fn notes(findings: &Findings<'_>) -> String {
    let (grave, others): (Vec<_>, Vec<_>) = findings.notes().into_iter().partition(|note| note.grave);
    let mut text = String::new();
    grave.iter().for_each(|note| {
        text.push_str(&format!("<p class=\"failure\">{}</p>\n", Escaped(&note.text)));
    });
    let items: String = others.iter().map(|note| format!("<li>{}</li>\n", Escaped(&note.text))).collect();
    if !items.is_empty() {
        text.push_str(&format!("<ul class=\"notes\">\n{items}</ul>\n"));
    }
    text
}

fn regressions(findings: &Findings<'_>) -> String {
    let rows = findings.regressions.iter().map(|(pool, regressed)| {
        let percent = format!("{} %", regressed.percent.unsigned_abs());
        vec![
            (*pool).to_owned(),
            regressed.row.clone(),
            regressed.before.clone(),
            regressed.after.clone(),
            percent,
        ]
    });
    section("Worse than before", &["Pool", "Row", "Before", "After", "Worse by"], rows)
}

/// What sessions with `Auto` take.
fn recommended(findings: &Findings<'_>) -> String {
    let rows = findings.recommended().into_iter().map(|(name, words)| vec![name.to_owned(), words]);
    section("Auto takes", &["Pool", "Transport"], rows)
}

fn machines(findings: &Findings<'_>) -> String {
    let row = |pool: &Pool<'_>| {
        let Facts { cpu, cores, memory, kernel, features, load, build } = pool.facts();
        let tee = findings.tee(&pool.name).unwrap_or("–").to_owned();
        let nodes = pool.nodes.len().to_string();
        vec![pool.name.to_owned(), nodes, cpu, cores, memory, tee, kernel, load, features, build]
    };
    let headings =
        ["Pool", "Nodes", "CPU", "Cores", "Memory", "TEE", "Kernel", "Load", "Instructions", "Program"];
    section("Node pools", &headings, findings.pools.iter().map(row))
}

/// Every run that is kept, so that a missing point in the history can be explained.
fn runs(findings: &Findings<'_>) -> String {
    let row = |run: &Run| {
        let outcome = match run.outcome {
            RunOutcome::Succeeded => "succeeded",
            RunOutcome::Failed => "failed",
            RunOutcome::Replaced => "replaced",
        };
        let took = run.completion_time.0.as_second().saturating_sub(run.start_time.0.as_second());
        vec![
            run.id.clone(),
            run.start_time.0.to_string(),
            format!("{took} s"),
            outcome.to_owned(),
            run.measured.clone(),
            run.level().unwrap_or("–").to_owned(),
            results(run),
            run.message.clone().unwrap_or_default(),
        ]
    };
    let headings = ["Run", "Began", "Took", "Outcome", "Nodes", "Level", "Results", "Message"];
    section("Runs", &headings, findings.runs.runs.iter().map(row))
}

fn results(run: &Run) -> String {
    if let Some(problem) = &run.problem {
        return problem.clone();
    }
    let count = |wanted: fn(&Found) -> bool| run.nodes.iter().filter(|node| wanted(&node.found)).count();
    let verified = count(|found| matches!(found, Found::Verified { .. }));
    let refused = count(|found| matches!(found, Found::Refused { .. }));
    match refused {
        0 => format!("{verified} verified"),
        refused => format!("{verified} verified, {refused} not used"),
    }
}

/// A section with a table, unless there is nothing in it. The first cell of a row is its name.
fn section(title: &str, headings: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let row = |cells: Vec<String>| {
        let cells = headings.iter().zip(&cells).enumerate().map(|(column, (heading, cell))| match column {
            0 => format!("<th scope=\"row\">{}</th>", Escaped(cell)),
            _ => format!("<td data-name=\"{heading}\">{}</td>", Escaped(cell)),
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows: String = rows.map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let headings: String = headings.iter().map(|heading| format!("<th>{heading}</th>")).collect();
    format!(
        "<section>\n<h2>{title}</h2>\n<table>\n<thead><tr>{headings}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</section>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::fixture::Fixture;

    fn of(fixture: &Fixture, run: usize) -> String {
        let runs = fixture.open();
        page(&Findings::new(&runs, &runs.runs[run]))
    }

    #[test]
    fn the_page_holds_what_the_run_found_and_needs_nothing_else() {
        let page = of(&Fixture::new(), 0);
        for part in [
            "<title>Sealane benchmark nightly</title>",
            "Run run-4, begun 2026-11-24T03:00:00Z, succeeded: 3/3 nodes measured, level quick; namespace ml.",
            "<th scope=\"row\">gpu</th><td data-name=\"Nodes\">2</td><td data-name=\"CPU\">AMD EPYC 9654</td>",
            "<td data-name=\"Worse by\">32 %</td>",
            "<code>C3/65536</code> one way in process; GB/s, more is better",
            "±0.111 · 8.10× its peer · 32 % worse",
            "busy machine",
            "WRONG result",
            "4 runs, from 2026-11-21T03:00:00Z to 2026-11-24T03:00:00Z",
            "<td data-name=\"Results\">2 verified</td><td data-name=\"Message\">1 of 3 nodes failed</td>",
            "gpu: not on every node: P2/1048576",
        ] {
            assert!(page.contains(part), "{part}");
        }
        for other in ["<script", "http:", "https:", "url(", "@import", "src=", "href="] {
            assert!(!page.contains(other), "{other}");
        }
    }

    #[test]
    fn what_comes_from_elsewhere_is_text() {
        let mut fixture = Fixture::new();
        let hostile = || "<script>alert(1)</script>\"'".to_owned();
        fixture.data.insert(hostile(), "{}".to_owned());
        fixture.record_mut("run-3", |record| {
            record.nodes[1].sealed = Some(hostile());
            record.nodes[1].node = hostile();
            record.nodes[2].failure = Some(hostile());
        });
        fixture.reseal("run-4", |summary| {
            summary.machine.cpu = hostile();
            summary.rows[0].id.0 = hostile();
            summary.failures = vec![hostile()];
        });
        let status = fixture.status();
        status.runs[0].message = Some(hostile());
        status.pools[0].tee = Some(hostile());
        status.pools[1].regressions[0].before = hostile();
        for run in [0, 1] {
            let page = of(&fixture, run);
            assert!(!page.contains("<script"), "{page}");
            assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;"), "{page}");
        }
    }

    #[test]
    fn a_run_without_figures_is_a_page_too() {
        let mut fixture = Fixture::new();
        fixture.data.clear();
        let page = of(&fixture, 0);
        assert!(page.contains("<p class=\"failure\">the results of the run are not in the ConfigMap</p>"));
        assert!(!page.contains("<figure>") && page.contains("<h2>Runs</h2>"));
    }
}
