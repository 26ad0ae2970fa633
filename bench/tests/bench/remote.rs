//! A run whose other end is another program, as two pods of a pair are.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealane-bench");
const KEY: &str = "4a4b4c4d4e4f505152535455565758595a5b5c5d5e5f60616263646566676869";

/// Ended with the test, whatever becomes of it.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start() -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--listen", "127.0.0.1:0"]).env("SEALANE_BENCH_KEY", KEY);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().parse().unwrap();
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(server: &Server, key: &str, arguments: &[&str]) -> std::process::Output {
    run_at(server.address, key, arguments)
}

fn run_at(server: SocketAddr, key: &str, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(PROGRAM);
    command.args(["run", "--smoke", "--suite", "transport", "-o", "json", "--server"]);
    command.arg(server.to_string()).args(arguments).env("SEALANE_BENCH_KEY", key);
    command.output().unwrap()
}

#[test]
fn every_contender_is_measured_against_a_server_which_ends_with_the_run() {
    let mut server = Server::start();
    // The other end may have to wait for a machine that is busy with other tests.
    let output = run(&server, KEY, &["--udp-answer", "60"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap());
    // Of the kernel's congestion controls each machine has its own.
    let rows: Vec<_> = rows.filter(|id| !id.starts_with("transport-congestion/")).collect();
    let expected = [
        "transport/Tcp+Aes256Gcm",
        "transport/Tcp+ChaCha20Poly1305",
        "transport/Tcp+Aes128Gcm",
        "transport/Tcp+Aegis256X4",
        "transport/Udp+Aes256Gcm",
        "transport/Udp+ChaCha20Poly1305",
        "transport/Udp+Aes128Gcm",
        "transport/Udp+Aegis256X4",
        "transport/Tcp+Aes256Gcm@plaintext",
        "transport/Tcp+Aes256Gcm@rustls-buffered",
        "transport/Tcp+Aes256Gcm@quinn",
        "transport/Tcp+Aes256Gcm@confidential-ml-transport",
        "transport-rtt/1536",
    ];
    assert_eq!(rows, expected);
    assert!(server.child.wait().unwrap().success(), "it has heard that the run is over");
}

/// A way to `server` that datagrams do not take.
fn for_streams_alone(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(server).unwrap());
            let ends = [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)];
            for (mut from, mut to) in ends {
                std::thread::spawn(move || {
                    // Either side may be gone, which ends both ways.
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    address
}

#[test]
fn a_server_that_is_not_reached_over_udp_costs_those_rows_alone() {
    let server = Server::start();
    let output = run_at(for_streams_alone(server.address), KEY, &["--alone", "--udp-answer", "2"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ids = |part: &str| -> Vec<String> {
        let rows = report[part].as_array().unwrap().iter();
        rows.map(|row| row["id"].as_str().unwrap().to_owned())
            .filter(|id| id.starts_with("transport/"))
            .collect()
    };
    let of = |carrier: &str| {
        ["Aes256Gcm", "ChaCha20Poly1305", "Aes128Gcm", "Aegis256X4"]
            .map(|cipher| format!("transport/{carrier}+{cipher}"))
    };
    assert_eq!((ids("rows"), ids("missing")), (of("Tcp").to_vec(), of("Udp").to_vec()));
    let why = report["missing"][0]["why"].as_str().unwrap();
    assert!(why.contains("nobody answered over UDP within 2 s"), "{why}");
}

#[test]
fn a_server_works_for_nobody_without_the_key() {
    let mut server = Server::start();
    let refused = run(&server, "another", &["--alone"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("for one of its run"));
    let hello = r#"{"nonce":"1","purpose":"\"stop\"","proof":""}"#;
    for line in [hello, "GET / HTTP/1.1\r", ""] {
        let mut stream = BufReader::new(TcpStream::connect(server.address).unwrap());
        let mut challenge = String::new();
        stream.read_line(&mut challenge).unwrap();
        assert!(challenge.starts_with(r#"{"nonce":""#), "{challenge}");
        stream.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut said = Vec::new();
        // Closed, with a reset where something was left unread.
        let _ = stream.read_to_end(&mut said);
        assert!(said.is_empty(), "{line}: {}", String::from_utf8_lossy(&said));
    }
    assert!(server.child.try_wait().unwrap().is_none(), "nobody has stopped it");
    // Places of strangers are few and are given back.
    let _strangers: Vec<_> = (0..80).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    assert!(run(&server, KEY, &["--alone"]).status.success());
}
