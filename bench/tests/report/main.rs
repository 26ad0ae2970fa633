//! The forms of a report: the schema is the committed one, reports keep to it, and pages need nothing else.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod shape;

use std::path::Path;

use sealane_bench::bench::{Failure, Outcome};
use sealane_bench::build::Build;
use sealane_bench::contest::{Caption, Series};
use sealane_bench::machine::Machine;
use sealane_bench::plan::{Level, Suite};
use sealane_bench::report::{self, Report};
use sealane_bench::row::{Better, Missing, Row, RowId, Subject, Unit};
use serde_json::Value;

fn series(values: &[f64]) -> Series {
    Series { values: values.to_vec(), latencies: values.to_vec(), wrong: None }
}

fn row(id: &str, ours: &[f64], theirs: Option<&[f64]>, limit: Option<f64>) -> Row {
    let caption = Caption {
        id: RowId(id.to_owned()),
        suite: "stream",
        name: "one | way".to_owned(),
        unit: Unit::GigabytesPerSecond,
        better: Better::Higher,
        peer: theirs.map(|_| "<them>".to_owned()),
        limits: limit.map(|limit| (Subject::Ratio, limit)).into_iter().collect(),
        doubt: None,
        note: "a & b".to_owned(),
    };
    caption.row(&series(ours), theirs.map(series).as_ref(), &[1.0, 1.0, 1.0])
}

fn report() -> Report {
    let rows = vec![
        row("C3/1536", &[5.0, 5.1, 5.2], Some(&[0.4, 0.41, 0.42]), Some(12.0)),
        row("C3/4096", &[5.0, 5.1, 5.2], Some(&[0.9, 0.91, 0.92]), Some(12.0)),
        row("flood/memory", &[3.0], None, None),
    ];
    let failures = vec![Failure { suite: Suite::Lane, error: "no <Python>".to_owned() }];
    let outcome = Outcome { rows, missing: vec![Missing::new("C4", "needs inference")], failures };
    let build = Build::beside(Path::new("/nowhere/sealane-bench")).unwrap();
    Report::new(Level::Quick, ("2026-11-20T10:00:00Z".to_owned(), 1.5), Machine::look(), build, outcome)
}

#[test]
fn the_committed_schema_is_the_one_of_this_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/report.schema.json");
    let schema = report::schema().unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(
        committed == schema,
        "UPDATE=1 cargo test -p sealane-bench --test report writes {}",
        path.display()
    );
}

#[test]
fn a_report_keeps_to_the_schema_and_reads_back() {
    let report = report();
    let schema: Value = serde_json::from_str(&report::schema().unwrap()).unwrap();
    let value: Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(shape::breaches(&schema, &value), Vec::<String>::new());
    // Floats may lose their last digit on the way through text; nothing else may change.
    let read: Report = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(
        (&read.machine, &read.build, &read.failures),
        (&report.machine, &report.build, &report.failures)
    );
    assert_eq!((read.rows.len(), &read.missing), (report.rows.len(), &report.missing));

    // What other programs rely on.
    let first = &value["rows"][0];
    for field in "id name unit ours spread samples peer theirs limit ratio better correct note".split(' ') {
        assert!(first.get(field).is_some(), "{field}");
    }
    let mut without = value.clone();
    without["rows"][0].as_object_mut().unwrap().remove("ratio");
    without["rows"][1]["unit"] = "furlongs".into();
    without["extra"] = 1.into();
    assert_eq!(shape::breaches(&schema, &without).len(), 3);
}

#[test]
fn a_failed_suite_or_a_wrong_result_makes_a_run_unsound() {
    assert!(!report().sound);
    let mut outcome = Outcome { rows: report().rows, ..Outcome::default() };
    assert!(outcome.is_sound());
    outcome.rows[1].correct = false;
    assert!(!outcome.is_sound());
}

#[test]
fn pages_say_what_was_found_and_load_nothing() {
    let folder = tempfile::tempdir().unwrap();
    report().write(folder.path()).unwrap();
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    for text in
        ["C3/1536", "&lt;them&gt;", "no &lt;Python&gt;", "C4", "<svg", "prefers-color-scheme", "12.4 ×"]
    {
        assert!(page.contains(text), "{text}");
    }
    for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let text = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    for part in ["| `C3/1536` | one \\| way |", "≥ 12.0 × ✓", "Not measured", "| missed |"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let table = report::table(&report());
    assert!(
        table.contains("3 rows: 1 meet their limit, 1 miss it") && table.contains("1 suites failed"),
        "{table}"
    );
}
