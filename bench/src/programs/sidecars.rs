//! Two real sidecars with a session between them, started as outside a cluster: from files.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::child::Child;
use super::route::{Host, Route};
use crate::world::{NAMESPACE, SESSION, Who, World};

/// Shared memory of each pod, as an injected pod has by default.
const ARENA_BYTES: u64 = 512 << 20;
const DRAIN_SECONDS: u64 = 1;
/// Lines of a log that an error repeats.
const TAIL_LINES: usize = 10;

/// Sender and receiver of the measured session.
#[derive(Debug)]
pub(crate) struct Sidecars {
    pub(crate) sender: Sidecar,
    pub(crate) receiver: Sidecar,
    _folder: TempDir,
}

#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) child: Child,
    pub(crate) door: PathBuf,
    /// Where other sidecars dial.
    pub(crate) listen: String,
    log: PathBuf,
}

impl Sidecars {
    /// Starts both. They are ready when a client's lane opens.
    pub(crate) fn start(program: &Path, world: &World, route: &Route) -> Result<Self> {
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
        let [from, to] = &route.hosts;
        let receiver = Sidecar::start(program, folder.path(), Who::Receiver, to, &[])?;
        let addresses = [receiver.listen.clone()];
        let sender = Sidecar::start(program, folder.path(), Who::Sender, from, &addresses)?;
        Ok(Self { sender, receiver, _folder: folder })
    }

    /// Adds what the sidecars said last to an error of theirs.
    pub(crate) fn explain(&mut self, error: anyhow::Error) -> anyhow::Error {
        let mut said = String::new();
        for sidecar in [&mut self.sender, &mut self.receiver] {
            let state =
                sidecar.child.ended().map_or_else(|| "running".to_owned(), |status| status.to_string());
            said.push_str(&format!("\n{} ({state}):\n{}", sidecar.log.display(), tail(&sidecar.log)));
        }
        error.context(format!("two sidecars; their last words:{said}"))
    }
}

impl Sidecar {
    fn start(program: &Path, folder: &Path, who: Who, host: &Host, remotes: &[String]) -> Result<Self> {
        let pod = who.pod_name();
        let listen = format!("{}:{}", host.address, free_port());
        let admin = format!("{}:{}", host.address, free_port());
        let door = folder.join(format!("{pod}.sock"));
        fs::write(folder.join(format!("{pod}.initdata")), who.initdata())?;
        let direction = match who {
            Who::Sender => "Sending",
            Who::Receiver => "Receiving",
        };
        let configuration: Value = json!({
            "namespace": NAMESPACE,
            "pod": pod,
            "uid": "1",
            "listen": listen,
            "admin": admin,
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
            "sessions": [{
                "name": SESSION,
                "direction": direction,
                "delivery": "RoundRobin",
                "remotes": [{"peer": who.other().peer(), "addresses": remotes}],
            }],
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

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
