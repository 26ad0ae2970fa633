//! The steering program: which packets of an interface go to AF_XDP sockets.
//!
//! Invariant: it takes UDP to the link's own addresses and port, if the queue has a socket, and passes everything else on
//! to the kernel. It is attached for as long as a [`Program`] lives, and no longer than its process, however that ends.

mod assembler;
mod listen;
mod steering;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use self::assembler::AssembleError;
pub(crate) use self::listen::Listen;
use crate::interface::InterfaceIndex;
use crate::limits::VERIFIER_LOG_BYTES_MAX;
use crate::mode::Mode;
use crate::queue::QueueId;
use crate::sys::bpf;

/// An attached program.
#[derive(Debug)]
pub(crate) struct Program {
    /// Closing it detaches the program, also when the process dies.
    link: OwnedFd,
    sockets: OwnedFd,
}

/// Why no program was attached.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Environment: the kernel gave no map for sockets.
    #[error("no map for AF_XDP sockets")]
    Map(#[source] io::Error),
    /// Ours: the program could not be encoded.
    #[error("the steering program cannot be encoded")]
    Encoding(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Environment, or ours: the kernel did not take the program, and its verifier may say why.
    #[error("the kernel did not take the steering program: {log}")]
    Verifier {
        #[source]
        source: io::Error,
        log: VerifierLog,
    },
    /// Environment: another program holds the interface.
    #[error("another XDP program holds the interface")]
    Occupied,
    /// Environment: the driver or the kernel cannot attach it in this mode.
    #[error("the steering program was not attached")]
    Attach(#[source] io::Error),
    /// Environment: a socket could not be put into the map.
    #[error("the socket cannot be steered to")]
    Steer(#[source] io::Error),
}

/// What the verifier said about a program it refused; empty if it was not asked.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifierLog(Box<str>);

impl Program {
    /// Loads the program and attaches it, with room for sockets of so many queues.
    pub(crate) fn attach(
        interface: InterfaceIndex,
        listen: &Listen,
        queues: u32,
        mode: Mode,
        fragments: bool,
    ) -> Result<Self, ProgramError> {
        let sockets =
            bpf::create_socket_map(queues, bpf::name("sealane_sockets")).map_err(ProgramError::Map)?;
        let code = steering::program(listen, sockets.as_raw_fd()).map_err(encoding)?;
        let flags = if fragments { bpf::PROGRAM_HAS_FRAGMENTS } else { 0 };
        let program = load(&code, flags)?;
        let flags = if mode.is_native() { bpf::ATTACH_NATIVE } else { bpf::ATTACH_GENERIC };
        let link = bpf::attach(program.as_fd(), interface.number(), flags).map_err(|error| {
            match error.raw_os_error() {
                // EBUSY: by a link; EEXIST: by the older call, or in another mode (dev_xdp_attach in net/core/dev.c).
                Some(libc::EBUSY | libc::EEXIST) => ProgramError::Occupied,
                _ => ProgramError::Attach(error),
            }
        })?;
        Ok(Self { link, sockets })
    }

    /// Sends the packets of a queue to a socket that is bound to it, until the socket is closed.
    pub(crate) fn steer(&self, queue: QueueId, socket: BorrowedFd<'_>) -> Result<(), ProgramError> {
        bpf::update_sockets(self.sockets.as_fd(), queue.number(), socket).map_err(ProgramError::Steer)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The next mode that is tried shall not find this program in its way. Where the call is not allowed any more,
        // closing the link does the same, a little later.
        let _ = bpf::detach(self.link.as_fd());
    }
}

impl fmt::Display for VerifierLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_empty() { "it did not say why" } else { &self.0 })
    }
}

impl fmt::Debug for VerifierLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

/// Only what was refused is loaded again to hear why: a log costs memory, and may itself be what does not fit.
fn load(code: &[bpf::Instruction], flags: u32) -> Result<OwnedFd, ProgramError> {
    let load = |log: &mut [u8]| bpf::load(code, c"Apache-2.0", flags, bpf::name("sealane_steer"), log);
    load(&mut []).or_else(|source| {
        let mut log = vec![0; VERIFIER_LOG_BYTES_MAX];
        load(&mut log).map_err(|_| {
            let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
            let log = VerifierLog(String::from_utf8_lossy(text).trim_end().into());
            ProgramError::Verifier { source, log }
        })
    })
}

fn encoding(error: AssembleError) -> ProgramError {
    ProgramError::Encoding(error.into())
}

