//! What a run means for each pool: its headline figures, and what became worse. Pure.

use std::collections::BTreeMap;

use sealane_operator_api::{Figure, KnownTransports, PairStatus, Placement, PoolStatus, Regressed};
use sealane_results::{Change, Comparison, Line, Place, RowId, Summary, compare, figure as words, number};

use super::group::GROUPS_MAX;

/// Figures of a pool in the status; the others are in the results.
const FIGURES_MAX: usize = 12;
const REGRESSIONS_MAX: usize = 16;
const ROW_CHARS_MAX: usize = 64;

/// By pool, or by the two between which was measured.
type Groups<'a> = BTreeMap<String, Vec<&'a Summary>>;

/// The pools of a run, and what is worse in them than it was in `before` by more than `tolerance` percent.
#[must_use]
pub(super) fn pools(
    found: &[Summary],
    before: Option<&[Summary]>,
    tolerance: f64,
    tees: &BTreeMap<String, &'static str>,
) -> Vec<PoolStatus> {
    let earlier = by_group(before.unwrap_or_default());
    by_group(found)
        .into_iter()
        .filter(|(_, nodes)| nodes.iter().all(|node| node.place.server.is_none()))
        .take(GROUPS_MAX)
        .map(|(name, nodes)| {
            let (figures, regressions) = told(&nodes, earlier.get(&name), tolerance);
            PoolStatus {
                nodes: i32::try_from(nodes.len()).unwrap_or(i32::MAX),
                cpu: joined(nodes.iter().map(|node| node.machine.cpu.as_str())),
                kernel: joined(nodes.iter().map(|node| node.machine.kernel.as_str())),
                tee: tees.get(&name).map(|tee| (*tee).to_owned()),
                figures,
                regressions,
                known: KnownTransports::default(),
                name,
            }
        })
        .collect()
}

/// The pairs of a run, likewise.
#[must_use]
pub(super) fn pairs(found: &[Summary], before: Option<&[Summary]>, tolerance: f64) -> Vec<PairStatus> {
    let earlier = by_group(before.unwrap_or_default());
    by_group(found)
        .into_iter()
        .filter_map(|(name, nodes)| {
            let Place { pool, node, server, .. } = &nodes.first()?.place;
            let server = server.as_ref()?;
            let (figures, regressions) = told(&nodes, earlier.get(&name), tolerance);
            Some(PairStatus {
                from: pool.clone(),
                to: server.pool.clone(),
                placement: match (server.node == *node, server.pool == *pool) {
                    (true, _) => Placement::SameNode,
                    (false, true) => Placement::SamePool,
                    (false, false) => Placement::AcrossPools,
                },
                figures,
                regressions,
                known: KnownTransports::default(),
                name,
            })
        })
        .take(GROUPS_MAX)
        .collect()
}

/// The figures of a group, and those that are worse than they were in `earlier`.
fn told(
    nodes: &[&Summary],
    earlier: Option<&Vec<&Summary>>,
    tolerance: f64,
) -> (Vec<Figure>, Vec<Regressed>) {
    let rows = Summary::of_pool(nodes);
    let earlier = earlier.map(|nodes| Summary::of_pool(nodes)).unwrap_or_default();
    let worse = compare(&earlier, &rows, tolerance);
    let worse = worse.iter().filter(|row| row.change == Change::Worse);
    let regressions = worse.take(REGRESSIONS_MAX).map(regressed).collect();
    (rows.iter().take(FIGURES_MAX).map(figure).collect(), regressions)
}

fn by_group(summaries: &[Summary]) -> Groups<'_> {
    let mut groups = Groups::new();
    for summary in summaries {
        groups.entry(summary.place.group()).or_default().push(summary);
    }
    groups
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
