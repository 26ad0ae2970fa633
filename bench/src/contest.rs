//! Samples in turn: one of ours, one of each peer's, again and again, so that what the machine does to one it does to
//! all; and a fixed piece of work beside them that tells how quiet the machine was.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::random::SplitMix;
use crate::row::{Better, Latency, Limit, Row, RowId, Sampled, Subject, Unit, Verdict};
use crate::statistics::{self, Interval, Quantiles, bootstrap, median, relative_spread};

/// Spread of the fixed work, as a share of its median, above which the machine is too busy to compare on.
pub(crate) const CONTROL_SPREAD_MAX: f64 = 0.10;
/// The same for the samples of the peer, or of ours where there is none; they vary more.
pub(crate) const SAMPLES_SPREAD_MAX: f64 = 0.35;
/// Steps of the fixed work: about a millisecond.
const CONTROL_STEPS: u32 = 600_000;
const SEED: u64 = 0x5ea1_a9e0;

/// One figure, and whether the result that it timed was right.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Sample {
    pub value: f64,
    /// Single operations, where `value` is a median of them.
    pub latencies: Vec<f64>,
    pub wrong: Option<String>,
}

impl Sample {
    /// The median of single operations.
    #[must_use]
    pub fn of_latencies(latencies: Vec<f64>, wrong: Option<String>) -> Self {
        Self { value: median(&latencies).unwrap_or_default(), latencies, wrong }
    }
}

/// The samples of one contender.
#[derive(Debug, Clone, Default)]
pub struct Series {
    pub values: Vec<f64>,
    pub latencies: Vec<f64>,
    /// The first wrong result.
    pub wrong: Option<String>,
}

impl Series {
    fn push(&mut self, sample: Sample) {
        let Sample { value, latencies, wrong } = sample;
        self.values.push(value);
        self.latencies.extend(latencies);
        self.wrong = self.wrong.take().or(wrong);
    }

    /// A second figure of the same rounds, of which `values` has warm-ups too, before all others.
    #[must_use]
    pub fn of_last(rounds: usize, mut values: Vec<f64>) -> Self {
        values.drain(..values.len().saturating_sub(rounds));
        Self { values, ..Self::default() }
    }

    /// What a series has beyond another, round by round.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Self {
        Self {
            values: statistics::differences(&self.values, &other.values),
            latencies: Vec::new(),
            wrong: self.wrong.clone().or_else(|| other.wrong.clone()),
        }
    }
}

/// What takes a sample each time it is called.
pub type Contender<'a> = Box<dyn FnMut() -> Result<Sample> + 'a>;

/// Series in the order of their contenders, and the fixed work's.
#[derive(Debug, Clone)]
pub struct Contest<const CONTENDERS: usize> {
    pub series: [Series; CONTENDERS],
    pub control: Vec<f64>,
}

