//! Two programs in a row that seal what passes between them: what a mesh's proxies do for applications that know nothing of it.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::child::{self, Child};
use super::material::Material;
use super::route::{Host, Route};
use super::sidecars::tail;

/// Who does not listen by then never will.
const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(5);
/// State of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// A program that relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relay {
    Haproxy,
    Stunnel,
}

impl Relay {
    const fn program(self) -> &'static str {
        match self {
            Self::Haproxy => "haproxy",
            Self::Stunnel => "stunnel",
        }
    }

    /// Its Debian package.
    const fn package(self) -> &'static str {
        match self {
            Self::Haproxy => "haproxy",
            Self::Stunnel => "stunnel4",
        }
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// It is not installed; the error says how it is.
    pub(crate) fn version(self) -> Result<String> {
        let asked = child::command(self.program())
            .arg(if self == Self::Haproxy { "-v" } else { "-version" })
            .output();
        let asked = asked.with_context(|| {
            format!("{} is not installed: apt-get install {}", self.program(), self.package())
        })?;
        // stunnel tells it where errors go.
        let said = [asked.stdout, asked.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let words = said
            .split_whitespace()
            .skip_while(|word| !word.starts_with(|first: char| first.is_ascii_digit()));
        let version = words.map(str::to_owned).next().context("it tells no version")?;
        Ok(format!("{} {version}", self.program()))
    }

    /// One of the two: it listens at `from` and passes on to `to`, with TLS towards the other one.
    fn configuration(self, material: &Path, (from, to): (SocketAddr, SocketAddr), seals: bool) -> String {
        let material = material.display();
        match self {
            Self::Haproxy => {
                let tls = format!(
                    "ssl crt {material}/both.pem ca-file {material}/cert.pem verify required ssl-min-ver TLSv1.3"
                );
                let (accepting, dialling) = if seals { ("", tls.as_str()) } else { (tls.as_str(), "") };
                format!(
                    "global\n  nbthread 1\n  tune.bufsize 262144\n  tune.ssl.maxrecord 16384\ndefaults\n  mode tcp\n  \
                     timeout connect 5s\n  timeout client 1h\n  timeout server 1h\nlisten relay\n  bind {from} {accepting}\n  \
                     server next {to} {dialling}\n"
                )
            }
            Self::Stunnel => {
                let client = if seals { "client = yes\n" } else { "" };
                format!(
                    "foreground = yes\npid =\ndebug = 3\nsslVersion = TLSv1.3\ncert = {material}/cert.pem\nkey = {material}/key.pem\n\
                     CAfile = {material}/cert.pem\nverifyPeer = yes\nsocket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\n\
                     [relay]\n{client}accept = {from}\nconnect = {to}\n"
                )
            }
        }
    }

    fn start(self, host: &Host, file: &Path) -> Result<Child> {
        let mut command = host.command(Path::new(self.program()));
        match self {
            Self::Haproxy => command.args(["-db", "-f"]).arg(file),
            Self::Stunnel => command.arg(file),
        };
        let log = File::create(file.with_extension("log"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Child::start(&mut command)
    }
}

/// A pair of them, for one connection.
#[derive(Debug)]
pub(crate) struct TlsRelays {
    /// Where the sending side connects to.
    pub(crate) near: SocketAddr,
    children: [Child; 2],
    _folder: TempDir,
}

impl TlsRelays {
    /// Relays before `target`, a port of the receiving host's loopback.
    pub(crate) fn start(relay: Relay, route: &Route, material: &Material, target: u16) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("sealane-bench-relays-").tempdir()?;
        let [here, there] = &route.hosts;
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (near, middle) = (SocketAddr::new(local, here.free_address().port()), there.free_address());
        let far = SocketAddr::new(local, target);
        let start = |name: &str, host, ways: (SocketAddr, SocketAddr), seals| -> Result<Child> {
            let file = folder.path().join(format!("{name}.cfg"));
            fs::write(&file, relay.configuration(material.path(), ways, seals))?;
            let mut child = relay.start(host, &file)?;
            wait_for(host, ways.0, &mut child).with_context(|| {
                format!(
                    "{} does not listen; its last words:\n{}",
                    relay.program(),
                    tail(&file.with_extension("log"))
                )
            })?;
            Ok(child)
        };
        let opening = start("far", there, (middle, far), false)?;
        let sealing = start("near", here, (near, middle), true)?;
        Ok(Self { near, children: [sealing, opening], _folder: folder })
    }

    /// Seconds that both have used of all cores so far.
    pub(crate) fn processor_seconds(&self) -> Result<f64> {
        let [sealing, opening] = &self.children;
        Ok(sealing.processor_seconds()? + opening.processor_seconds()?)
    }
}

/// Until `child` listens there. Nobody connects to find out: what relays would pass that on.
fn wait_for(host: &Host, address: SocketAddr, child: &mut Child) -> Result<()> {
    let began = Instant::now();
    while !host.visit(|| is_listening(address.port()))? {
        ensure!(child.ended().is_none(), "it ended");
        ensure!(began.elapsed() < PATIENCE, "waited for {} s", PATIENCE.as_secs());
        thread::sleep(AGAIN);
    }
    Ok(())
}

/// Whether a socket of this thread's network namespace listens at `port`, by proc_net_tcp(5).
fn is_listening(port: u16) -> Result<bool> {
    let table = fs::read_to_string("/proc/thread-self/net/tcp").context("reading the table of sockets")?;
    let end = format!(":{port:04X}");
    Ok(table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, _, state) = (fields.next(), fields.next(), fields.next());
        local.is_some_and(|local| local.ends_with(&end)) && state == Some(LISTENING)
    }))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn who_listens_is_seen_without_a_connection() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_listening(port).unwrap());
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "nobody came");
        drop(listener);
        assert!(!is_listening(port).unwrap());
    }
}
