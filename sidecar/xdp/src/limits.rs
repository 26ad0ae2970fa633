//! Every bound of the crate, units last.

/// Frames of one queue, unless options say otherwise: 16 MiB with frames of 4 KiB, half to receive and half to send.
pub const FRAMES_DEFAULT: u32 = 4096;

/// Bytes of a frame, unless options say otherwise: a page, the largest that an aligned UMEM takes
/// (Documentation/networking/af_xdp.rst).
pub const FRAME_BYTES_DEFAULT: u32 = 4096;

/// The smallest frame: `XDP_UMEM_MIN_CHUNK_SIZE` of net/xdp/xdp_umem.h.
pub const FRAME_BYTES_MIN: u32 = 2048;

/// Descriptors of each ring, unless options say otherwise.
pub const RING_SLOTS_DEFAULT: u32 = 2048;

/// The largest ring: more would be backlog, not throughput.
pub const RING_SLOTS_MAX: u32 = 1 << 15;

/// The most frames of one queue: 1 GiB of the default size.
pub const FRAMES_MAX: u32 = 1 << 18;

/// Bytes of UMEM of all queues together without `CAP_IPC_LOCK`: half of the locked memory that a kernel since 5.16
/// grants by default (`MLOCK_LIMIT`), which other sockets of the user share.
pub const UNLOCKED_UMEM_BYTES_MAX: usize = 4 << 20;

/// The longest Ethernet frame that can be received or sent: the longest IPv4 packet behind an Ethernet header.
pub const PACKET_BYTES_MAX: usize = 65_535 + 14;

/// Frames that one packet to send may span: the head and `MAX_SKB_FRAGS` less one of linux/skbuff.h, as
/// `xsk_build_skb` counts them.
pub const PACKET_FRAMES_MAX: usize = 17;

/// Local addresses of one link. Each costs the steering program a few comparisons per packet of the port.
pub const ADDRESSES_MAX: usize = 16;

/// Queues of one interface that can be served.
pub const QUEUES_MAX: u32 = 1024;

/// How long to ask again for a queue that is still busy: the kernel lets the queue of a closed socket go only later, in
/// its background work.
pub const BIND_RETRY_MILLISECONDS_MAX: u64 = 3000;

/// Pause between two such attempts.
pub const BIND_RETRY_PAUSE_MILLISECONDS: u64 = 2;

/// How long the kernel may take to answer a netlink request. It answers at once or is broken, but a virtual machine may
/// stand still for seconds meanwhile.
pub const NETLINK_ANSWER_MILLISECONDS_MAX: u64 = 5000;

/// The longest netlink answer that is read: `NLMSG_GOODSIZE` is a page, answers about links are longer.
pub const NETLINK_ANSWER_BYTES_MAX: usize = 32 << 10;

/// Bytes that the verifier may say about a program.
pub const VERIFIER_LOG_BYTES_MAX: usize = 64 << 10;

const _: () = {
    assert!(FRAMES_DEFAULT / 2 <= RING_SLOTS_DEFAULT, "what may be received fits the fill ring");
    assert!(FRAME_BYTES_DEFAULT >= FRAME_BYTES_MIN);
    assert!(RING_SLOTS_DEFAULT.is_power_of_two() && RING_SLOTS_DEFAULT <= RING_SLOTS_MAX);
    assert!(FRAMES_DEFAULT <= FRAMES_MAX);
    assert!(
        PACKET_FRAMES_MAX * FRAME_BYTES_DEFAULT as usize >= PACKET_BYTES_MAX,
        "the longest packet can be sent"
    );
};
