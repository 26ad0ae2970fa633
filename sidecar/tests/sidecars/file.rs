//! `run --config FILE`: the examples are what they say they are.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use sealane_sidecar::config::{Config, ConfigError, file};
use sealane_sidecar::desired::Kind;
use sealane_sidecar::node::Node;
use sealane_types::{Carrier, CongestionChoice};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::client::{Receiver, parcel, passing_on, sender};
use crate::forward::free_port;
use crate::support::{document, initdata, loopback, material, roots, signed, until, with_simulation, within};

/// The examples with everything that they name.
pub(crate) fn examples() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/loopback");
    for name in ["embedder.yaml", "ranker.yaml"] {
        std::fs::copy(source.join(name), directory.path().join(name)).unwrap();
    }
    let write = |name: &str, bytes: &[u8]| std::fs::write(directory.path().join(name), bytes).unwrap();
    write("roots.json", &serde_json::to_vec(&[roots()]).unwrap());
    write("policy.json", &serde_json::to_vec(&signed(&document(1), &[1, 2])).unwrap());
    write("platform.json", material().to_json().unwrap().as_bytes());
    write("embedder.initdata", &initdata("embedder"));
    write("ranker.initdata", &initdata("ranker"));
    directory
}

fn load(directory: &tempfile::TempDir, name: &str) -> Config {
    file::load(&directory.path().join(name)).unwrap()
}

