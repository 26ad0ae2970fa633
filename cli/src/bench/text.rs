//! A run for a terminal: its pools side by side.

use sealane_results::{Line, number};

use super::findings::{Doubt, Findings, Note};
use super::pools::{Facts, Pool, reach, rows};
use crate::output::{printable, table};

const NOISY: &str = "~";
const WRONG: &str = "!";
const REGRESSED: &str = "▼";
const NOTHING: &str = "–";

pub(super) fn text(findings: &Findings<'_>) -> String {
    let Findings { runs, pools, .. } = findings;
    let title =
        format!("Benchmark {} in namespace {}\n{}\n", runs.benchmark, runs.namespace, findings.headline());
    let mut parts = vec![title.lines().map(|line| format!("{}\n", printable(line))).collect()];
    if !pools.is_empty() {
        parts.push(machines(findings));
        parts.push(format!("{}{}", figures(findings), legend(findings)));
    }
    parts.push(recommended(findings));
    parts.push(regressions(findings));
    parts.push(notes(&findings.notes()));
    parts.retain(|part: &String| !part.is_empty());
    parts.join("\n")
}

fn machines(findings: &Findings<'_>) -> String {
    let heading = ["POOL", "NODES", "CPU", "CORES", "TEE", "KERNEL", "LOAD"].map(str::to_owned).to_vec();
    let row = |pool: &Pool<'_>| {
        let Facts { cpu, cores, kernel, load, .. } = pool.facts();
        let tee = findings.tee(&pool.name).unwrap_or("-").to_owned();
        vec![pool.name.to_owned(), pool.nodes.len().to_string(), cpu, cores, tee, kernel, load]
    };
    let rows: Vec<_> = std::iter::once(heading).chain(findings.pools.iter().map(row)).collect();
    table(&rows)
}

/// What sessions with `Auto` take.
fn recommended(findings: &Findings<'_>) -> String {
    let lines = findings.recommended();
    let lines = lines.iter().map(|(name, words)| printable(&format!("Auto takes in {name}: {words}")) + "\n");
    lines.collect()
}

fn figures(findings: &Findings<'_>) -> String {
    let pools = &findings.pools;
    let names = pools.iter().map(|pool| pool.name.to_owned());
    let heading = ["FIGURE", "UNIT"].map(str::to_owned).into_iter().chain(names).collect();
    let row = |row: &Line| {
        let cells = pools.iter().map(|pool| match pool.line(row) {
            Some(line) => cell(findings, &pool.name, line),
            None => NOTHING.to_owned(),
        });
        [row.id.to_string(), row.unit.to_string()].into_iter().chain(cells).collect()
    };
    let rows: Vec<_> = std::iter::once(heading).chain(rows(pools).into_iter().map(row)).collect();
    table(&rows)
}

