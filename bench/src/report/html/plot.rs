//! Plots as inline SVG without text: shapes stretch with the page, and words around them stay readable on a telephone.

use crate::row::{Latency, Row, Subject};
use crate::statistics::Quantiles;

/// Width of a plot in its own units; the page stretches it.
pub(super) const WIDTH: f64 = 1_000.0;
/// Ratios beyond these are drawn at the edge.
const RATIO_MIN: f64 = 1e-3;
const RATIO_MAX: f64 = 1e4;
/// Words on an axis: as many as fit on a telephone.
const WORDS_MAX: usize = 5;

/// A logarithmic scale.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// Whole powers of ten around the rows' ratios and limits, and around 1. None without a ratio.
    pub(super) fn of<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<Self> {
        let values: Vec<f64> = rows.flat_map(ratios).map(|value| value.clamp(RATIO_MIN, RATIO_MAX)).collect();
        (!values.is_empty()).then(|| Self::around(values.into_iter().chain([1.0]), 1.0))
    }

    /// Around `values`, ends rounded outwards to powers of ten of the `step`.
    pub(super) fn around(values: impl Iterator<Item = f64>, step: f64) -> Self {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            let exponent = value.max(1e-6).log10();
            (low.min(exponent), high.max(exponent))
        });
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        Self { low, high: if high > low { high } else { low + step } }
    }

    /// From the smallest to the largest value.
    pub(super) fn exact(values: impl Iterator<Item = f64> + Clone) -> Self {
        let low = values.clone().fold(f64::INFINITY, f64::min).max(1e-6).log10();
        let high = values.fold(low, |high, value| high.max(value.max(1e-6).log10()));
        Self { low, high: if high > low { high } else { low + 1.0 } }
    }

    /// Where `value` lies, between 0 and [`WIDTH`].
    fn place(&self, value: f64) -> f64 {
        let exponent = value.max(1e-6).log10();
        ((exponent - self.low) / (self.high - self.low)).clamp(0.0, 1.0) * WIDTH
    }

    /// The powers of ten within.
    pub(super) fn marks(&self) -> impl Iterator<Item = f64> {
        let (mut next, last) = (self.low.ceil(), self.high.floor());
        std::iter::from_fn(move || {
            let mark = (next <= last).then(|| 10.0_f64.powf(next));
            next += 1.0;
            mark
        })
    }

    /// The same in percent of the way.
    pub(super) fn share(&self, value: f64) -> f64 {
        self.place(value) / WIDTH * 100.0
    }
}

fn ratios(row: &Row) -> Vec<f64> {
    let limits = row.limits.iter().filter(|limit| limit.on == Subject::Ratio).map(|limit| limit.value);
    row.ratio.into_iter().chain(limits).collect()
}

/// The powers of ten above a column of bars, as words.
pub(super) fn axis(scale: &Scale) -> String {
    let every = scale.marks().count().div_ceil(WORDS_MAX).max(1);
    let marks: String = scale
        .marks()
        .step_by(every)
        .map(|mark| format!("<span style=\"left:{:.2}%\">{}×</span>", scale.share(mark), power(mark)))
        .collect();
    format!("<div class=\"axis\">{marks}</div>")
}

fn power(mark: f64) -> String {
    if mark >= 1.0 { format!("{mark:.0}") } else { format!("{mark}") }
}

