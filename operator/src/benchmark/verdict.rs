//! What a run means for each pool: its headline figures, and what became worse. Pure.

use std::collections::BTreeMap;

use sealane_operator_api::{Figure, PoolStatus, Regressed};
use sealane_results::{Change, Comparison, Line, RowId, Summary, compare, figure as words, number};

/// Figures of a pool in the status; the others are in the results.
const FIGURES_MAX: usize = 12;
const REGRESSIONS_MAX: usize = 16;
const POOLS_MAX: usize = 64;
const ROW_CHARS_MAX: usize = 64;

/// By pool.
type Pools<'a> = BTreeMap<&'a str, Vec<&'a Summary>>;

/// The pools of a run, and what is worse in them than it was in `before` by more than `tolerance` percent.
#[must_use]
pub(super) fn pools(
    found: &[Summary],
    before: Option<&[Summary]>,
    tolerance: f64,
    tees: &BTreeMap<String, &'static str>,
) -> Vec<PoolStatus> {
    let earlier = by_pool(before.unwrap_or_default());
    by_pool(found)
        .into_iter()
        .take(POOLS_MAX)
        .map(|(name, nodes)| {
            let rows = Summary::of_pool(&nodes);
            let earlier = earlier.get(name).map(|nodes| Summary::of_pool(nodes)).unwrap_or_default();
            let worse = compare(&earlier, &rows, tolerance);
            let worse = worse.iter().filter(|row| row.change == Change::Worse);
            PoolStatus {
                name: name.to_owned(),
                nodes: i32::try_from(nodes.len()).unwrap_or(i32::MAX),
                cpu: joined(nodes.iter().map(|node| node.machine.cpu.as_str())),
                kernel: joined(nodes.iter().map(|node| node.machine.kernel.as_str())),
                tee: tees.get(name).map(|tee| (*tee).to_owned()),
                figures: rows.iter().take(FIGURES_MAX).map(figure).collect(),
                regressions: worse.take(REGRESSIONS_MAX).map(regressed).collect(),
                transports: Vec::new(),
                transports_run: None,
                transports_time: None,
                recommended: None,
                ignored: Vec::new(),
            }
        })
        .collect()
}

fn by_pool(summaries: &[Summary]) -> Pools<'_> {
    let mut pools = Pools::new();
    for summary in summaries {
        pools.entry(&summary.place.pool).or_default().push(summary);
    }
    pools
}

/// What the nodes of a pool have in common, or all that they have.
fn joined<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut words: Vec<&str> = words.collect();
    words.sort_unstable();
    words.dedup();
    words.join(" + ").chars().take(256).collect()
}

fn figure(row: &Line) -> Figure {
    Figure {
        row: named(&row.id),
        value: words(row.ours, row.unit),
        bounds: row.bounds.map(|bounds| format!("{} … {}", number(bounds.low), number(bounds.high))),
        ratio: row.ratio.map(number),
    }
}

/// As far as a status holds it.
fn named(id: &RowId) -> String {
    id.0.chars().take(ROW_CHARS_MAX).collect()
}

fn regressed(row: &Comparison) -> Regressed {
    Regressed {
        row: named(&row.id),
        before: words(row.before, row.unit),
        after: words(row.after, row.unit),
        // A comparison's percentages are far inside the range.
        percent: row.percent.abs().round() as i32,
    }
}
