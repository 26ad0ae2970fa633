//! From a signed chain to a [`VerifiedPolicy`].

use sealane_types::{Digest, KeyId, PeerName, Roots, SessionName, SignedChain};

use crate::document::{Document, PolicyPeer};
use crate::{PolicyError, Timestamp};

/// A document that a quorum of its owners signed. Comes only from [`verify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedPolicy {
    document: Document,
    bytes: Vec<u8>,
    digest: Digest,
    chain: SignedChain,
    signers: Vec<KeyId>,
}

impl VerifiedPolicy {
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.document
    }

    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.document.epoch
    }

    #[must_use]
    pub fn expires(&self) -> Timestamp {
        self.document.expires
    }

    /// SHA-256 of the exact signed bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The exact signed bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What was verified, to hand to a peer that is behind.
    #[must_use]
    pub fn chain(&self) -> &SignedChain {
        &self.chain
    }

    /// The owners whose signatures counted.
    #[must_use]
    pub fn signers(&self) -> &[KeyId] {
        &self.signers
    }

    /// What `peer` must prove.
    ///
    /// # Errors
    /// [`PolicyError::PeerNotInPolicy`].
    pub fn peer(&self, _peer: &PeerName) -> Result<&PolicyPeer, PolicyError> {
        Err(PolicyError::Unwritten)
    }

    /// Whether the flow `from` → `to` of the TransferSession `session` is permitted.
    ///
    /// # Errors
    /// [`PolicyError::PeerNotInPolicy`] or [`PolicyError::SessionNotInPolicy`].
    pub fn permits(
        &self,
        _session: &SessionName,
        _from: &PeerName,
        _to: &PeerName,
    ) -> Result<(), PolicyError> {
        Err(PolicyError::Unwritten)
    }

    /// Whether the document is in force at `now`: to be asked again as time goes by.
    ///
    /// # Errors
    /// [`PolicyError::NotYetValid`] or [`PolicyError::Expired`].
    pub fn in_force(&self, _now: Timestamp) -> Result<(), PolicyError> {
        Err(PolicyError::Unwritten)
    }
}

/// Verifies `chain` from `roots` and, where the caller holds a policy already, against that.
///
/// # Errors
/// [`PolicyError`]; the caller goes on with what it holds, except after [`PolicyError::ConflictingEpoch`].
pub fn verify(
    _chain: &SignedChain,
    _roots: &Roots,
    _now: Timestamp,
    _held: Option<&VerifiedPolicy>,
) -> Result<VerifiedPolicy, PolicyError> {
    Err(PolicyError::Unwritten)
}

/// Reads a document and lints it.
///
/// # Errors
/// [`PolicyError`] names the field, what is wrong with it, and an example.
pub fn parse(_bytes: &[u8]) -> Result<Document, PolicyError> {
    Err(PolicyError::Unwritten)
}
