//! State of forwarded TCP connections, without I/O: what may be sent, what may arrive, what is over.
//!
//! A pipe is two byte sequences, one each way, that know nothing of each other. Each has a [`PipeSender`] at one
//! end and a [`PipeReceiver`] at the other; a [`PipeTable`] holds what one side of a connection keeps for each of
//! its pipes. Nothing of this outlives its connection: a pipe whose connection is gone is broken, and only an end
//! that arrived ([`PipeReceiver::is_ended`]) may be shown to the application as the end of its data.

mod error;
mod receiver;
mod sender;
mod table;

pub use error::{OpenError, PipeError};
pub use receiver::PipeReceiver;
pub use sender::PipeSender;
pub use table::PipeTable;

#[cfg(test)]
mod tests;
