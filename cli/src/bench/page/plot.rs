//! Plots as inline SVG without text: shapes stretch with the page, and words around them stay readable on a telephone.

use sealane_results::{Interval, Line, figure};

use super::markup::Escaped;

/// Width of a plot in its own units; the page stretches it.
const WIDTH: f64 = 1_000.0;
const BAR_HEIGHT: f64 = 24.0;
const TRACK_HEIGHT: f64 = 64.0;
/// What stays free at the ends of a track, for its dots.
const MARGIN: f64 = 0.06;
/// A track shows this share of its middle at least, so that noise does not look like news.
const TRACK_SHARE_MIN: f64 = 0.2;

/// One run in a track.
#[derive(Debug)]
pub(super) struct Point<'a> {
    /// Its place among the runs, from 0 to 1.
    pub(super) place: f64,
    pub(super) run: &'a str,
    pub(super) line: Line,
    /// How it is coloured.
    pub(super) class: &'static str,
}

/// A bar from nothing to the figure, and its bounds. `most` is at the right end.
pub(super) fn bar(line: &Line, most: f64, class: &str) -> String {
    let place = |value: f64| if most > 0.0 { (value / most).clamp(0.0, 1.0) * WIDTH } else { 0.0 };
    let mut shapes = format!(
        "<rect class=\"ground\" x=\"0\" y=\"5\" width=\"{WIDTH}\" height=\"14\"/>\
         <rect class=\"bar {class}\" x=\"0\" y=\"5\" width=\"{:.1}\" height=\"14\"/>",
        place(line.ours).max(2.0)
    );
    if let Some(Interval { low, high }) = line.bounds {
        let middle = BAR_HEIGHT / 2.0;
        shapes.push_str(&stroke("whisker", (place(low), middle), (place(high), middle), ""));
    }
    svg(BAR_HEIGHT, &figure(line.ours, line.unit), &shapes)
}

/// The values between which a track of these points is drawn.
pub(super) fn span(points: &[Point<'_>]) -> Interval {
    let ends = points.iter().flat_map(|point| {
        let bounds = point.line.bounds.map_or([point.line.ours; 2], |bounds| [bounds.low, bounds.high]);
        bounds.into_iter().chain([point.line.ours])
    });
    let (low, high) =
        ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| (low.min(end), high.max(end)));
    let middle = f64::midpoint(low, high);
    let half = ((high - low) / 2.0).max(middle.abs() * TRACK_SHARE_MIN / 2.0);
    Interval { low: middle - half, high: middle + half }
}

/// A line from run to run with their bounds, the earliest at the left.
pub(super) fn track(points: &[Point<'_>], span: Interval) -> String {
    let share = |value: f64, low: f64, high: f64| if high > low { (value - low) / (high - low) } else { 0.5 };
    let inside = |share: f64| MARGIN + share.clamp(0.0, 1.0) * (1.0 - 2.0 * MARGIN);
    let at = |point: &Point<'_>, value: f64| {
        let up = inside(share(value, span.low, span.high));
        (inside(point.place) * WIDTH, (1.0 - up) * TRACK_HEIGHT)
    };
    let mut shapes = format!("<rect class=\"ground\" width=\"{WIDTH}\" height=\"{TRACK_HEIGHT}\"/>");
    for pair in points.windows(2) {
        let [from, to] = pair else { continue };
        shapes.push_str(&stroke("way", at(from, from.line.ours), at(to, to.line.ours), ""));
    }
    for point in points {
        let Point { run, line, class, .. } = point;
        if let Some(Interval { low, high }) = line.bounds {
            shapes.push_str(&stroke(&format!("spread {class}"), at(point, low), at(point, high), ""));
        }
        // A line without length and with round ends is a dot however the plot is stretched.
        let dot = at(point, line.ours);
        let title = format!("<title>{}: {}</title>", Escaped(run), figure(line.ours, line.unit));
        shapes.push_str(&stroke(&format!("dot {class}"), dot, dot, &title));
    }
    svg(TRACK_HEIGHT, "history", &shapes)
}

fn stroke(class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64), title: &str) -> String {
    format!(
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" \
         vector-effect=\"non-scaling-stroke\">{title}</line>"
    )
}

fn svg(height: f64, label: &str, shapes: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" preserveAspectRatio=\"none\" style=\"height:{height}px\" role=\"img\" \
         aria-label=\"{label}\">{shapes}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::fixture::Fixture;

    fn line(ours: f64) -> Line {
        let runs = Fixture::new().open();
        let line = runs.runs[0].summaries().next().unwrap().rows[0].clone();
        Line { ours, bounds: Some(Interval { low: ours - 1.0, high: ours + 1.0 }), ..line }
    }

    fn point(place: f64, ours: f64) -> Point<'static> {
        Point { place, run: "run-1", line: line(ours), class: "" }
    }

    #[test]
    fn bars_share_a_scale_that_begins_at_nothing() {
        let bar = |ours, most| bar(&line(ours), most, "");
        assert!(bar(10.0, 20.0).contains("width=\"500.0\""));
        assert!(bar(10.0, 20.0).contains("x1=\"450.0\"") && bar(10.0, 20.0).contains("x2=\"550.0\""));
        assert!(bar(10.0, 0.0).contains("width=\"2.0\""), "nothing to divide by");
    }

    #[test]
    fn small_differences_stay_small() {
        let Interval { low, high } = span(&[point(0.0, 100.0), point(1.0, 100.0)]);
        assert!((low - 90.0).abs() < 1e-9 && (high - 110.0).abs() < 1e-9);
        let Interval { low, high } = span(&[point(0.0, 50.0), point(1.0, 100.0)]);
        assert!((low - 49.0).abs() < 1e-9 && (high - 101.0).abs() < 1e-9);
    }

    #[test]
    fn a_track_goes_from_left_to_right() {
        let points = [point(0.0, 50.0), point(1.0, 100.0)];
        let drawn = track(&points, Interval { low: 50.0, high: 100.0 });
        let way = "<line class=\"way\" x1=\"60.0\" y1=\"60.2\" x2=\"940.0\" y2=\"3.8\"";
        assert!(drawn.contains(way), "{drawn}");
        assert_eq!(drawn.matches("<title>").count(), 2);
        assert!(!track(&[point(0.5, 0.0)], Interval { low: 0.0, high: 0.0 }).contains("NaN"));
    }
}
