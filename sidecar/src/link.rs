//! What carries sealed bytes. TCP today; a link knows nothing of what it carries.

pub(crate) mod gate;
pub(crate) mod listen;
pub(crate) mod tcp;
