//! How packets pass between an interface and UMEM.

use std::fmt;

/// From the fastest to the one that every driver has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The driver receives into UMEM and sends from it.
    ZeroCopy,
    /// The program runs in the driver, and the kernel copies.
    Native,
    /// The program runs on packets that the kernel has already taken in, and the kernel copies.
    Generic,
}

/// The order in which modes are tried.
pub(crate) const ORDER: [Mode; 3] = [Mode::ZeroCopy, Mode::Native, Mode::Generic];

impl Mode {
    /// As a status names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ZeroCopy => "ZeroCopy",
            Self::Native => "Native",
            Self::Generic => "Generic",
        }
    }

    /// Whether the program runs in the driver.
    pub(crate) const fn is_native(self) -> bool {
        !matches!(self, Self::Generic)
    }

    /// Whether the mode harms others on interfaces of this driver.
    ///
    /// A native program on a veth takes segmentation and checksum offload from it: TCP there falls to a quarter.
    pub(crate) fn harms(self, driver: &str) -> bool {
        self.is_native() && driver == "veth"
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
