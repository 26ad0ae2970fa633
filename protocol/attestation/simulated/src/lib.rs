//! Platforms made of software: structurally genuine evidence under a root that is made per install.
//!
//! **It proves nothing.** Whoever holds the material, and every pod of a simulated installation does, can make
//! evidence for any pod on any machine. It exists so that clusters without confidential hardware run the whole
//! way, the same verifier included, and so that tests can forge what hardware never would.
//!
//! Invariant: every certificate made for an installation says SIM in its subject, so that no verifier takes
//! it for hardware. It may be linked into `sealane-sidecar-sim`, `sealane-bench` and tests, and into nothing else: other
//! binaries cannot hold it, because no feature of theirs reaches it.
//!
//! Deliberately absent: any way to accept evidence. Acceptance is the verifier's (`sealane-attestation`), which
//! looks at simulated evidence only when the program allows it and the signed policy pins the root.

mod certificate;
mod chip;
mod error;
pub mod forge;
mod guest;
mod installation;
mod material;
pub mod nitro;
mod platform;
mod report;
pub mod tdx;

pub use chip::{Chip, Tcb};
pub use error::SimulationError;
pub use guest::{Guest, Request};
pub use installation::Installation;
pub use material::Material;
pub use platform::{Platform, Quote, host_data};

use sealane_types::Measurement;

/// The launch measurement of every simulated guest: SHA-384 of `sealane simulated guest 1`.
pub const MEASUREMENT: Measurement = Measurement::new([
    0x14, 0x19, 0x6d, 0x12, 0x73, 0x2f, 0xfc, 0x73, 0x07, 0xde, 0x88, 0x92, 0x82, 0x31, 0x54, 0xbd, 0x7d,
    0x51, 0x77, 0xbe, 0xdf, 0x17, 0xfe, 0x67, 0x6d, 0xfb, 0xa9, 0xbe, 0x7d, 0x61, 0xf5, 0xd7, 0xc9, 0x36,
    0x4e, 0x32, 0x7f, 0xdb, 0xdd, 0xfd, 0x62, 0xaa, 0x5b, 0x7c, 0x3b, 0x9e, 0x0d, 0xa3,
]);
