//! Two real sidecars with sessions between them, started as outside a cluster: from files.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::child::Child;
use super::route::{Host, Route};
use crate::world::{NAMESPACE, Session, Who, World};

/// Shared memory of each pod, as an injected pod has by default.
const ARENA_BYTES: u64 = 512 << 20;
const DRAIN_SECONDS: u64 = 1;
/// Lines of a log that an error repeats.
const TAIL_LINES: usize = 10;

/// Sender and receiver of the measured sessions.
#[derive(Debug)]
pub(crate) struct Sidecars {
    pub(crate) sender: Sidecar,
    pub(crate) receiver: Sidecar,
    /// Where the sender's side reaches a forwarded port.
    pub(crate) forward: SocketAddr,
    _folder: TempDir,
}

/// A receiver without a sidecar on the other side.
#[derive(Debug)]
pub(crate) struct Lone {
    pub(crate) sidecar: Sidecar,
    _folder: TempDir,
}

#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) child: Child,
    pub(crate) door: PathBuf,
    /// Where other sidecars dial.
    pub(crate) listen: SocketAddr,
    log: PathBuf,
}

impl Sidecars {
    /// Starts both. They are ready when a client's lane opens.
    pub(crate) fn start(program: &Path, world: &World, route: &Route) -> Result<Self> {
        let folder = folder(program, world)?;
        let [from, to] = &route.hosts;
        let (sending, receiving) = (from.free_address(), to.free_address());
        let forward = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let start = |who, host, own: SocketAddr, other: SocketAddr| {
            // Whoever receives is dialled, and needs no address.
            let dialled = |session: Session| if session.from() == who { vec![other] } else { Vec::new() };
            let sessions = world.sessions.iter();
            let sessions = sessions.map(|session| entry(*session, who, &dialled(*session), forward));
            Sidecar::start(program, folder.path(), (who, host, own), sessions.collect())
        };
        let receiver = start(Who::Receiver, to, receiving, sending)?;
        let sender = start(Who::Sender, from, sending, receiving)?;
        Ok(Self { sender, receiver, forward, _folder: folder })
    }

    /// Whether both still run.
    pub(crate) fn run(&mut self) -> bool {
        [&mut self.sender, &mut self.receiver].into_iter().all(|sidecar| sidecar.child.ended().is_none())
    }

    /// Seconds that both have used of all cores so far.
    pub(crate) fn processor_seconds(&self) -> Result<f64> {
        Ok(self.sender.child.processor_seconds()? + self.receiver.child.processor_seconds()?)
    }

    /// Adds what the sidecars said last to an error of theirs.
    pub(crate) fn explain(&mut self, error: anyhow::Error) -> anyhow::Error {
        let said = [self.sender.last_words(), self.receiver.last_words()].concat();
        error.context(format!("two sidecars; their last words:{said}"))
    }
}

impl Lone {
    /// Starts one that receives, and expects its senders at these addresses. It is ready when it can be connected to.
    pub(crate) fn start(program: &Path, world: &World, senders: &[SocketAddr]) -> Result<Self> {
        let folder = folder(program, world)?;
        let host = Host::local();
        let address = host.free_address();
        let session = entry(Session::Measured, Who::Receiver, senders, address);
        let sidecar = Sidecar::start(program, folder.path(), (Who::Receiver, &host, address), vec![session])?;
        Ok(Self { sidecar, _folder: folder })
    }

    /// Adds what the sidecar said last to an error of its.
    pub(crate) fn explain(&mut self, error: anyhow::Error) -> anyhow::Error {
        error.context(format!("a sidecar; its last words:{}", self.sidecar.last_words()))
    }
}

impl Sidecar {
    fn start(
        program: &Path,
        folder: &Path,
        (who, host, listen): (Who, &Host, SocketAddr),
        sessions: Vec<Value>,
    ) -> Result<Self> {
        let pod = who.pod_name();
        let door = folder.join(format!("{pod}.sock"));
        fs::write(folder.join(format!("{pod}.initdata")), who.initdata())?;
        let configuration: Value = json!({
            "namespace": NAMESPACE,
            "pod": pod,
            "uid": "1",
            "listen": listen,
            "admin": host.free_address(),
            "door": door,
            "arenaBytes": ARENA_BYTES,
            "drainSeconds": DRAIN_SECONDS,
            "peer": who.peer(),
            "provider": "Simulated",
            "rootsFile": "roots.json",
            "policy": NAMESPACE,
            "policyFile": "policy.json",
            "simulatedPlatform": "platform.json",
            "initdata": format!("{pod}.initdata"),
            "sessions": sessions,
        });
        // JSON is YAML.
        let file = folder.join(format!("{pod}.yaml"));
        fs::write(&file, configuration.to_string())?;
        let log = folder.join(format!("{pod}.log"));
        let mut command = host.command(program);
        command.args(["run", "--config"]).arg(&file).env("RUST_LOG", "warn");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        Ok(Self { child: Child::start(&mut command)?, door, listen, log })
    }

    fn last_words(&mut self) -> String {
        let state = self.child.ended().map_or_else(|| "running".to_owned(), |status| status.to_string());
        format!("\n{} ({state}):\n{}", self.log.display(), tail(&self.log))
    }
}

/// What both sidecars are told in files of the same names.
fn folder(program: &Path, world: &World) -> Result<TempDir> {
    ensure!(
        program.is_file(),
        "{} is missing: `make bench` builds it, or name one with --sidecar",
        program.display()
    );
    let folder = tempfile::Builder::new().prefix("sealane-bench-").tempdir()?;
    let write = |name: &str, text: String| {
        fs::write(folder.path().join(name), text).with_context(|| format!("writing {name}"))
    };
    write("platform.json", world.material.to_json()?.to_string())?;
    write("roots.json", serde_json::to_string(&[&world.roots])?)?;
    write("policy.json", serde_json::to_string(&world.chain)?)?;
    Ok(folder)
}

/// A session as the configuration of `who` has it.
fn entry(session: Session, who: Who, others: &[SocketAddr], forward: SocketAddr) -> Value {
    let sends = session.from() == who;
    let mut entry = json!({
        "name": session.name(),
        "direction": if sends { "Sending" } else { "Receiving" },
        "remotes": [{"peer": who.other().peer(), "addresses": others}],
    });
    match session {
        Session::Forwarded { target } => {
            entry["forward"] = json!({"listen": forward.port(), "target": target});
        }
        Session::Measured | Session::InPlace | Session::Asked | Session::Answered => {
            entry["delivery"] = json!("RoundRobin");
        }
    }
    entry
}

impl Host {
    /// An address of this host that nobody listens at.
    pub(super) fn free_address(&self) -> SocketAddr {
        SocketAddr::new(self.address, free_port())
    }
}

/// A port of loopback that nobody uses, outside of the range that dialling sockets take theirs from. Inside a namespace
/// of our own all are free.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 40) as u16 * 256;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % 256;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

pub(super) fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
