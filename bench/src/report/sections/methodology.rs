//! How, on what, and with which build was measured.

use super::{Part, Report, Section, list};
use crate::plan::Level;
use crate::report::method::Method;
use crate::report::words::{METHOD, facts};

pub(super) fn section(report: &Report) -> Section<'_> {
    let mut parts = vec![Part::Facts(facts(report))];
    parts.push(list(counts(report).into_iter().chain(METHOD.iter().map(|sentence| (*sentence).to_owned()))));
    if !report.build.crates.is_empty() {
        parts.push(Part::Listing("Crates and their resolved features", report.build.crates.join("\n")));
    }
    Section { title: "Methodology", parts }
}

/// The method in the numbers of this run.
fn counts(report: &Report) -> Vec<String> {
    let Method {
        rounds,
        warmups,
        block_milliseconds,
        sample_milliseconds,
        round_trips,
        handshakes,
        resamples,
        control_spread_max,
        samples_spread_max,
    } = &report.method;
    let level = report.level.word();
    let meaning = match report.level {
        Level::Smoke => "everything runs and is checked, and no figure means anything",
        Level::Quick => "enough for a look",
        Level::Full => "as long as steady figures take",
    };
    let wrong = report.rows.iter().filter(|row| !row.correct).count();
    let percent = |share: &f64| format!("{:.0} %", share * 100.0);
    vec![
        format!(
            "Level {level}: {meaning}. {rounds} rounds after {warmups} that warm up, in most rows; {samples}.",
            samples = "every row says how many it has"
        ),
        format!(
            "A sample is a burst of about {sample_milliseconds} ms of a stream, a block of about \
             {block_milliseconds} ms of operations that take nanoseconds, or the median of {round_trips} round trips \
             or {handshakes} handshakes."
        ),
        format!(
            "Intervals are percentile bootstraps at 95 % with {resamples} draws. A row is noisy, and allows no verdict, \
             where the fixed work of its rounds varied by more than {} of its median, or the samples of its peer (ours \
             where there is none) by more than {}.",
            percent(control_spread_max),
            percent(samples_spread_max)
        ),
        format!(
            "{} rows were checked while they were timed; {}.",
            report.rows.len(),
            match wrong {
                0 => "every result was right".to_owned(),
                wrong => format!("{wrong} had a wrong result"),
            }
        ),
    ]
}