impl<const CONTENDERS: usize> Contest<CONTENDERS> {
    /// Lets all take a sample per round, in the other order every other round. Results of warm-up rounds are checked,
    /// but not timed.
    ///
    /// # Errors
    /// The first that any of them reports: an environment that does not work is no figure.
    pub fn hold(warmups: usize, rounds: usize, mut contenders: [Contender<'_>; CONTENDERS]) -> Result<Self> {
        let mut series: [Series; CONTENDERS] = std::array::from_fn(|_| Series::default());
        let control = take_turns(warmups, rounds, &mut contenders, &mut series)?;
        Ok(Self { series, control })
    }
}

/// [`Contest::hold`] for any number of contenders: their series, and the fixed work's.
///
/// # Errors
/// As of a contest.
pub fn hold_all(
    warmups: usize,
    rounds: usize,
    mut contenders: Vec<Contender<'_>>,
) -> Result<(Vec<Series>, Vec<f64>)> {
    let mut series = vec![Series::default(); contenders.len()];
    let control = take_turns(warmups, rounds, &mut contenders, &mut series)?;
    Ok((series, control))
}

/// Fills `series`, one for each of `contenders`: the fixed work's samples.
fn take_turns(
    warmups: usize,
    rounds: usize,
    contenders: &mut [Contender<'_>],
    series: &mut [Series],
) -> Result<Vec<f64>> {
    for _ in 0..warmups {
        for (series, contender) in series.iter_mut().zip(&mut *contenders) {
            series.wrong = series.wrong.take().or(contender()?.wrong);
        }
    }
    let mut control = Vec::with_capacity(rounds);
    for round in 0..rounds {
        control.push(fixed_work());
        for place in 0..contenders.len() {
            let turn = if round % 2 == 0 { place } else { contenders.len() - 1 - place };
            series[turn].push(contenders[turn]()?);
        }
    }
    Ok(control)
}

/// Milliseconds that a fixed piece of work takes.
fn fixed_work() -> f64 {
    let began = Instant::now();
    let mut random = SplitMix::new(1);
    for _ in 0..CONTROL_STEPS {
        black_box(random.next());
    }
    began.elapsed().as_secs_f64() * 1e3
}

/// What a row says beside its figures.
#[derive(Debug, Clone)]
pub struct Caption {
    pub id: RowId,
    pub suite: &'static str,
    pub name: String,
    pub unit: Unit,
    pub better: Better,
    pub peer: Option<String>,
    pub limits: Vec<(Subject, f64)>,
    /// Why no verdict can rest on this row, if so.
    pub doubt: Option<String>,
    pub note: String,
}

impl Caption {
    /// Of a figure of which less is better, beside nobody and without a limit.
    #[must_use]
    pub fn reported(id: RowId, suite: &'static str, name: String, unit: Unit, note: &str) -> Self {
        Self {
            id,
            suite,
            name,
            unit,
            better: Better::Lower,
            peer: None,
            limits: Vec::new(),
            doubt: None,
            note: note.to_owned(),
        }
    }

    /// The row of `ours` beside `theirs`, with `control` to tell how quiet the machine was.
    #[must_use]
    pub fn row(self, ours: &Series, theirs: Option<&Series>, control: &[f64]) -> Row {
        let Self { id, suite, name, unit, better, peer, limits, doubt, note } = self;
        let theirs_values = theirs.map(|series| series.values.as_slice());
        let middle = |[values]: [&[f64]; 1]| median(values);
        let ours_interval = bootstrap([&ours.values], SEED, middle);
        let compared =
            |[ours, theirs]: [&[f64]; 2]| Some(ratio(better, unit, median(ours)?, median(theirs)?));
        let ratio = theirs_values.and_then(|theirs| compared([&ours.values, theirs]));
        let ratio_interval =
            theirs_values.and_then(|theirs| bootstrap([&ours.values, theirs], SEED, compared));
        // A ratio to nothing is no figure, though a limit on it may well be met.
        let tellable =
            better == Better::Higher || median(&ours.values).is_some_and(|ours| ours >= unit.resolution());
        let wrong = ours.wrong.clone().or_else(|| theirs.and_then(|series| series.wrong.clone()));
        let noise = doubt.or_else(|| noise(control, &ours.values, theirs_values));
        let judged = |(on, value): (Subject, f64)| {
            let verdict = match on {
                _ if wrong.is_some() || noise.is_some() => Verdict::Unclear,
                Subject::Ratio => verdict(ratio_interval, Better::Higher, value),
                Subject::Ours => verdict(ours_interval, better, value),
            };
            Limit { on, value, verdict }
        };
        let limits: Vec<_> = limits.into_iter().map(judged).collect();
        let latency = Quantiles::of(&ours.latencies).map(|quantiles| Latency {
            ours: quantiles,
            theirs: theirs.and_then(|series| Quantiles::of(&series.latencies)),
        });
        let noisy = noise.is_some();
        let notes = [wrong.as_ref().map(|wrong| format!("WRONG RESULT: {wrong}")), noise.clone(), Some(note)];
        Row {
            id,
            suite: suite.to_owned(),
            name,
            unit,
            better,
            ours: median(&ours.values).unwrap_or_default(),
            spread: statistics::spread(&ours.values).unwrap_or_default(),
            ours_interval,
            samples: ours.values.len() as u64,
            peer,
            theirs: theirs_values.and_then(median),
            theirs_spread: theirs_values.and_then(statistics::spread),
            ratio: ratio.filter(|_| tellable),
            ratio_interval: ratio_interval.filter(|_| tellable),
            limit: limits.first().map(|limit| limit.value),
            limits,
            correct: wrong.is_none(),
            noisy,
            doubt: noise,
            latency,
            note: notes.into_iter().flatten().filter(|note| !note.is_empty()).collect::<Vec<_>>().join("; "),
            sampled: Sampled {
                ours: ours.values.clone(),
                theirs: theirs_values.map(<[f64]>::to_vec).unwrap_or_default(),
                control: control.to_vec(),
            },
        }
    }
}

/// Above 1 is better for us. What cannot be told from nothing counts as the least that can.
fn ratio(better: Better, unit: Unit, ours: f64, theirs: f64) -> f64 {
    match better {
        Better::Higher => ours / theirs.max(f64::MIN_POSITIVE),
        Better::Lower => theirs / ours.max(unit.resolution()),
    }
}

fn verdict(interval: Option<Interval>, better: Better, limit: f64) -> Verdict {
    let Some(Interval { low, high }) = interval else { return Verdict::Unclear };
    let (met, missed) = match better {
        Better::Higher => (low >= limit, high < limit),
        Better::Lower => (high <= limit, low > limit),
    };
    match (met, missed) {
        (true, _) => Verdict::Met,
        (_, true) => Verdict::Missed,
        _ => Verdict::Unclear,
    }
}

/// Why nothing may be concluded from differences, if so.
fn noise(control: &[f64], ours: &[f64], theirs: Option<&[f64]>) -> Option<String> {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let wide = |values: &[f64], max: f64| relative_spread(values).filter(|spread| *spread > max);
    if let Some(spread) = wide(control, CONTROL_SPREAD_MAX) {
        return Some(format!("noisy machine: fixed work varied by {}, no verdict", percent(spread)));
    }
    let (whose, samples) = theirs.map_or(("its own", ours), |theirs| ("the peer's", theirs));
    wide(samples, SAMPLES_SPREAD_MAX)
        .map(|spread| format!("noisy: {whose} samples varied by {}, no verdict", percent(spread)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: [f64; 4] = [1.0, 1.01, 1.0, 0.99];

    fn caption(better: Better, limits: &[(Subject, f64)]) -> Caption {
        Caption {
            id: RowId::new("C3", 1536),
            suite: "stream",
            name: "one way".to_owned(),
            unit: Unit::GigabytesPerSecond,
            better,
            peer: Some("them".to_owned()),
            limits: limits.to_vec(),
            doubt: None,
            note: String::new(),
        }
    }

    fn series(values: &[f64]) -> Series {
        Series { values: values.to_vec(), ..Series::default() }
    }

    #[test]
    fn more_than_one_is_better_for_us_whatever_the_unit() {
        let (large, small) = (series(&[8.0, 8.2, 7.9]), series(&[2.0, 2.0, 2.1]));
        let fast = caption(Better::Higher, &[]).row(&large, Some(&small), &QUIET);
        assert!((fast.ratio.unwrap() - 4.0).abs() < 1e-9);
        let quick = caption(Better::Lower, &[]).row(&small, Some(&large), &QUIET);
        assert!((quick.ratio.unwrap() - 4.0).abs() < 1e-9);
        assert_eq!(quick.sampled.ours, [2.0, 2.0, 2.1]);
    }

    #[test]
    fn limits_are_judged_by_the_whole_interval() {
        let (ours, theirs) = (series(&[8.0, 9.0, 10.0]), series(&[1.0, 1.0, 1.0]));
        let verdict = |limit| {
            let row = caption(Better::Higher, &[(Subject::Ratio, limit)]).row(&ours, Some(&theirs), &QUIET);
            assert_eq!(row.limit, Some(limit));
            row.verdict().unwrap()
        };
        assert_eq!(verdict(7.5), Verdict::Met);
        assert_eq!(verdict(9.5), Verdict::Unclear);
        assert_eq!(verdict(10.5), Verdict::Missed);
        let own = caption(Better::Lower, &[(Subject::Ours, 10.0)]).row(&ours, None, &QUIET);
        assert_eq!(own.verdict(), Some(Verdict::Met));
        assert_eq!(own.ratio, None);
    }

    #[test]
    fn on_a_noisy_machine_nothing_is_significant() {
        let (ours, theirs) = (series(&[8.0, 8.0, 8.0]), series(&[1.0, 1.0, 1.0]));
        let limits = [(Subject::Ratio, 2.0)];
        let busy = caption(Better::Higher, &limits).row(&ours, Some(&theirs), &[1.0, 1.5, 2.0, 1.0]);
        assert_eq!(busy.verdict(), Some(Verdict::Unclear));
        assert!(busy.noisy && busy.note.contains("fixed work"), "{}", busy.note);
        let unsteady = series(&[1.0, 2.0, 3.0, 1.0]);
        let row = caption(Better::Higher, &limits).row(&ours, Some(&unsteady), &QUIET);
        assert!(row.noisy && row.note.contains("the peer's samples"), "{}", row.note);
    }

    #[test]
    fn a_wrong_result_makes_the_row_incorrect_and_no_limit_met() {
        let mut ours = series(&[8.0, 8.0, 8.0]);
        ours.wrong = Some("byte 7 differs".to_owned());
        let row =
            caption(Better::Higher, &[(Subject::Ratio, 2.0)]).row(&ours, Some(&series(&[1.0; 3])), &QUIET);
        assert!(!row.correct);
        assert_eq!(row.verdict(), Some(Verdict::Unclear));
        assert!(row.note.contains("byte 7 differs"));
    }

    #[test]
    fn contenders_take_turns_and_warm_ups_do_not_count() {
        let order = std::cell::RefCell::new(Vec::new());
        let contender = |name: char| -> Contender<'_> {
            let order = &order;
            Box::new(move || {
                order.borrow_mut().push(name);
                Ok(Sample { value: 1.0, ..Sample::default() })
            })
        };
        let contest = Contest::hold(1, 2, [contender('a'), contender('b')]).unwrap();
        assert_eq!(contest.series[0].values.len(), 2);
        assert_eq!(contest.control.len(), 2);
        assert_eq!(order.into_inner(), ['a', 'b', 'a', 'b', 'b', 'a']);
    }

    #[test]
    fn what_cannot_be_told_from_nothing_has_no_ratio_but_meets_a_limit() {
        let (ours, theirs) = (series(&[-0.1, 0.0, 0.04]), series(&[5.0, 5.0, 5.1]));
        let limits = [(Subject::Ratio, 6.0)];
        let added = Caption { unit: Unit::Microseconds, ..caption(Better::Lower, &limits) };
        let row = added.row(&ours, Some(&theirs), &QUIET);
        assert_eq!((row.ratio, row.ratio_interval), (None, None));
        assert_eq!(row.verdict(), Some(Verdict::Met));
    }

    #[test]
    fn a_small_figure_of_a_large_unit_is_a_figure() {
        let (ours, theirs) = (series(&[0.02, 0.02, 0.02]), series(&[0.05, 0.05, 0.05]));
        let row = Caption { unit: Unit::Seconds, ..caption(Better::Lower, &[]) };
        let row = row.row(&ours, Some(&theirs), &QUIET);
        assert!((row.ratio.unwrap() - 2.5).abs() < 1e-9, "{:?}", row.ratio);
    }
}
