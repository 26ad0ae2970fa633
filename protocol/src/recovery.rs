//! What a sender of datagrams has to know of the path: how long it takes (`rtt`), how much it delivers (`delivery`), how
//! much may be on it (`controller`, with `cubic`, `bbr`, and `auto` that chooses), how evenly (`pacer`), in how large pieces (`mtu`), and
//! which numbers have come (`ranges`).
//!
//! Pure algorithms after RFC 9002, 9438, 9406, 8899 and draft-ietf-ccwg-bbr: no clock, socket or randomness, and no
//! memory taken while datagrams flow. None knows of another but through the leaf types of `controller`, `delivery` and
//! `rtt`; `datagram` puts them together.

mod auto;
mod bbr;
#[cfg(test)]
mod bottleneck;
mod controller;
mod cubic;
mod delivery;
mod mtu;
mod pacer;
mod ranges;
mod received;
mod rtt;
mod sent;
#[cfg(test)]
mod tests;

pub(crate) use auto::Auto;
pub(crate) use bbr::Bbr;
pub(crate) use controller::{Acknowledged, Controller, Lost};
pub(crate) use cubic::Cubic;
pub(crate) use delivery::{Delivery, Stamp};
pub(crate) use mtu::{BASE_BYTES, Mtu};
pub(crate) use pacer::Pacer;
pub(crate) use ranges::Ranges;
pub(crate) use received::Received;
pub(crate) use rtt::Rtt;
pub(crate) use sent::{Content, NeverSent, News, Sent};
