//! The signed result that a run leaves, as an operator's Job asks for it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sealane_results::{Place, RunKey, Sealed, Summary};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealane-bench");
const SEED: &str = "4a4b4c4d4e4f505152535455565758595a5b5c5d5e5f60616263646566676869";

fn place() -> Place {
    Place { run: "7f3a-1-1".to_owned(), pool: "gpu".to_owned(), node: "node-0".to_owned(), server: None }
}

/// A folder where hard links of the program are possible.
fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// What a Job's container runs: nothing from this environment, and all that is needed for a result at `path`.
fn job(program: &Path, path: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["run", "--smoke"]).args(arguments).env_clear();
    // Only suites that are not selected here need programs of the machine.
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("SEALANE_BENCH_RESULT", path).env("SEALANE_BENCH_KEY", SEED);
    let Place { run, pool, node, server: _ } = place();
    command.env("SEALANE_BENCH_RUN", run).env("SEALANE_BENCH_POOL", pool).env("SEALANE_BENCH_NODE", node);
    command
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    for said in [&output.stdout, &output.stderr] {
        assert!(!String::from_utf8_lossy(said).contains(SEED), "the key is never printed");
    }
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn opened(path: &Path) -> Summary {
    let key: RunKey = SEED.parse().unwrap();
    Sealed::new(fs::read_to_string(path).unwrap()).open(&key.public().unwrap(), &place()).unwrap()
}

#[test]
fn a_result_is_left_and_opens_with_the_public_key() {
    let folder = folder();
    let path = folder.path().join("message");
    // A longer text of somebody else's is replaced.
    fs::write(&path, "x".repeat(5_000)).unwrap();
    let output = run(&mut job(PROGRAM.as_ref(), &path, &["--suite", "frame"]));
    assert!(output.status.success(), "{}", said(&output));
    let summary = opened(&path);
    assert!(summary.sound && summary.failures.is_empty());
    assert_eq!((summary.level.as_str(), summary.left_out), ("smoke", 0));
    assert_eq!(summary.rows.len(), 13);
    assert!(summary.rows[0].verdict.is_some(), "rows with limits come first");
    assert!(summary.machine.cores > 0 && summary.build.starts_with(env!("CARGO_PKG_VERSION")));
    assert_eq!(said(&output).lines().count(), 13, "a plain line for each row: {}", said(&output));
    assert!(!said(&output).contains('\u{1b}'));
}

#[test]
fn a_suite_that_fails_is_told_and_nothing_it_starts_has_the_key() {
    let folder = folder();
    let (path, sidecar) = (folder.path().join("message"), folder.path().join("sidecar"));
    // Whole or not at all: another one is started beside it, and may be stopped at any moment.
    let script = "#!/bin/sh\nenv > \"$0.$$\" && mv \"$0.$$\" \"$0.environment\"\nexit 7\n";
    fs::write(&sidecar, script).unwrap();
    fs::set_permissions(&sidecar, fs::Permissions::from_mode(0o755)).unwrap();
    let rows = ["--suite", "frame,pair", "--rows", "W7,pair", "--sidecar", sidecar.to_str().unwrap()];
    let output = run(&mut job(PROGRAM.as_ref(), &path, &rows));
    assert_eq!(output.status.code(), Some(1));
    let summary = opened(&path);
    assert!(!summary.sound);
    assert_eq!(summary.rows.len(), 2);
    assert!(summary.failures[0].starts_with("pair: "), "{:?}", summary.failures);
    let environment = fs::read_to_string(sidecar.with_extension("environment")).unwrap();
    assert!(environment.contains("SEALANE_BENCH_NODE=node-0"), "{environment}");
    assert!(!environment.contains("SEALANE_BENCH_KEY") && !environment.contains(SEED), "{environment}");
}

#[test]
fn what_keeps_suites_from_running_is_told_too() {
    let folder = folder();
    let (path, program) = (folder.path().join("message"), folder.path().join("sealane-bench"));
    fs::hard_link(PROGRAM, &program).unwrap();
    fs::write(folder.path().join("sealane-bench.build.json"), "{}").unwrap();
    let output = run(&mut job(&program, &path, &["--suite", "frame"]));
    assert_eq!(output.status.code(), Some(1));
    let summary = opened(&path);
    assert!(!summary.sound && summary.rows.is_empty());
    assert!(summary.failures[0].contains("is not of this release"), "{:?}", summary.failures);
    assert!(said(&output).contains("is not of this release"));
}

#[test]
fn what_is_missing_for_a_result_is_named() {
    let path = PathBuf::from("/nowhere/message");
    let refused = |variable: &str, value: &str, told: &str| {
        let output = run(job(PROGRAM.as_ref(), &path, &[]).env(variable, value));
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains(told), "{}", said(&output));
    };
    refused("SEALANE_BENCH_RUN", "", "needs --run as well");
    refused("SEALANE_BENCH_POOL", "", "needs --pool as well");
    refused("SEALANE_BENCH_KEY", "", "needs SEALANE_BENCH_KEY as well");
    refused("SEALANE_BENCH_KEY", &SEED[1..], "SEALANE_BENCH_KEY: the run's key must be 32 bytes in hex");
    let output = Command::new(PROGRAM).args(["run", "--result", "message"]).env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("--run, --pool, --node, SEALANE_BENCH_KEY"), "{}", said(&output));
}

#[test]
fn a_result_that_cannot_be_left_is_an_error() {
    let path = PathBuf::from("/nowhere/message");
    let output = run(&mut job(PROGRAM.as_ref(), &path, &["--rows", "W7", "--suite", "frame"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("no result is left: writing /nowhere/message"), "{}", said(&output));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("W7/1456"),
        "the report is printed all the same"
    );
}