/// These need `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_NET_RAW`, as the tests over veth do.
#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use crate::packet::{Head, MacAddress};
    use crate::sys::socket;

    /// `XDP_PASS` and `XDP_REDIRECT` of `enum xdp_action` (linux/bpf.h)
    const PASS: u32 = 2;
    const REDIRECT: u32 = 4;

    /// A loaded program whose queue 0 has a socket, and what it looks for.
    struct Loaded {
        program: OwnedFd,
        _sockets: OwnedFd,
        _socket: OwnedFd,
    }

    impl Loaded {
        fn new(addresses: &[&str], with_socket: bool) -> Self {
            let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
            let sockets =
                bpf::create_socket_map(1, bpf::name("test")).expect("root, and a kernel with AF_XDP");
            let code = steering::program(
                &Listen { addresses, port: 4789, packet_bytes_max: 1500 },
                sockets.as_raw_fd(),
            )
            .unwrap();
            let program = load(&code, bpf::PROGRAM_HAS_FRAGMENTS).unwrap();
            let socket = socket::open(libc::AF_XDP, libc::SOCK_RAW, 0).unwrap();
            if with_socket {
                bpf::update_sockets(sockets.as_fd(), 0, socket.as_fd()).unwrap();
            }
            Self { program, _sockets: sockets, _socket: socket }
        }

        fn action(&self, packet: &[u8]) -> u32 {
            bpf::tests::run(self.program.as_fd(), packet)
        }
    }

    fn packet(to: &str) -> Vec<u8> {
        let to: std::net::SocketAddr = to.parse().unwrap();
        let from = if to.is_ipv4() { "10.0.0.9:4789" } else { "[fd00::9]:4789" }.parse().unwrap();
        let mac = |last| MacAddress::new([2, 0, 0, 0, 0, last]);
        let head = Head::new(mac(1), from, mac(2), to).unwrap();
        let mut bytes = vec![0; head.bytes() + 8];
        head.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_a_kernel_joined_passes_to_the_kernel() {
        let loaded = Loaded::new(&["10.0.0.1", "fd00::1"], true);
        for (to, field, header) in [("10.0.0.1:4789", 16, 0), ("[fd00::1]:4789", 18, 40)] {
            let says = |bytes: u16| {
                let mut packet = packet(to);
                packet[field..field + 2].copy_from_slice(&(bytes - header).to_be_bytes());
                loaded.action(&packet)
            };
            assert_eq!((says(1500), says(1501), says(u16::MAX)), (REDIRECT, PASS, PASS), "{to}");
        }
    }

    #[test]
    fn takes_what_is_for_one_of_its_addresses_and_its_port() {
        let loaded = Loaded::new(&["10.0.0.1", "10.0.0.200", "fd00::1", "fd00:ff::c8"], true);
        for to in ["10.0.0.1:4789", "10.0.0.200:4789", "[fd00::1]:4789", "[fd00:ff::c8]:4789"] {
            assert_eq!(loaded.action(&packet(to)), REDIRECT, "{to}");
        }
        let others = [
            "10.0.0.2:4789",
            "10.0.0.201:4789",
            "10.0.0.1:4788",
            "10.0.0.1:46354",
            "[fd00::2]:4789",
            "[fd01::1]:4789",
            "[fd00:0:1::1]:4789",
            "[fd00::1:0:1]:4789",
            "[fd00:ff::1]:4789",
            "[fd00::1]:4788",
        ];
        for to in others {
            assert_eq!(loaded.action(&packet(to)), PASS, "{to}");
        }
        let without = Loaded::new(&["10.0.0.1"], false);
        assert_eq!(without.action(&packet("10.0.0.1:4789")), PASS, "no socket");
        let four = Loaded::new(&["10.0.0.1"], true);
        assert_eq!(four.action(&packet("[fd00::1]:4789")), PASS, "no IPv6 address");
    }

    #[test]
    fn passes_what_it_cannot_tell_for_sure() {
        let loaded = Loaded::new(&["10.0.0.1", "fd00::1"], true);
        let (four, six) = (packet("10.0.0.1:4789"), packet("[fd00::1]:4789"));
        let cases = [
            (&four, 12, 0x81, "a VLAN tag"),
            (&four, 14, 0x46, "options"),
            (&four, 14, 0x65, "version 6 in IPv4"),
            (&four, 20, 0x20, "more fragments"),
            (&four, 21, 0x01, "a later fragment"),
            (&four, 23, 6, "TCP"),
            (&six, 14, 0x40, "version 4 in IPv6"),
            (&six, 20, 44, "a fragment header"),
            (&six, 20, 6, "TCP"),
        ];
        for (packet, at, value, what) in cases {
            let mut changed = packet.clone();
            changed[at] = value;
            assert_eq!(loaded.action(&changed), PASS, "{what}");
        }
        for (packet, bytes) in [(&four, 42), (&six, 62)] {
            assert_eq!(loaded.action(&packet[..bytes]), REDIRECT, "headers alone");
            for length in 14..bytes {
                assert_eq!(loaded.action(&packet[..length]), PASS, "{length} bytes");
            }
        }
    }

    #[test]
    fn a_program_that_the_verifier_refuses_says_why() {
        // "exit" alone returns what was never set.
        let error = load(&[[0x95, 0, 0, 0, 0, 0, 0, 0]], 0).unwrap_err();
        let ProgramError::Verifier { log, .. } = &error else { panic!("{error:?}") };
        assert!(log.to_string().contains("R0 !read_ok"), "{log}");
    }
}
