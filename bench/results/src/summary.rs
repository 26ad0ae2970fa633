//! One node's figures of one run.

use serde::{Deserialize, Serialize};

use crate::figure::{Better, Interval, RowId, Unit, Verdict};

/// The version of this form. It changes when a field goes or changes its meaning.
pub const VERSION: u32 = 1;

/// Bounds of what a summary may hold, far above what a runner writes.
const ROWS_MAX: usize = 512;
const FAILURES_MAX: usize = 32;
const TEXT_BYTES_MAX: usize = 512;

/// What figures belong to: the run that asked for them, and where they were taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Place {
    pub run: String,
    pub pool: String,
    pub node: String,
    /// Where the other end was, for figures that were taken between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Site>,
}

/// A node of a pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Site {
    pub pool: String,
    pub node: String,
}

impl Place {
    /// What its figures are told under: the pool, or the two between which they were taken.
    #[must_use]
    pub fn group(&self) -> String {
        let Self { pool, node, server, .. } = self;
        match server {
            None => pool.clone(),
            Some(server) if server.node == *node => format!("{pool}, one node"),
            Some(server) => format!("{pool} → {}", server.pool),
        }
    }
}

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Summary {
    pub version: u32,
    pub place: Place,
    /// How much was measured: `smoke`, `quick` or `full`. Figures of `smoke` mean nothing.
    pub level: String,
    /// RFC 3339, UTC.
    pub began: String,
    pub seconds: f64,
    /// Every suite ran and every result was right.
    pub sound: bool,
    pub machine: Node,
    /// Version, commit and profile of the programs.
    pub build: String,
    /// The first ones matter most.
    pub rows: Vec<Line>,
    /// Rows that found no room.
    pub left_out: u32,
    /// What went wrong, suite by suite.
    pub failures: Vec<String>,
}

