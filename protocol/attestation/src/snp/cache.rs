//! Chains that were verified before.
//!
//! A VCEK is the same for months, and checking two RSA-4096 signatures above it costs several times the one signature of
//! the report. What is remembered is a verdict on certificates alone, never one on evidence: ECDSA is malleable, and a
//! report means something in one handshake only.

use std::sync::Arc;

use sealane_types::{Digest, UnixSeconds};

use super::chain::VerifiedKey;
use crate::limits::CHAINS_MAX;

/// Everything that decides whether a chain holds, apart from the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainId {
    /// A chain of hardware is none of a simulation, whose names are checked otherwise.
    pub(super) simulated: bool,
    /// SHA-256 of the signing key's certificate.
    pub(super) signer: Digest,
    /// Of its issuers, and of the revocation list that speaks about them ([`crate::Anchor`]).
    pub(super) issuers: Digest,
}

/// Signing keys whose chains were verified, at most [`CHAINS_MAX`] of them; the one that was not used for longest goes.
///
/// A plain value: whoever verifies in several threads keeps one for each. It changes no verdict, only what one costs.
#[derive(Debug, Clone, Default)]
pub struct ChainCache {
    /// Most recently used last.
    known: Vec<(ChainId, Arc<VerifiedKey>)>,
}

impl ChainCache {
    /// Knows no chain.
    #[must_use]
    pub const fn new() -> Self {
        Self { known: Vec::new() }
    }

    /// How many chains are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The key of a chain that holds at `now`. One that no longer holds is forgotten: verified again, it says why.
    pub(super) fn find(&mut self, id: &ChainId, now: UnixSeconds) -> Option<Arc<VerifiedKey>> {
        let position = self.known.iter().position(|(known, _)| known == id)?;
        let (id, key) = self.known.remove(position);
        if !key.holds_at(now) {
            return None;
        }
        self.known.push((id, Arc::clone(&key)));
        Some(key)
    }

    /// Remembers a chain that was just verified.
    pub(super) fn keep(&mut self, id: ChainId, key: VerifiedKey) -> Arc<VerifiedKey> {
        self.known.retain(|(known, _)| *known != id);
        if self.known.len() >= CHAINS_MAX {
            self.known.remove(0);
        }
        let key = Arc::new(key);
        self.known.push((id, Arc::clone(&key)));
        key
    }
}

#[cfg(test)]
mod tests {
    use sealane_types::Product;

    use super::super::SigningKey;
    use super::*;
    use crate::claims::{Revocation, Tcb};
    use crate::piece::{ListHead, Term};

    fn key() -> VerifiedKey {
        VerifiedKey {
            point: [0; 97],
            product: Product::Genoa,
            signing_key: SigningKey::Vcek,
            tcb: Tcb::default(),
            hardware_id: None,
            provider: None,
            revocation: Revocation::Checked,
            from: UnixSeconds(10),
            expires: UnixSeconds(20),
            list: None,
        }
    }

    fn id(number: usize) -> ChainId {
        let mut signer = [0; 32];
        signer[..8].copy_from_slice(&number.to_be_bytes());
        ChainId { simulated: false, signer: Digest::new(signer), issuers: Digest::new([0; 32]) }
    }

    #[test]
    fn few_chains_are_known_and_those_in_use_stay() {
        let (mut cache, now) = (ChainCache::new(), UnixSeconds(15));
        for number in 0..CHAINS_MAX {
            cache.keep(id(number), key());
        }
        assert!(cache.find(&id(0), now).is_some());
        cache.keep(id(CHAINS_MAX), key());
        assert_eq!(cache.len(), CHAINS_MAX);
        assert!(cache.find(&id(0), now).is_some());
        assert!(cache.find(&id(1), now).is_none());
        assert!(cache.find(&id(CHAINS_MAX), now).is_some());
        cache.keep(id(0), key());
        assert_eq!(cache.len(), CHAINS_MAX, "known once");
    }

    #[test]
    fn a_chain_is_known_for_as_long_as_it_holds() {
        for (now, holds) in [(9, false), (10, true), (19, true), (20, false), (u64::MAX, false)] {
            let mut cache = ChainCache::new();
            cache.keep(id(0), key());
            assert_eq!(cache.find(&id(0), UnixSeconds(now)).is_some(), holds, "{now}");
            assert_eq!(cache.is_empty(), !holds, "what no longer holds is forgotten");
        }
        // Nor longer than the list that was consulted.
        let term = Term { from: UnixSeconds(10), until: UnixSeconds(15) };
        let list = ListHead { term, number: Some(1) };
        for (now, holds) in [(14, true), (15, false), (16, false)] {
            let mut cache = ChainCache::new();
            cache.keep(id(0), VerifiedKey { list: Some(list), ..key() });
            assert_eq!(cache.find(&id(0), UnixSeconds(now)).is_some(), holds, "{now}");
        }
    }

    #[test]
    fn every_part_of_an_id_counts() {
        let mut cache = ChainCache::new();
        cache.keep(id(0), key());
        let other = Digest::new([9; 32]);
        for unknown in [
            ChainId { simulated: true, ..id(0) },
            ChainId { signer: other, ..id(0) },
            ChainId { issuers: other, ..id(0) },
        ] {
            assert!(cache.find(&unknown, UnixSeconds(15)).is_none(), "{unknown:?}");
        }
    }
}
