//! A report as the short text that leaves a node, whoever keeps the rest: its figures, without their samples.

use sealane_results::{Interval, Line, Node, Place, Summary, VERSION, plain};

use crate::build::Build;
use crate::machine::Machine;
use crate::report::Report;
use crate::row::Row;

/// What all failures together may take, so that they never fill a text on their own: half of a termination message.
const FAILURES_BYTES: usize = 2_048;
/// Of a figure: finer than any machine repeats. More would take the room of other rows.
const SIGNIFICANT_DIGITS: usize = 5;

/// `fault` is what kept the suites from running, where something did.
pub(crate) fn summary(report: &Report, place: Place, fault: Option<&anyhow::Error>) -> Summary {
    let Report { level, began, seconds, sound, machine, build, rows, failures, .. } = report;
    // Rows at the end are the first to go where there is no room for all.
    let (limited, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| !row.limits.is_empty());
    let (rows, odd): (Vec<_>, Vec<_>) =
        limited.into_iter().chain(others).map(line).partition(Line::is_comparable);
    let failures = failures.iter().map(|failure| format!("{}: {}", failure.suite.word(), failure.error));
    let failures = fault.map(|fault| format!("{fault:#}")).into_iter().chain(failures).collect();
    Summary {
        version: VERSION,
        place,
        level: level.word().to_owned(),
        began: began.clone(),
        seconds: *seconds,
        sound: *sound && fault.is_none(),
        machine: node(machine),
        build: told(build),
        rows,
        left_out: u32::try_from(odd.len()).unwrap_or(u32::MAX),
        failures: shortened(failures),
    }
}

/// A row without its samples, in the form that is compared.
pub(crate) fn line(row: &Row) -> Line {
    Line {
        id: row.id.clone(),
        unit: row.unit,
        better: row.better,
        ours: rounded(row.ours),
        bounds: row
            .ours_interval
            .map(|Interval { low, high }| Interval { low: rounded(low), high: rounded(high) }),
        ratio: row.ratio.map(rounded),
        verdict: row.verdict(),
        correct: row.correct,
        noisy: row.noisy,
    }
}

fn rounded(figure: f64) -> f64 {
    format!("{figure:.*e}", SIGNIFICANT_DIGITS - 1).parse().unwrap_or(figure)
}

fn node(machine: &Machine) -> Node {
    let Machine { cpu, architecture, cores, features, kernel, memory_mebibytes, load_before, load_after: _ } =
        machine;
    Node {
        cpu: plain(cpu),
        architecture: plain(architecture),
        cores: *cores,
        features: plain(&features.join(" ")),
        kernel: plain(kernel),
        memory_mebibytes: *memory_mebibytes,
        load: load_before.first().copied().unwrap_or_default(),
    }
}

fn told(build: &Build) -> String {
    plain(&format!("{} {} {}", build.version, build.commit, build.profile))
}

