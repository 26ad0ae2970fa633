//! What a TDX quote says.

use std::collections::BTreeSet;

use sealane_policy::{TdxMeasurement, TdxPermissions};
use sealane_types::{Fmspc, Measurement, PlatformId, TcbStatus, TdAttributes, TeeTcbSvn, Xfam};

use super::Permission;
use crate::rejection::Rejection;

// Bits of TDATTRIBUTES ("Intel TDX Module ABI Specification", table "ATTRIBUTES").
/// DEBUG, and three bits of profiling: any of them makes the guest one that is not trusted (TUD).
const UNDER_DEBUG: u64 = 0xff;
const SEPT_VE_DISABLE: u64 = 1 << 28;
const MIGRATABLE: u64 = 1 << 29;
const KEY_LOCKER: u64 = 1 << 31;
const PERFMON: u64 = 1 << 63;

/// The statements of a TD report, of its platform's certificate, and of Intel on that platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TdxClaims {
    pub(crate) quote_version: u16,
    pub(crate) measurement: TdxMeasurement,
    pub(crate) mr_config_id: Measurement,
    pub(crate) mr_owner: Measurement,
    pub(crate) mr_owner_config: Measurement,
    pub(crate) service_tds: BTreeSet<Measurement>,
    pub(crate) attributes: TdAttributes,
    pub(crate) xfam: Xfam,
    pub(crate) fmspc: Fmspc,
    pub(crate) platform_id: Option<PlatformId>,
    pub(crate) mr_seam: Measurement,
    pub(crate) tee_tcb_svn: TeeTcbSvn,
    pub(crate) current_tee_tcb_svn: Option<TeeTcbSvn>,
    pub(crate) dynamic_platform: Option<bool>,
    pub(crate) cached_keys: Option<bool>,
    pub(crate) smt: Option<bool>,
    pub(crate) statuses: BTreeSet<TcbStatus>,
    pub(crate) relaunch_advised: bool,
    pub(crate) advisories: BTreeSet<String>,
    pub(crate) tcb_evaluation: u32,
}

impl TdxClaims {
    /// Version of the quote's layout.
    #[must_use]
    pub const fn quote_version(&self) -> u16 {
        self.quote_version
    }

    /// MRTD and RTMR0–3.
    #[must_use]
    pub const fn measurement(&self) -> &TdxMeasurement {
        &self.measurement
    }

    /// MRCONFIGID: what the host stated at launch, for CoCo guests the hash of their initdata.
    #[must_use]
    pub const fn mr_config_id(&self) -> &Measurement {
        &self.mr_config_id
    }

    /// MROWNER.
    #[must_use]
    pub const fn mr_owner(&self) -> &Measurement {
        &self.mr_owner
    }

    /// MROWNERCONFIG.
    #[must_use]
    pub const fn mr_owner_config(&self) -> &Measurement {
        &self.mr_owner_config
    }

    /// Hashes of the service TDs that are or were bound to the guest (MRSERVICETD and its like); zero is left out.
    #[must_use]
    pub const fn service_tds(&self) -> &BTreeSet<Measurement> {
        &self.service_tds
    }

    #[must_use]
    pub const fn attributes(&self) -> TdAttributes {
        self.attributes
    }

    #[must_use]
    pub const fn xfam(&self) -> Xfam {
        self.xfam
    }

    /// The family of the platform's processors.
    #[must_use]
    pub const fn fmspc(&self) -> Fmspc {
        self.fmspc
    }

    /// The processor package whose key certified the platform (PPID), where the certificate says which.
    #[must_use]
    pub const fn platform_id(&self) -> Option<PlatformId> {
        self.platform_id
    }

    /// The TDX module (MRSEAM).
    #[must_use]
    pub const fn mr_seam(&self) -> &Measurement {
        &self.mr_seam
    }

    /// Security versions of the TDX module when the guest was launched (TEE_TCB_SVN).
    #[must_use]
    pub const fn tee_tcb_svn(&self) -> TeeTcbSvn {
        self.tee_tcb_svn
    }

