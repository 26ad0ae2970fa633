//! The proof that a policy was verified.

use std::collections::{BTreeMap, BTreeSet};

use sealane_types::{Digest, KeyId, PeerName, PublicKey, Roots, SessionName, SignedChain};

use crate::document::{Authorities, Document, Flow, PolicyPeer, SessionKind, SessionRule};
use crate::{PolicyError, Timestamp};

/// A document that a quorum of its owners signed. Comes only from [`verify`](crate::verify).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedPolicy {
    document: Document,
    bytes: Vec<u8>,
    digest: Digest,
    chain: SignedChain,
    signers: Vec<KeyId>,
    walked: Vec<Walked>,
}

/// Owners that a verifier came by on its way from its own roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Walked {
    pub(crate) owners: Authorities,
    /// The least epoch for whoever begins with them.
    pub(crate) epoch: u64,
}

impl VerifiedPolicy {
    pub(crate) fn new(
        document: Document,
        bytes: Vec<u8>,
        digest: Digest,
        chain: SignedChain,
        signers: Vec<KeyId>,
        walked: Vec<Walked>,
    ) -> Self {
        Self { document, bytes, digest, chain, signers, walked }
    }

    #[must_use]
    pub fn document(&self) -> &Document {
        &self.document
    }

    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.document.epoch
    }

    /// First second at which the policy is no longer in force.
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

    /// The owners whose signatures counted, each once.
    #[must_use]
    pub fn signers(&self) -> &[KeyId] {
        &self.signers
    }

    /// Whether whoever starts from `roots` trusts nobody whom this verifier does not: they are its own, or owners that its
    /// own signed on to.
    #[must_use]
    pub fn recognises(&self, roots: &Roots) -> bool {
        let Roots { namespace, policy, threshold, keys, minimum_epoch } = roots;
        let keys: BTreeSet<PublicKey> = keys.iter().copied().collect();
        let same = |walked: &Walked| {
            let Walked { owners, epoch } = walked;
            owners.threshold == *threshold && owners.keys == keys && minimum_epoch >= epoch
        };
        *namespace == self.document.namespace && *policy == self.document.name && self.walked.iter().any(same)
    }

    /// What `peer` must prove.
    ///
    /// # Errors
    /// [`PolicyError::PeerNotInPolicy`].
    pub fn peer(&self, peer: &PeerName) -> Result<&PolicyPeer, PolicyError> {
        self.document.peers.get(peer).ok_or_else(|| PolicyError::PeerNotInPolicy { peer: peer.clone() })
    }

    /// Whether `flow` from `from` to `to` is permitted in the TransferSession `session`.
    ///
    /// # Errors
    /// [`PolicyError::PeerNotInPolicy`] or [`PolicyError::SessionNotInPolicy`].
    pub fn permits(
        &self,
        session: &SessionName,
        from: &PeerName,
        to: &PeerName,
        flow: Flow,
    ) -> Result<(), PolicyError> {
        self.peer(from)?;
        self.peer(to)?;
        if self.document.sessions.iter().any(|rule| rule.permits(session, from, to, flow)) {
            return Ok(());
        }
        let (session, from, to) = (session.clone(), from.clone(), to.clone());
        Err(PolicyError::SessionNotInPolicy { session, from, to, flow })
    }

    /// How many replicas of which Peers must have closed their streams in the TransferSession `session` before a receiver of
    /// `to` ends: the most that a rule for it says. A rule for any TransferSession counts for the Peers that are `listed`.
    #[must_use]
    pub fn senders_min(
        &self,
        session: &SessionName,
        to: &PeerName,
        listed: &dyn Fn(&PeerName) -> bool,
    ) -> BTreeMap<PeerName, u32> {
        let mut least = BTreeMap::new();
        for SessionRule { name, from, to: receivers, kind } in &self.document.sessions {
            let applies = name.as_ref().map_or_else(|| listed(from), |name| name == session);
            if let SessionKind::Stream { senders_min: min @ 1.. } = kind
                && applies
                && receivers.contains(to)
            {
                let known: &mut u32 = least.entry(from.clone()).or_default();
                *known = (*known).max(*min);
            }
        }
        least
    }

    /// Whether the document is in force at `now`: to be asked again as time goes by.
    ///
    /// # Errors
    /// [`PolicyError::NotYetValid`] or [`PolicyError::Expired`].
    pub fn in_force(&self, now: Timestamp) -> Result<(), PolicyError> {
        let Document { not_before, expires, .. } = self.document;
        if now < not_before {
            return Err(PolicyError::NotYetValid { not_before });
        }
        if now >= expires {
            return Err(PolicyError::Expired { expires });
        }
        Ok(())
    }
}
