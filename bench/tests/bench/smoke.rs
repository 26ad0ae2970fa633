//! Every suite once with tiny counts: it runs, and every result is right. Figures are not looked at.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sealane_bench::bench::{Bench, Outcome, Programs, Silence};
use sealane_bench::plan::{Level, Peer, Plan, Selection, Suite};

/// On a machine that is busy with other tests.
const UDP_ANSWER: Duration = Duration::from_secs(60);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The sidecar beside the program under test. It is another package's: `cargo build --workspace` makes both.
fn sidecar() -> PathBuf {
    let sidecar = Path::new(env!("CARGO_BIN_EXE_sealane-bench")).with_file_name("sealane-sidecar-sim");
    assert!(sidecar.exists(), "{} is missing: `cargo build --workspace` makes it", sidecar.display());
    sidecar
}

fn programs(sidecar: PathBuf) -> Programs {
    Programs {
        sidecar,
        bench: env!("CARGO_BIN_EXE_sealane-bench").into(),
        native: Some(env!("CARGO_BIN_EXE_sealane-bench").into()),
        python: std::env::var_os("SEALANE_BENCH_PYTHON").unwrap_or_else(|| "python3".into()).into(),
        client: root().join("clients/python/src"),
    }
}

fn run(suite: Suite, rows: &[&str], sidecar: PathBuf) -> Outcome {
    let rows = rows.iter().map(|row| (*row).to_owned()).collect();
    let selection = Selection { suites: vec![suite], rows, peers: Peer::ALL.to_vec() };
    let plan = Plan { udp_answer: UDP_ANSWER, ..Plan::of(Level::Smoke) };
    let outcome = Bench::new(plan, selection, programs(sidecar), &mut Silence).run();
    for row in &outcome.rows {
        assert!(row.correct, "{}: {}", row.id, row.note);
    }
    outcome
}

