//! What became better or worse from one run to another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::{Better, Interval, RowId, Unit};
use crate::summary::Line;

/// How a row stands to what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Change {
    Better,
    /// Within the tolerance.
    Same,
    Worse,
    /// Beyond the tolerance, but the bounds overlap, a node was busy, or a result was wrong.
    Unclear,
}

/// One row of two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    pub id: RowId,
    pub unit: Unit,
    pub before: f64,
    pub after: f64,
    /// How much better `after` is, in percent of `before`; negative is worse, whichever way the unit points.
    pub percent: f64,
    pub change: Change,
}

/// The rows that both runs have, in the order of `after`. A difference counts from `tolerance` percent on.
#[must_use]
pub fn compare(before: &[Line], after: &[Line], tolerance: f64) -> Vec<Comparison> {
    let row = |after: &Line| {
        let before = before.iter().find(|before| before.id == after.id && before.unit == after.unit)?;
        let percent = gain(before, after)?;
        Some(Comparison {
            id: after.id.clone(),
            unit: after.unit,
            before: before.ours,
            after: after.ours,
            percent,
            change: change(before, after, percent, tolerance),
        })
    };
    after.iter().filter_map(row).collect()
}

/// None where there is nothing to divide by.
fn gain(before: &Line, after: &Line) -> Option<f64> {
    let (from, to) = match after.better {
        Better::Higher => (before.ours, after.ours),
        // Twice the time is half as good.
        Better::Lower => (after.ours, before.ours),
    };
    (from > 0.0).then(|| (to / from - 1.0) * 100.0)
}

fn change(before: &Line, after: &Line, percent: f64, tolerance: f64) -> Change {
    if percent.abs() <= tolerance {
        return Change::Same;
    }
    let sure = |line: &Line| line.correct && !line.noisy;
    let apart = match (before.bounds, after.bounds) {
        (Some(Interval { low, high }), Some(other)) => high < other.low || other.high < low,
        _ => false,
    };
    match (sure(before) && sure(after) && apart, percent > 0.0) {
        (false, _) => Change::Unclear,
        (true, true) => Change::Better,
        (true, false) => Change::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::line;

    fn of(before: &Line, after: &Line, tolerance: f64) -> (Change, i64) {
        let found = compare(std::slice::from_ref(before), std::slice::from_ref(after), tolerance);
        (found[0].change, found[0].percent.round() as i64)
    }

    #[test]
    fn a_difference_counts_beyond_tolerance_and_doubt() {
        assert_eq!(of(&line("a", 2.0), &line("a", 1.0), 10.0), (Change::Worse, -50));
        assert_eq!(of(&line("a", 2.0), &line("a", 3.0), 10.0), (Change::Better, 50));
        assert_eq!(of(&line("a", 2.0), &line("a", 1.9), 10.0), (Change::Same, -5));
        let overlapping = Line { bounds: Some(Interval { low: 0.5, high: 2.0 }), ..line("a", 1.0) };
        assert_eq!(of(&line("a", 2.0), &overlapping, 10.0).0, Change::Unclear);
        for doubtful in [
            Line { noisy: true, ..line("a", 1.0) },
            Line { correct: false, ..line("a", 1.0) },
            Line { bounds: None, ..line("a", 1.0) },
        ] {
            assert_eq!(of(&line("a", 2.0), &doubtful, 10.0).0, Change::Unclear);
            assert_eq!(of(&doubtful, &line("a", 2.0), 10.0).0, Change::Unclear);
        }
    }

    #[test]
    fn less_time_is_better() {
        let time = |ours| Line { better: Better::Lower, unit: Unit::Microseconds, ..line("a", ours) };
        assert_eq!(of(&time(10.0), &time(20.0), 10.0), (Change::Worse, -50));
        assert_eq!(of(&time(20.0), &time(10.0), 10.0), (Change::Better, 100));
    }

    #[test]
    fn rows_of_one_run_alone_are_not_compared() {
        let other = Line { unit: Unit::Seconds, ..line("a", 1.0) };
        assert!(compare(&[line("a", 1.0)], &[other, line("b", 1.0)], 10.0).is_empty());
        assert!(compare(&[line("a", 0.0)], &[line("a", 1.0)], 10.0).is_empty());
    }
}
