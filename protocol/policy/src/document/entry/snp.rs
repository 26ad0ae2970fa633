//! What AMD SEV-SNP evidence must show.

use std::collections::BTreeSet;
use std::fmt;

use sealane_types::{
    ChipId, GuestLabel, HostData, KeyDigest, Measurement, MitigationVector, Product, SnpProtection,
};

use super::{Pinnable, open};

/// Reference values and permissions for SEV-SNP evidence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnpReference {
    /// Accepted launch measurements; never empty in a valid document.
    pub measurements: BTreeSet<Measurement>,
    /// Accepted HOST_DATA values. Empty: any.
    pub host_data: BTreeSet<HostData>,
    /// Any initdata will do, though the entry says that the pod is the guest: whoever starts the same image with another one
    /// is this Peer as well.
    pub any_initdata: bool,
    /// Accepted processor families. Empty: any, Milan only where it is permitted.
    pub products: BTreeSet<Product>,
    /// Accepted processors. Empty: any.
    pub chip_ids: BTreeSet<ChipId>,
    /// Who signed the guest's ID block.
    pub identity: SnpIdentity,
    /// Floor for the reported, committed and launch TCB.
    pub min_tcb: Tcb,
    /// Floor for the firmware that runs and for that which the platform cannot go back from. None: any.
    pub min_firmware: Option<SnpFirmware>,
    /// Floor for the ABI that the guest's own policy demands of the firmware. None: any.
    pub min_guest_abi: Option<SnpAbi>,
    /// Mitigations that the platform must have had at launch and must have now. None: any.
    pub mitigations: Option<MitigationVector>,
    /// What must protect the guest besides.
    pub protections: BTreeSet<SnpProtection>,
    /// Cloud providers whose keys (VLEK) may sign, as their certificates name them. Empty: any, where VLEKs are
    /// permitted at all.
    pub vlek_providers: BTreeSet<String>,
    pub permissions: SnpPermissions,
}

/// The guest's ID block (AMD 56860, §4.6): what its builder signed about it. Everything but the keys is what whoever
/// starts the guest says, so a valid document pins it under a key only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnpIdentity {
    /// Accepted digests of the key that signed the block. Empty: any, and guests without a block.
    pub id_keys: BTreeSet<KeyDigest>,
    /// Accepted digests of the key that signed that key. Empty: any, and none.
    pub author_keys: BTreeSet<KeyDigest>,
    pub family_ids: BTreeSet<GuestLabel>,
    pub image_ids: BTreeSet<GuestLabel>,
    /// Least security version of the guest.
    pub min_guest_svn: Option<u32>,
}

impl SnpIdentity {
    /// Whether something is pinned that only a signature makes true, and no key is.
    #[must_use]
    pub fn is_unsigned(&self) -> bool {
        let Self { id_keys, author_keys, family_ids, image_ids, min_guest_svn } = self;
        let labelled = !family_ids.is_empty() || !image_ids.is_empty() || min_guest_svn.is_some();
        labelled && id_keys.is_empty() && author_keys.is_empty()
    }
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

    /// Whether a component that every product has is bounded: Milan and Genoa have no FMC.
    #[must_use]
    pub fn is_floor(&self) -> bool {
        let Self { fmc: _, bootloader, tee, snp, microcode } = self;
        [bootloader, tee, snp, microcode].into_iter().any(Option::is_some)
    }
}

/// The API version of SEV-SNP firmware and its build (AMD 56860, table 23), in the order in which they count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnpFirmware {
    pub major: u8,
    pub minor: u8,
    pub build: u8,
}

impl fmt::Display for SnpFirmware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} build {}", self.major, self.minor, self.build)
    }
}

/// A version of the firmware's ABI, as a guest's policy demands it (AMD 56860, §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnpAbi {
    pub major: u8,
    pub minor: u8,
}

impl fmt::Display for SnpAbi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
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
    /// The guest's memory may lie on CXL devices.
    pub cxl: bool,
    /// The platform may let devices into the trust of guests (SEV-TIO).
    pub tio: bool,
    /// The processor may be a Milan, whose evidence may be forged: the root seed of a Milan's signing key was extracted
    /// in public (May 2026).
    pub milan: bool,
    /// Bits of PLATFORM_INFO that this release does not know, and the owners do: a mask.
    pub platform_bits: u64,
    /// Highest privilege level that may ask for evidence; 0 is the most privileged.
    pub vmpl_max: u8,
}

impl SnpReference {
    /// What every SEV-SNP guest has and this entry leaves open. Protections, mitigations and ID blocks are not among
    /// it: which of them there are differs from processor to processor and from guest to guest.
    pub(super) fn absent(&self, real: bool) -> Vec<Pinnable> {
        let turin = self.products.iter().eq(&[Product::Turin]);
        open([
            (self.host_data.is_empty(), Pinnable::HostData),
            (real && self.products.is_empty(), Pinnable::Products),
            (real && turin && self.min_tcb.fmc.is_none(), Pinnable::TcbFmc),
            (real && self.min_tcb.bootloader.is_none(), Pinnable::TcbBootloader),
            (real && self.min_tcb.tee.is_none(), Pinnable::TcbTee),
            (real && self.min_tcb.snp.is_none(), Pinnable::TcbSnp),
            (real && self.min_tcb.microcode.is_none(), Pinnable::TcbMicrocode),
        ])
    }

    /// Whether evidence that a cloud provider's key signed satisfies this entry whoever the provider is.
    #[must_use]
    pub fn accepts_any_provider(&self) -> bool {
        self.permissions.vlek && self.vlek_providers.is_empty()
    }
}
