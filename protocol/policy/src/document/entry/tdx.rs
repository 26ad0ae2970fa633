//! What Intel TDX evidence must show.

use std::collections::BTreeSet;

use sealane_types::{Fmspc, Measurement, PlatformId, TcbStatus, TdAttributes, TeeTcbSvn, Xfam};

use super::{Pinnable, open};

/// Reference values and permissions for TDX evidence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TdxReference {
    /// Accepted measurements of the trust domain; never empty in a valid document.
    pub measurements: BTreeSet<TdxMeasurement>,
    /// Accepted MRCONFIGID values: what the host stated at launch, for CoCo guests the hash of their initdata.
    /// Empty: any.
    pub mr_config_ids: BTreeSet<Measurement>,
    /// Any initdata will do, though the entry says that the pod is the guest: whoever starts the same image with another one
    /// is this Peer as well.
    pub any_initdata: bool,
    /// Accepted MROWNER values. Empty: any.
    pub mr_owners: BTreeSet<Measurement>,
    /// Accepted MROWNERCONFIG values. Empty: any.
    pub mr_owner_configs: BTreeSet<Measurement>,
    /// Accepted processor families. Empty: any.
    pub fmspcs: BTreeSet<Fmspc>,
    /// Accepted processor packages, each by its PPID. Empty: any.
    pub platform_ids: BTreeSet<PlatformId>,
    /// Accepted measurements of the TDX module (MRSEAM). Empty: any of Intel's.
    pub mr_seams: BTreeSet<Measurement>,
    /// Least security version of each component of the TDX module, at launch and now.
    pub min_tee_tcb_svn: Option<TeeTcbSvn>,
    /// Security advisories of Intel's that must not apply, whatever the status says.
    pub refused_advisories: BTreeSet<String>,
    /// Accepted TDATTRIBUTES, whole. Empty: whatever the permissions allow.
    pub attributes: BTreeSet<TdAttributes>,
    /// Accepted XFAM, whole. Empty: any features that are defined.
    pub xfams: BTreeSet<Xfam>,
    /// Accepted statuses of the platform's TCB; never empty in a valid document.
    pub tcb_statuses: BTreeSet<TcbStatus>,
    /// Least tcbEvaluationDataNumber of the collateral that the status is judged by.
    pub min_tcb_evaluation: Option<u32>,
    pub permissions: TdxPermissions,
}

/// One trust domain as it was built and booted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TdxMeasurement {
    /// MRTD: the domain as it was built.
    pub mrtd: Measurement,
    /// RTMR0–2: firmware configuration, boot loader and kernel, command line and initrd.
    pub rtmr: [Measurement; 3],
    /// RTMR3: what the guest extended at run time. None accepts any value.
    pub rtmr3: Option<Measurement>,
}

impl TdxMeasurement {
    /// Whether a trust domain with these registers is the one that this describes.
    #[must_use]
    pub fn accepts(&self, found: &Self) -> bool {
        let Self { mrtd, rtmr, rtmr3 } = self;
        *mrtd == found.mrtd && *rtmr == found.rtmr && (rtmr3.is_none() || *rtmr3 == found.rtmr3)
    }
}

/// What is refused unless the entry says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TdxPermissions {
    /// The host may read the guest's memory, or profile it.
    pub debug: bool,
    /// A migration TD may move the guest.
    pub migration: bool,
    /// The host may raise #VE in the guest by taking pages from it (SEPT_VE_DISABLE is not set).
    pub sept_ve: bool,
    /// The guest may use performance counters.
    pub perfmon: bool,
    /// The guest may use Key Locker, whose handles are bound to the processor and not to the guest.
    pub key_locker: bool,
    /// Packages may be added to the platform after it was registered.
    pub dynamic_platform: bool,
    /// Intel's registration service keeps the platform's root keys.
    pub cached_keys: bool,
    /// Two threads of one core may serve different guests.
    pub smt: bool,
    /// Service TDs that may be bound to the guest (MRSERVICETD); none but these.
    pub service_tds: BTreeSet<Measurement>,
}

impl TdxReference {
    pub(super) fn absent(&self, real: bool) -> Vec<Pinnable> {
        let any_rtmr3 = self.measurements.iter().any(|measurement| measurement.rtmr3.is_none());
        open([
            (any_rtmr3, Pinnable::Rtmr3),
            (self.mr_config_ids.is_empty(), Pinnable::MrConfigId),
            (self.mr_owners.is_empty(), Pinnable::MrOwner),
            (self.mr_owner_configs.is_empty(), Pinnable::MrOwnerConfig),
            (real && self.fmspcs.is_empty(), Pinnable::Fmspcs),
            (real && self.min_tcb_evaluation.is_none(), Pinnable::TcbEvaluation),
        ])
    }
}
