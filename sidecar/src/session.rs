//! Sessions: what this pod sends to whom, and receives from whom.
//!
//! [`outgoing`] holds the sending side of a TransferSession, [`incoming`] the receiving side. Both put their frames on
//! connections that [`driver`] runs, and neither sees a byte before both ends are verified.

pub(crate) mod accept;
mod answer;
pub(crate) mod clock;
pub(crate) mod driver;
pub(crate) mod incoming;
pub(crate) mod outgoing;
pub(crate) mod readiness;
pub(crate) mod traffic;
mod trust;
