//! Opening links: one mode after the other, until one works.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use crate::capabilities::Capabilities;
use crate::interface::{Interface, InterfaceError};
use crate::link::{Link, Parts};
use crate::mode::{self, Mode};
use crate::options::{Options, OptionsError, Plan};
use crate::program::{Program, ProgramError};
use crate::socket::{Socket, SocketError};
use crate::umem::Umem;

/// Links that are open, and how that came.
#[derive(Debug)]
pub struct Opened {
    /// One for each queue, in the order of the options.
    pub links: Vec<Link>,
    pub interface: Interface,
    pub mode: Mode,
    /// Frames of each queue.
    pub frames: u32,
    /// The modes that come before this one, and why it is none of them.
    pub refused: Vec<Refused>,
}

/// A mode that was not taken.
#[derive(Debug)]
pub struct Refused {
    pub mode: Mode,
    pub reason: Reason,
}

/// Why a mode was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// It was not tried, because of what it does to others.
    #[error("a native program slows TCP down on this driver")]
    HarmsTcp,
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Socket(#[from] SocketError),
}

/// Why no link was opened. Other carriers do without one.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// Environment: the thread may not.
    #[error("missing: {0}")]
    Missing(Capabilities),
    /// Environment: the thread's capabilities cannot be read.
    #[error("capabilities cannot be read")]
    Capabilities(#[source] io::Error),
    /// Environment: another program holds the interface. It is left alone.
    #[error("another XDP program holds the interface")]
    Occupied,
    /// Environment: no mode works; why not, for each.
    #[error("no mode works on this interface")]
    Refused(Vec<Refused>),
}

/// Opens a link for each queue, in the first mode that works for all of them, and steers packets to them.
///
/// It works in the network namespace of the calling thread, and needs [`Capabilities::NEEDED`].
pub fn open(options: &Options) -> Result<Opened, OpenError> {
    let held = Capabilities::held().map_err(OpenError::Capabilities)?;
    let missing = held.lacks();
    if !missing.is_empty() {
        return Err(OpenError::Missing(missing));
    }
    let interface = Interface::named(&options.interface)?;
    let plan = Plan::new(options, &interface, held.contains(Capabilities::IPC_LOCK))?;
    let mut refused = Vec::new();
    let modes = options.modes.as_deref();
    for mode in modes.unwrap_or(&mode::ORDER).iter().copied() {
        // Who names the modes knows what they do.
        if modes.is_none() && mode.harms(&interface.driver) {
            refused.push(Refused { mode, reason: Reason::HarmsTcp });
            continue;
        }
        match attempt(&plan, &interface, mode) {
            Ok(links) => return Ok(Opened { links, interface, mode, frames: plan.frames, refused }),
            Err(Reason::Program(ProgramError::Occupied)) => return Err(OpenError::Occupied),
            Err(reason) => refused.push(Refused { mode, reason }),
        }
    }
    Err(OpenError::Refused(refused))
}

/// With everything that is behind the reason, as a status tells it.
impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.mode, self.reason)?;
        let mut behind = self.reason.source();
        while let Some(error) = behind {
            write!(formatter, ": {error}")?;
            behind = error.source();
        }
        Ok(())
    }
}

impl Reason {
    /// Whether the kernel or the driver did not know what was asked of it.
    fn is_unsupported(&self) -> bool {
        let error = match self {
            Self::Program(ProgramError::Verifier { source, .. } | ProgramError::Attach(source)) => source,
            Self::Socket(SocketError::Bind(source)) => source,
            _ => return false,
        };
        matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
    }
}

/// Opens every link in one mode, with packets that span frames if they are wanted and can be had.
fn attempt(plan: &Plan, interface: &Interface, mode: Mode) -> Result<Vec<Link>, Reason> {
    let needed = spans_frames(plan, interface);
    // Few drivers have them without a copy: those are not asked in vain.
    if !plan.jumbo || (mode == Mode::ZeroCopy && !needed) {
        return set_up(plan, interface, mode, false);
    }
    match set_up(plan, interface, mode, true) {
        // Kernels before 6.6 have none, and do without where every packet fits a frame.
        Err(reason) if !needed && reason.is_unsupported() => set_up(plan, interface, mode, false),
        result => result,
    }
}

/// Opens every link, or none.
fn set_up(plan: &Plan, interface: &Interface, mode: Mode, fragments: bool) -> Result<Vec<Link>, Reason> {
    let entries = plan.map_entries();
    let program = Program::attach(interface.index, &plan.listen, entries, mode, fragments)?;
    let program = Arc::new(program);
    let mut links = Vec::with_capacity(plan.queues.len());
    for queue in plan.queues.iter().copied() {
        let (umem, frames) = Umem::new(plan.frames, plan.frame_bytes).map_err(SocketError::Memory)?;
        let (socket, rings) = Socket::open(&umem, plan.ring_slots)?;
        let program = Arc::clone(&program);
        let parts =
            Parts { program, socket, rings, umem, frames, queue, mode, mtu: interface.mtu, fragments };
        // Frames are on the fill ring before the first packet comes.
        let link = Link::new(parts);
        link.bind(interface.index, fragments)?;
        links.push(link);
    }
    // Packets come only when every queue is ready for them.
    for link in &links {
        link.steer()?;
    }
    Ok(links)
}

/// Whether the interface's longest packet is longer than a frame less what the kernel leaves free at its beginning
/// (`XDP_PACKET_HEADROOM`).
fn spans_frames(plan: &Plan, interface: &Interface) -> bool {
    const HEADROOM_BYTES: u32 = 256;
    const ETHERNET_HEADER_BYTES: u32 = 14;
    interface.mtu.saturating_add(ETHERNET_HEADER_BYTES + HEADROOM_BYTES) > plan.frame_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_unknown_to_the_kernel_is_tried_in_another_way() {
        let error = io::Error::from_raw_os_error;
        assert!(Reason::from(SocketError::Bind(error(libc::EINVAL))).is_unsupported());
        assert!(Reason::from(ProgramError::Attach(error(libc::EOPNOTSUPP))).is_unsupported());
        assert!(!Reason::from(SocketError::Bind(error(libc::EBUSY))).is_unsupported());
        assert!(!Reason::from(SocketError::Open(error(libc::EINVAL))).is_unsupported());
        assert!(!Reason::HarmsTcp.is_unsupported());
    }

    #[test]
    fn a_refused_mode_is_told_in_one_line() {
        let error = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        let refused = Refused { mode: Mode::ZeroCopy, reason: SocketError::Bind(error).into() };
        let text = "ZeroCopy: the socket cannot be bound to the queue: Operation not supported (os error 95)";
        assert_eq!(refused.to_string(), text);
        let refused = Refused { mode: Mode::Native, reason: Reason::HarmsTcp };
        assert_eq!(refused.to_string(), "Native: a native program slows TCP down on this driver");
    }

    #[test]
    fn a_packet_has_less_than_a_frame() {
        let plan = |mtu| {
            let interface = crate::route::tests::interface(mtu);
            let options = Options::new("test", vec![[10, 0, 0, 1].into()], 1);
            spans_frames(&Plan::new(&options, &interface, true).unwrap(), &interface)
        };
        assert_eq!((plan(1500), plan(3826), plan(3827), plan(9000)), (false, false, true, true));
    }
}
