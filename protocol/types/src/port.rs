//! Ports that a forward may use.

use std::fmt;
use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

/// Sealane's data and admin ports, and those of the guest components of Confidential Containers (api-server-rest,
/// attestation, data and image services): a forward that reached these could ask for evidence or secrets.
pub const RESERVED_PORTS: &[u16] = &[8006, 14710, 14711, 50000, 50001, 50002, 50003, 50005];

/// A TCP port that a forward may listen on or reach: neither zero nor reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct ForwardPort(NonZeroU16);

/// Why a number is no [`ForwardPort`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidPort {
    /// Zero, or above 65535.
    Range,
    /// One of [`RESERVED_PORTS`].
    Reserved(u16),
}

impl ForwardPort {
    /// # Errors
    /// [`InvalidPort`].
    pub fn new(port: u32) -> Result<Self, InvalidPort> {
        let port = u16::try_from(port).ok().and_then(NonZeroU16::new).ok_or(InvalidPort::Range)?;
        if RESERVED_PORTS.contains(&port.get()) {
            return Err(InvalidPort::Reserved(port.get()));
        }
        Ok(Self(port))
    }

    #[must_use]
    pub const fn number(self) -> u16 {
        self.0.get()
    }

    /// The port `ordinal` above this one, for the replica of that ordinal of a StatefulSet.
    ///
    /// # Errors
    /// [`InvalidPort`].
    pub fn plus(self, ordinal: u32) -> Result<Self, InvalidPort> {
        Self::new(u32::from(self.number()).saturating_add(ordinal))
    }
}

impl fmt::Display for ForwardPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for InvalidPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range => f.write_str("a port is a number from 1 to 65535"),
            Self::Reserved(port) => {
                write!(f, "port {port} belongs to Sealane or to the guest's own agents; choose another")
            }
        }
    }
}

impl std::error::Error for InvalidPort {}

impl TryFrom<u16> for ForwardPort {
    type Error = InvalidPort;

    fn try_from(port: u16) -> Result<Self, InvalidPort> {
        Self::new(u32::from(port))
    }
}

impl From<ForwardPort> for u16 {
    fn from(port: ForwardPort) -> Self {
        port.number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_ports_and_those_of_the_guest_are_refused() {
        assert_eq!(ForwardPort::new(0), Err(InvalidPort::Range));
        assert_eq!(ForwardPort::new(65_536), Err(InvalidPort::Range));
        for port in RESERVED_PORTS {
            assert_eq!(ForwardPort::new(u32::from(*port)), Err(InvalidPort::Reserved(*port)));
        }
        assert_eq!(ForwardPort::new(8001).map(ForwardPort::number), Ok(8001));
    }

    #[test]
    fn an_ordinal_does_not_step_onto_a_reserved_port() {
        let port = ForwardPort::new(14_708).unwrap();
        assert_eq!(port.plus(1).map(ForwardPort::number), Ok(14_709));
        assert_eq!(port.plus(2), Err(InvalidPort::Reserved(14_710)));
        assert_eq!(port.plus(u32::MAX), Err(InvalidPort::Range));
    }
}
