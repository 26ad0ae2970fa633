//! `probe`: what an httpGet probe would ask, for pods on the host's network, whose ports are the node's.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};

const DEADLINE: Duration = Duration::from_secs(2);
/// Enough for the status line.
const ANSWER_BYTES: u64 = 256;

/// Succeeds when `/startupz` answers 200.
pub(super) fn ask(port: u16) -> anyhow::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, DEADLINE)
        .with_context(|| format!("no sidecar answers on {address}"))?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    stream.write_all(b"GET /startupz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut answer).context("the sidecar does not answer")?;
    if answer.starts_with(b"HTTP/1.1 200") {
        return Ok(());
    }
    bail!("the sidecar has not started yet")
}
