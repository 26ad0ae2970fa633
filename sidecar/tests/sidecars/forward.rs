//! Forwarded TCP ports: what their tests share.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use sealane_sidecar::desired::Forward;
use sealane_types::ForwardPort;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

pub(crate) use crate::support::addresses::free_port;
use crate::support::{Plan, Sidecar, document, signed, until_or, within};

pub(crate) fn forward(listen: u16, target: u16) -> Forward {
    let port = |number: u16| ForwardPort::new(number.into()).unwrap();
    Forward { listen: port(listen), target: port(target), per_replica: false }
}

/// Embedders reach these ports of rankers.
pub(crate) fn forwarding(epoch: u64, targets: &[u16]) -> Value {
    let mut document = document(epoch);
    let rule =
        json!({"name": "inference", "from": "embedder", "to": "ranker", "forward": {"targets": targets}});
    document["sessions"].as_array_mut().unwrap().push(rule);
    document
}

/// A sidecar of a pod that serves `target`.
pub(crate) fn serving(listen: u16, target: u16) -> Plan {
    Plan {
        forward: Some(forward(listen, target)),
        chain: signed(&forwarding(1, &[target]), &[1, 2]),
        ..Plan::receiver()
    }
}

/// A sidecar of a pod whose applications connect to `listen`.
pub(crate) fn listening(serving: &[&Sidecar], listen: u16, target: u16) -> Plan {
    let addresses: Vec<SocketAddr> = serving.iter().map(|sidecar| sidecar.address).collect();
    Plan {
        forward: Some(forward(listen, target)),
        chain: signed(&forwarding(1, &[target]), &[1, 2]),
        ..Plan::sender(&addresses)
    }
}

/// Two sidecars between applications and `target`: the listening one, the serving one, and where to connect.
pub(crate) fn forwarded(target: u16) -> (Sidecar, Sidecar, u16) {
    let listen = free_port();
    let to = serving(listen, target).start();
    let from = listening(&[&to], listen, target).start();
    (from, to, listen)
}

/// A server on a free port of loopback that gives each connection to `serve`.
pub(crate) async fn server<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> u16
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, free_port())).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    port
}

/// Gives back what it gets, to the end.
pub(crate) async fn echo(mut stream: TcpStream) {
    let (mut from, mut to) = stream.split();
    if tokio::io::copy(&mut from, &mut to).await.is_ok() {
        let _ = to.shutdown().await;
    }
}

/// Connects as soon as somebody listens.
pub(crate) async fn connect(port: u16) -> TcpStream {
    within("a forward that listens", async {
        loop {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                Ok(stream) => return stream,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{error}"),
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await
}

/// As [`connect`], for a unix socket.
pub(crate) async fn connect_path(path: &Path) -> UnixStream {
    within("a forward that listens", async {
        loop {
            if let Ok(stream) = UnixStream::connect(path).await {
                return stream;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await
}

/// Resolves when nobody listens any more.
pub(crate) async fn refused(port: u16) {
    within("a port that is closed", async {
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Sends `bytes` and reads as many back.
pub(crate) async fn exchange(stream: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    within("an answer", async {
        stream.write_all(bytes).await.unwrap();
        let mut answer = vec![0; bytes.len()];
        stream.read_exact(&mut answer).await.unwrap();
        answer
    })
    .await
}

/// A connection that echoes.
pub(crate) async fn echoing(port: u16) -> TcpStream {
    let mut stream = connect(port).await;
    assert_eq!(exchange(&mut stream, b"hello").await, b"hello");
    stream
}

/// Reads until the connection is reset; an end of file would be a lie.
pub(crate) async fn reset(stream: &mut (impl AsyncRead + Unpin)) {
    let mut rest = Vec::new();
    let error = within("a reset", stream.read_to_end(&mut rest)).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
}

/// Connects as soon as somebody listens, to be reset: perhaps even before the connection is known to be there.
pub(crate) async fn connect_to_be_reset(port: u16) {
    within("a reset", async {
        loop {
            let error = match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                Ok(mut stream) => stream.read_to_end(&mut Vec::new()).await.unwrap_err(),
                Err(error) => error,
            };
            if error.kind() == io::ErrorKind::ConnectionReset {
                return;
            }
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{error}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Waits for a line of metrics that holds all of `parts`.
pub(crate) async fn measured(sidecar: &Sidecar, parts: &[&str]) {
    let found = || {
        let text = sidecar.node.render_metrics().unwrap();
        text.lines().any(|line| parts.iter().all(|part| line.contains(part)) && !line.ends_with(" 0"))
    };
    let all = || format!("{parts:?} in {}", sidecar.node.render_metrics().unwrap());
    until_or(found, all).await;
}
