//! What a source of evidence is asked for, and what it gives.

use std::{fmt, io};

use futures::future::BoxFuture;
use sealane_attestation::{Format, StatedWorkload};
use sealane_types::{Digest, Reason};

/// Raw evidence as the platform gives it, before anybody judged it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// The signed report, exact bytes.
    pub report: Vec<u8>,
    /// DER certificates from the one that signed the report towards the root; what verifiers hold may be left out.
    pub certificates: Vec<Vec<u8>>,
    /// What a node agent stated, and the report covers; nothing where the pod itself is the TEE.
    pub workload: Option<StatedWorkload>,
}

/// What a quote is about. Composed by the prover from values that the sidecar itself holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuoteRequest {
    /// What every platform signs; a node agent composes its own from what is below.
    pub report_data: [u8; 64],
    /// Root of the tree of handshakes that this quote serves: the nonce of a Nitro document.
    pub tree_root: [u8; 32],
    /// Our X25519 key: the public key of a Nitro document.
    pub own_static: [u8; 32],
    /// The policy that we run under.
    pub policy: Digest,
    /// What decides which policies we follow: digest of the [trust configuration](sealane_attestation::TrustConfiguration).
    pub trust: Digest,
    /// How many handshakes the tree holds.
    pub leaves: u32,
}

/// Why there is no evidence. Each is the environment's fault, never a peer's.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error(
        "this pod has no attestation platform that the sidecar can use; set Peer.spec.attestation.provider or run it on a confidential node"
    )]
    Unavailable,
    #[error("this image holds no simulated platform; simulation needs the sealane-sidecar-sim image")]
    SimulationNotLinked,
    #[error("the material of the platform is missing: {what}")]
    MaterialMissing { what: &'static str },
    #[error("the material of the platform cannot be read: {what}")]
    MaterialMalformed {
        what: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(
        "the host gave no certificate (VCEK) for chip {chip}, and no collateral holds it: add it to a bundle (`kubectl sealane collateral bundle`) or let sidecars fetch it"
    )]
    CertificateMissing { chip: String },
    #[error("{what} could not be used")]
    Device {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{0}")]
    Malformed(&'static str),
    #[error("the platform refused to quote")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the platform did not quote in time")]
    TimedOut,
}

impl ProviderError {
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::SimulationNotLinked => Reason::SimulationNotAllowed,
            Self::CertificateMissing { .. } => Reason::CollateralMissing,
            Self::Unavailable
            | Self::MaterialMissing { .. }
            | Self::MaterialMalformed { .. }
            | Self::Device { .. }
            | Self::Malformed(_)
            | Self::Refused(_)
            | Self::TimedOut => Reason::ProviderUnavailable,
        }
    }
}

/// A source of evidence for this pod.
pub trait Provider: Send + Sync + fmt::Debug {
    /// What its quotes are. May have to ask the platform the first time.
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>>;

    /// Quotes exactly what is asked for. The caller runs one at a time, with a deadline.
    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>>;
}