    /// The same now (TEE_TCB_SVN_2), as quotes of TD 1.5 and later say.
    #[must_use]
    pub const fn current_tee_tcb_svn(&self) -> Option<TeeTcbSvn> {
        self.current_tee_tcb_svn
    }

    /// Whether no component of the TDX module was below `least`, when the guest was launched or now.
    #[must_use]
    pub fn reaches(&self, least: &TeeTcbSvn) -> bool {
        let reached = |found: &TeeTcbSvn| {
            found.as_bytes().iter().zip(least.as_bytes()).all(|(found, least)| found >= least)
        };
        reached(&self.tee_tcb_svn) && self.current_tee_tcb_svn.as_ref().is_none_or(reached)
    }

    /// Every word of Intel's that applies to the platform, to its TDX module or to its quoting enclave. UpToDate is there
    /// only if nothing else is.
    #[must_use]
    pub const fn statuses(&self) -> &BTreeSet<TcbStatus> {
        &self.statuses
    }

    /// The guest was launched by a module that is out of date, and now runs under one that is not: a relaunch would
    /// measure it anew. Its statuses have OutOfDate.
    #[must_use]
    pub const fn relaunch_advised(&self) -> bool {
        self.relaunch_advised
    }

    /// Intel's security advisories on what applies, like `INTEL-SA-01245`.
    #[must_use]
    pub const fn advisories(&self) -> &BTreeSet<String> {
        &self.advisories
    }

    /// The lower tcbEvaluationDataNumber of the statements that the statuses are from.
    #[must_use]
    pub const fn tcb_evaluation(&self) -> u32 {
        self.tcb_evaluation
    }

    /// Whether the host may read, write or profile the guest.
    #[must_use]
    pub fn debug(&self) -> bool {
        self.has(UNDER_DEBUG)
    }

    fn has(&self, bits: u64) -> bool {
        u64::from_le_bytes(*self.attributes.as_bytes()) & bits != 0
    }

    /// Whether everything that Intel says of the platform is among `accepted`.
    ///
    /// # Errors
    /// [`Rejection::TcbStatus`] for the weakest status that is not.
    pub fn accepted(&self, accepted: &BTreeSet<TcbStatus>) -> Result<(), Rejection> {
        match self.statuses.difference(accepted).next() {
            Some(TcbStatus::OutOfDate) if self.relaunch_advised => Err(Rejection::RelaunchAdvised),
            Some(found) => Err(Rejection::TcbStatus(*found)),
            None => Ok(()),
        }
    }

    /// Whether the guest's and the platform's settings are all among those that `permissions` tolerate. What a platform's
    /// certificate does not state counts as there.
    ///
    /// # Errors
    /// [`Rejection::Debug`] or [`Rejection::Permission`] for the first that is not.
    pub fn permitted(&self, permissions: &TdxPermissions) -> Result<(), Rejection> {
        // Destructured without `..`, so that a permission that a later policy adds is not forgotten here.
        let TdxPermissions {
            debug,
            migration,
            sept_ve,
            perfmon,
            key_locker,
            dynamic_platform,
            cached_keys,
            smt,
            service_tds,
        } = permissions;
        if self.debug() && !debug {
            return Err(Rejection::Debug);
        }
        let stated = |setting: Option<bool>| setting.unwrap_or(true);
        Permission::first_refused([
            (!self.service_tds.is_subset(service_tds), Permission::ServiceTd),
            (self.has(MIGRATABLE) && !migration, Permission::Migration),
            (!self.has(SEPT_VE_DISABLE) && !sept_ve, Permission::SeptVe),
            (self.has(PERFMON) && !perfmon, Permission::Perfmon),
            (self.has(KEY_LOCKER) && !key_locker, Permission::KeyLocker),
            (stated(self.dynamic_platform) && !dynamic_platform, Permission::DynamicPlatform),
            (stated(self.cached_keys) && !cached_keys, Permission::CachedKeys),
            (stated(self.smt) && !smt, Permission::Smt),
        ])
    }
}
