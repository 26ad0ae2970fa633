//! What an SEV-SNP report says.

use std::collections::BTreeSet;
use std::fmt;

use sealane_policy::{SnpAbi, SnpFirmware, SnpPermissions, Tcb as Floor};
use sealane_types::{
    ChipId, GuestLabel, HostData, KeyDigest, Measurement, MitigationVector, Product, SnpProtection,
};

use super::Permission;
use crate::rejection::{Rejection, TcbVersion};

/// Security patch levels of the firmware below the guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Tcb {
    /// Exists from Turin on.
    pub fmc: Option<u8>,
    pub bootloader: u8,
    pub tee: u8,
    pub snp: u8,
    pub microcode: u8,
}

impl Tcb {
    /// Whether every part is at least that of `other`. Versions have no total order.
    #[must_use]
    pub fn reaches(&self, other: &Self) -> bool {
        self.fmc >= other.fmc
            && self.bootloader >= other.bootloader
            && self.tee >= other.tee
            && self.snp >= other.snp
            && self.microcode >= other.microcode
    }

    /// Whether every part that `floor` bounds is at least that. A floor for the FMC binds products that have
    /// one.
    #[must_use]
    pub fn satisfies(&self, floor: &Floor) -> bool {
        let Floor { fmc, bootloader, tee, snp, microcode } = *floor;
        let at_least = |level: u8, floor: Option<u8>| floor.is_none_or(|floor| level >= floor);
        self.fmc.is_none_or(|level| at_least(level, fmc))
            && at_least(self.bootloader, bootloader)
            && at_least(self.tee, tee)
            && at_least(self.snp, snp)
            && at_least(self.microcode, microcode)
    }
}

impl fmt::Display for Tcb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fmc, bootloader, tee, snp, microcode } = self;
        if let Some(fmc) = fmc {
            write!(f, "fmc {fmc} ")?;
        }
        write!(f, "bootloader {bootloader} tee {tee} snp {snp} microcode {microcode}")
    }
}

/// The four TCB versions of an SNP report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TcbVersions {
    /// What runs now.
    pub current: Tcb,
    /// What the signing key is derived from: never above `current`.
    pub reported: Tcb,
    /// What can no longer be rolled back.
    pub committed: Tcb,
    /// What ran when the guest was launched or migrated in.
    pub launch: Tcb,
}

/// What a platform was and is protected from, one bit each (reports of version 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mitigations {
    /// When the guest was launched.
    pub launch: MitigationVector,
    pub current: MitigationVector,
}

impl Mitigations {
    /// Whether all of `required` were there at launch and still are.
    #[must_use]
    pub const fn include(&self, required: MitigationVector) -> bool {
        let required = required.bits();
        self.launch.bits() & required == required && self.current.bits() & required == required
    }
}

/// The guest's ID block, where it was launched with one: zeros and no keys otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GuestIdentity {
    /// SHA-384 of the key that signed the block.
    pub id_key: Option<KeyDigest>,
    /// SHA-384 of the key that signed that key.
    pub author_key: Option<KeyDigest>,
    pub family_id: GuestLabel,
    pub image_id: GuestLabel,
    /// Security version of the guest.
    pub svn: u32,
}

/// API and build of the firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirmwareVersions {
    /// That which runs.
    pub current: SnpFirmware,
    /// That which the platform cannot go back from.
    pub committed: SnpFirmware,
}

/// The statements of an ATTESTATION_REPORT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnpClaims {
    pub(crate) report_version: u32,
    pub(crate) measurement: Measurement,
    pub(crate) host_data: HostData,
    pub(crate) product: Product,
    pub(crate) chip_id: Option<ChipId>,
    pub(crate) provider: Option<String>,
    pub(crate) identity: GuestIdentity,
    pub(crate) tcb: TcbVersions,
    pub(crate) firmware: FirmwareVersions,
    pub(crate) guest_abi: SnpAbi,
    pub(crate) mitigations: Option<Mitigations>,
    pub(crate) protections: BTreeSet<SnpProtection>,
    pub(crate) debug: bool,
    pub(crate) migration: bool,
    pub(crate) vmpl: u32,
    pub(crate) smt: bool,
    pub(crate) cxl: bool,
    pub(crate) tio: bool,
    /// Bits of PLATFORM_INFO that have no name here.
    pub(crate) unknown_platform_bits: u64,
}

impl SnpClaims {
    /// Version of the report's layout.
    #[must_use]
    pub const fn report_version(&self) -> u32 {
        self.report_version
    }

