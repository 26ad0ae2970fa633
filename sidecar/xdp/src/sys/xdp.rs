//! What passes through the rings of an AF_XDP socket (linux/if_xdp.h).

/// `struct xdp_desc`: a packet, or a part of one, in UMEM.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// Offset into the UMEM, in bytes.
    pub(crate) address: u64,
    /// Bytes from there.
    pub(crate) length: u32,
    pub(crate) options: u32,
}

/// `XDP_PKT_CONTD`: the packet goes on in the next descriptor.
pub(crate) const CONTINUES: u32 = libc::XDP_PKT_CONTD;

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Descriptor>() == size_of::<libc::xdp_desc>());
    assert!(offset_of!(Descriptor, address) == offset_of!(libc::xdp_desc, addr));
    assert!(offset_of!(Descriptor, length) == offset_of!(libc::xdp_desc, len));
    assert!(offset_of!(Descriptor, options) == offset_of!(libc::xdp_desc, options));
};
