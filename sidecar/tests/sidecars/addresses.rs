//! Addresses of loopback that no other test of this machine is given, now or later in the same process.
//!
//! Tests run in many processes at once, and each of them counts from the start. What keeps them apart is a number that the
//! process claims: the name of an abstract unix socket, which the kernel gives to one process and takes back at its end.
//! That holds for every runner, and between two runs at once.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::IntoRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, OnceLock};

use tokio::net::TcpSocket;

/// Processes that may have hosts at once.
const HOSTS_MAX: u16 = 200;
/// The first of their networks, 127.16.0.0/16: others use 127.0.0.0/16.
const FIRST_NETWORK: u8 = 16;
/// Ports of 127.0.0.1 for programs that cannot be given another host. Sockets that dial take theirs from 32,768 on, and
/// node ports of Kubernetes are from 30,000 on.
const FIRST_PORT: u16 = 15_000;
/// Ports that a process claims at once.
const BLOCK_PORTS: u16 = 50;
const BLOCKS_MAX: u16 = 100;

/// Claims the first number below `count` that is free, for as long as this process lives.
fn claim(what: &str, count: u16) -> u16 {
    let is_ours = |number: &u16| {
        let name = format!("sealane-test-{what}-{number}");
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
        match UnixListener::bind_addr(&address) {
            // Never closed by us: the kernel closes it with the process.
            Ok(claimed) => claimed.into_raw_fd() >= 0,
            Err(error) if error.kind() == ErrorKind::AddrInUse => false,
            Err(error) => panic!("{what} {number} cannot be claimed: {error}"),
        }
    };
    (0..count).find(is_ours).unwrap_or_else(|| panic!("all {count} numbers of {what} are taken"))
}

/// A host of its own for every socket, with any port: dialling sockets take their ports from 127.0.0.1, and none of them
/// shall have taken that of a sidecar which comes back.
pub(crate) fn loopback() -> SocketAddr {
    static NETWORK: OnceLock<u8> = OnceLock::new();
    static HOSTS: AtomicU16 = AtomicU16::new(1);
    let network = *NETWORK.get_or_init(|| FIRST_NETWORK + claim("hosts", HOSTS_MAX) as u8);
    let host = HOSTS.fetch_add(1, Ordering::Relaxed);
    assert_ne!(host, u16::MAX, "this process has used all of its hosts");
    let [high, low] = host.to_be_bytes();
    ([127, network, high, low], 0).into()
}

/// A port of 127.0.0.1 that no other test is given and nobody uses.
pub(crate) fn free_port() -> u16 {
    // Ports that this process has claimed and not given out.
    static CLAIMED: Mutex<std::ops::Range<u16>> = Mutex::new(0..0);
    // Bound and never listening: a program that another test starts meanwhile may inherit the socket for a moment, which
    // keeps nobody from the port.
    let is_free = |port: u16| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, port).into()).is_ok()
    };
    let mut claimed = CLAIMED.lock().unwrap();
    loop {
        match claimed.next() {
            Some(port) if is_free(port) => return port,
            Some(_) => {}
            None => {
                let first = FIRST_PORT + claim("ports", BLOCKS_MAX) * BLOCK_PORTS;
                *claimed = first..first + BLOCK_PORTS;
            }
        }
    }
}
