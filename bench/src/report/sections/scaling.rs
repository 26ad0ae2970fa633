//! Rows that measure the same at several sizes or counts.

use super::{Part, Report, Section};
use crate::report::family::families;

pub(super) fn section(report: &Report) -> Option<Section<'_>> {
    let families = families(&report.rows);
    if families.is_empty() {
        return None;
    }
    let how = "Figures over the number in the id: bytes of a message or packet, or how many streams or connections there \
               are. Both axes are logarithmic."
        .to_owned();
    Some(Section { title: "Scaling", parts: vec![Part::Say(how), Part::Curves(families)] })
}
