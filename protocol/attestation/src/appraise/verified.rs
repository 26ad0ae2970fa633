//! The proof that a peer was verified.

use std::fmt;
use std::sync::Arc;

use sealane_policy::Pinnable;
use sealane_types::{
    Assurance, Measurement, PeerName, Platform, PodIdentity, Reason, TcbStatus, UnixSeconds,
};

use crate::claims::Claims;
use crate::evidence::Evidence;
use crate::trust::TrustConfiguration;
use crate::workload::StatedWorkload;

/// Something that the policy tolerates and that has to be shown wherever the peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Degradation {
    /// The entry leaves a value open that evidence carries.
    ReferenceValueMissing(Pinnable),
    /// The evidence proves the node only, and nobody states which workload runs there.
    WorkloadUnverified,
    /// A revocation list or statement is over, and counts within the grace that the policy signs.
    CollateralStale,
}

impl Degradation {
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::ReferenceValueMissing(_) => Reason::ReferenceValueMissing,
            Self::WorkloadUnverified => Reason::WorkloadUnverified,
            Self::CollateralStale => Reason::CollateralStale,
        }
    }
}

impl fmt::Display for Degradation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReferenceValueMissing(value) => write!(f, "the policy leaves {value} open"),
            Self::WorkloadUnverified => f.write_str("the evidence proves the node, not the workload"),
            Self::CollateralStale => f.write_str("its collateral is over, within the policy's grace"),
        }
    }
}

/// A replica that proved to be what the policy demands of its Peer, and what it proved.
///
/// Only [`crate::appraise`] and [`crate::rejudge`] make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedPeer {
    pub(super) peer: PeerName,
    pub(super) pod: PodIdentity,
    pub(super) static_key: [u8; 32],
    pub(super) trust: Arc<TrustConfiguration>,
    pub(super) claims: Claims,
    pub(super) workload: Option<StatedWorkload>,
    pub(super) assurance: Assurance,
    pub(super) degradations: Vec<Degradation>,
    pub(super) evidence_time: UnixSeconds,
    pub(super) counts_until: UnixSeconds,
    /// What was judged, where collateral that changes later may change the verdict.
    pub(super) evidence: Option<Arc<Evidence>>,
    pub(super) edition: u64,
}

impl VerifiedPeer {
    #[must_use]
    pub const fn peer(&self) -> &PeerName {
        &self.peer
    }

    /// The replica.
    #[must_use]
    pub const fn pod(&self) -> &PodIdentity {
        &self.pod
    }

    /// The X25519 key that the evidence is bound to.
    #[must_use]
    pub const fn static_key(&self) -> &[u8; 32] {
        &self.static_key
    }

    /// What decides which policies the peer follows, as it stated and its evidence covers.
    #[must_use]
    pub fn trust(&self) -> &TrustConfiguration {
        &self.trust
    }

    #[must_use]
    pub const fn platform(&self) -> Platform {
        self.claims.platform()
    }

    /// As the policy's entry states it.
    #[must_use]
    pub const fn assurance(&self) -> Assurance {
        self.assurance
    }

    /// As the vendor's collateral states it ([`Claims::tcb_status`]).
    #[must_use]
    pub const fn tcb_status(&self) -> Option<TcbStatus> {
        self.claims.tcb_status()
    }

    /// The one value that names the guest best ([`Claims::measurement`]).
    #[must_use]
    pub const fn measurement(&self) -> Option<&Measurement> {
        self.claims.measurement()
    }

    /// Everything that was proved.
    #[must_use]
    pub const fn claims(&self) -> &Claims {
        &self.claims
    }

    /// What its node agent stated, bound by the same evidence; nothing where the pod itself is the TEE.
    #[must_use]
    pub const fn workload(&self) -> Option<&StatedWorkload> {
        self.workload.as_ref()
    }

    /// When the evidence was appraised first; a later [`crate::rejudge`] does not renew it.
    #[must_use]
    pub const fn evidence_time(&self) -> UnixSeconds {
        self.evidence_time
    }

    /// When the first certificate or revocation list under the evidence expires. The policy's own expiry and
    /// the re-attestation interval bound a session besides.
    #[must_use]
    pub fn expires(&self) -> UnixSeconds {
        self.claims.expires()
    }

    /// The last second in which it counts under the policy that it was judged by, whose grace may let what is over count for
    /// longer, and whose `maxAgeSeconds` for less.
    #[must_use]
    pub const fn counts_until(&self) -> UnixSeconds {
        self.counts_until
    }

    /// When something has to be renewed, for whoever shows it: by the vendor's word or the policy's, whichever comes first.
    /// Nothing under a pinned key ends by itself.
    #[must_use]
    pub fn ends(&self) -> Option<UnixSeconds> {
        Some(self.expires().min(self.counts_until)).filter(|end| *end != UnixSeconds::NEVER)
    }

    /// The edition of the collateral that it was judged by ([`crate::Collateral::edition`]).
    #[must_use]
    pub const fn edition(&self) -> u64 {
        self.edition
    }

    #[must_use]
    pub fn degradations(&self) -> &[Degradation] {
        &self.degradations
    }
}
