//! What a check of evidence against an entry is about.

use std::fmt;

use sealane_policy::Pinnable;

/// One thing that an entry may ask for, in the terms that documents of its platform use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Aspect {
    Platform,
    /// The fingerprint of a simulated root.
    Root,
    /// MEASUREMENT; MRTD and RTMR0–3; PCR0–2.
    Measurement,
    /// PCR3–31.
    Registers,
    HostData,
    ConfigId,
    Owner,
    OwnerConfig,
    /// Who signed the guest's ID block.
    GuestKeys,
    GuestLabels,
    GuestSvn,
    Product,
    Chip,
    /// Whose VLEK signed.
    Provider,
    Fmspc,
    /// MRSEAM: the TDX module.
    SeamModule,
    Module,
    /// The TCB's versions, or the vendor's statuses of it.
    Tcb,
    /// tcbEvaluationDataNumber.
    TcbEvaluation,
    /// API and build of SEV-SNP firmware.
    Firmware,
    /// The ABI that the guest demands of it.
    GuestAbi,
    Mitigations,
    Protections,
    Attributes,
    Xfam,
    /// Of a Nitro document, when it was shown.
    Age,
    Permissions,
    /// Of a Peer without a TEE.
    Key,
    Workload,
}

impl Aspect {
    /// The check that would have looked at a value that an entry leaves open.
    #[must_use]
    pub const fn of(value: Pinnable) -> Self {
        match value {
            Pinnable::HostData => Self::HostData,
            Pinnable::Products => Self::Product,
            Pinnable::TcbFmc
            | Pinnable::TcbBootloader
            | Pinnable::TcbTee
            | Pinnable::TcbSnp
            | Pinnable::TcbMicrocode => Self::Tcb,
            Pinnable::VlekProviders => Self::Provider,
            Pinnable::Pcr3 => Self::Registers,
            Pinnable::Rtmr3 => Self::Measurement,
            Pinnable::MrConfigId => Self::ConfigId,
            Pinnable::MrOwner => Self::Owner,
            Pinnable::MrOwnerConfig => Self::OwnerConfig,
            Pinnable::Fmspcs => Self::Fmspc,
            Pinnable::TcbEvaluation => Self::TcbEvaluation,
            Pinnable::WorkloadImages => Self::Workload,
        }
    }
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Platform => "platform",
            Self::Root => "simulated root",
            Self::Measurement => "measurement",
            Self::Registers => "registers",
            Self::HostData => "host data",
            Self::ConfigId => "configuration id",
            Self::Owner => "owner",
            Self::OwnerConfig => "owner configuration",
            Self::GuestKeys => "guest keys",
            Self::GuestLabels => "guest labels",
            Self::GuestSvn => "guest version",
            Self::Product => "product",
            Self::Chip => "chip",
            Self::Provider => "key's provider",
            Self::Fmspc => "processor family",
            Self::SeamModule => "TDX module",
            Self::Module => "module",
            Self::Tcb => "TCB",
            Self::TcbEvaluation => "TCB evaluation",
            Self::Firmware => "firmware",
            Self::GuestAbi => "guest ABI",
            Self::Mitigations => "mitigations",
            Self::Protections => "protections",
            Self::Attributes => "attributes",
            Self::Xfam => "features",
            Self::Age => "age",
            Self::Permissions => "permissions",
            Self::Key => "pinned key",
            Self::Workload => "workload",
        })
    }
}
