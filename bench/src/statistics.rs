//! The few statistics that a row rests on: order statistics and the percentile bootstrap, nothing that assumes a
//! distribution.

use schemars::JsonSchema;
pub use sealane_results::Interval;
use serde::{Deserialize, Serialize};

use crate::random::SplitMix;

/// Resamples of a bootstrap: enough for steady 95 % bounds, few enough to cost nothing.
pub(crate) const RESAMPLES: usize = 2_000;
const LOWER: f64 = 0.025;
const UPPER: f64 = 0.975;

/// How latencies of single operations are distributed, in the unit of their row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Quantiles {
    pub count: u64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Quantiles {
    /// None without values.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        Some(Self {
            count: u64::try_from(sorted.len()).ok()?,
            p50: at(&sorted, 0.5)?,
            p90: at(&sorted, 0.9)?,
            p99: at(&sorted, 0.99)?,
            p999: at(&sorted, 0.999)?,
            max: *sorted.last()?,
        })
    }
}

/// The value below which a `share` of the values lies, interpolated between neighbours (type 7, the usual one).
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    at(&sorted(values), share)
}

#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Width between the quartiles: it holds the middle half of the values.
#[must_use]
pub fn spread(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    Some(at(&sorted, 0.75)? - at(&sorted, 0.25)?)
}

/// The spread as a share of the median.
#[must_use]
pub fn relative_spread(values: &[f64]) -> Option<f64> {
    let median = median(values).filter(|median| *median != 0.0)?;
    Some(spread(values)? / median.abs())
}

/// `left − right`, round by round: what rounds have in common cancels.
#[must_use]
pub fn differences(left: &[f64], right: &[f64]) -> Vec<f64> {
    left.iter().zip(right).map(|(left, right)| left - right).collect()
}

/// 95 % bounds of `statistic` over rounds drawn again with replacement. Rounds are drawn whole, so series that were
/// measured in turn stay paired. None when there are no rounds, or the statistic has no value for some draw.
#[must_use]
pub fn bootstrap<const SERIES: usize>(
    series: [&[f64]; SERIES],
    seed: u64,
    statistic: impl Fn([&[f64]; SERIES]) -> Option<f64>,
) -> Option<Interval> {
    let rounds = series.iter().map(|values| values.len()).min().filter(|rounds| *rounds > 0)?;
    let mut random = SplitMix::new(seed);
    let mut drawn: [Vec<f64>; SERIES] = std::array::from_fn(|_| Vec::with_capacity(rounds));
    let mut values = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        drawn.iter_mut().for_each(Vec::clear);
        for _ in 0..rounds {
            let round = random.below(rounds);
            for (drawn, original) in drawn.iter_mut().zip(series) {
                drawn.push(original[round]);
            }
        }
        values.push(statistic(std::array::from_fn(|index| drawn[index].as_slice()))?);
    }
    Some(Interval { low: quantile(&values, LOWER)?, high: quantile(&values, UPPER)? })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn at(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = position.ceil() as usize;
    let (below, above) = (sorted.get(below)?, sorted.get(above)?);
    Some(below + (above - below) * position.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn order_statistics_of_known_values() {
        // numpy.percentile(…) and numpy.median(…) of the same lists.
        let values = [9.0, 1.0, 4.0, 16.0, 25.0];
        close(median(&values), 9.0);
        close(median(&[1.0, 2.0, 3.0, 10.0]), 2.5);
        close(quantile(&values, 0.9), 21.4);
        close(quantile(&values, 0.0), 1.0);
        close(quantile(&values, 1.0), 25.0);
        close(spread(&values), 12.0);
        close(relative_spread(&values), 12.0 / 9.0);
        assert_eq!(median(&[]), None);
        assert_eq!(Quantiles::of(&[]), None);
    }

    #[test]
    fn quantiles_of_a_thousand_numbers() {
        let values: Vec<f64> = (0..=1000).rev().map(f64::from).collect();
        let quantiles = Quantiles::of(&values).unwrap();
        assert_eq!(quantiles.count, 1001);
        close(Some(quantiles.p50), 500.0);
        close(Some(quantiles.p99), 990.0);
        close(Some(quantiles.p999), 999.0);
        close(Some(quantiles.max), 1000.0);
    }

    #[test]
    fn paired_differences_cancel_what_rounds_share() {
        // Rounds drift from 10 to 60; the left series is always 2 slower.
        let right: Vec<f64> = (1..=6).map(|round| f64::from(round) * 10.0).collect();
        let left: Vec<f64> = right.iter().map(|value| value + 2.0).collect();
        let differences = differences(&left, &right);
        assert_eq!(differences, [2.0; 6]);
        let interval = bootstrap([&differences], 7, |[values]| median(values)).unwrap();
        assert_eq!(interval, Interval { low: 2.0, high: 2.0 });
    }

    #[test]
    fn the_bootstrap_draws_rounds_whole() {
        // Unpaired draws of these two series would give ratios from 0.1 to 10; paired ones give 2 alone.
        let right: Vec<f64> = (1..=10).map(f64::from).collect();
        let left: Vec<f64> = right.iter().map(|value| value * 2.0).collect();
        let ratio = |[left, right]: [&[f64]; 2]| Some(median(left)? / median(right)?);
        let interval = bootstrap([&left, &right], 3, ratio).unwrap();
        assert_eq!(interval, Interval { low: 2.0, high: 2.0 });
    }

    #[test]
    fn a_bootstrap_is_the_same_for_the_same_seed_and_covers_the_median() {
        let mut random = SplitMix::new(11);
        // Uniform on [0, 1): the median's standard error at n = 401 is about 0.025.
        let values: Vec<f64> =
            (0..401).map(|_| (random.next() >> 11) as f64 / (1_u64 << 53) as f64).collect();
        let once = bootstrap([&values], 5, |[values]| median(values)).unwrap();
        let again = bootstrap([&values], 5, |[values]| median(values)).unwrap();
        assert_eq!(once, again);
        assert!(once.low < 0.5 && 0.5 < once.high, "{once:?}");
        assert!((0.04..0.2).contains(&(once.high - once.low)), "{once:?}");
    }

    #[test]
    fn nothing_has_no_bounds() {
        assert_eq!(bootstrap([&[]], 1, |[values]| median(values)), None);
    }
}