/// What its figures depend on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Node {
    pub cpu: String,
    pub architecture: String,
    pub cores: u64,
    /// Instruction sets that matter, as the kernel names them, with a space between.
    pub features: String,
    pub kernel: String,
    pub memory_mebibytes: u64,
    /// Load average of a minute when the run began.
    pub load: f64,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Line {
    pub id: RowId,
    pub unit: Unit,
    pub better: Better,
    /// Median of the samples.
    pub ours: f64,
    /// 95 % bounds of `ours`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Interval>,
    /// Against the peer of the row, measured in turn; above 1 is better for us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Every timed result was right.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub correct: bool,
    /// The machine was too busy to compare on.
    #[serde(default, skip_serializing_if = "is_no")]
    pub noisy: bool,
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_yes(value: &bool) -> bool {
    *value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_no(value: &bool) -> bool {
    !*value
}

impl Summary {
    /// What is out of bounds, if anything is: a key signs what a runner says, not that it makes sense.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let Self { version, place, level, began, seconds, machine, build, rows, failures, .. } = self;
        let Node { cpu, architecture, features, kernel, load, .. } = machine;
        let texts =
            [&place.run, &place.pool, &place.node, level, began, cpu, architecture, features, kernel, build];
        let of_server = place.server.iter().flat_map(|server| [&server.pool, &server.node]);
        if *version != VERSION {
            return Some("it is of another version");
        }
        if rows.len() > ROWS_MAX || failures.len() > FAILURES_MAX {
            return Some("it has too many rows or failures");
        }
        let ids = rows.iter().map(|row| &row.id.0);
        if texts.into_iter().chain(of_server).chain(ids).chain(failures).any(|text| !is_plain(text)) {
            return Some("a text is too long, or not of printable characters");
        }
        if !rows.iter().all(Line::is_comparable) || ![*seconds, *load].into_iter().all(is_comparable) {
            return Some("a figure is not a number that can be compared");
        }
        None
    }

    /// The figures of a pool: of each row the median of its nodes, with the outermost of their bounds.
    #[must_use]
    pub fn of_pool(nodes: &[&Self]) -> Vec<Line> {
        let Some(first) = nodes.first() else { return Vec::new() };
        let on = |id: &RowId| {
            let rows = nodes.iter().map(|node| node.rows.iter().find(|row| row.id == *id));
            rows.collect::<Option<Vec<_>>>()
        };
        first.rows.iter().filter_map(|row| Some(merged(row, &on(&row.id)?))).collect()
    }
}

/// Beyond this a figure is a fault of the runner's.
const NUMBER_MAX: f64 = 1e18;

fn merged(first: &Line, rows: &[&Line]) -> Line {
    let bounds: Option<Vec<Interval>> = rows.iter().map(|row| row.bounds).collect();
    let ratios: Option<Vec<f64>> = rows.iter().map(|row| row.ratio).collect();
    let outermost = |bounds: Vec<Interval>| Interval {
        low: bounds.iter().map(|bounds| bounds.low).fold(f64::INFINITY, f64::min),
        high: bounds.iter().map(|bounds| bounds.high).fold(f64::NEG_INFINITY, f64::max),
    };
    let worst = [Verdict::Missed, Verdict::Unclear, Verdict::Met];
    Line {
        ours: median(rows.iter().map(|row| row.ours).collect()),
        bounds: bounds.map(outermost),
        ratio: ratios.map(median),
        verdict: worst.into_iter().find(|verdict| rows.iter().any(|row| row.verdict == Some(*verdict))),
        correct: rows.iter().all(|row| row.correct),
        noisy: rows.iter().any(|row| row.noisy),
        ..first.clone()
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let at = |place: usize| values.get(place).copied().unwrap_or_default();
    if values.len() % 2 == 1 { at(middle) } else { f64::midpoint(at(middle.saturating_sub(1)), at(middle)) }
}

/// `text` as a summary may hold it: what is not printable becomes a space, and what is too long is cut.
#[must_use]
pub fn plain(text: &str) -> String {
    let cut = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    cut.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn is_plain(text: &str) -> bool {
    text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control)
}

fn is_comparable(number: f64) -> bool {
    number.is_finite() && number.abs() <= NUMBER_MAX
}

impl Line {
    /// Whether its figures are numbers that can be compared; a summary with a line that cannot is not sealed.
    #[must_use]
    pub fn is_comparable(&self) -> bool {
        let bounds = self.bounds.into_iter().flat_map(|bounds| [bounds.low, bounds.high]);
        bounds.chain(self.ratio).chain([self.ours]).all(is_comparable)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn line(id: &str, ours: f64) -> Line {
        Line {
            id: RowId(id.to_owned()),
            unit: Unit::GigabytesPerSecond,
            better: Better::Higher,
            ours,
            bounds: Some(Interval { low: ours * 0.98, high: ours * 1.02 }),
            ratio: Some(2.0),
            verdict: None,
            correct: true,
            noisy: false,
        }
    }

    pub(crate) fn summary() -> Summary {
        Summary {
            version: VERSION,
            place: Place {
                run: "7f3a-1-1".to_owned(),
                pool: "gpu".to_owned(),
                node: "node-0".to_owned(),
                server: None,
            },
            level: "quick".to_owned(),
            began: "2026-11-23T01:00:00Z".to_owned(),
            seconds: 61.5,
            sound: true,
            machine: Node { cpu: "AMD EPYC".to_owned(), cores: 2, ..Node::default() },
            build: "0.1.0".to_owned(),
            rows: vec![line("C3/1536", 2.0), line("C3/4096", 3.0)],
            left_out: 0,
            failures: Vec::new(),
        }
    }

    #[test]
    fn a_pool_has_the_rows_that_all_of_its_nodes_have() {
        let one = summary();
        let mut other = summary();
        other.rows = vec![Line { noisy: true, ..line("C3/1536", 4.0) }];
        let rows = Summary::of_pool(&[&one, &other]);
        assert_eq!(rows.len(), 1);
        assert!((rows[0].ours - 3.0).abs() < 1e-9 && rows[0].noisy);
        assert_eq!(rows[0].bounds, Some(Interval { low: 2.0 * 0.98, high: 4.0 * 1.02 }));
        assert!(Summary::of_pool(&[]).is_empty());
    }

    #[test]
    fn figures_between_two_are_told_under_both() {
        let between = |node: &str, pool: &str| {
            let server = Some(Site { pool: pool.to_owned(), node: node.to_owned() });
            Place { server, ..summary().place }.group()
        };
        assert_eq!(summary().place.group(), "gpu");
        assert_eq!(between("node-0", "gpu"), "gpu, one node");
        assert_eq!(between("node-1", "gpu"), "gpu → gpu");
        assert_eq!(between("node-1", "cpu"), "gpu → cpu");
    }

    #[test]
    fn what_makes_no_sense_is_a_fault() {
        assert_eq!(summary().fault(), None);
        let with = |change: fn(&mut Summary)| {
            let mut summary = summary();
            change(&mut summary);
            summary.fault()
        };
        assert!(with(|summary| summary.version = 2).is_some());
        assert!(with(|summary| summary.machine.cpu = "a".repeat(513)).is_some());
        assert!(with(|summary| summary.rows[0].id.0 = "\u{1b}[31m".to_owned()).is_some());
        assert!(with(|summary| summary.rows[0].ours = f64::INFINITY).is_some());
        assert!(with(|summary| summary.rows[0].ratio = Some(1e19)).is_some());
        assert!(with(|summary| summary.failures = vec![String::new(); 33]).is_some());
        assert!(
            with(|summary| summary.place.server = Some(Site { pool: "\n".to_owned(), node: "b".to_owned() }))
                .is_some()
        );
    }

    #[test]
    fn any_text_can_be_made_plain() {
        assert_eq!(plain("two\nlines \u{1b}[31mred\u{85}"), "two lines  [31mred ");
        // 3 bytes each: the last one does not fit whole.
        let long = plain(&"≤".repeat(200));
        assert_eq!(long, "≤".repeat(170));
        assert!(is_plain(&long));
    }
}
