//! What carries sealed bytes: TCP, or UDP. A link knows nothing of what it carries.

pub(crate) mod endpoint;
pub(crate) mod gate;
pub(crate) mod listen;
pub(crate) mod tcp;
pub mod udp;
