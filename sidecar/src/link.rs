//! What carries sealed bytes: TCP, UDP, or AF_XDP beside it. A link knows nothing of what it carries.

pub(crate) mod endpoint;
pub(crate) mod gate;
pub(crate) mod listen;
pub(crate) mod ports;
pub(crate) mod reset_key;
pub(crate) mod tcp;
pub mod udp;
pub mod xdp;
