//! A stream to a replica's data port: directly, or through the API server by kubectl's port forward.
//!
//! What carries the bytes is not trusted with anything: evidence is bound to the handshake that they carry.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::target::Way;

const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// From starting kubectl until it listens.
const FORWARD_DEADLINE: Duration = Duration::from_secs(20);
/// Of what kubectl says, this much is read.
const SAID_BYTES_MAX: u64 = 4096;
const KUBECTL: &str = "kubectl";

/// A way to a replica; a port forward lasts as long as it does.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) stream: TcpStream,
    _forward: Option<Child>,
}

/// The cluster, as kubectl is told of it.
#[derive(Debug, Clone)]
pub(super) struct Through {
    pub(super) flags: Vec<OsString>,
    pub(super) namespace: String,
}

pub(super) async fn reach(way: &Way, through: &Through) -> Result<Reached> {
    match way {
        Way::Direct(address) => Ok(Reached { stream: dial(address).await?, _forward: None }),
        Way::Forward { pod, port } => {
            let (forward, address) = tokio::time::timeout(FORWARD_DEADLINE, forward(pod, *port, through))
                .await
                .map_err(|_| anyhow!("kubectl port-forward did not begin within {FORWARD_DEADLINE:?}"))??;
            Ok(Reached { stream: dial(&address).await?, _forward: Some(forward) })
        }
        Way::None(message) => bail!("{message}"),
    }
}

async fn dial(address: &str) -> Result<TcpStream> {
    let connected = tokio::time::timeout(CONNECT_DEADLINE, TcpStream::connect(address)).await;
    let stream = connected.map_err(|_| anyhow!("{address} did not answer within {CONNECT_DEADLINE:?}"))?;
    let stream = stream.with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true).with_context(|| format!("cannot use the connection to {address}"))?;
    Ok(stream)
}

/// kubectl, and the address on which it listens.
async fn forward(pod: &str, port: u16, through: &Through) -> Result<(Child, String)> {
    let Through { flags, namespace } = through;
    let mut command = Command::new(KUBECTL);
    command.args(flags).args(["--namespace", namespace, "port-forward", "--address", "127.0.0.1"]);
    command.arg(format!("pod/{pod}")).arg(format!(":{port}"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().with_context(|| {
        format!("cannot start {KUBECTL}, which forwards the port; --address HOST:PORT goes without it")
    })?;
    let stdout = child.stdout.take().context("kubectl has no output")?;
    let mut line = String::new();
    let mut lines = BufReader::new(stdout.take(SAID_BYTES_MAX));
    lines.read_line(&mut line).await.context("cannot read what kubectl says")?;
    match listening(&line) {
        Some(local) => {
            let address = format!("127.0.0.1:{local}");
            // Nobody else reads what it says of each connection; it must not wait for that.
            tokio::spawn(discard(lines.into_inner().into_inner()));
            Ok((child, address))
        }
        None => {
            let mut said = Vec::new();
            if let Some(stderr) = child.stderr.take() {
                stderr
                    .take(SAID_BYTES_MAX)
                    .read_to_end(&mut said)
                    .await
                    .context("cannot read what kubectl says")?;
            }
            bail!("kubectl port-forward: {}", String::from_utf8_lossy(&said).trim())
        }
    }
}

/// The local port of `Forwarding from 127.0.0.1:43210 -> 14710`.
fn listening(line: &str) -> Option<u16> {
    let (address, _) = line.strip_prefix("Forwarding from ")?.split_once(" -> ")?;
    address.strip_prefix("127.0.0.1:")?.parse().ok()
}

async fn discard(mut output: impl AsyncRead + Unpin) {
    let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectl_says_where_it_listens() {
        assert_eq!(listening("Forwarding from 127.0.0.1:43210 -> 14710\n"), Some(43210));
        for other in ["", "error: pods \"x\" not found", "Forwarding from [::1]:43210 -> 14710"] {
            assert_eq!(listening(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn a_replica_without_a_way_says_why() {
        let through = Through { flags: vec![], namespace: "demo".to_owned() };
        let error = reach(&Way::None("no sidecar".to_owned()), &through).await.unwrap_err();
        assert_eq!(error.to_string(), "no sidecar");
    }
}