#[track_caller]
fn assert_rows(outcome: &Outcome, expected: &[&str]) {
    assert_eq!(outcome.failures, []);
    let mut found: Vec<_> = outcome.rows.iter().map(|row| row.id.0.as_str()).collect();
    found.sort_unstable();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn crypto() {
    let outcome = run(Suite::Crypto, &[], PathBuf::new());
    let mut expected: Vec<String> = Vec::new();
    for bytes in [64, 1_024, 4_096, 16_384, 65_536] {
        for part in ["seal", "open", "round"] {
            expected.push(format!("W18-W22/{part}-{bytes}"));
            expected.push(format!("W18-W22-chacha/{part}-{bytes}"));
        }
    }
    for row in ["P2/1024", "P2/65536", "P2/1048576", "W23/keygen", "W24/exchange", "W27/keypair", "W26/hkdf"]
    {
        expected.push(row.to_owned());
    }
    for row in ["W37/32", "W28/fresh", "W28/hybrid", "W29/fresh", "W29/hybrid", "P3/fresh", "P3/hybrid"] {
        expected.push(row.to_owned());
    }
    expected.push("W30/update".to_owned());
    expected.extend([64, 1_024, 4_096, 16_384, 65_536].map(|bytes| format!("W25/{bytes}")));
    expected.extend([1_024, 65_536, 1_048_576].map(|bytes| format!("P1/{bytes}")));
    assert_rows(&outcome, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(outcome.missing, []);
}

#[test]
fn frame() {
    let outcome = run(Suite::Frame, &[], PathBuf::new());
    let parts =
        ["W1-W3", "W4-W6"].iter().flat_map(|row| [64, 512, 1_456].map(|bytes| format!("{row}/{bytes}")));
    let whole =
        ["W4-W6/round-64", "W4-W6/round-512", "W7/1456", "W7/1456@cipher", "H1/update"].map(str::to_owned);
    let replays = ["W38/gaps-0", "W38/gaps-60"].map(str::to_owned);
    let expected: Vec<_> = parts.chain(whole).chain(replays).collect();
    assert_rows(&outcome, &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn handshake() {
    let outcome = run(Suite::Handshake, &[], PathBuf::new());
    assert_rows(&outcome, &["C1/fresh", "C1/hybrid", "C1/attested", "C1/resumed"]);
}

#[test]
fn evidence() {
    let outcome = run(Suite::Evidence, &[], PathBuf::new());
    assert_rows(&outcome, &["verify/snp", "verify/tdx", "verify/nitro", "quotes/1000"]);
    let fleet = outcome.rows.iter().find(|row| row.id.0 == "quotes/1000").unwrap();
    assert!(fleet.note.contains("quotes for them all"), "{}", fleet.note);
}

#[test]
fn roundtrip() {
    let outcome = run(Suite::Roundtrip, &[], PathBuf::new());
    let ids =
        |bytes| [format!("C2/{bytes}"), format!("C2-tcp/{bytes}@plaintext"), format!("C2-added/{bytes}")];
    let mut expected = [1_536, 4_096, 393_216].map(ids).concat();
    expected.retain(|id| !is_missing(&outcome, id));
    assert_rows(&outcome, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(outcome.rows.iter().any(|row| row.latency.is_some_and(|latency| latency.theirs.is_some())));
}

#[test]
fn datagram() {
    let outcome = run(Suite::Datagram, &[], PathBuf::new());
    let mut over_udp = vec!["P4/1472@quinn", "P4/1472@tcp", "P4-nogso/1472@quinn"];
    over_udp.extend(["P4-lossy/Auto", "P4-lossy/Cubic", "P4-lossy/Bbr"]);
    over_udp.extend(["P4-beside/Auto", "P4-beside/Cubic", "P4-beside/Bbr"]);
    let over_xdp = ["P4-xdp/1472", "P4-xdp/1472@udp"];
    let expected =
        if is_missing(&outcome, "P4-xdp") { over_udp } else { [&over_udp[..], &over_xdp].concat() };
    assert_rows(&outcome, &expected);
}

#[test]
fn link() {
    let outcome = run(Suite::Link, &[], PathBuf::new());
    let mut expected: Vec<String> = Vec::new();
    for bytes in [512, 1_024, 1_472, 8_952] {
        expected.push(format!("P6-native/{bytes}"));
        expected.extend(["", "@udp", "-cpu@udp"].map(|case| format!("P6/{bytes}{case}")));
    }
    for bytes in [512, 1_024, 1_472, 4_096, 8_192] {
        expected.extend(["P4-udp", "P5"].map(|row| format!("{row}/{bytes}")));
    }
    let latencies = ["P12/64", "P12-asleep/64", "P13/64", "P13/64@udp", "P13-asleep/64@udp", "P13-native/64"];
    expected.extend(latencies.map(str::to_owned));
    expected.retain(|id| !is_missing(&outcome, id.split('/').next().unwrap()));
    assert_rows(&outcome, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(outcome.rows.iter().all(|row| row.ours > 0.0));
}

/// Whether this machine cannot measure it, and says why.
fn is_missing(outcome: &Outcome, id: &str) -> bool {
    outcome.missing.iter().any(|missing| missing.id.0 == id && !missing.why.is_empty())
}

#[test]
fn transport() {
    let outcome = run(Suite::Transport, &["transport"], PathBuf::new());
    let peers = ["plaintext", "rustls-buffered", "quinn", "confidential-ml-transport"];
    let beside = peers.map(|peer| format!("transport/Tcp+Aes256Gcm@{peer}"));
    let mut expected =
        vec!["transport/Tcp+Aes256Gcm", "transport/Tcp+Aes128Gcm", "transport/Tcp+ChaCha20Poly1305"];
    expected.extend(["transport/Udp+Aes256Gcm", "transport/Udp+Aes128Gcm", "transport/Udp+ChaCha20Poly1305"]);
    expected.extend(["transport/Tcp+Aegis256X4", "transport/Udp+Aegis256X4"]);
    expected.extend(beside.iter().map(String::as_str));
    assert_rows(&outcome, &expected);
}

#[test]
fn transport_under_each_congestion_control() {
    let outcome = run(Suite::Transport, &["transport-congestion"], PathBuf::new());
    if is_missing(&outcome, "transport-congestion") {
        return assert_rows(&outcome, &[]);
    }
    let allowed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap();
    let own = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let own = own.trim();
    let controls: BTreeSet<_> = allowed.split_whitespace().chain([own]).collect();
    let expected: Vec<_> = controls.iter().map(|control| format!("transport-congestion/{control}")).collect();
    assert_rows(&outcome, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    for row in &outcome.rows {
        assert_eq!(row.theirs.is_none(), row.id.0.ends_with(&format!("/{own}")), "{}", row.id);
    }
}

#[test]
fn stream() {
    let outcome = run(Suite::Stream, &[], PathBuf::new());
    let mut expected = Vec::new();
    for bytes in [1_536, 4_096, 393_216, 1_048_576] {
        for row in ["C3", "C3-chacha", "C3-tcp", "C3-tcp-floor"] {
            expected.push(format!("{row}/{bytes}"));
        }
        expected.push(format!("C3/{bytes}@plaintext"));
        for peer in ["plaintext", "rustls", "rustls-buffered"] {
            expected.push(format!("C3-tcp/{bytes}@{peer}"));
        }
    }
    expected.extend([393_216, 1_048_576].map(|bytes| format!("C3-handed/{bytes}")));
    assert_rows(&outcome, &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn portable() {
    let outcome = run(Suite::Portable, &[], PathBuf::new());
    assert_rows(
        &outcome,
        &["packet-1456", "stream-1536", "stream-1048576"]
            .map(|case| format!("portable/{case}@native"))
            .each_ref()
            .map(String::as_str),
    );
    assert!(outcome.rows.iter().all(|row| row.note.ends_with("both builds may use the same instructions")));
}

#[test]
fn without_a_build_for_this_processor_nothing_is_compared_with_one() {
    let selection = Selection { suites: vec![Suite::Portable], ..Selection::default() };
    let programs = Programs { native: None, ..programs(PathBuf::new()) };
    let outcome = Bench::new(Plan::of(Level::Smoke), selection, programs, &mut Silence).run();
    assert_rows(&outcome, &[]);
    assert!(is_missing(&outcome, "portable"));
}

#[test]
fn a_selected_row_comes_alone() {
    let outcome = run(Suite::Stream, &["C3-tcp/1536"], PathBuf::new());
    let peers = ["plaintext", "rustls", "rustls-buffered"].map(|peer| format!("C3-tcp/1536@{peer}"));
    let expected: Vec<_> = std::iter::once("C3-tcp/1536").chain(peers.iter().map(String::as_str)).collect();
    assert_rows(&outcome, &expected);
    assert_eq!(outcome.missing, []);
}

#[test]
fn lane() {
    let small = ["lane/1536-put", "lane/1536-put_many", "lane/idle", "lane/idle-added", "H5/p50", "H5/p95"];
    let mut expected: Vec<String> = small
        .into_iter()
        .chain(["P7/1GB", "idle-cpu/lane", "C4/minilm@tcp", "C4/minilm-added"])
        .map(str::to_owned)
        .collect();
    for bytes in [1_048_576, 8_388_608] {
        expected.push(format!("lane/{bytes}-cpu"));
        expected.extend(["lane-floor", "lane-empty-floor"].map(|family| format!("{family}/{bytes}")));
        for peer in ["tcp", "best-sealed"] {
            expected.extend(["lane", "lane-empty"].map(|family| format!("{family}/{bytes}@{peer}")));
        }
        expected.push(format!("lane-empty-cpu/{bytes}@ssl"));
        for peer in ["ssl", "curve", "grpc-tls", "flight-tls", "haproxy", "stunnel"] {
            expected.extend(["lane", "lane-cpu"].map(|family| format!("{family}/{bytes}@{peer}")));
        }
    }
    let outcome = run(Suite::Lane, &[], sidecar());
    // What is not installed is said so. Without namespaces there is no other congestion control.
    let optional =
        ["@curve", "@grpc-tls", "@flight-tls", "@haproxy", "@stunnel", "lane-empty", "lane-default/", "C4/"];
    let is_optional = |id: &str| optional.iter().any(|part| id.contains(part));
    for missing in &outcome.missing {
        assert!(is_optional(&missing.id.0), "{}: {}", missing.id, missing.why);
        let says = if missing.id.0.starts_with("lane-default/") { "namespaces" } else { "install" };
        assert!(missing.why.contains(says), "{}: {}", missing.id, missing.why);
    }
    expected.retain(|id| !outcome.missing.iter().any(|missing| missing.id.0 == *id));
    expected
        .extend(outcome.rows.iter().map(|row| row.id.0.clone()).filter(|id| id.starts_with("lane-default/")));
    assert_rows(&outcome, &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn pair() {
    let outcome = run(Suite::Pair, &[], sidecar());
    let tls = if outcome.missing.is_empty() { &["pair/1048576@tls"][..] } else { &[] };
    assert_rows(&outcome, &[&["pair/1048576@relay"], tls].concat());
    assert!(
        outcome.missing.iter().all(|missing| missing.id.0 == "pair/1048576@tls"),
        "{:?}",
        outcome.missing
    );
}

#[test]
fn transfer() {
    let cases =
        ["tensor", "resend"].iter().flat_map(|case| [1, 100, 1_000, 4_000].map(|count| (case, count)));
    let expected: Vec<_> = cases.map(|(case, count)| format!("transfer/{case}-{count}")).collect();
    let outcome = run(Suite::Transfer, &[], PathBuf::new());
    assert_rows(&outcome, &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn memory() {
    assert_rows(&run(Suite::Memory, &[], PathBuf::new()), &["H9/idle", "P11/connection"]);
}

#[test]
fn growth() {
    let streams = ["growth/streams", "growth/streams-1000", "growth/streams-10000"];
    let connections = ["growth/connections", "growth/connections-100", "growth/connections-1000"];
    let expected = [&streams[..], &connections, &["growth/idle-connection"]].concat();
    assert_rows(&run(Suite::Growth, &[], sidecar()), &expected);
}

#[test]
fn flood() {
    let outcome = run(Suite::Flood, &[], sidecar());
    let cases = ["p99", "p50-latency", "p99-latency", "max-latency", "refused", "memory"];
    let expected: Vec<_> = cases.iter().map(|case| format!("flood/{case}")).collect();
    assert_rows(&outcome, &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_suite_that_cannot_run_says_why_and_the_run_is_unsound() {
    let outcome = run(Suite::Lane, &[], "/nowhere/sealane-sidecar-sim".into());
    assert!(!outcome.is_sound());
    assert!(outcome.failures.iter().all(|failure| failure.suite == Suite::Lane), "{:?}", outcome.failures);
    assert_eq!(outcome.rows, []);
}

#[test]
fn a_failure_exits_with_1_and_leaves_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sealane-bench"))
        .args(["run", "--smoke", "--suite", "lane", "--sidecar", "/nowhere/sidecar", "-o", "json", "--out"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["sound"], false);
    assert!(printed["failures"][0]["error"].as_str().unwrap().contains("/nowhere/sidecar is missing"));
    assert_eq!(std::fs::read(folder.path().join("report.json")).unwrap(), output.stdout);
}

#[test]
fn the_report_that_is_replaced_is_the_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sealane-bench"));
        command.args(["run", "--smoke", "--suite", "frame", "--rows", "W7", "--out"]).arg(folder.path());
        let output = command.args(more).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let path = folder.path().join("report.json");
    let baseline = || {
        let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        (report["began"].clone(), report["baseline"]["began"].clone())
    };
    assert_eq!(run(&[]).0, Some(0));
    let (first, none) = baseline();
    assert!(none.is_null());
    let (code, said) = run(&[]);
    assert!(code == Some(0) && said.contains("which is replaced"), "{said}");
    assert_eq!(baseline().1, first);
    // What merely lies there need not be a report; what was named has to be one, and is told before anything is measured.
    std::fs::write(&path, "{}").unwrap();
    let (code, said) = run(&[]);
    assert!(code == Some(0) && said.contains("not compared with what is there"), "{said}");
    let (code, said) = run(&["--baseline", "/nowhere/report.json"]);
    assert!(code == Some(1) && said.contains("/nowhere/report.json"), "{said}");
}

#[test]
fn bad_usage_exits_with_2() {
    let status = Command::new(env!("CARGO_BIN_EXE_sealane-bench"))
        .args(["run", "--suite", "everything"])
        .output()
        .unwrap();
    assert_eq!(status.status.code(), Some(2));
}