#[tokio::test]
async fn the_loopback_examples_exchange_tensors() {
    let directory = examples();
    // Free ports in place of those of the examples, which may be in use.
    let ranker = Config { listen: loopback(), ..load(&directory, "ranker.yaml") };
    let (ranker, to) = Node::start(&ranker, with_simulation()).unwrap();
    let mut embedder = Config { listen: loopback(), ..load(&directory, "embedder.yaml") };
    let session = &mut embedder.fixed.as_mut().unwrap().sessions[0];
    session.remotes[0].replicas[0].addresses = vec![ranker.address()];
    let (embedder, from) = Node::start(&embedder, with_simulation()).unwrap();
    let (lane, events) = sender(&from).await;
    passing_on(events);
    let mut receiver = Receiver::open(&to, 8 << 20).await;
    lane.offer(parcel(0, 100_000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 0);
    // Draining waits for lanes that are open, and says goodbye afterwards.
    let drained = tokio::spawn(embedder.drain());
    within("the end", lane.close()).await.unwrap();
    within("the drain", drained).await.unwrap();
    drop(ranker);
}

#[tokio::test]
async fn the_binary_starts_answers_probes_and_stops() {
    let directory = examples();
    let path = directory.path().join("embedder.yaml");
    let (data, admin) = (free_port(), free_port());
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("14710", &data.to_string()).replace("14711", &admin.to_string());
    std::fs::write(&path, format!("{text}drainSeconds: 1\n")).unwrap();
    let binary = env!("CARGO_BIN_EXE_sealane-sidecar");
    let mut sidecar =
        Command::new(binary).args(["run", "--config"]).arg(&path).kill_on_drop(true).spawn().unwrap();
    let port = admin.to_string();
    within("the probe", async {
        while !Command::new(binary).args(["probe", "--port", &port]).output().await.unwrap().status.success()
        {
        }
    })
    .await;
    assert!(directory.path().join("embedder.sock").exists(), "the door listens");
    assert!(directory.path().join("embedder.grpc.sock").exists(), "the gRPC door listens");
    let metrics = within("metrics", get(admin, "/metrics")).await;
    assert!(metrics.contains("sealane_policy_epoch"), "{metrics}");
    assert!(within("readiness", get(admin, "/readyz")).await.starts_with("HTTP/1.1 200"));
    let pid = Pid::from_raw(sidecar.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let status = within("the end", sidecar.wait()).await.unwrap();
    assert!(status.success(), "{status}");
}

/// The kernel gives `/proc/PID` of a process that cannot be traced to root (proc(5)).
#[tokio::test]
async fn the_binary_cannot_be_read_by_others_of_its_user() {
    const USER: u32 = 65_532;
    let directory = examples();
    let path = directory.path().join("embedder.yaml");
    let text = std::fs::read_to_string(&path).unwrap().replace("14710", "0").replace("14711", "0");
    std::fs::write(&path, text).unwrap();
    // Where the build lies, another user may not look.
    let binary = directory.path().join("sealane-sidecar");
    std::fs::copy(env!("CARGO_BIN_EXE_sealane-sidecar"), &binary).unwrap();
    let mut command = Command::new(&binary);
    command.args(["run", "--config"]).arg(&path).kill_on_drop(true);
    if rustix::process::geteuid().is_root() {
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            std::os::unix::fs::chown(entry.unwrap().path(), Some(USER), Some(USER)).unwrap();
        }
        std::os::unix::fs::chown(directory.path(), Some(USER), Some(USER)).unwrap();
        command.uid(USER).gid(USER);
    }
    let sidecar = command.spawn().unwrap();
    until("its door", || directory.path().join("embedder.sock").exists()).await;
    let memory = format!("/proc/{}/mem", sidecar.id().unwrap());
    assert_eq!(std::fs::metadata(memory).unwrap().uid(), 0, "its user could read it");
}

/// Whoever is asked to stop while it starts stops as it would later: nothing of it stays behind.
#[tokio::test]
async fn the_binary_can_be_stopped_while_it_starts() {
    let directory = examples();
    let path = directory.path().join("embedder.yaml");
    let text = std::fs::read_to_string(&path).unwrap().replace("14710", "0").replace("14711", "0");
    std::fs::write(&path, format!("{text}drainSeconds: 1\n")).unwrap();
    let door = directory.path().join("embedder.sock");
    let mut sidecar = Command::new(env!("CARGO_BIN_EXE_sealane-sidecar"))
        .args(["run", "--config"])
        .arg(&path)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    until("its door", || door.exists()).await;
    let pid = Pid::from_raw(sidecar.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let status = within("the end", sidecar.wait()).await.unwrap();
    assert!(status.success(), "{status}");
    assert!(!door.exists(), "its door stayed behind");
}

/// The answer of the port for probes and metrics.
pub(crate) async fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn bad_usage_exits_with_two() {
    let binary = env!("CARGO_BIN_EXE_sealane-sidecar");
    for arguments in [&["run", "--config", "/nowhere.yaml"][..], &["run", "--unknown"], &["walk"], &[]] {
        let output = Command::new(binary).args(arguments).env_clear().output().await.unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
    let version = Command::new(binary).arg("--version").output().await.unwrap();
    assert!(version.status.success());
}

#[test]
fn mistakes_in_the_file_are_named() {
    let directory = examples();
    let path = directory.path().join("embedder.yaml");
    let good = std::fs::read_to_string(&path).unwrap();
    for (from, to, expected) in [
        ("peer: embedder\n", "peer: Embedder\n", "peer: Embedder"),
        ("listen: 127.0.0.1:14710", "listen: localhost", "invalid socket address"),
        ("rootsFile: roots.json", "rootsFile: missing.json", "missing.json"),
        ("direction: Sending", "direction: Sideways", "Receiving"),
        ("provider: Simulated", "unknown: field", "unknown field `unknown`, expected one of namespace"),
    ] {
        assert!(good.contains(from), "{from}");
        std::fs::write(&path, good.replacen(from, to, 1)).unwrap();
        let error: ConfigError = file::load(&path).unwrap_err();
        assert!(error.to_string().contains(expected), "{to}: {error}");
    }
}

#[test]
fn what_is_no_single_plain_document_is_refused() {
    let directory = examples();
    let path = directory.path().join("embedder.yaml");
    let good = std::fs::read_to_string(&path).unwrap();
    for (text, expected) in [
        (String::new(), "end of input"),
        (format!("{good}\n---\n{good}"), "multiple YAML documents"),
        (format!("{good}\npeer: ranker\n"), "duplicate mapping key: peer"),
        (format!("{good}\nhostNetwork: yes\n"), "invalid boolean"),
        (format!("peer: {}", "[".repeat(100_000)), "expected string scalar"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = file::load(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn a_file_can_declare_a_forward() {
    let directory = examples();
    let path = directory.path().join("embedder.yaml");
    let good = std::fs::read_to_string(&path).unwrap();
    let declared = |lines: &str| {
        std::fs::write(&path, format!("{good}  {lines}\nhostNetwork: true\n")).unwrap();
        file::load(&path)
    };
    let config = declared("forward: {listen: 18001, target: 8001, perReplica: true}").unwrap();
    assert!(config.host_network);
    let session = &config.fixed.unwrap().sessions[0];
    let Kind::Forward(forward) = session.kind else { panic!("{session:?}") };
    let ports = (forward.listen.number(), forward.target.number(), forward.per_replica);
    assert_eq!(ports, (18_001, 8_001, true));
    assert_eq!(session.remotes[0].replicas[0].ordinal, Some(0));
    // Mistakes name the field, say what is wrong and show what is right.
    for (lines, field) in [
        ("forward: {listen: 18001, target: 14710}", "forward.target"),
        ("forward: {listen: 0, target: 8001}", "forward.listen"),
        ("forward: {listen: 18001, target: 70000}", "forward.target"),
        ("forward: {listen: 18001, target: 8001}\n  delivery: Broadcast", "delivery"),
        ("forward: {listen: 18001, target: 8001}\n  fanout: 3", "fanout"),
    ] {
        let error = declared(lines).unwrap_err().to_string();
        assert!(error.contains(field) && error.contains("listen: 18001, target: 8001"), "{lines}: {error}");
    }
}

#[test]
fn a_file_can_choose_a_congestion_control() {
    let directory = examples();
    let path = directory.path().join("embedder.yaml");
    let good = std::fs::read_to_string(&path).unwrap();
    let declared = |line: &str| {
        std::fs::write(&path, format!("{good}  carrier: Udp\n  {line}\n")).unwrap();
        file::load(&path)
    };
    for (line, expected) in [
        ("", CongestionChoice::Cubic),
        ("congestion: Cubic", CongestionChoice::Cubic),
        ("congestion: Bbr", CongestionChoice::Bbr),
        ("congestion: Auto", CongestionChoice::Auto),
    ] {
        let session = &declared(line).unwrap().fixed.unwrap().sessions[0];
        assert_eq!((session.carrier, session.congestion), (Some(Carrier::Udp), expected), "{line}");
    }
    // The kernel's words are for TCP, which the kernel looks after.
    let error = declared("congestion: reno").unwrap_err().to_string();
    assert!(error.contains("reno") && error.contains("Bbr"), "{error}");
}

#[tokio::test]
async fn a_probe_finds_the_port_that_the_kernel_chose() {
    let directory = examples();
    let path = directory.path().join("embedder.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    // As the webhook configures a pod on the host's network: any free ports.
    let text = text.replace("14710", "0").replace("14711", "0");
    std::fs::write(&path, format!("{text}drainSeconds: 1\n")).unwrap();
    let door = directory.path().join("embedder.sock");
    // Left by an earlier run; nothing answers there any more.
    std::fs::write(directory.path().join("admin-port"), format!("{}\n", free_port())).unwrap();
    let binary = env!("CARGO_BIN_EXE_sealane-sidecar");
    let probe = || {
        Command::new(binary).arg("probe").env("SEALANE_ADMIN_PORT", "0").env("SEALANE_DOOR", &door).output()
    };
    assert_eq!(probe().await.unwrap().status.code(), Some(1), "no sidecar runs yet");
    let mut sidecar =
        Command::new(binary).args(["run", "--config"]).arg(&path).kill_on_drop(true).spawn().unwrap();
    within("the probe", async { while !probe().await.unwrap().status.success() {} }).await;
    let pid = Pid::from_raw(sidecar.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let status = within("the end", sidecar.wait()).await.unwrap();
    assert!(status.success(), "{status}");
}
