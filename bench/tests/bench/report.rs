//! The forms of a report: the schema is the committed one, reports keep to it, and pages need nothing else.

mod shape;

use std::path::Path;

use sealane_bench::bench::{Failure, Outcome};
use sealane_bench::build::Build;
use sealane_bench::contest::{Caption, Series};
use sealane_bench::machine::Machine;
use sealane_bench::plan::{Level, Suite};
use sealane_bench::report::{self, Report, Stored};
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
        "UPDATE=1 cargo test -p sealane-bench --test bench report:: writes {}",
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
    for part in ["| `C3/1536` one \\| way", "≥ 12.0 × ✓", "Not measured", "| missed |"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let table = report::table(&report());
    assert!(
        table.contains("3 rows: 1 meet their limit, 1 miss it") && table.contains("1 suites failed"),
        "{table}"
    );
}

#[test]
fn a_report_has_the_sections_of_the_published_ones_in_order() {
    let folder = tempfile::tempdir().unwrap();
    report().write(folder.path()).unwrap();
    let text = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    let titles: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(
        titles,
        [
            "Methodology",
            "Headline",
            "Results by area",
            "Published figures",
            "Comparison with the stored baseline",
            "Scaling",
            "Variance",
            "Not measured"
        ]
    );
    for title in titles {
        assert!(page.contains(&format!("<h2>{title}</h2>")), "{title}");
    }
    // Figures of other machines are told, and how to read them, and never divided by.
    for said in [
        "142.9 µs p50",
        "32 random bytes were drawn",
        "needs inference",
        "the product does not have it yet",
        "No ratio to them is computed",
    ] {
        assert!(text.contains(said) && page.contains(said), "{said}");
    }
    // Two sizes of one row are a family; the fixed work was steady.
    assert!(text.contains("`C3/…`: 2.67 × the size, 1.00 × the figure"), "{text}");
    assert!(text.contains("0 of 3 rows are noisy"), "{text}");
}

/// `report` as it lies in a folder, read back as a baseline.
fn stored(report: &Report) -> Stored {
    let folder = tempfile::tempdir().unwrap();
    report.write(folder.path()).unwrap();
    Stored::read(&folder.path().join("report.json")).unwrap()
}

#[test]
fn an_earlier_report_of_this_machine_is_compared_with() {
    let mut earlier = report();
    earlier.rows[1] = row("C3/4096", &[10.0, 10.1, 10.2], None, None);
    earlier.rows.push(row("C3/393216", &[1.0], None, None));
    let report = report().beside(&stored(&earlier));
    let baseline = report.baseline.clone().unwrap();
    assert_eq!(baseline.unlike, Vec::<String>::new());
    let changes: Vec<_> = baseline.rows.iter().map(|row| (row.id.0.as_str(), row.change)).collect();
    let same = sealane_results::Change::Same;
    let worse = sealane_results::Change::Worse;
    assert_eq!(changes, [("C3/1536", same), ("C3/4096", worse), ("flood/memory", same)]);
    assert_eq!(baseline.gone, [RowId("C3/393216".to_owned())]);
    let schema: Value = serde_json::from_str(&report::schema().unwrap()).unwrap();
    let value: Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(shape::breaches(&schema, &value), Vec::<String>::new());
    let folder = tempfile::tempdir().unwrap();
    report.write(folder.path()).unwrap();
    let text = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(text.contains("3 rows are in both: 0 better, 2 the same, 1 worse, 0 unclear"), "{text}");
    assert!(text.contains("| `C3/4096` | 10.1 GB/s | 5.10 GB/s | -50 % | worse |"), "{text}");
}

#[test]
fn a_report_of_another_machine_level_or_build_is_named_and_not_compared_with() {
    type Change = fn(&mut Report);
    let changes: [(Change, &str); 3] = [
        (|report| report.machine.cpu = "another".to_owned(), "another CPU: another, then"),
        (|report| report.level = Level::Full, "another level: full, then quick"),
        (|report| report.build.profile = "measured".to_owned(), "another build profile: measured, then"),
    ];
    for (change, why) in changes {
        let mut earlier = report();
        change(&mut earlier);
        let baseline = report().beside(&stored(&earlier)).baseline.unwrap();
        assert!(baseline.rows.is_empty());
        assert!(baseline.unlike[0].starts_with(why), "{:?}", baseline.unlike);
    }
    let smoke = Report { level: Level::Smoke, ..report() };
    let unlike = smoke.clone().beside(&stored(&smoke)).baseline.unwrap().unlike;
    assert_eq!(unlike, ["figures of smoke runs mean nothing"]);
}

#[test]
fn what_holds_no_report_is_no_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    assert!(Stored::read(&path).is_err());
    std::fs::write(&path, "{}").unwrap();
    assert!(Stored::read(&path).unwrap_err().to_string().contains("holds no report"));
    let later = Report { version: report::VERSION + 1, ..report() };
    std::fs::write(&path, later.json().unwrap()).unwrap();
    assert!(Stored::read(&path).unwrap_err().to_string().contains("is of version 2"));
}
