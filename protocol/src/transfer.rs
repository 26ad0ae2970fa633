//! State of one stream, without I/O: what may be sent, what has arrived, what was taken. That of pipes is in
//! [`pipe`].
//!
//! Both ends of a stream outlive a connection: [`Outbound::attach`] and [`Inbound::attach`] continue on a new one, and
//! nothing is delivered twice or lost in between.

mod inbound;
mod memory;
mod outbound;
pub mod pipe;

pub use inbound::{Announced, Inbound, InboundError, Place, Reply, Stripe};
pub use outbound::{Outbound, OutboundError, Step};

#[cfg(test)]
mod tests;