/// The figure, its bounds, how it stands to its peer, and what is the matter with it.
fn cell(findings: &Findings<'_>, pool: &str, line: &Line) -> String {
    let doubt = match Doubt::of(line) {
        Doubt::None => None,
        Doubt::Noisy => Some(NOISY.to_owned()),
        Doubt::Wrong => Some(WRONG.to_owned()),
    };
    let parts = [
        Some(number(line.ours)),
        reach(line).map(|reach| format!("±{}", number(reach))),
        line.ratio.map(|ratio| format!("({}×)", number(ratio))),
        doubt,
        findings.regressed(pool, &line.id).map(|_| REGRESSED.to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// What the marks mean, as far as there are any.
fn legend(findings: &Findings<'_>) -> String {
    let lines = || findings.pools.iter().flat_map(|pool| &pool.lines);
    let doubtful = |doubt| lines().any(|line| Doubt::of(line) == doubt);
    let words = [
        (lines().any(|line| line.bounds.is_some()), "±: 95 % bounds"),
        (lines().any(|line| line.ratio.is_some()), "(×): against the row's peer; above 1 is better"),
        (doubtful(Doubt::Noisy), "~: the machine was too busy to compare on"),
        (doubtful(Doubt::Wrong), "!: a result was WRONG"),
        (!findings.regressions.is_empty(), "▼: worse than it was"),
    ];
    words.into_iter().filter(|(there, _)| *there).map(|(_, words)| format!("{words}\n")).collect()
}

fn regressions(findings: &Findings<'_>) -> String {
    let mut text = String::new();
    for (pool, regressed) in &findings.regressions {
        if text.is_empty() {
            text.push_str("Worse than before:\n");
        }
        let (row, after, before) = (&regressed.row, &regressed.after, &regressed.before);
        let percent = regressed.percent.unsigned_abs();
        let said = format!("{pool} {row}: {after}, was {before} ({percent} % worse)");
        text.push_str(&format!("  {}\n", printable(&said)));
    }
    text
}

fn notes(notes: &[Note]) -> String {
    let line = |Note { grave, text }: &Note| {
        let word = if *grave { "!! " } else { "" };
        format!("{word}{}\n", printable(text))
    };
    notes.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::fixture::Fixture;

    fn of(fixture: &Fixture, run: usize) -> String {
        let runs = fixture.open();
        text(&Findings::new(&runs, &runs.runs[run]))
    }

    #[test]
    fn pools_stand_side_by_side() {
        let expected = "\
Benchmark nightly in namespace ml
Run run-4, begun 2026-11-24T03:00:00Z, succeeded: 3/3 nodes measured, level quick

POOL   NODES   CPU                CORES   TEE      KERNEL                                 LOAD
gpu    2       AMD EPYC 9654      192     SevSnp   6.8.0-1020 x86_64, 6.8.0-1021 x86_64   0.10 … 0.30
cpu    1       Intel Xeon 8481C   16      -        6.8.0-1020 x86_64                      0.10

FIGURE        UNIT   gpu                   cpu
C3/65536      GB/s   9.36 ±0.368 (8.10×)   3.69 ±0.111 (8.10×) ▼
C3/1536       GB/s   2.29 ±0.090 (12.4×)   0.902 ±0.027 (12.4×)
C3-tcp/1536   GB/s   1.46 ±0.057 (15.2×)   0.574 ±0.017 (15.2×) ~
C1/attested   µs     865 ±34.0 (1.30×)     2195 ±65.9 (1.30×) !
W7/1456       ns     298 ±11.7             756 ±22.7
C2/4096       µs     3.27 ±0.129 (5.00×)   8.29 ±0.249 (5.00×)
P2/1048576    ns     –                     346341 ±10390
verify/snp    µs     –                     240 ±7.20
±: 95 % bounds
(×): against the row's peer; above 1 is better
~: the machine was too busy to compare on
!: a result was WRONG
▼: worse than it was

Worse than before:
  cpu C3/65536: 3.69 GB/s, was 5.40 GB/s (32 % worse)

gpu/gpu-1: rows that found no room: 1
gpu: not on every node: P2/1048576
";
        assert_eq!(of(&Fixture::new(), 0), expected);
    }

    #[test]
    fn what_comes_from_elsewhere_cannot_move_the_cursor() {
        let mut fixture = Fixture::new();
        fixture.status().runs[1].message = Some("gone\u{1b}[2K".to_owned());
        fixture.record_mut("run-3", |record| record.nodes[2].failure = Some("a\nb\u{202e}".to_owned()));
        let text = of(&fixture, 1);
        assert!(text.contains("gone\\u{1b}[2K") && text.contains("a\\u{a}b\\u{202e}"), "{text}");
    }

    #[test]
    fn a_run_without_figures_is_told_in_words() {
        let mut fixture = Fixture::new();
        fixture.data.clear();
        let text = of(&fixture, 0);
        assert!(text.ends_with("!! the results of the run are not in the ConfigMap\n"), "{text}");
        assert!(!text.contains("FIGURE"), "{text}");
    }
}
