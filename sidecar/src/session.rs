//! Sessions: what this pod sends to whom, and receives from whom.
//!
//! [`outgoing`] holds the sending side of a stream of tensors, [`incoming`] its receiving side, and [`forward`] both
//! sides of a forwarded TCP port. All put their frames on connections that [`driver`] runs, dialled by [`dialer`] or taken
//! by [`accept`], and none sees a byte before both ends are verified.

pub(crate) mod accept;
mod answer;
mod arrival;
mod auditing;
pub(crate) mod audits;
pub(crate) mod carried;
pub(crate) mod clock;
mod counts;
mod course;
mod dialer;
mod driver;
pub(crate) mod externals;
pub(crate) mod forward;
pub(crate) mod inbound;
pub(crate) mod incoming;
pub(crate) mod joins;
pub(crate) mod life;
mod offers;
pub(crate) mod outgoing;
mod permission;
mod phase;
pub(crate) mod readiness;
mod rejudging;
mod rendezvous;
mod resumption;
pub(crate) mod silences;
mod stop;
pub(crate) mod tickets;
pub(crate) mod traffic;
mod trust;
mod wire;
