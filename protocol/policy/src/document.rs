//! The policy document as data. Field meanings follow the JSON of the same name in camelCase.

mod entry;
mod session;

use std::collections::{BTreeMap, BTreeSet};

use sealane_types::{
    Carrier, Cipher, CongestionControl, CrlIssuer, Digest, Namespace, PeerName, PolicyName, PublicKey,
    RootSource, UnixSeconds,
};

pub(crate) use entry::PCRS;
pub use entry::{
    Entry, NitroMeasurement, NitroPermissions, NitroReference, Pinnable, Reference, SnpAbi, SnpFirmware,
    SnpIdentity, SnpPermissions, SnpReference, Tcb, TdxMeasurement, TdxPermissions, TdxReference, Workload,
};
pub use session::{Flow, SessionKind, SessionRule};

use crate::Timestamp;
use crate::limits::{REATTEST_SECONDS_MAX, SESSION_SECONDS_DEFAULT};

/// What the owners of one namespace's policy signed: who takes part, what each must prove, who may talk to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Of the format; 1 is the only one.
    pub version: u64,
    pub namespace: Namespace,
    pub name: PolicyName,
    /// Grows by at least one with every signed document.
    pub epoch: u64,
    pub not_before: Timestamp,
    /// First second at which the document is no longer in force.
    pub expires: Timestamp,
    /// Digest of the document of the epoch before, if this one names it.
    pub previous: Option<Digest>,
    /// Who signs the next document.
    pub authorities: Authorities,
    pub peers: BTreeMap<PeerName, PolicyPeer>,
    pub sessions: Vec<SessionRule>,
    pub floors: Floors,
    pub limits: Limits,
    /// How long collateral that is over still counts.
    pub collateral: CollateralRules,
    /// Who may ask a sidecar for evidence without a session.
    pub auditors: Option<Auditors>,
}

/// `threshold` distinct keys out of `keys` must sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorities {
    pub threshold: u32,
    pub keys: BTreeSet<PublicKey>,
}

/// What a replica of one Peer must prove: any one entry suffices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyPeer {
    pub entries: Vec<Entry>,
    /// This Peer may be satisfied by evidence that also satisfies another Peer which says the same.
    pub shared_evidence: bool,
}

/// What every connection must reach, whatever was negotiated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floors {
    /// Refuse classical-only keys. True unless the document says otherwise.
    pub post_quantum: bool,
    /// Permitted record ciphers; an absent or empty list permits the two with 256-bit keys.
    pub ciphers: BTreeSet<Cipher>,
    /// Permitted carriers; an absent or empty list permits those of the first release, and no later one: owners sign what
    /// they know.
    pub carriers: BTreeSet<Carrier>,
    /// Permitted congestion controls of what UDP or AF_XDP carries; an absent or empty list permits those of the first
    /// release, and no later one.
    pub congestion: BTreeSet<CongestionControl>,
    /// Refuse a document that leaves a pinnable reference value open.
    pub complete: bool,
    /// Refuse a side whose roots came from somewhere weaker.
    pub root_source: RootSource,
}

impl Default for Floors {
    fn default() -> Self {
        Self {
            post_quantum: true,
            ciphers: [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305].into(),
            carriers: [Carrier::Tcp, Carrier::Udp, Carrier::AfXdp].into(),
            congestion: [CongestionControl::Cubic, CongestionControl::Bbr].into(),
            complete: false,
            root_source: RootSource::Injected,
        }
    }
}

/// What no connection may exceed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Seconds from the handshake in which two replicas proved themselves first until their connection ends, however often
    /// they proved themselves again or resumed it.
    pub session_seconds: u64,
    /// Seconds from one attestation of a connection until the next, whatever is configured outside of the document.
    pub reattest_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { session_seconds: SESSION_SECONDS_DEFAULT, reattest_seconds: REATTEST_SECONDS_MAX }
    }
}

/// What holds for revocation lists and TCB information, beside what their vendors say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollateralRules {
    /// How long after their end they still count, and whoever rests on them is Degraded. Zero unless the document says
    /// otherwise.
    pub grace_seconds: u64,
    /// How long after their issue they count at most, whatever end their vendor gave them, and whatever grace there is.
    pub max_age_seconds: Option<u64>,
    /// The least number (RFC 5280 §5.2.3) that a list of each issuer must have.
    pub min_crl_number: BTreeMap<CrlIssuer, u64>,
    /// Since when a list of each issuer must have been issued: Intel numbers none of its lists.
    pub min_crl_issued: BTreeMap<CrlIssuer, Timestamp>,
    /// The least tcbEvaluationDataNumber of Intel's statements.
    pub min_tcb_evaluation: Option<u32>,
}

impl CollateralRules {
    /// The last second at which something counts that was issued at `from` and says that it ends at `until`.
    #[must_use]
    pub fn end(&self, from: UnixSeconds, until: UnixSeconds) -> UnixSeconds {
        let until = until.plus(self.grace_seconds);
        self.max_age_seconds.map_or(until, |most| until.min(from.plus(most)))
    }

    /// Whether a list of `issuer` that was issued at `from` is new enough.
    #[must_use]
    pub fn permits_issue(&self, issuer: CrlIssuer, from: UnixSeconds) -> bool {
        self.min_crl_issued.get(&issuer).is_none_or(|least| from >= least.unix())
    }

    /// Whether a list of `issuer` with this number is new enough.
    #[must_use]
    pub fn permits_number(&self, issuer: CrlIssuer, number: Option<u64>) -> bool {
        self.min_crl_number.get(&issuer).is_none_or(|least| number.is_some_and(|number| number >= *least))
    }

    /// Whether a statement of Intel's with this tcbEvaluationDataNumber is new enough.
    #[must_use]
    pub fn permits_evaluation(&self, found: u32) -> bool {
        self.min_tcb_evaluation.is_none_or(|least| found >= least)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auditors {
    pub public_keys: BTreeSet<PublicKey>,
}
