//! What evidence says once its signatures are verified.

mod key;
mod nitro;
mod snp;
mod tdx;

use std::fmt;

use sealane_policy::CollateralRules;
use sealane_types::{CrlIssuer, Digest, Measurement, Platform, TcbStatus, UnixSeconds};

pub use key::KeyClaims;
pub use nitro::NitroClaims;
pub use snp::{FirmwareVersions, GuestIdentity, Mitigations, SnpClaims, Tcb, TcbVersions};
pub use tdx::TdxClaims;

use crate::piece::{ListHead, Term};
use crate::rejection::Rejection;

/// A property of the guest or host that weakens isolation, so that a policy entry has to allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// The guest may be associated with a migration agent.
    Migration,
    /// The report is signed by a key of the cloud provider (VLEK) rather than of the chip (VCEK).
    Vlek,
    /// The report was asked for from below VMPL 0.
    Vmpl,
    /// Simultaneous multithreading is allowed to the guest.
    Smt,
    /// A service TD is bound to the guest, and is none that the policy lists.
    ServiceTd,
    /// The host may raise #VE in the guest by taking pages from it.
    SeptVe,
    /// The guest may use performance counters.
    Perfmon,
    /// The guest may use Key Locker.
    KeyLocker,
    /// The platform may gain packages after it was registered.
    DynamicPlatform,
    /// Intel's registration service keeps the platform's root keys.
    CachedKeys,
    /// The guest's memory may lie on CXL devices.
    Cxl,
    /// The platform may let devices into the trust of guests (SEV-TIO).
    Tio,
    /// The processor is a Milan, whose evidence may be forged.
    Milan,
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Migration => "a migration agent",
            Self::Vlek => "a VLEK in place of a VCEK",
            Self::Vmpl => "a report from this VMPL",
            Self::Smt => "simultaneous multithreading",
            Self::ServiceTd => "this service TD (MRSERVICETD)",
            Self::SeptVe => "#VE exceptions raised by the host (SEPT_VE_DISABLE is not set)",
            Self::Perfmon => "performance counters in the guest (PERFMON)",
            Self::KeyLocker => "Key Locker in the guest",
            Self::DynamicPlatform => "platforms that gain packages after registration",
            Self::CachedKeys => "platforms whose keys Intel's registration service keeps",
            Self::Cxl => "memory on CXL devices",
            Self::Tio => "trusted devices (SEV-TIO)",
            Self::Milan => "a Milan, whose evidence may be forged",
        })
    }
}

impl Permission {
    /// # Errors
    /// [`Rejection::Permission`] for the first that is needed and not given.
    fn first_refused<const N: usize>(refused: [(bool, Self); N]) -> Result<(), Rejection> {
        match refused.into_iter().find(|(refused, _)| *refused) {
            Some((_, permission)) => Err(Rejection::Permission(permission)),
            None => Ok(()),
        }
    }
}

/// Whether the vendor's revocations were consulted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revocation {
    /// By a list that is fresh and covers the chain.
    Checked,
    /// No list at hand. [`crate::appraise`] refuses such claims from real hardware; a tool that judges stored
    /// evidence may read them.
    Unchecked,
    /// A simulated root revokes nothing; AWS says not to consult lists for enclaves, whose certificates end within
    /// hours; and a pinned key is revoked by the policy alone.
    NotApplicable,
}

/// Verified statements of the platform. Made by [`crate::inspect`] alone; whether they suffice is for
/// [`crate::appraise`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    pub(crate) platform: Platform,
    pub(crate) root: Digest,
    pub(crate) report_data: Option<[u8; 64]>,
    pub(crate) statement: Statement,
    pub(crate) tcb_status: Option<TcbStatus>,
    pub(crate) revocation: Revocation,
    /// When the first certificate ends.
    pub(crate) expires: UnixSeconds,
    /// The revocation lists that were consulted.
    pub(crate) lists: Vec<(CrlIssuer, ListHead)>,
    /// When the oldest revocation list or statement was issued, and when the first of them ends, where there are such.
    pub(crate) collateral: Option<Term>,
}

/// What the evidence says in the terms of its form. Simulated evidence has the form of a real platform's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    SevSnp(SnpClaims),
    Tdx(TdxClaims),
    Nitro(NitroClaims),
    Key(KeyClaims),
}

impl Claims {
    #[must_use]
    pub const fn platform(&self) -> Platform {
        self.platform
    }

    /// SHA-256 of the root certificate: a pinned vendor's, or that of one simulated installation; of a pinned key
    /// itself, which nothing stands above.
    #[must_use]
    pub const fn root(&self) -> &Digest {
        &self.root
    }

    /// What the evidence was made for: [`crate::binding::report_data`] in honest evidence. A Nitro document may carry
    /// none, or something of another length; then it was made for no handshake.
    #[must_use]
    pub const fn report_data(&self) -> Option<&[u8; 64]> {
        self.report_data.as_ref()
    }

    #[must_use]
    pub const fn statement(&self) -> &Statement {
        &self.statement
    }

    /// The measurement that names the guest best: MEASUREMENT of SEV-SNP, MRTD of TDX, PCR0 of Nitro. Policies
    /// pin more than this for the last two. A pinned key measures nothing.
    #[must_use]
    pub const fn measurement(&self) -> Option<&Measurement> {
        match &self.statement {
            Statement::SevSnp(snp) => Some(&snp.measurement),
            Statement::Tdx(tdx) => Some(&tdx.measurement.mrtd),
            Statement::Nitro(nitro) => {
                let [image, _, _] = &nitro.image;
                Some(image)
            }
            Statement::Key(_) => None,
        }
    }

    /// As the vendor's collateral states it. AMD and AWS publish none: always up to date, since what lies below
    /// a policy's floor is refused. None of a pinned key, whose platform nobody vouches for.
    #[must_use]
    pub const fn tcb_status(&self) -> Option<TcbStatus> {
        self.tcb_status
    }

    #[must_use]
    pub const fn revocation(&self) -> Revocation {
        self.revocation
    }

    /// When the first certificate or revocation list that these claims rest on expires; never for a pinned key.
    #[must_use]
    pub fn expires(&self) -> UnixSeconds {
        self.collateral.map_or(self.expires, |collateral| self.expires.min(collateral.until))
    }

    /// The last second at which these claims count under `rules`, which may let lists and statements count for longer than
    /// they say, or for less.
    #[must_use]
    pub fn lasts(&self, rules: &CollateralRules) -> UnixSeconds {
        let end = |Term { from, until }| rules.end(from, until);
        self.collateral.map_or(self.expires, |collateral| self.expires.min(end(collateral)))
    }

    /// # Errors
    /// [`Rejection`] where a list or statement that was consulted is older than what `rules` demand.
    pub(crate) fn check_age(&self, rules: &CollateralRules) -> Result<(), Rejection> {
        for (issuer, ListHead { term, number }) in self.lists.iter().copied() {
            if !rules.permits_number(issuer, number) {
                return Err(Rejection::CrlNumber { issuer, found: number.unwrap_or(0) });
            }
            if !rules.permits_issue(issuer, term.from) {
                return Err(Rejection::CrlIssued { issuer, found: term.from });
            }
        }
        match &self.statement {
            Statement::Tdx(tdx) if !rules.permits_evaluation(tdx.tcb_evaluation) => {
                Err(Rejection::TcbEvaluation { found: tdx.tcb_evaluation })
            }
            _ => Ok(()),
        }
    }
}