/// A bar from 1 to the row's ratio, its 95 % interval, and its limit.
pub(super) fn bar(row: &Row, scale: &Scale, class: &str) -> String {
    let mut shapes = String::new();
    for mark in scale.marks() {
        let kind = if (mark - 1.0).abs() < 1e-9 { "one" } else { "grid" };
        shapes.push_str(&vertical(scale.place(mark), 0.0, 24.0, kind));
    }
    if let Some(ratio) = row.ratio {
        let (one, end) = (scale.place(1.0), scale.place(ratio));
        let (from, width) = (one.min(end), (end - one).abs().max(2.0));
        shapes.push_str(&format!(
            "<rect class=\"bar {class}\" x=\"{from:.1}\" y=\"5\" width=\"{width:.1}\" height=\"14\"/>"
        ));
    }
    if let Some(interval) = row.ratio_interval {
        let (low, high) = (scale.place(interval.low), scale.place(interval.high));
        shapes.push_str(&format!(
            "<line class=\"whisker\" x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"12\" y2=\"12\" \
             vector-effect=\"non-scaling-stroke\"/>"
        ));
    }
    for limit in row.limits.iter().filter(|limit| limit.on == Subject::Ratio) {
        shapes.push_str(&vertical(scale.place(limit.value), 1.0, 23.0, "tick"));
    }
    let label = format!("ratio {}", crate::report::words::ratio(row));
    svg(24.0, &label, &shapes)
}

/// Quantiles of both sides on one logarithmic scale: a box from the median to p99, lines on to the maximum.
pub(super) fn quantiles(latency: &Latency) -> String {
    let both = [Some(latency.ours), latency.theirs];
    let values = both.iter().flatten().flat_map(|quantiles| [quantiles.p50, quantiles.max]);
    let scale = Scale::around(values, 0.25);
    let mut shapes = String::new();
    for mark in scale.marks() {
        shapes.push_str(&vertical(scale.place(mark), 0.0, 44.0, "grid"));
    }
    let lanes =
        [(latency.ours, 4.0, "ours")].into_iter().chain(latency.theirs.map(|all| (all, 24.0, "theirs")));
    for (quantiles, top, whose) in lanes {
        shapes.push_str(&quantile_box(&quantiles, &scale, top, whose));
    }
    svg(44.0, "latency quantiles", &shapes)
}

fn quantile_box(quantiles: &Quantiles, scale: &Scale, top: f64, whose: &str) -> String {
    let [p50, p90, p99, p999, max] =
        [quantiles.p50, quantiles.p90, quantiles.p99, quantiles.p999, quantiles.max]
            .map(|value| scale.place(value));
    let middle = top + 8.0;
    let mut shapes = format!(
        "<line class=\"reach {whose}\" x1=\"{p50:.1}\" x2=\"{max:.1}\" y1=\"{middle}\" y2=\"{middle}\" \
         vector-effect=\"non-scaling-stroke\"/>\
         <rect class=\"box {whose}\" x=\"{p50:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"16\"/>\
         <rect class=\"box inner {whose}\" x=\"{p50:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"16\"/>",
        (p99 - p50).max(1.0),
        (p90 - p50).max(1.0),
    );
    for place in [p999, max] {
        shapes.push_str(&vertical(place, top + 3.0, top + 13.0, &format!("reach {whose}")));
    }
    shapes
}

pub(super) fn vertical(place: f64, top: f64, bottom: f64, class: &str) -> String {
    segment(class, (place, top), (place, bottom))
}

pub(super) fn segment(class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> String {
    format!(
        "<line class=\"{class}\" x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y1:.1}\" y2=\"{y2:.1}\" \
         vector-effect=\"non-scaling-stroke\"/>"
    )
}

pub(super) fn svg(height: f64, label: &str, shapes: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" preserveAspectRatio=\"none\" style=\"height:{height}px\" role=\"img\" \
         aria-label=\"{label}\">{shapes}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_holds_its_values_and_one() {
        let scale = Scale::around([0.4, 30.0, 1.0].into_iter(), 1.0);
        assert_eq!((scale.low, scale.high), (-1.0, 2.0));
        assert_eq!(scale.marks().collect::<Vec<_>>(), [0.1, 1.0, 10.0, 100.0]);
        assert!(scale.place(0.1).abs() < 1e-9 && (scale.place(100.0) - WIDTH).abs() < 1e-9);
        assert!((scale.share(1.0) - 100.0 / 3.0).abs() < 1e-9);
        let single = Scale::around([1.0].into_iter(), 1.0);
        assert!(single.high > single.low);
    }
}
