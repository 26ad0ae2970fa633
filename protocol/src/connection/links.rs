//! Further links of a connection: carriers that bring bytes of its large tensors beside its own, each sealed by a task of
//! its own.
//!
//! ```text
//! initiator → responder   hello (kind 2): name ‖ link ‖ nonce ‖ proof
//! responder → initiator   message(Handshake, nonce ‖ proof)
//! initiator → responder   records: a bulk frame, its bulk records, and so on
//! ```
//!
//! Whoever joins proves that it knows the connection, which is attested; so no evidence is shown again. Everything else is
//! said on the connection's own link, which says of a tensor that its bytes come over a further one, and asks for them when there is a
//! place for them. A renewal of the connection ends these links, and others are joined by its keys.

mod join;
mod receiver;
mod sender;
mod terms;
#[cfg(test)]
mod tests;

pub use join::{JoinRequest, Joiner, LINK_GREETING_BYTES, joins};
pub use receiver::LinkReceiver;
pub use sender::LinkSender;
pub use terms::LinkTerms;
