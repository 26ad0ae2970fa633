//! The network between two sidecars: two network namespaces and a veth pair with the MTU of ordinary Ethernet, or
//! loopback where namespaces cannot be made.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::child;

/// Reserved for documentation (RFC 5737): used by nothing inside namespaces of our own.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
const MTU: &str = "1500";
/// Beginning of our namespaces' names; the process that made one follows.
const PREFIX: &str = "sealane-bench-";

/// Where a program runs, and under which address others find it.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) address: IpAddr,
    namespace: Option<String>,
}

/// Two hosts that reach each other.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) hosts: [Host; 2],
    /// What lies between them, for the report.
    pub(crate) note: String,
    _namespaces: Vec<Namespace>,
}

impl Host {
    /// This machine by its loopback address.
    pub(crate) const fn local() -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::LOCALHOST), namespace: None }
    }

    /// Does `work` on this host: sockets that it opens are of there, whoever uses them.
    pub(crate) fn visit<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let Some(name) = &self.namespace else { return work() };
        let namespace = fs::File::open(Path::new("/run/netns").join(name)).context("a network namespace")?;
        // A namespace is entered by a thread, and this one does not come back.
        let visited = std::thread::scope(|scope| {
            let visit = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), kind).context("entering a network namespace")?;
                work()
            });
            visit.join()
        });
        visited.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// A command that will run on this host.
    pub(crate) fn command(&self, program: &Path) -> Command {
        match &self.namespace {
            None => child::command(program),
            Some(name) => {
                let mut command = child::command("ip");
                command.args(["netns", "exec", name]).arg(program);
                command
            }
        }
    }
}

impl Route {
    /// Namespaces if this process may make them.
    pub(crate) fn best() -> Self {
        match Self::namespaces() {
            Ok(route) => route,
            Err(error) => Self::loopback(&format!("no network namespaces ({error:#})")),
        }
    }

    pub(crate) fn loopback(why: &str) -> Self {
        let note = if why.is_empty() { "loopback".to_owned() } else { format!("loopback: {why}") };
        Self { hosts: [Host::local(), Host::local()], note, _namespaces: Vec::new() }
    }

    fn namespaces() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("they need root");
        }
        clear_left_over();
        let id = std::process::id();
        let names = ["a", "b"].map(|end| format!("{PREFIX}{id}-{end}"));
        let devices = ["a", "b"].map(|end| format!("slb{id}{end}"));
        let namespaces = names.iter().map(|name| Namespace::make(name)).collect::<Result<Vec<_>>>()?;
        let [one, other] = &devices;
        let [here, there] = &names;
        // Each end is born in its namespace: nothing of this ever shows outside.
        ip(&[
            "-n", here, "link", "add", one, "mtu", MTU, "type", "veth", "peer", "name", other, "mtu", MTU,
            "netns", there,
        ])?;
        for ((name, device), address) in names.iter().zip(&devices).zip(ADDRESSES) {
            ip(&["-n", name, "address", "add", &format!("{address}/30"), "dev", device])?;
            ip(&["-n", name, "link", "set", device, "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        let host = |(address, name): (Ipv4Addr, &String)| Host {
            address: address.into(),
            namespace: Some(name.clone()),
        };
        let hosts = [(ADDRESSES[0], here), (ADDRESSES[1], there)].map(host);
        Ok(Self { hosts, note: format!("two network namespaces, veth, MTU {MTU}"), _namespaces: namespaces })
    }
}

/// A namespace that is removed with its value; devices in it go too.
#[derive(Debug)]
struct Namespace(String);

impl Namespace {
    fn make(name: &str) -> Result<Self> {
        ip(&["netns", "add", name])?;
        Ok(Self(name.to_owned()))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Left over only if somebody else removed it first.
        let _ = ip(&["netns", "delete", &self.0]);
    }
}

/// Removes namespaces of runs that were killed.
fn clear_left_over() {
    let Ok(entries) = fs::read_dir("/run/netns") else { return };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            let _ = ip(&["netns", "delete", &name]);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = match child::command("ip").args(arguments).output() {
        Ok(output) => output,
        Err(error) => bail!("`ip` does not start ({error}): apt-get install iproute2"),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("ip {}: {}", arguments.join(" "), said.lines().next().unwrap_or("failed"));
    }
    Ok(())
}
