//! The program of release images has no simulated platform, whatever it is told.

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::file::examples;
use crate::forward::free_port;
use crate::support::within;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealane-sidecar");

/// By which `sealane-sidecar-sim` is given a clock that a test steps.
const STEPPED_CLOCK: &str = "SEALANE_SIMULATED_CLOCK";

fn holds(program: &[u8], words: &str) -> bool {
    program.windows(words.len()).any(|window| window == words.as_bytes())
}

#[test]
fn the_production_program_holds_nothing_of_the_simulation() {
    let program = std::fs::read(PROGRAM).unwrap();
    // Symbols and the names of source files are there, so that a crate which is linked can be seen.
    assert!(holds(&program, "sealane_attestation") && holds(&program, "sealane_sidecar"));
    for words in
        ["sealane_simulated", "attestation/simulated/src", "sealane simulated guest 1", STEPPED_CLOCK]
    {
        assert!(!holds(&program, words), "{words}");
    }
    // These tests link it, and show that it would be seen.
    let tests = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert!(holds(&tests, "sealane_simulated"));
    // And that the word for the clock is still the one that the simulated sidecar reads.
    let source = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/sim/src/clock.rs")).unwrap();
    assert!(holds(&source, STEPPED_CLOCK));
}

#[tokio::test]
async fn the_production_program_refuses_to_simulate() {
    let directory = examples();
    let path = directory.path().join("ranker.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let listens = |name: &str, line: &str| match line.strip_prefix(name) {
        Some(_) => format!("{name} 127.0.0.1:{}", free_port()),
        None => line.to_owned(),
    };
    let lines = text.lines().map(|line| listens("listen:", line)).map(|line| listens("admin:", &line));
    std::fs::write(&path, lines.map(|line| line + "\n").collect::<String>()).unwrap();
    let mut sidecar = Command::new(PROGRAM)
        .args(["run", "--config"])
        .arg(&path)
        .env("RUST_LOG", "info")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut out = BufReader::new(sidecar.stdout.take().unwrap()).lines();
    let mut err = BufReader::new(sidecar.stderr.take().unwrap()).lines();
    within("the refusal", async {
        loop {
            let line = tokio::select! {
                Ok(Some(line)) = out.next_line() => line,
                Ok(Some(line)) = err.next_line() => line,
                else => panic!("it ended without a word"),
            };
            if line.contains("SimulationNotAllowed") {
                return;
            }
        }
    })
    .await;
}
