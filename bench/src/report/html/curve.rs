//! A family of rows as lines over its sizes.

use super::plot::{Scale, WIDTH, segment, svg, vertical};
use crate::report::family::{Family, Member};

const HEIGHT: f64 = 96.0;
/// What stays free at the edges, for dots.
const MARGIN: f64 = 0.06;

struct Axes {
    sizes: Scale,
    figures: Scale,
}

/// Ours with its bounds and theirs, both axes logarithmic. Nothing where no figure is above nothing.
pub(super) fn curve(family: &Family<'_>) -> String {
    let ours: Vec<_> =
        family.members.iter().map(|member| (member.size, member.row.ours)).filter(above).collect();
    let theirs: Vec<_> = family
        .members
        .iter()
        .filter_map(|member| Some((member.size, member.row.theirs?)))
        .filter(above)
        .collect();
    if ours.is_empty() {
        return String::new();
    }
    let reached = family.members.iter().filter_map(bounds);
    let figures = ours.iter().chain(&theirs).map(|(_, figure)| *figure);
    let axes = Axes {
        sizes: Scale::exact(family.members.iter().map(|member| member.size as f64)),
        figures: Scale::around(figures.chain(reached.flat_map(|(_, low, high)| [low, high])), 0.25),
    };
    let mut shapes = String::new();
    for mark in axes.figures.marks() {
        let height = axes.height(mark);
        shapes.push_str(&segment("grid", (0.0, height), (WIDTH, height)));
    }
    for member in &family.members {
        shapes.push_str(&vertical(axes.place(member.size), 0.0, HEIGHT, "grid"));
    }
    shapes.push_str(&axes.line(&theirs, "theirs"));
    for (size, low, high) in family.members.iter().filter_map(bounds) {
        let place = axes.place(size);
        shapes.push_str(&segment("whisker", (place, axes.height(low)), (place, axes.height(high))));
    }
    shapes.push_str(&axes.line(&ours, "ours"));
    svg(HEIGHT, "figures over sizes", &shapes)
}

const fn above(point: &(u64, f64)) -> bool {
    point.1 > 0.0
}

fn bounds(member: &Member<'_>) -> Option<(u64, f64, f64)> {
    let bounds = member.row.ours_interval?;
    (bounds.low > 0.0).then_some((member.size, bounds.low, bounds.high))
}

impl Axes {
    fn place(&self, size: u64) -> f64 {
        inside(self.sizes.share(size as f64)) * WIDTH
    }

    fn height(&self, figure: f64) -> f64 {
        (1.0 - inside(self.figures.share(figure))) * HEIGHT
    }

    /// From point to point, and a dot at each: a line without length and with round ends is one however it is stretched.
    fn line(&self, points: &[(u64, f64)], whose: &str) -> String {
        let at = |(size, figure): (u64, f64)| (self.place(size), self.height(figure));
        let ways = points.windows(2).filter_map(|pair| {
            let [from, to] = pair else { return None };
            Some(segment(&format!("way {whose}"), at(*from), at(*to)))
        });
        let dots = points.iter().map(|point| segment(&format!("dot {whose}"), at(*point), at(*point)));
        ways.chain(dots).collect()
    }
}

/// `percent` of the way between the margins.
fn inside(percent: f64) -> f64 {
    MARGIN + percent / 100.0 * 2.0_f64.mul_add(-MARGIN, 1.0)
}