/// Each gets as much room as any other.
fn shortened(failures: Vec<String>) -> Vec<String> {
    let each = FAILURES_BYTES / failures.len().max(1);
    failures.iter().map(|failure| plain(&failure[..failure.floor_char_boundary(each)])).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use sealane_results::{RunKey, SEALED_BYTES_MAX, Verdict};
    use zeroize::Zeroizing;

    use super::*;
    use crate::bench::{Failure, Outcome};
    use crate::contest::{Caption, Series};
    use crate::plan::{Level, Suite};
    use crate::row::{Better, RowId, Subject, Unit};

    fn row(id: &str, ours: f64, limits: &[(Subject, f64)]) -> Row {
        let caption = Caption {
            id: RowId(id.to_owned()),
            suite: Suite::Stream.word(),
            name: "one way".to_owned(),
            unit: Unit::GigabytesPerSecond,
            better: Better::Higher,
            peer: None,
            limits: limits.to_vec(),
            doubt: None,
            note: "a note".to_owned(),
        };
        let series = Series { values: vec![ours; 3], ..Series::default() };
        caption.row(&series, None, &[1.0; 3])
    }

    fn report(rows: Vec<Row>, failures: Vec<Failure>) -> Report {
        let machine = Machine {
            cpu: "AMD\tEPYC".to_owned(),
            features: vec!["aes".to_owned(), "vaes".to_owned()],
            load_before: vec![0.5, 0.4, 0.3],
            ..Machine::default()
        };
        let build =
            Build { commit: "0123abc".to_owned(), profile: "measured".to_owned(), ..Build::unknown() };
        let outcome = Outcome { rows, missing: Vec::new(), failures };
        Report::new(Level::Quick, ("2026-11-23T01:00:00Z".to_owned(), 61.5), machine, build, outcome)
    }

    fn place() -> Place {
        Place { run: "7f3a-1-1".to_owned(), pool: "gpu".to_owned(), node: "node-0".to_owned(), server: None }
    }

    fn failure(suite: Suite, error: &str) -> Failure {
        Failure { suite, error: error.to_owned() }
    }

    fn sealed_bytes(summary: Summary) -> usize {
        RunKey::new(Zeroizing::new([1; 32])).seal(summary).unwrap().as_str().len()
    }

    #[test]
    fn a_report_is_told_in_short() {
        let summary = summary(&report(vec![row("C3/1536", 2.0, &[])], Vec::new()), place(), None);
        assert_eq!((summary.place.clone(), summary.version), (place(), VERSION));
        assert_eq!((summary.level.as_str(), summary.seconds), ("quick", 61.5));
        assert_eq!(summary.began, "2026-11-23T01:00:00Z");
        assert!(summary.sound && summary.failures.is_empty());
        assert_eq!(summary.machine.cpu, "AMD EPYC");
        assert_eq!(summary.machine.features, "aes vaes");
        assert_eq!(summary.machine.load, 0.5);
        assert_eq!(summary.build, concat!(env!("CARGO_PKG_VERSION"), " 0123abc measured"));
        let [line] = summary.rows.as_slice() else { panic!("{:?}", summary.rows) };
        assert_eq!((line.ours, line.bounds), (2.0, Some(Interval { low: 2.0, high: 2.0 })));
        assert_eq!((line.verdict, line.correct, line.noisy), (None, true, false));
    }

    #[test]
    fn rows_with_limits_come_first_and_keep_their_order() {
        let limit = [(Subject::Ours, 1.0)];
        let rows = vec![row("a", 2.0, &[]), row("b", 2.0, &limit), row("c", 2.0, &[]), row("d", 0.5, &limit)];
        let summary = summary(&report(rows, Vec::new()), place(), None);
        let told: Vec<_> = summary.rows.iter().map(|line| (line.id.0.as_str(), line.verdict)).collect();
        let (met, missed) = (Some(Verdict::Met), Some(Verdict::Missed));
        assert_eq!(told, [("b", met), ("d", missed), ("a", None), ("c", None)]);
    }

    #[test]
    fn figures_that_are_no_numbers_are_left_out_and_counted() {
        let odd = [f64::NAN, f64::INFINITY, 1e19].map(|ours| row("odd", ours, &[(Subject::Ours, 1.0)]));
        let rows = odd.into_iter().chain([row("C3/1536", 2.0, &[])]).collect();
        let summary = summary(&report(rows, Vec::new()), place(), None);
        assert_eq!((summary.rows.len(), summary.left_out), (1, 3));
        assert!(sealed_bytes(summary) <= SEALED_BYTES_MAX);
    }

    #[test]
    fn figures_have_the_digits_that_mean_something_and_so_a_hundred_rows_fit() {
        let figures = [0.793_629_279_802, 123_456.789, -0.000_012_345_678, 2.0, 0.0];
        assert_eq!(figures.map(rounded), [0.793_63, 123_460.0, -0.000_012_346, 2.0, 0.0]);
        let mut random = crate::random::SplitMix::new(1);
        let mut figure = || (random.next() % 1_000_000_007) as f64 / 12_345.6;
        let rows = (0..100).map(|number| {
            let (low, ours, high) = (figure(), figure(), figure());
            let ours_interval = Some(Interval { low, high });
            let id = format!("C3-tcp/{}@rustls-buffered", 1_536 * number);
            Row { ours_interval, ratio: Some(figure()), ..row(&id, ours, &[(Subject::Ours, 1.0)]) }
        });
        let summary = summary(&report(rows.collect(), Vec::new()), place(), None);
        let key = RunKey::new(Zeroizing::new([1; 32]));
        let opened = key.seal(summary).unwrap().open(&key.public().unwrap(), &place()).unwrap();
        assert_eq!((opened.rows.len(), opened.left_out), (100, 0));
    }

    #[test]
    fn failures_are_plain_and_leave_room() {
        // Text that hardly shrinks: words of a generator.
        let mut random = crate::random::SplitMix::new(1);
        let noise: String = (0..400).map(|_| format!("{:x}\n≤", random.next())).collect();
        let all = Suite::ALL.map(|suite| failure(suite, &noise)).to_vec();
        let summary = summary(&report(vec![row("C3/1536", 2.0, &[])], all), place(), None);
        assert!(!summary.sound);
        assert_eq!(summary.failures.len(), Suite::ALL.len());
        assert!(summary.failures[0].starts_with("crypto: "));
        assert!(summary.failures.iter().map(String::len).sum::<usize>() <= FAILURES_BYTES);
        assert!(sealed_bytes(summary) <= SEALED_BYTES_MAX);
    }

    #[test]
    fn what_kept_suites_from_running_is_a_failure() {
        let fault = anyhow!("no such file").context("reading facts");
        let summary = summary(&report(Vec::new(), Vec::new()), place(), Some(&fault));
        assert!(!summary.sound);
        assert_eq!(summary.failures, ["reading facts: no such file"]);
    }
}
