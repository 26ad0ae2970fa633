//! The local cluster, for real: everything its users rely on, and that nothing of it is left afterwards.
//!
//! Needs root and a filled cache (`make cluster` once), hence `--ignored`:
//! `cargo test -p xtask --test cluster -- --ignored`. It works beside a running cluster: state, cgroups, network and
//! ports are its own.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const XTASK: &str = env!("CARGO_BIN_EXE_xtask");
const PODS: &str = include_str!("cluster/pods.yaml");
/// Longest wait for anything; generous, because machines that run tests are busy.
const LIMIT: Duration = Duration::from_secs(120);

/// A cluster in a folder of its own, taken down when the test ends, however it ends.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(XTASK);
        command.arg("cluster").args(words).env("SEALANE_STATE", self.state());
        command
    }

    fn run(&self, words: &[&str]) -> String {
        success(&mut self.command(words))
    }

    fn kubectl(&self) -> Command {
        let mut command = Command::new(self.state().join("bin/kubectl"));
        command.env("KUBECONFIG", self.state().join("kubeconfig"));
        command
    }

    fn ask(&self, words: &[&str]) -> String {
        success(self.kubectl().args(words))
    }

    /// What a shell command says in pod `one`.
    fn in_pod(&self, script: &str) -> String {
        self.ask(&["exec", "one", "--", "sh", "-c", script])
    }

    fn init(&self) -> Option<String> {
        // It is there a moment before it is written.
        let pid = std::fs::read_to_string(self.state().join("init.pid")).ok()?;
        Some(pid.trim().to_owned()).filter(|pid| !pid.is_empty())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.command(&["down"]).output();
    }
}

fn success(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {status}\n{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        sleep(Duration::from_millis(20));
    }
}

fn alive(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

#[test]
#[ignore = "needs root, and the programs that `make cluster` builds"]
fn pods_talk_across_nodes_and_nothing_is_left_afterwards() {
    let place = Place::new();
    let said = place.run(&["up"]);
    assert_eq!(said, format!("export KUBECONFIG={}\n", place.state().join("kubeconfig").display()));

    success(Command::new("sh").args(["-c", "printf %s \"$PODS\" | \"$KUBECTL\" apply -f -"]).envs([
        ("PODS", PODS.into()),
        ("KUBECTL", place.state().join("bin/kubectl").into_os_string()),
        ("KUBECONFIG", place.state().join("kubeconfig").into_os_string()),
    ]));
    place.ask(&["wait", "--for=condition=Ready", "--timeout=120s", "pod/one", "pod/two"]);
    let node = |pod| place.ask(&["get", "pod", pod, "-o", "jsonpath={.spec.nodeName}"]);
    assert_eq!((node("one"), node("two")), ("node1".to_owned(), "node2".to_owned()));

    // By pod address, by Service address and by name, from node to node.
    let address = place.ask(&["get", "pod", "two", "-o", "jsonpath={.status.podIP}"]);
    let service = place.ask(&["get", "service", "two", "-o", "jsonpath={.spec.clusterIP}"]);
    for host in [address.as_str(), &service, "two", "two.default.svc.cluster.local"] {
        let said = place.in_pod(&format!(
            "for i in $(seq 120); do wget -qO- http://{host}:8080/name && exit; sleep 1; done; exit 1"
        ));
        assert_eq!(said, "pod two on node2\n", "{host}");
    }
    assert!(place.ask(&["logs", "two"]).contains("serving"));
    assert_eq!(forwarded(&place), "pod two on node2\n");

    // A second `up` finds a healthy cluster and leaves it alone.
    place.run(&["up"]);
    place.ask(&["get", "pod", "one"]);
    assert!(place.run(&["exec", "node2", "--", "hostname"]).contains("node2"));

    place.run(&["down"]);
    place.run(&["verify-down"]);
    assert!(!place.state().exists());
}

#[test]
#[ignore = "needs root, and the programs that `make cluster` builds"]
fn an_interrupted_start_ends_by_itself_and_a_dead_cluster_is_replaced() {
    let place = Place::new();
    let mut up = place.command(&["up"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the start", || place.init().is_some());
    up.kill().unwrap();
    up.wait().unwrap();
    let init = place.init().unwrap();
    until("the end of the half-started cluster", || !alive(&init));

    place.run(&["up"]);
    let init = place.init().unwrap();
    success(Command::new("kill").args(["-KILL", &init]));
    until("the end of the killed cluster", || !alive(&init));
    assert!(!place.command(&["status"]).output().unwrap().status.success());

    place.run(&["up"]);
    place.run(&["status"]);
    place.run(&["down"]);
    place.run(&["verify-down"]);
}

/// What pod `two` serves, through `kubectl port-forward`.
fn forwarded(place: &Place) -> String {
    struct Forward(Child);
    impl Drop for Forward {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let mut kubectl = place.kubectl();
    let kubectl = kubectl.args(["port-forward", "pod/two", ":8080"]).stdout(Stdio::piped());
    let mut forward = Forward(kubectl.spawn().unwrap());
    // Held until the end: kubectl also reports each connection there, and ends if nobody reads.
    let mut reports = BufReader::new(forward.0.stdout.take().unwrap());
    let mut line = String::new();
    reports.read_line(&mut line).unwrap();
    // Forwarding from 127.0.0.1:40123 -> 8080
    let address = line.split_whitespace().nth(2).unwrap().to_owned();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /name HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    drop(reports);
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}
