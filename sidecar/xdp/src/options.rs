//! What a caller asks for.

use std::net::IpAddr;

use crate::interface::Interface;
use crate::limits::{
    ADDRESSES_MAX, FRAME_BYTES_DEFAULT, FRAME_BYTES_MIN, FRAMES_DEFAULT, FRAMES_MAX, QUEUES_MAX,
    RING_SLOTS_DEFAULT, RING_SLOTS_MAX, UNLOCKED_UMEM_BYTES_MAX,
};
use crate::mode::Mode;
use crate::program::Listen;
use crate::queue::QueueId;

/// How links of one interface are to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Its name in the network namespace of the calling thread.
    pub interface: String,
    /// This machine's addresses whose packets are the links'. Packets to others pass, also on the same port: they may be
    /// on their way to another pod.
    pub addresses: Vec<IpAddr>,
    /// The UDP port whose packets are the links'.
    pub port: u16,
    /// The queues to serve; none for every queue of the interface. What comes to others passes to the kernel.
    pub queues: Option<Vec<QueueId>>,
    /// Frames of each queue, half to receive and half to send. Without `CAP_IPC_LOCK` there are fewer if need be.
    pub frames: u32,
    /// Bytes of a frame: 2048 or 4096.
    pub frame_bytes: u32,
    /// Descriptors of each ring, a power of two.
    pub ring_slots: u32,
    /// Whether packets may span frames. Without it, those that do are lost: of kernels that segment late too.
    pub jumbo: bool,
    /// The modes to try, in order; none for those that fit the driver.
    pub modes: Option<Vec<Mode>>,
}

/// Caller: what was asked for makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    #[error("there must be an address, and at most {ADDRESSES_MAX}")]
    Addresses,
    #[error("a link needs a port")]
    Port,
    #[error("frames are of 2048 or 4096 bytes, and there are at least two per queue")]
    Frames,
    #[error("a ring has a power of two of slots, at most {RING_SLOTS_MAX}")]
    Ring,
    #[error("the interface has no such queue, or it is named twice")]
    Queues,
    #[error("there is no mode to try")]
    Modes,
}

impl Options {
    /// Every queue, and everything as it is best for most.
    #[must_use]
    pub fn new(interface: impl Into<String>, addresses: Vec<IpAddr>, port: u16) -> Self {
        Self {
            interface: interface.into(),
            addresses,
            port,
            queues: None,
            frames: FRAMES_DEFAULT,
            frame_bytes: FRAME_BYTES_DEFAULT,
            ring_slots: RING_SLOTS_DEFAULT,
            jumbo: true,
            modes: None,
        }
    }
}

/// Options that make sense for an interface.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) listen: Listen,
    pub(crate) queues: Vec<QueueId>,
    pub(crate) frames: u32,
    pub(crate) frame_bytes: u32,
    pub(crate) ring_slots: u32,
    pub(crate) jumbo: bool,
}

impl Plan {
    /// Holds options against the interface. `locked` is whether memory may be locked without limit.
    pub(crate) fn new(options: &Options, interface: &Interface, locked: bool) -> Result<Self, OptionsError> {
        let count = options.addresses.len();
        if count == 0 || count > ADDRESSES_MAX || options.addresses.iter().any(IpAddr::is_unspecified) {
            return Err(OptionsError::Addresses);
        }
        if options.port == 0 {
            return Err(OptionsError::Port);
        }
        let (bytes, slots) = (options.frame_bytes, options.ring_slots);
        if !bytes.is_power_of_two() || !(FRAME_BYTES_MIN..=FRAME_BYTES_DEFAULT).contains(&bytes) {
            return Err(OptionsError::Frames);
        }
        if !slots.is_power_of_two() || slots > RING_SLOTS_MAX {
            return Err(OptionsError::Ring);
        }
        let queues = match &options.queues {
            Some(queues) => queues.clone(),
            None => (0..interface.queues.min(QUEUES_MAX)).map(QueueId::new).collect(),
        };
        let mut distinct = queues.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let known = |queue: &QueueId| queue.number() < interface.queues.min(QUEUES_MAX);
        if queues.is_empty() || distinct.len() != queues.len() || !queues.iter().all(known) {
            return Err(OptionsError::Queues);
        }
        if options.modes.as_ref().is_some_and(Vec::is_empty) {
            return Err(OptionsError::Modes);
        }
        let mut frames = options.frames;
        if !locked {
            let all = UNLOCKED_UMEM_BYTES_MAX / bytes as usize / queues.len();
            frames = frames.min(u32::try_from(all).unwrap_or(u32::MAX));
        }
        if !(2..=FRAMES_MAX).contains(&frames) {
            return Err(OptionsError::Frames);
        }
        let listen = Listen {
            addresses: options.addresses.clone(),
            port: options.port,
            packet_bytes_max: interface.mtu,
        };
        Ok(Self { listen, queues, frames, frame_bytes: bytes, ring_slots: slots, jumbo: options.jumbo })
    }

    /// Room that the map of sockets needs.
    pub(crate) fn map_entries(&self) -> u32 {
        self.queues.iter().map(|queue| queue.number() + 1).max().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::tests::interface;

    fn options() -> Options {
        Options::new("test", vec![IpAddr::from([10, 0, 0, 1])], 4789)
    }

    fn refused(change: impl FnOnce(&mut Options)) -> OptionsError {
        let mut options = options();
        change(&mut options);
        Plan::new(&options, &interface(1500), true).unwrap_err()
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(refused(|options| options.addresses.clear()), OptionsError::Addresses);
        assert_eq!(refused(|options| options.addresses = vec![[0, 0, 0, 0].into()]), OptionsError::Addresses);
        assert_eq!(
            refused(|options| options.addresses = vec![[1, 1, 1, 1].into(); 17]),
            OptionsError::Addresses
        );
        assert_eq!(refused(|options| options.port = 0), OptionsError::Port);
        assert_eq!(refused(|options| options.modes = Some(Vec::new())), OptionsError::Modes);
        for bytes in [0, 1024, 3000, 8192] {
            assert_eq!(refused(|options| options.frame_bytes = bytes), OptionsError::Frames);
        }
        for frames in [0, 1, u32::MAX] {
            assert_eq!(refused(|options| options.frames = frames), OptionsError::Frames);
        }
        for slots in [0, 3, 1 << 16] {
            assert_eq!(refused(|options| options.ring_slots = slots), OptionsError::Ring);
        }
        for queues in [vec![], vec![QueueId::new(1)], vec![QueueId::new(0); 2]] {
            assert_eq!(refused(|options| options.queues = Some(queues)), OptionsError::Queues);
        }
    }

    #[test]
    fn without_locked_memory_queues_share_what_there_is() {
        let interface = Interface { queues: 4, ..interface(1500) };
        let locked = Plan::new(&options(), &interface, true).unwrap();
        assert_eq!((locked.frames, locked.queues.len(), locked.map_entries()), (4096, 4, 4));
        assert_eq!(Plan::new(&options(), &interface, false).unwrap().frames, 256);
    }
}
