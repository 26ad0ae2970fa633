//! `cargo xtask judge` on genuine evidence, and on indices that ask for what cannot be had.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and shows the lines that it judged"
)]

mod test_roots;

use std::{
    fs,
    path::{Path, PathBuf},
};

use sealane_fixtures::skip;
use sealane_judge::{Line, judge};
use serde_json::{Value, json};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(index: &Path) -> Value {
    serde_json::from_slice(&fs::read(index).unwrap()).unwrap()
}

/// How many entries came out as their index expects.
#[track_caller]
fn check(index: &Path) -> usize {
    let entries = read(index)["entries"].as_array().unwrap().clone();
    let lines: Vec<Line> = judge(index, false).unwrap().collect();
    assert_eq!(lines.len(), entries.len());
    for (line, entry) in lines.iter().zip(&entries) {
        assert_eq!(entry["id"], line.id);
        assert_eq!(entry["expect"], line.outcome, "{}", line.to_json());
        assert!(line.reason.is_some() || line.outcome == "accept", "{}", line.to_json());
        eprintln!("{}", line.to_json());
    }
    lines.len()
}

#[test]
fn evidence_of_this_repository() {
    for (platform, count) in [("snp", 3), ("nitro", 7), ("tdx", 5)] {
        let index = root().join(format!("protocol/attestation/tests/{platform}/index.json"));
        assert!(check(&index) >= count, "{platform}");
    }
}

/// `../shared/vectors` beside the repository, with more evidence than may be committed here.
#[test]
fn evidence_beside_this_repository() {
    let index = root().join("../shared/vectors/index.json");
    if !index.exists() {
        skip(concat!(module_path!(), "::evidence_beside_this_repository"), "there is no ../shared/vectors");
        return;
    }
    assert!(check(&index) >= 21);
}

/// The line of the one entry that `edit` makes of a genuine document's, which is accepted as it is.
fn edited(edit: impl FnOnce(&mut Value)) -> Line {
    let folder = root().join("protocol/attestation/tests/nitro");
    let mut entry = read(&folder.join("index.json"))["entries"][0].clone();
    for (_, path) in entry["files"].as_object_mut().unwrap() {
        *path = json!(folder.join(path.as_str().unwrap()));
    }
    edit(&mut entry);
    alone(&json!({"entries": [entry]})).remove(0)
}

fn alone(index: &Value) -> Vec<Line> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.json");
    fs::write(&path, index.to_string()).unwrap();
    judge(&path, false).unwrap().collect()
}

#[track_caller]
fn assert_line(line: &Line, outcome: &str, says: &str) {
    assert_eq!(line.outcome, outcome, "{}", line.to_json());
    assert!(line.reason.as_deref().unwrap_or_default().contains(says), "{}", line.to_json());
}

#[test]
fn an_accepted_line_says_how_long_it_took() {
    let line = edited(|_| {});
    assert_line(&line, "accept", "");
    assert_eq!(line.id, "nitro/prod-2025");
    assert!(line.micros.unwrap() > 0.0 && line.reason.is_none());
    let written: Value = serde_json::from_str(&line.to_json()).unwrap();
    assert_eq!(written.as_object().unwrap().len(), 4);
}

#[test]
fn the_entry_s_time_and_policy_count() {
    assert_line(&edited(|entry| entry["now"] = json!(1_736_179_985_u64)), "reject", "EvidenceExpired");
    assert_line(&edited(|entry| entry["policy"]["max_age"] = json!(10)), "reject", "maxAgeSeconds is 10");
    // Nothing stated is what policies say by default.
    assert_line(&edited(|entry| drop(entry.as_object_mut().unwrap().remove("policy"))), "accept", "");
    let late = |entry: &mut Value| {
        entry["now"] = json!(1_736_179_985_u64);
        entry["policy"] = json!({});
    };
    assert_line(&edited(late), "reject", "maxAgeSeconds is 300");
}

#[test]
fn what_cannot_be_checked_is_never_accepted() {
    for key in ["allow_vlek", "max_vmpl", "min_tcb", "tcb_status", "max_age_seconds", "nonsense"] {
        let line = edited(|entry| entry["policy"][key] = json!(true));
        assert_line(&line, "reject", &format!("`{key}`"));
    }
    assert_line(&edited(|entry| entry["policy"]["allow_debug"] = json!("yes")), "error", "true or false");
    assert_line(&edited(|entry| entry["policy"]["max_age"] = json!(-1)), "error", "whole number");
}

/// A root file is what the entry says it is only if it is the vendor's that is pinned.
#[test]
fn a_vendor_s_root_is_not_taken_from_the_entry() {
    let other = root().join("protocol/attestation/collateral/intel-sgx-root.der");
    for trust in [json!("AWS Nitro Enclaves Root-G1"), json!(null)] {
        let line = edited(|entry| {
            entry["trust"] = trust.clone();
            entry["files"]["root"] = json!(other);
        });
        assert_line(&line, "reject", "RootMismatch");
    }
    // An index for roots of one's own: the document's is another.
    let line = edited(|entry| {
        entry["trust"] = json!("our own root");
        entry["files"]["root"] = json!(other);
    });
    assert_line(&line, "reject", "the document's root is not the pinned one");
    assert_line(&edited(|entry| drop(entry["files"].as_object_mut().unwrap().remove("root"))), "accept", "");
}

#[test]
fn what_is_not_there_is_missing_and_what_is_no_entry_an_error() {
    let line = edited(|entry| entry["files"]["doc"] = json!("nowhere.cbor"));
    assert_line(&line, "missing", "nowhere.cbor");
    assert_line(
        &edited(|entry| drop(entry["files"].as_object_mut().unwrap().remove("doc"))),
        "error",
        "`doc`",
    );
    assert_line(&edited(|entry| entry["kind"] = json!("sgx")), "error", "sgx");
    assert_line(&edited(|entry| entry["now"] = json!("today")), "error", "today");
    let lines = alone(&json!({"entries": [17, {"id": "x"}]}));
    assert_eq!(lines[0].id, "entries[0]");
    assert_eq!(lines[1].id, "x");
    assert!(lines.iter().all(|line| line.outcome == "error"));
}

#[test]
fn an_index_that_is_none_is_an_error_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.json");
    assert!(judge(&path, false).is_err());
    for text in ["", "[]", "{\"entries\": {}}"] {
        fs::write(&path, text).unwrap();
        assert!(judge(&path, false).is_err(), "{text}");
    }
}
