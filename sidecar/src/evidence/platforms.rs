//! The sources of evidence that this binary was linked with.

mod auto;
mod certificates;
mod coco;
mod configfs;
mod device;
mod key;
mod node_agent;
mod nsm;
mod report;
mod sev_guest;

use std::fmt;
use std::sync::Arc;

use sealane_attestation::VendorRoots;
use sealane_types::{Provider as ProviderWord, SimulatedForm};

use super::key_file::KeyFile;
use super::provider::{Provider, ProviderError};
use crate::config::initdata::Initdata;

/// What a pod's environment says about its platform; read once at start.
#[derive(Clone, Default)]
pub struct ProviderInput {
    /// JSON of the simulated platform's material (`SEALANE_SIMULATED_PLATFORM`). Not a secret, and it proves nothing.
    pub simulated: Option<String>,
    /// Which real platform the simulated one resembles (`SEALANE_SIMULATED_FORM`).
    pub form: SimulatedForm,
    /// What the guest was started with (`SEALANE_INITDATA`), by word of the control plane; the simulated platform measures it.
    pub initdata: Option<Initdata>,
    /// Where the pinned key lies (`SEALANE_KEY_FILE`); read when the provider is chosen.
    pub key_file: Option<KeyFile>,
}

impl fmt::Debug for ProviderInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderInput")
            .field("simulated", &self.simulated.is_some())
            .field("form", &self.form)
            .field("initdata_bytes", &self.initdata.as_ref().map(|initdata| initdata.measured().len()))
            .field("key_file", &self.key_file)
            .finish()
    }
}

/// Opens a provider, or says why it cannot.
pub type OpenProvider = fn(&ProviderInput) -> Result<Arc<dyn Provider>, ProviderError>;

/// The platforms that this binary can quote on and accept.
#[derive(Debug, Clone, Default)]
pub struct Platforms {
    simulated: Option<OpenProvider>,
    /// None: those that are pinned.
    roots: Option<VendorRoots>,
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
        Self { simulated: Some(open), ..self }
    }

    /// Trusts other roots of vendors than those that are pinned. Called by tests, never from configuration.
    #[must_use]
    pub fn with_roots(self, roots: VendorRoots) -> Self {
        Self { roots: Some(roots), ..self }
    }

    /// Whether simulated evidence of others is accepted where the policy lists it.
    pub(crate) fn simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// Under which roots evidence of others is verified, simulated evidence beside it only where the binary was linked
    /// for it; the policy must still name its root.
    pub(crate) fn roots(&self) -> VendorRoots {
        let roots = self.roots.clone().unwrap_or_else(VendorRoots::pinned);
        if self.simulated() { roots.allowing_simulated() } else { roots }
    }

    /// Opens the provider that `word` asks for. `Auto` means neither simulation nor a key.
    ///
    /// # Errors
    /// [`ProviderError`] when this binary or this pod has no such platform. Platforms that have to be asked are
    /// asked at the first quote.
    pub fn open(
        &self,
        word: ProviderWord,
        input: &ProviderInput,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        Ok(match word {
            ProviderWord::Auto => Arc::new(auto::Auto::new()),
            ProviderWord::ConfigfsTsm => Arc::new(configfs::ConfigfsTsm::default()),
            ProviderWord::SevGuest => Arc::new(sev_guest::SevGuest::default()),
            ProviderWord::CocoAgent => Arc::new(coco::CocoAgent::new(coco::AGENT)),
            ProviderWord::NodeAgent => Arc::new(node_agent::NodeAgent::new(node_agent::SOCKET)),
            ProviderWord::Nsm => Arc::new(nsm::Nsm::default()),
            ProviderWord::Key => Arc::new(key::PinnedKey::open(input)?),
            ProviderWord::Simulated => match self.simulated {
                Some(open) => return open(input),
                None => return Err(ProviderError::SimulationNotLinked),
            },
        })
    }
}
