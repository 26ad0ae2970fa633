//! Subject names of Intel's hierarchy. Simulated ones put `SIM ` in front.

use x509_cert::Certificate;
use x509_cert::name::Name;

use crate::naming::{Naming, common_name};
use crate::piece::PckAuthority;
use crate::rejection::Rejection;

const SIMULATED_PREFIX: &str = "SIM ";

const PLATFORM_AUTHORITY: &str = "Intel SGX PCK Platform CA";
const PROCESSOR_AUTHORITY: &str = "Intel SGX PCK Processor CA";

/// What a certificate is for. Intel's say it in their common names alone: extensions do not tell a key for collateral
/// from one for platforms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Root,
    /// Signs TCB info and QE identity.
    Signer,
    /// Certifies platforms: those with several packages, or those with one.
    Authority,
    /// A platform's provisioning certification key (PCK).
    Platform,
}

impl Role {
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Root => &["Intel SGX Root CA"],
            Self::Signer => &["Intel SGX TCB Signing"],
            Self::Authority => &[PLATFORM_AUTHORITY, PROCESSOR_AUTHORITY],
            Self::Platform => &["Intel SGX PCK Certificate"],
        }
    }
}

/// Which authority over platforms is named so, in a simulation or by Intel.
pub(super) fn authority(name: &Name) -> Option<PckAuthority> {
    let name = common_name(name)?;
    match name.strip_prefix(SIMULATED_PREFIX).unwrap_or(name) {
        PLATFORM_AUTHORITY => Some(PckAuthority::Platform),
        PROCESSOR_AUTHORITY => Some(PckAuthority::Processor),
        _ => None,
    }
}

/// Whether `certificate` is named for its role, in a simulation or by Intel.
pub(crate) fn check(certificate: &Certificate, role: Role, naming: Naming) -> Result<(), Rejection> {
    let subject = &certificate.tbs_certificate.subject;
    naming.check(subject)?;
    if naming.common_name(subject, SIMULATED_PREFIX).is_some_and(|name| role.names().contains(&name)) {
        return Ok(());
    }
    Err(Rejection::Untrusted("a certificate of Intel's hierarchy in another's place"))
}
