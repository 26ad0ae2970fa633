//! Why bytes are no packet.

/// Peer, or anyone on the path: the bytes are no packet of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("shorter than its headers say")]
    Short,
    #[error("neither IPv4 nor IPv6")]
    Ethertype,
    #[error("an IP header with options, fragments, or another version")]
    Shape,
    #[error("the IPv4 header's checksum is wrong")]
    Checksum,
    #[error("not UDP")]
    Protocol,
    #[error("lengths of headers contradict each other")]
    Length,
}
