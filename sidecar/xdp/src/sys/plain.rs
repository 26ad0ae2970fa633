//! Structures that the kernel reads and writes as bytes.

/// A structure that consists of integers alone.
///
/// # Safety
/// Every pattern of bits, all zeros among them, is a value of the type, and it has no destructor.
pub(crate) unsafe trait Plain: Copy {
    /// All bits zero.
    fn zeroed() -> Self {
        // SAFETY: all zeros are a value of every such type, by the trait's contract.
        unsafe { std::mem::zeroed() }
    }
}

// SAFETY: an integer.
unsafe impl Plain for u32 {}
// SAFETY: integers (linux/if_xdp.h).
unsafe impl Plain for libc::xdp_umem_reg {}
// SAFETY: integers (linux/if_xdp.h).
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: integers (linux/if_xdp.h).
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: integers (linux/if_xdp.h).
unsafe impl Plain for libc::xdp_options {}
// SAFETY: integers (linux/if_xdp.h).
unsafe impl Plain for libc::sockaddr_xdp {}
// SAFETY: integers (linux/netlink.h).
unsafe impl Plain for libc::sockaddr_nl {}
