//! Why evidence is not accepted, precise enough to act on.

use sealane_policy::{Pinnable, SnpAbi, SnpFirmware, Timestamp};
use sealane_types::{CrlIssuer, Platform, Reason, RootSource, SnpProtection, TcbStatus, UnixSeconds};

use crate::claims::{Permission, Tcb};

/// Which of a report's TCB versions fell below a floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcbVersion {
    Reported,
    Committed,
    Launch,
}

impl TcbVersion {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Committed => "committed",
            Self::Launch => "launch",
        }
    }
}

/// Evidence, its collateral or its fit with the policy fell short. Everything here is the prover's or the
/// environment's doing, never the verifier's; [`Rejection::reason`] is the word that users see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    // The bytes.
    #[error("the evidence is malformed: {0}")]
    Malformed(&'static str),
    #[error("the evidence is not genuine: {0}")]
    Untrusted(&'static str),
    #[error("{0} has expired or is not yet valid; check the clock, then renew it on the host")]
    Expired(&'static str),
    #[error("{0} is revoked by its vendor")]
    Revoked(&'static str),

    // What the verifier has at hand.
    #[error("no collateral to verify the evidence with: {0}")]
    CollateralMissing(&'static str),
    #[error("the collateral is out of date: {0}")]
    CollateralExpired(&'static str),
    #[error("simulated evidence proves nothing, and this verifier was not built to accept it")]
    SimulationNotAllowed,

    // The handshake.
    #[error("the evidence was not made for this handshake: {0}")]
    NotBound(&'static str),
    #[error("the peer runs under a policy that is neither current nor just superseded")]
    PolicyDigest,
    #[error(
        "the peer started from other policy roots than this verifier, and none that these signed on to; give both sides the same roots"
    )]
    RootsDiffer,
    #[error("the peer has its policy roots from {stated}, and the policy's floors.rootSource is {demanded}")]
    RootSource { stated: RootSource, demanded: RootSource },

    // The policy.
    #[error("the policy is not in force: {0}")]
    Policy(Reason),
    #[error("the policy names no such peer")]
    PeerNotInPolicy,
    #[error("the policy lists no {0} entry for this peer")]
    PlatformNotAllowed(Platform),
    #[error("the root of the evidence is not the one that the policy pins")]
    Root,
    #[error("the key is none that the policy lists for this peer")]
    Key,
    #[error("the measurement is none that the policy lists")]
    Measurement,
    #[error("one of PCR3 to PCR31 is not what the policy pins with this image")]
    Registers,
    #[error("the module_id is none that the policy lists")]
    Module,
    #[error(
        "the document is {age_seconds} s old, and the policy's maxAgeSeconds is {most_seconds}; check the clocks"
    )]
    Stale { age_seconds: u64, most_seconds: u64 },
    #[error("HOST_DATA is none that the policy lists")]
    HostData,
    #[error("the product is none that the policy lists")]
    Product,
    #[error("the chip is none that the policy lists")]
    Chip,
    #[error("the key that signed the guest's ID block, or its author's, is none that the policy lists")]
    GuestKey,
    #[error("the guest's FAMILY_ID or IMAGE_ID is none that the policy lists")]
    GuestLabel,
    #[error("the guest's security version ({found}) is below the policy's minGuestSvn")]
    GuestSvnTooLow { found: u32 },
    #[error(
        "the platform's SEV-SNP firmware ({found}), or the one it can go back to, is below the policy's minFirmware"
    )]
    FirmwareTooOld { found: SnpFirmware },
    #[error("the guest demands ABI {found} of its firmware, which is below the policy's minGuestAbi")]
    GuestAbiTooLow { found: SnpAbi },
    #[error("the platform lacks a mitigation that the policy requires, or had it not when the guest started")]
    Mitigations,
    #[error("the policy requires {0}, which the evidence does not show")]
    Protection(SnpProtection),
    #[error("the cloud provider whose key signed (VLEK) is none that the policy lists")]
    Provider,
    #[error("the {version} TCB ({found}) is below the policy's minTcb", version = .version.as_str())]
    TcbTooLow { version: TcbVersion, found: Tcb },
    #[error("Intel says {0} of the platform, which is not among the policy's tcbStatuses")]
    TcbStatus(TcbStatus),
    #[error(
        "the guest was launched by a TDX module that is out of date; relaunch it, now that the module is updated"
    )]
    RelaunchAdvised,
    #[error("the collateral's tcbEvaluationDataNumber ({found}) is below the policy's minTcbEvaluation")]
    TcbEvaluation { found: u32 },
    #[error("the revocation list of {issuer} ({found}) is below the policy's collateral.minCrlNumber")]
    CrlNumber { issuer: CrlIssuer, found: u64 },
    #[error(
        "the revocation list of {issuer} was issued at {}, before the policy's collateral.minCrlIssued",
        Timestamp::from(*found)
    )]
    CrlIssued { issuer: CrlIssuer, found: UnixSeconds },
    #[error("MRCONFIGID is none that the policy lists")]
    ConfigId,
    #[error("MROWNER is none that the policy lists")]
    Owner,
    #[error("MROWNERCONFIG is none that the policy lists")]
    OwnerConfig,
    #[error("the processor family (FMSPC) is none that the policy lists")]
    Fmspc,
    #[error("the TDX module (MRSEAM) is none that the policy lists")]
    SeamModule,
    #[error("the TDX module is below the policy's minTeeTcbSvn, or was when the guest was launched")]
    SeamModuleTooOld,
    #[error("a security advisory applies to the platform that is among the policy's refusedAdvisories")]
    Advisory,
    #[error("TDATTRIBUTES are none that the policy lists")]
    Attributes,
    #[error("XFAM is none that the policy lists")]
    Xfam,
    #[error("the guest may be debugged, which the policy does not allow")]
    Debug,
    #[error("the policy does not allow {0}")]
    Permission(Permission),
    #[error("the policy demands {0} to be pinned, and the entry leaves it open")]
    ReferenceValueMissing(Pinnable),
    #[error("the policy names a workload, and this evidence proves the node only")]
    WorkloadUnverified,
    #[error(
        "the evidence is that of a node, as its node agent states, and the policy's entry has assurance Pod"
    )]
    NodeEvidence,
    #[error("the pod's service account is not the one of the policy's workload")]
    ServiceAccount,
    #[error("a container of the pod, the sidecar perhaps, runs an image that workload.images does not list")]
    Image,
}

