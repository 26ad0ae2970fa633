//! What a sender of datagrams has to know of the path: how long it takes (`rtt`), how much it delivers (`delivery`), how
//! much may be on it (`controller`, with `cubic` and `model`), how evenly (`pacer`), in how large pieces (`mtu`), and
//! which numbers have come (`ranges`).
//!
//! Pure algorithms after RFC 9002, 9438, 9406, 8899 and draft-ietf-ccwg-bbr: no clock, socket or randomness, and no
//! memory taken while datagrams flow. None knows of another but through the leaf types of `controller`, `delivery` and
//! `rtt`; `datagram` puts them together.

#[cfg(test)]
mod bottleneck;
pub(crate) mod controller;
pub(crate) mod cubic;
pub(crate) mod delivery;
pub(crate) mod model;
pub(crate) mod mtu;
pub(crate) mod pacer;
pub(crate) mod ranges;
pub(crate) mod rtt;
#[cfg(test)]
mod tests;
