//! Who is measured beside us.

pub(crate) mod plaintext;
pub(crate) mod quic;
pub(crate) mod relay;
pub(crate) mod tls;
pub(crate) mod transport;