impl Rejection {
    /// The word for conditions, events, exceptions and metrics.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Malformed(_) => Reason::EvidenceMalformed,
            Self::Untrusted(_) | Self::Revoked(_) => Reason::EvidenceUntrusted,
            Self::Expired(_) => Reason::EvidenceExpired,
            Self::CollateralMissing(_) => Reason::CollateralMissing,
            Self::CollateralExpired(_) => Reason::CollateralExpired,
            Self::PlatformNotAllowed(_) => Reason::PlatformNotAllowed,
            Self::SimulationNotAllowed => Reason::SimulationNotAllowed,
            Self::NotBound(_) => Reason::EvidenceNotBound,
            Self::PolicyDigest => Reason::PolicyMismatch,
            Self::RootsDiffer => Reason::RootsDiffer,
            Self::RootSource { .. } => Reason::RootSourceTooWeak,
            Self::Policy(reason) => *reason,
            Self::PeerNotInPolicy => Reason::PeerNotInPolicy,
            Self::Root => Reason::RootMismatch,
            Self::Key => Reason::KeyMismatch,
            Self::Measurement | Self::Registers | Self::Module | Self::SeamModule => {
                Reason::MeasurementMismatch
            }
            Self::Stale { .. } => Reason::EvidenceExpired,
            Self::HostData => Reason::HostDataMismatch,
            Self::GuestKey | Self::GuestLabel => Reason::MeasurementMismatch,
            Self::Product | Self::Chip | Self::Provider => Reason::ProductMismatch,
            Self::TcbTooLow { .. } | Self::GuestSvnTooLow { .. } | Self::Mitigations => Reason::TcbTooLow,
            Self::FirmwareTooOld { .. } | Self::GuestAbiTooLow { .. } => Reason::TcbTooLow,
            Self::TcbStatus(_) | Self::RelaunchAdvised => Reason::TcbTooLow,
            Self::SeamModuleTooOld | Self::Advisory => Reason::TcbTooLow,
            Self::TcbEvaluation { .. } | Self::CrlNumber { .. } | Self::CrlIssued { .. } => {
                Reason::CollateralExpired
            }
            Self::ConfigId | Self::Owner | Self::OwnerConfig => Reason::HostDataMismatch,
            Self::Fmspc => Reason::ProductMismatch,
            Self::Attributes | Self::Xfam => Reason::PermissionNotAllowed,
            Self::Debug => Reason::DebugNotAllowed,
            Self::Permission(_) | Self::Protection(_) => Reason::PermissionNotAllowed,
            Self::ReferenceValueMissing(_) => Reason::ReferenceValueMissing,
            Self::WorkloadUnverified => Reason::WorkloadUnverified,
            Self::NodeEvidence | Self::ServiceAccount | Self::Image => Reason::WorkloadMismatch,
        }
    }
}