    /// The launch digest of the guest.
    #[must_use]
    pub const fn measurement(&self) -> &Measurement {
        &self.measurement
    }

    /// What the host stated at launch: for CoCo guests the hash of their initdata.
    #[must_use]
    pub const fn host_data(&self) -> &HostData {
        &self.host_data
    }

    #[must_use]
    pub const fn product(&self) -> Product {
        self.product
    }

    /// The chip, unless its id is masked: cloud providers with VLEKs do so.
    #[must_use]
    pub const fn chip_id(&self) -> Option<&ChipId> {
        self.chip_id.as_ref()
    }

    /// The cloud provider whose key (VLEK) signed, as its certificate names it; none when the chip's own key did.
    #[must_use]
    pub fn provider(&self) -> Option<&str> {
        self.provider.as_deref()
    }

    #[must_use]
    pub const fn identity(&self) -> &GuestIdentity {
        &self.identity
    }

    #[must_use]
    pub const fn tcb(&self) -> &TcbVersions {
        &self.tcb
    }

    #[must_use]
    pub const fn firmware(&self) -> &FirmwareVersions {
        &self.firmware
    }

    /// The least ABI of firmware under which the guest may run, as its policy says.
    #[must_use]
    pub const fn guest_abi(&self) -> SnpAbi {
        self.guest_abi
    }

    /// What reports before version 5 do not say.
    #[must_use]
    pub const fn mitigations(&self) -> Option<&Mitigations> {
        self.mitigations.as_ref()
    }

    /// What protects the guest, among that which not every platform has.
    #[must_use]
    pub const fn protections(&self) -> &BTreeSet<SnpProtection> {
        &self.protections
    }

    /// Whether the host may read and write the guest's memory by debug commands.
    #[must_use]
    pub const fn debug(&self) -> bool {
        self.debug
    }

    /// The privilege level that asked for the report; 0 is the highest.
    #[must_use]
    pub const fn vmpl(&self) -> u32 {
        self.vmpl
    }

    /// The least that an entry has to permit for this evidence; [`None`] for a VMPL that no entry can name.
    #[must_use]
    pub fn needs(&self) -> Option<SnpPermissions> {
        let Self { debug, migration, smt, cxl, tio, unknown_platform_bits: platform_bits, .. } = *self;
        let (vlek, milan) = (self.provider.is_some(), self.product == Product::Milan);
        let vmpl_max = u8::try_from(self.vmpl).ok()?;
        Some(SnpPermissions { debug, migration, vlek, smt, cxl, tio, milan, platform_bits, vmpl_max })
    }

    /// Whether no version that the platform reports, cannot go back from, or ran at launch is below `floor`.
    ///
    /// # Errors
    /// [`Rejection::TcbTooLow`] with the first that is.
    pub fn reaches(&self, floor: &Floor) -> Result<(), Rejection> {
        let TcbVersions { current: _, reported, committed, launch } = self.tcb;
        let versions = [
            (TcbVersion::Reported, reported),
            (TcbVersion::Committed, committed),
            (TcbVersion::Launch, launch),
        ];
        match versions.into_iter().find(|(_, found)| !found.satisfies(floor)) {
            Some((version, found)) => Err(Rejection::TcbTooLow { version, found }),
            None => Ok(()),
        }
    }

    /// Whether the guest's and the host's settings are all among those that `permissions` tolerate.
    ///
    /// # Errors
    /// [`Rejection::Debug`] or [`Rejection::Permission`] for the first that is not.
    pub fn permitted(&self, permissions: &SnpPermissions) -> Result<(), Rejection> {
        // Destructured without `..`, so that a permission that a later policy adds is not forgotten here.
        let SnpPermissions { debug, migration, vlek, smt, cxl, tio, milan, platform_bits, vmpl_max } =
            *permissions;
        if self.unknown_platform_bits & !platform_bits != 0 {
            return Err(Rejection::Malformed("reserved bits of PLATFORM_INFO"));
        }
        if self.debug && !debug {
            return Err(Rejection::Debug);
        }
        Permission::first_refused([
            (self.migration && !migration, Permission::Migration),
            (self.provider.is_some() && !vlek, Permission::Vlek),
            (self.vmpl > u32::from(vmpl_max), Permission::Vmpl),
            (self.smt && !smt, Permission::Smt),
            (self.cxl && !cxl, Permission::Cxl),
            (self.tio && !tio, Permission::Tio),
            (self.product == Product::Milan && !milan, Permission::Milan),
        ])
    }
}
