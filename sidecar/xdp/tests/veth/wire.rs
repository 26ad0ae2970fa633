//! Two network namespaces with a veth pair between them, made for one test and removed after it, also after a panic.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The port of links.
pub(crate) const PORT: u16 = 4789;

/// Runs `ip` of iproute2 and returns what it says.
pub(crate) fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().expect("these tests need `ip` of iproute2");
    assert!(
        output.status.success(),
        "these tests need root, network namespaces and veth: ip {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// One end of a wire: a namespace with one interface beside loopback.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) namespace: String,
    pub(crate) interface: &'static str,
    pub(crate) four: IpAddr,
    pub(crate) six: IpAddr,
}

impl End {
    /// Runs `work` in the namespace, on a thread of its own. What it opens stays in the namespace.
    pub(crate) fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let file = File::open(format!("/run/netns/{}", self.namespace)).expect("the namespace");
                // SAFETY: setns(2) takes a descriptor and a flag; the file is open for the length of the call.
                let result = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(result, 0, "entering a namespace needs root: {}", std::io::Error::last_os_error());
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs `ip` in the namespace.
    pub(crate) fn ip(&self, arguments: &[&str]) -> String {
        ip(&[&["-n", &self.namespace], arguments].concat())
    }

    /// The link's end of the family of `like`.
    pub(crate) fn end(&self, like: IpAddr) -> SocketAddr {
        SocketAddr::new(if like.is_ipv4() { self.four } else { self.six }, PORT)
    }

    /// Whether a program is attached to the interface.
    pub(crate) fn has_program(&self) -> bool {
        self.ip(&["link", "show", "dev", self.interface]).contains("prog/xdp")
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // Nobody could do anything about a failure.
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).output();
    }
}

/// A veth pair. Its addresses have the highest bit set in each order of bytes.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) here: End,
    pub(crate) there: End,
}

impl Wire {
    pub(crate) fn new(mtu: u32, queues: u32) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let end = |side: char, interface, four: [u8; 4], six: &str| {
            let namespace = format!("sealane-xdp-{}-{number}{side}", std::process::id());
            ip(&["netns", "add", &namespace]);
            End { namespace, interface, four: four.into(), six: six.parse().expect("an address") }
        };
        let wire = Self {
            here: end('a', "va", [10, 77, 0, 1], "fd77::1"),
            there: end('b', "vb", [10, 77, 0, 200], "fd77::ff:c8"),
        };
        let (mtu, queues) = (mtu.to_string(), queues.to_string());
        let shape = ["mtu", &mtu, "numrxqueues", &queues, "numtxqueues", &queues];
        let first = ["link", "add", "va", "netns", &wire.here.namespace];
        let second = ["type", "veth", "peer", "name", "vb", "netns", &wire.there.namespace];
        ip(&[&first[..], &shape, &second, &shape].concat());
        for end in [&wire.here, &wire.there] {
            end.ip(&["addr", "add", &format!("{}/24", end.four), "dev", end.interface]);
            end.ip(&["addr", "add", &format!("{}/64", end.six), "dev", end.interface, "nodad"]);
            end.ip(&["link", "set", "lo", "up"]);
            end.ip(&["link", "set", end.interface, "up"]);
        }
        wire
    }
}
