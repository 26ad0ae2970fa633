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

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs `CAP_BPF` and `CAP_NET_ADMIN`, as the tests over veth do.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no bpf(2)")]
    fn a_program_that_the_verifier_refuses_says_why() {
        // "exit" alone returns what was never set.
        let error = load(&[[0x95, 0, 0, 0, 0, 0, 0, 0]], 0).unwrap_err();
        let ProgramError::Verifier { log, .. } = &error else { panic!("{error:?}") };
        assert!(log.to_string().contains("R0 !read_ok"), "{log}");
    }
}
