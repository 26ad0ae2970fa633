//! What AMD SEV-SNP evidence must show.

use std::collections::BTreeSet;

use sealane_types::{ChipId, HostData, Measurement, Product};

use super::{Pinnable, open};

/// Reference values and permissions for SEV-SNP evidence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnpReference {
    /// Accepted launch measurements; never empty in a valid document.
    pub measurements: BTreeSet<Measurement>,
    /// Accepted HOST_DATA values. Empty: any.
    pub host_data: BTreeSet<HostData>,
    /// Accepted processor families. Empty: any.
    pub products: BTreeSet<Product>,
    /// Accepted processors. Empty: any.
    pub chip_ids: BTreeSet<ChipId>,
    /// Floor for the reported, committed and launch TCB.
    pub min_tcb: Tcb,
    pub permissions: SnpPermissions,
}

/// Security version numbers, each a minimum. An absent component accepts any value and is shown as absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tcb {
    /// Turin only.
    pub fmc: Option<u8>,
    pub bootloader: Option<u8>,
    pub tee: Option<u8>,
    pub snp: Option<u8>,
    pub microcode: Option<u8>,
}

impl Tcb {
    /// Whether no component is bounded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is refused unless the entry says otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnpPermissions {
    /// The host may read the guest's memory.
    pub debug: bool,
    /// A migration agent may move the guest.
    pub migration: bool,
    /// The evidence may be signed by a key that a cloud provider holds (VLEK) instead of the chip's own.
    pub vlek: bool,
    /// Two threads of one core may serve different guests.
    pub smt: bool,
    /// Highest privilege level that may ask for evidence; 0 is the most privileged.
    pub vmpl_max: u8,
}

impl SnpReference {
    pub(super) fn absent(&self, real: bool) -> Vec<Pinnable> {
        open([
            (self.host_data.is_empty(), Pinnable::HostData),
            (real && self.products.is_empty(), Pinnable::Products),
            (real && self.min_tcb.bootloader.is_none(), Pinnable::TcbBootloader),
            (real && self.min_tcb.tee.is_none(), Pinnable::TcbTee),
            (real && self.min_tcb.snp.is_none(), Pinnable::TcbSnp),
            (real && self.min_tcb.microcode.is_none(), Pinnable::TcbMicrocode),
        ])
    }
}
