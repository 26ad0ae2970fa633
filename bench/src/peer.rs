//! Who is measured beside us.

pub(crate) mod plaintext;
pub(crate) mod transport;
