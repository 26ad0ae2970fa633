//! The figures of a run, pool by pool.

use sealane_results::{Line, RowId, Summary};

use super::runs::Run;

/// A pool of a run, as far as its nodes could be verified.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    pub(super) name: String,
    /// At least one.
    pub(super) nodes: Vec<&'a Summary>,
    /// The rows that all of them have.
    pub(super) lines: Vec<Line>,
}

/// What the figures of a pool depend on. Where its nodes differ, all there is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) cpu: String,
    pub(super) cores: String,
    pub(super) memory: String,
    pub(super) kernel: String,
    pub(super) features: String,
    pub(super) load: String,
    pub(super) build: String,
}

/// The pools of a run, in the order of its record.
pub(super) fn pools(run: &Run) -> Vec<Pool<'_>> {
    let mut pools: Vec<Pool<'_>> = Vec::new();
    for summary in run.summaries() {
        let name = summary.place.group();
        match pools.iter_mut().find(|pool| pool.name == name) {
            Some(pool) => pool.nodes.push(summary),
            None => pools.push(Pool { name, nodes: vec![summary], lines: Vec::new() }),
        }
    }
    for pool in &mut pools {
        pool.lines = Summary::of_pool(&pool.nodes);
    }
    pools
}

/// Every row that any of the pools has, as one of them has it; what matters most comes first.
pub(super) fn rows<'a>(pools: &'a [Pool<'_>]) -> Vec<&'a Line> {
    let mut rows: Vec<&Line> = Vec::new();
    for line in pools.iter().flat_map(|pool| &pool.lines) {
        if !rows.iter().any(|row| same(row, line)) {
            rows.push(line);
        }
    }
    rows
}

/// Whether two lines can stand beside each other.
pub(super) fn same(one: &Line, other: &Line) -> bool {
    one.id == other.id && one.unit == other.unit
}

impl Pool<'_> {
    pub(super) fn line(&self, row: &Line) -> Option<&Line> {
        self.lines.iter().find(|line| same(line, row))
    }

    /// Rows that some of its nodes have and others have not.
    pub(super) fn partial(&self) -> Vec<&RowId> {
        let mut partial: Vec<&RowId> = Vec::new();
        for row in self.nodes.iter().flat_map(|node| &node.rows) {
            if !self.lines.iter().any(|line| line.id == row.id) && !partial.contains(&&row.id) {
                partial.push(&row.id);
            }
        }
        partial
    }

    pub(super) fn facts(&self) -> Facts {
        let distinct = |fact: fn(&Summary) -> String| {
            let mut values: Vec<String> = self.nodes.iter().map(|node| fact(node)).collect();
            values.sort();
            values.dedup();
            values.join(", ")
        };
        Facts {
            cpu: distinct(|node| node.machine.cpu.clone()),
            cores: distinct(|node| node.machine.cores.to_string()),
            memory: distinct(|node| format!("{} GiB", node.machine.memory_mebibytes >> 10)),
            kernel: distinct(|node| format!("{} {}", node.machine.kernel, node.machine.architecture)),
            features: distinct(|node| node.machine.features.clone()),
            load: self.load(),
            build: distinct(|node| node.build.clone()),
        }
    }

    /// The least and the most loaded node.
    fn load(&self) -> String {
        let loads = self.nodes.iter().map(|node| node.machine.load);
        let (low, high) =
            loads.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), load| (low.min(load), high.max(load)));
        let [low, high] = [low, high].map(|load| format!("{load:.2}"));
        if low == high { low } else { format!("{low} … {high}") }
    }
}

/// How far the bounds reach from the figure, to the farther side.
pub(super) fn reach(line: &Line) -> Option<f64> {
    line.bounds.map(|bounds| (bounds.high - line.ours).max(line.ours - bounds.low).max(0.0))
}

#[cfg(test)]
mod tests {
    use sealane_results::Interval;

    use super::*;
    use crate::bench::fixture::Fixture;

    #[test]
    fn nodes_of_a_pool_count_together_and_rows_stand_side_by_side() {
        let runs = Fixture::new().open();
        let pools = pools(&runs.runs[0]);
        let nodes: Vec<_> = pools.iter().map(|pool| (pool.name.as_str(), pool.nodes.len())).collect();
        assert_eq!(nodes, [("gpu", 2), ("cpu", 1)]);
        let ids: Vec<_> = rows(&pools).iter().map(|row| row.id.0.as_str()).collect();
        assert_eq!(ids[..2], ["C3/65536", "C3/1536"]);
        assert_eq!(ids.last(), Some(&"verify/snp"), "the one that the second pool alone has");
        assert!(pools[0].line(rows(&pools)[ids.len() - 1]).is_none());
        assert_eq!(pools[0].partial(), [&RowId("P2/1048576".to_owned())]);
    }

    #[test]
    fn facts_of_several_nodes_are_all_there() {
        let runs = Fixture::new().open();
        let facts = pools(&runs.runs[0])[0].facts();
        assert_eq!((facts.cpu.as_str(), facts.load.as_str()), ("AMD EPYC 9654", "0.10 … 0.30"));
        assert_eq!(facts.kernel, "6.8.0-1020, 6.8.0-1021".replace(',', " x86_64,") + " x86_64");
        assert_eq!(facts.memory, "768 GiB");
    }

    #[test]
    fn bounds_reach_to_their_farther_side() {
        let runs = Fixture::new().open();
        let line = &runs.runs[0].summaries().next().unwrap().rows[0];
        let with = |bounds| reach(&Line { ours: 2.0, bounds, ..line.clone() });
        assert_eq!(with(Some(Interval { low: 1.5, high: 2.25 })), Some(0.5));
        assert_eq!(with(None), None);
    }
}
