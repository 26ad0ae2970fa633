//! The port for probes and metrics of a sidecar in a process of its own.

use std::net::Ipv4Addr;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use crate::file::{examples, get};
use crate::forward::free_port;
use crate::support::{tell, within};

const CONNECTIONS: usize = 2_000;
/// They come from so many addresses.
const SOURCES: usize = 20;
/// What they may cost.
const KIB_MAX: usize = 16 << 10;

/// What a connection says.
#[derive(Debug, Clone, Copy)]
enum Hostile {
    Nothing,
    /// A header that never ends.
    Endless,
    /// One letter of a header after the other.
    Trickle,
    /// A header that promises a body, and no body.
    Bodiless,
    /// A request, and nothing after the answer.
    Idle,
}

const KINDS: [Hostile; 5] =
    [Hostile::Nothing, Hostile::Endless, Hostile::Trickle, Hostile::Bodiless, Hostile::Idle];

/// A connection from one of the sources.
async fn connect(port: u16, source: usize) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::from(0x7f01_0001 + u32::try_from(source).unwrap()), 0).into()).unwrap();
    within("a connection", socket.connect((Ipv4Addr::LOCALHOST, port).into())).await.unwrap()
}

/// Holds a connection until the sidecar ends it.
async fn hold(mut stream: TcpStream, kind: Hostile) -> std::io::Result<()> {
    let begin = b"GET /healthz HTTP/1.1\r\nhost: sealane.test\r\n";
    match kind {
        Hostile::Nothing => {}
        Hostile::Endless => {
            stream.write_all(begin).await?;
            loop {
                stream
                    .write_all(
                        &b"x: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n".repeat(64),
                    )
                    .await?;
            }
        }
        Hostile::Trickle => {
            stream.write_all(begin).await?;
            let mut letters = tokio::time::interval(Duration::from_millis(200));
            loop {
                letters.tick().await;
                stream.write_all(b"x").await?;
            }
        }
        Hostile::Bodiless => {
            stream
                .write_all(b"POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n{")
                .await?;
        }
        Hostile::Idle => stream.write_all(&[&begin[..], b"\r\n"].concat()).await?,
    }
    while stream.read(&mut [0; 1_024]).await? > 0 {}
    Ok(())
}

fn kib(sidecar: &Child, field: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", sidecar.id().unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

async fn is_healthy(port: u16) {
    let answer = within("an answer to a probe", get(port, "/healthz")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn two_thousand_hostile_connections_keep_no_probe_out_and_take_little_memory() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    assert!(limit.maximum.is_none_or(|most| most > CONNECTIONS as u64 + 500), "{limit:?}");
    let directory = examples();
    let path = directory.path().join("embedder.yaml");
    let port = free_port();
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("14710", &free_port().to_string()).replace("14711", &port.to_string());
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sealane-sidecar"));
    let sidecar = command.args(["run", "--config"]).arg(&path).kill_on_drop(true).spawn().unwrap();
    within("its port", async { while TcpStream::connect(("127.0.0.1", port)).await.is_err() {} }).await;
    for _ in 0..3 {
        is_healthy(port).await;
    }
    let before = kib(&sidecar, "VmRSS:");
    // The most that it had counts from here on (proc_pid_clear_refs(5)).
    std::fs::write(format!("/proc/{}/clear_refs", sidecar.id().unwrap()), "5").unwrap();
    let mut open = JoinSet::new();
    for number in 0..CONNECTIONS {
        let stream = connect(port, number % SOURCES).await;
        open.spawn(hold(stream, KINDS[number / SOURCES % KINDS.len()]));
        if number % 100 == 99 {
            is_healthy(port).await;
        }
    }
    // Those that are still being opened, too.
    for _ in 0..20 {
        is_healthy(port).await;
    }
    let cost = kib(&sidecar, "VmHWM:").saturating_sub(before);
    tell(&format!("{CONNECTIONS} hostile connections cost {cost} KiB beside {before} KiB"));
    assert!(cost <= KIB_MAX, "{cost} KiB beside {before} KiB");
}
