//! The network between two sidecars: two network namespaces and a veth pair with the MTU of ordinary Ethernet, or
//! loopback where namespaces cannot be made. TCP in namespaces runs under one congestion control, whatever the node's is: BBR
//! paces a plain connection with timers and slows it to a third, so that what is compared to it would look fast.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::child;

/// Reserved for documentation (RFC 5737): used by nothing inside namespaces of our own.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
/// The MTU of ordinary Ethernet, and of jumbo frames.
pub(crate) const ETHERNET_MTU: u32 = 1_500;
pub(crate) const JUMBO_MTU: u32 = 9_000;
/// Of every TCP connection in our namespaces: a kernel has it without a module, and lets any program choose it.
const CONGESTION: &str = "reno";
/// What the connections of a network namespace begin with.
const CONGESTION_FILE: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// Beginning of our namespaces' names; the process that made one follows, and how many it had made before.
const PREFIX: &str = "sealane-bench-";

/// Where a program runs, and under which address others find it.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) address: IpAddr,
    place: Option<Place>,
}

/// A network namespace of ours.
#[derive(Debug, Clone)]
struct Place {
    namespace: String,
    /// Its end of the veth.
    device: String,
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
        Self { address: IpAddr::V4(Ipv4Addr::LOCALHOST), place: None }
    }

    /// The interface towards the other host, in a namespace of ours.
    pub(crate) fn device(&self) -> Option<&str> {
        self.place.as_ref().map(|place| place.device.as_str())
    }

    /// Does `work` on this host: sockets that it opens are of there, whoever uses them.
    pub(crate) fn visit<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let Some(place) = &self.place else { return work() };
        let path = Path::new("/run/netns").join(&place.namespace);
        let namespace = fs::File::open(path).context("a network namespace")?;
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
        match &self.place {
            None => child::command(program),
            Some(place) => {
                let mut command = child::command("ip");
                command.args(["netns", "exec", &place.namespace]).arg(program);
                command
            }
        }
    }
}

impl Route {
    /// Namespaces if this process may make them.
    pub(crate) fn best() -> Self {
        match Self::namespaces(ETHERNET_MTU) {
            Ok(route) => route,
            Err(error) => Self::loopback(&format!("no network namespaces ({error:#})")),
        }
    }

    pub(crate) fn loopback(why: &str) -> Self {
        let place = if why.is_empty() { "loopback".to_owned() } else { format!("loopback: {why}") };
        let note =
            format!("{place}, {}", congestion().unwrap_or_else(|_| "unknown congestion control".to_owned()));
        Self { hosts: [Host::local(), Host::local()], note, _namespaces: Vec::new() }
    }

    /// Two network namespaces and a veth of this MTU between them.
    pub(crate) fn namespaces(mtu: u32) -> Result<Self> {
        let mut route = Self::as_the_node_has_it(mtu)?;
        let choose = |host: &Host| host.visit(|| Ok(fs::write(CONGESTION_FILE, CONGESTION)?));
        // Where it cannot be chosen, rows are under the node's, and say so.
        if route.hosts.iter().all(|host| choose(host).is_ok()) {
            route.note = described(mtu, CONGESTION);
        }
        Ok(route)
    }

    /// The same under the node's own congestion control.
    pub(crate) fn as_the_node_has_it(mtu: u32) -> Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            bail!("they need root");
        }
        clear_left_over();
        let (id, serial) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let places = ["a", "b"].map(|end| Place {
            namespace: format!("{PREFIX}{id}-{serial}-{end}"),
            device: format!("slb{id}{end}"),
        });
        let made =
            places.iter().map(|place| Namespace::make(&place.namespace)).collect::<Result<Vec<_>>>()?;
        let [here, there] = &places;
        let bytes = mtu.to_string();
        // Each end is born in its namespace: nothing of this ever shows outside.
        let born = ["-n", &here.namespace, "link", "add", &here.device, "mtu", &bytes, "type", "veth"];
        let peer = ["peer", "name", &there.device, "mtu", &bytes, "netns", &there.namespace];
        ip(&[&born[..], &peer].concat())?;
        for (Place { namespace, device }, address) in places.iter().zip(ADDRESSES) {
            ip(&["-n", namespace, "address", "add", &format!("{address}/30"), "dev", device])?;
            ip(&["-n", namespace, "link", "set", device, "up"])?;
            ip(&["-n", namespace, "link", "set", "lo", "up"])?;
        }
        let [here, there] = places;
        let host = |address: Ipv4Addr, place| Host { address: address.into(), place: Some(place) };
        let hosts = [host(ADDRESSES[0], here), host(ADDRESSES[1], there)];
        let note = described(mtu, &hosts[0].visit(congestion)?);
        Ok(Self { hosts, note, _namespaces: made })
    }
}

/// What lies between two namespaces of ours.
fn described(mtu: u32, congestion: &str) -> String {
    format!("two network namespaces, veth, MTU {mtu}, {congestion}")
}

/// What this thread's connections begin with.
fn congestion() -> Result<String> {
    let read = fs::read_to_string(CONGESTION_FILE).context("reading the congestion control")?;
    Ok(read.trim().to_owned())
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
