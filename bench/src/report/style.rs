//! How the page looks: in light and dark, on a screen and on a telephone.

pub(super) const STYLE: &str = include_str!("style/report.css");
