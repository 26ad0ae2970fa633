//! `probe`: what an httpGet probe would ask, for pods on the host's network, whose ports are the node's.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::volume;

const DEADLINE: Duration = Duration::from_secs(2);
/// Enough for the status line.
const ANSWER_BYTES: u64 = 256;
/// Where a sidecar that took any free admin port says which, beside the door.
const NAME: &str = "admin-port";
/// Five digits and the end of the line.
const BYTES_MAX: u64 = 6;

/// Tells later probes which port was taken.
pub(super) fn tell(door: &Path, port: u16) -> anyhow::Result<()> {
    let path = place(door);
    volume::replace(&path, format!("{port}\n").as_bytes()).with_context(|| {
        format!("{} cannot be written, so that probes would not find this sidecar", path.display())
    })
}

/// Takes back what an earlier run told: its port may be another process's by now.
pub(super) fn forget(door: &Path) -> anyhow::Result<()> {
    let path = place(door);
    volume::remove(&path)
        .with_context(|| format!("{} is of an earlier run and cannot be removed", path.display()))
}

/// Succeeds when `/startupz` answers 200. Port 0: the one that the sidecar has told beside its door. Other containers
/// of the pod can write there; they could make their own pod's probe ask in vain, and no more.
pub(super) fn ask(port: u16, door: &Path) -> anyhow::Result<()> {
    let port = if port == 0 { told(door)? } else { port };
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

fn told(door: &Path) -> anyhow::Result<u16> {
    let path = place(door);
    let bytes = volume::read(&path, BYTES_MAX)
        .with_context(|| format!("no sidecar has told its admin port in {}", path.display()))?;
    let port = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim_end().parse().ok());
    port.filter(|port| *port != 0).with_context(|| format!("{} does not hold a port", path.display()))
}

fn place(door: &Path) -> PathBuf {
    door.with_file_name(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_was_told_is_read_back_and_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let door = directory.path().join("door.sock");
        forget(&door).unwrap();
        tell(&door, 65_535).unwrap();
        assert_eq!(told(&door).unwrap(), 65_535);
        tell(&door, 80).unwrap();
        assert_eq!(told(&door).unwrap(), 80);
        forget(&door).unwrap();
        assert!(told(&door).is_err());
    }

    #[test]
    fn what_is_no_port_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let door = directory.path().join("door.sock");
        for text in ["", "0\n", "65536\n", "-1\n", "port\n", "14711 and more"] {
            std::fs::write(place(&door), text).unwrap();
            assert!(told(&door).is_err(), "{text:?}");
        }
    }
}
