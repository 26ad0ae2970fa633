//! Providers of evidence and the set of them that this binary was linked with.

use std::sync::Arc;
use std::{fmt, io};

use futures::future::BoxFuture;
use sealane_attestation::Format;
use sealane_types::{Provider as ProviderWord, Reason};

/// Raw evidence as the platform gives it, before anybody judged it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// The signed report, exact bytes.
    pub report: Vec<u8>,
    /// DER certificates from the one that signed the report towards the root; what verifiers hold may be left out.
    pub certificates: Vec<Vec<u8>>,
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
    #[error("the platform could not be read")]
    Io(#[from] io::Error),
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
            Self::Unavailable
            | Self::MaterialMissing { .. }
            | Self::MaterialMalformed { .. }
            | Self::Io(_)
            | Self::Refused(_)
            | Self::TimedOut => Reason::ProviderUnavailable,
        }
    }
}

/// A source of evidence for this pod.
pub trait Provider: Send + Sync + fmt::Debug {
    /// What its quotes are.
    fn format(&self) -> Format;

    /// Quotes exactly these bytes as report data. The caller runs one at a time, with a deadline.
    fn quote(&self, report_data: [u8; 64]) -> BoxFuture<'_, Result<Quote, ProviderError>>;
}

/// What a pod's environment says about its platform; read once at start.
#[derive(Clone, Default)]
pub struct ProviderInput {
    /// JSON of the simulated platform's material (`SEALANE_SIMULATED_PLATFORM`). Not a secret, and it proves nothing.
    pub simulated: Option<String>,
    /// The initdata file's bytes (`SEALANE_INITDATA`); the simulated platform puts their SHA-256 into HOST_DATA.
    pub initdata: Option<Vec<u8>>,
}

impl fmt::Debug for ProviderInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderInput")
            .field("simulated", &self.simulated.is_some())
            .field("initdata_bytes", &self.initdata.as_ref().map(Vec::len))
            .finish()
    }
}

/// Opens a provider, or says why it cannot.
pub type OpenProvider = fn(&ProviderInput) -> Result<Arc<dyn Provider>, ProviderError>;

/// The platforms that this binary can quote on and accept.
#[derive(Debug, Clone, Default)]
pub struct Platforms {
    simulated: Option<OpenProvider>,
}

impl Platforms {
    /// Real platforms only: what `sealane-sidecar` runs with.
    #[must_use]
    pub fn production() -> Self {
        Self::default()
    }

    /// Adds simulation. Called by `sealane-sidecar-sim` and by tests, never from configuration.
    #[must_use]
    pub fn with_simulated(self, open: OpenProvider) -> Self {
        Self { simulated: Some(open) }
    }

    /// Whether simulated evidence of others may be looked at; the policy must still name its root.
    #[must_use]
    pub fn allow_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// Opens the provider that `word` asks for. `Auto` never means simulation.
    ///
    /// # Errors
    /// [`ProviderError`] when this binary or this pod has no such platform.
    pub fn open(
        &self,
        word: ProviderWord,
        input: &ProviderInput,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        match word {
            ProviderWord::Auto => Err(ProviderError::Unavailable),
            ProviderWord::Simulated => match self.simulated {
                Some(open) => open(input),
                None => Err(ProviderError::SimulationNotLinked),
            },
        }
    }
}
