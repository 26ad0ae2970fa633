//! What the author of an entry asks for.

use std::collections::BTreeSet;
use std::fmt;

use clap::ValueEnum;
use sealane_attestation::Permission;
use sealane_types::Assurance;

/// How to make an entry of evidence.
#[derive(Debug, Clone)]
pub(crate) struct Wishes {
    /// Of an entry for hardware.
    pub(crate) assurance: Assurance,
    /// Pin the one processor, or for Nitro the one parent instance.
    pub(crate) pin_chip: bool,
    pub(crate) allowed: BTreeSet<Allow>,
}

impl Wishes {
    pub(super) fn allow(&self, word: Allow) -> bool {
        self.allowed.contains(&word)
    }
}

/// A weakness that evidence may have and an entry permits only if it is asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum Allow {
    Debug,
    Migration,
    Vlek,
    Vmpl,
    Smt,
    Cxl,
    Tio,
    Milan,
    ServiceTd,
    SeptVe,
    Perfmon,
    KeyLocker,
    DynamicPlatform,
    CachedKeys,
    SoftwareHardeningNeeded,
    ConfigurationNeeded,
    OutOfDate,
}

impl Allow {
    pub(super) const fn of(permission: Permission) -> Self {
        match permission {
            Permission::Migration => Self::Migration,
            Permission::Vlek => Self::Vlek,
            Permission::Vmpl => Self::Vmpl,
            Permission::Smt => Self::Smt,
            Permission::Cxl => Self::Cxl,
            Permission::Tio => Self::Tio,
            Permission::Milan => Self::Milan,
            Permission::ServiceTd => Self::ServiceTd,
            Permission::SeptVe => Self::SeptVe,
            Permission::Perfmon => Self::Perfmon,
            Permission::KeyLocker => Self::KeyLocker,
            Permission::DynamicPlatform => Self::DynamicPlatform,
            Permission::CachedKeys => Self::CachedKeys,
        }
    }

    /// What whoever asks for it accepts.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Debug => "the host may debug the guest, which protects nothing",
            Self::Migration => "a migration agent may move the guest",
            Self::Vlek => "its key is held by a cloud provider (VLEK)",
            Self::Vmpl => "it was asked for from below VMPL 0",
            Self::Smt => "two threads of one core may serve different guests",
            Self::Cxl => "the guest's memory may lie on CXL devices",
            Self::Tio => "the platform may let devices into the guest's trust (SEV-TIO)",
            Self::Milan => "it is of a Milan, whose evidence may be forged",
            Self::ServiceTd => "a service TD is bound to the guest",
            Self::SeptVe => "the host may raise exceptions in the guest (SEPT_VE_DISABLE is not set)",
            Self::Perfmon => "the guest may use performance counters",
            Self::KeyLocker => "the guest may use Key Locker",
            Self::DynamicPlatform => "the platform may gain packages after its registration",
            Self::CachedKeys => "Intel's registration service keeps the platform's keys",
            Self::SoftwareHardeningNeeded => "Intel calls the platform SoftwareHardeningNeeded",
            Self::ConfigurationNeeded => "Intel calls the platform ConfigurationNeeded",
            Self::OutOfDate => "Intel calls the platform OutOfDate",
        }
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
