//! What ties evidence to one handshake: a leaf per handshake, a tree per quote, one REPORT_DATA.
//!
//! `lp(x)` is the length of `x` in bytes as a big-endian `u32`, followed by `x`. With it:
//!
//! ```text
//! leaf        = SHA-256(0x00 ‖ lp("sealane/1 leaf") ‖ purpose ‖ role
//!                       ‖ lp(h) ‖ lp(binding key) ‖ lp(own static) ‖ lp(peer static))
//! node        = SHA-256(0x01 ‖ left ‖ right)
//! REPORT_DATA = SHA-512(lp("sealane/1 report") ‖ lp(platform) ‖ lp(pod identity) ‖ lp(own static)
//!                       ‖ lp(own policy digest) ‖ lp(digest of the trust configuration)
//!                       ‖ lp(workload, or nothing) ‖ lp(digest of the list of devices, or nothing) ‖ u32 leaves ‖ root)
//! ```
//!
//! The workload is what a node agent states, in evidence of a node alone. No device is attested yet: its place is kept, so that
//! REPORT_DATA changes once. For the same reason purpose 4 is that of a key for receipts, and 5 and more are reserved.
//!
//! `purpose` and `role` are one byte each, `u32` is big-endian, the platform is its word (`SevSnp`), the pod
//! identity is `namespace/pod/uid` in UTF-8. `h` is the final handshake hash, so a leaf covers both
//! ephemerals and both statics; the binding key is a secret of the session, so only the two ends can compute
//! it; purpose and role keep a quote from being reflected or used for something else.
//!
//! A Nitro document carries more than 64 bytes: REPORT_DATA as `user_data`, the root as `nonce`, the prover's static key
//! as `public_key`.
//!
//! Tests in `tests/vectors/binding.json` are recomputed in Python with hashlib.

mod merkle;

use aws_lc_rs::digest::{Context, SHA256, SHA512};
use sealane_types::{Digest, Platform, PodIdentity};

use crate::codec::length_prefix;
use crate::workload::StatedWorkload;

pub use merkle::{BatchSize, InvalidPath, MerklePath, Tree};

const LEAF_LABEL: &[u8] = b"sealane/1 leaf";
const REPORT_LABEL: &[u8] = b"sealane/1 report";
const LEAF_TAG: u8 = 0x00;
/// The place of a digest of a list of devices.
const NO_DEVICES: &[u8] = &[];

/// What a quote is for. The discriminant is the byte that is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Purpose {
    Handshake = 1,
    Reattest = 2,
    Audit = 3,
}

/// Which end of the handshake proves. The discriminant is the byte that is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    Initiator = 1,
    Responder = 2,
}

impl Role {
    /// The other end.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::Initiator => Self::Responder,
            Self::Responder => Self::Initiator,
        }
    }
}

/// One handshake, as the tree of a quote holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Leaf([u8; 32]);

impl Leaf {
    /// The leaf of the end with `role`: `own_static` is the prover's key, `peer_static` the verifier's. The
    /// verifier computes the same leaf with the prover's role and the two keys in this order.
    #[must_use]
    pub fn new(
        purpose: Purpose,
        role: Role,
        handshake_hash: &[u8; 32],
        binding_key: &[u8; 32],
        own_static: &[u8; 32],
        peer_static: &[u8; 32],
    ) -> Self {
        let mut hash = Context::new(&SHA256);
        hash.update(&[LEAF_TAG]);
        update_prefixed(&mut hash, LEAF_LABEL);
        hash.update(&[purpose as u8, role as u8]);
        for part in [handshake_hash, binding_key, own_static, peer_static] {
            update_prefixed(&mut hash, part);
        }
        Self(finish(hash))
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// What REPORT_DATA says of the prover.
#[derive(Debug, Clone, Copy)]
pub struct ReportSubject<'a> {
    pub platform: Platform,
    pub pod: &'a PodIdentity,
    pub own_static: &'a [u8; 32],
    /// Digest of the policy that the prover runs under.
    pub policy: &'a Digest,
    /// Digest of the trust configuration that the prover stated.
    pub trust: &'a Digest,
    /// What the node agent states that runs in the pod, in evidence of a node: `pod` and this are the agent's findings then, the
    /// rest is the word of the sidecar that asks.
    pub workload: Option<&'a StatedWorkload>,
}

/// The 64 bytes that the platform signs for a tree of `leaves` leaves with `root`.
#[must_use]
pub fn report_data(subject: &ReportSubject<'_>, leaves: u32, root: &[u8; 32]) -> [u8; 64] {
    let ReportSubject { platform, pod, own_static, policy, trust, workload } = *subject;
    let workload = workload.map(StatedWorkload::encode).unwrap_or_default();
    let mut hash = Context::new(&SHA512);
    update_prefixed(&mut hash, REPORT_LABEL);
    update_prefixed(&mut hash, platform.as_str().as_bytes());
    update_prefixed(&mut hash, pod.as_str().as_bytes());
    update_prefixed(&mut hash, own_static);
    update_prefixed(&mut hash, policy.as_bytes());
    update_prefixed(&mut hash, trust.as_bytes());
    update_prefixed(&mut hash, &workload);
    update_prefixed(&mut hash, NO_DEVICES);
    hash.update(&leaves.to_be_bytes());
    hash.update(root);
    finish(hash)
}

fn update_prefixed(hash: &mut Context, bytes: &[u8]) {
    hash.update(&length_prefix(bytes));
    hash.update(bytes);
}

/// The digest of `hash`, whose length is `N` by the choice of the algorithm.
fn finish<const N: usize>(hash: Context) -> [u8; N] {
    let digest = hash.finish();
    debug_assert_eq!(digest.as_ref().len(), N);
    let mut bytes = [0; N];
    bytes.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const H: [u8; 32] = [1; 32];
    const KEY: [u8; 32] = [2; 32];
    const OWN: [u8; 32] = [3; 32];
    const PEER: [u8; 32] = [4; 32];

    #[test]
    fn every_input_of_a_leaf_counts() {
        let leaf = |purpose, role, h, key, own, peer| Leaf::new(purpose, role, h, key, own, peer);
        let (handshake, initiator) = (Purpose::Handshake, Role::Initiator);
        let honest = leaf(handshake, initiator, &H, &KEY, &OWN, &PEER);
        for other in [
            leaf(Purpose::Reattest, initiator, &H, &KEY, &OWN, &PEER),
            leaf(Purpose::Audit, initiator, &H, &KEY, &OWN, &PEER),
            leaf(handshake, Role::Responder, &H, &KEY, &OWN, &PEER),
            leaf(handshake, initiator, &[9; 32], &KEY, &OWN, &PEER),
            leaf(handshake, initiator, &H, &[9; 32], &OWN, &PEER),
            leaf(handshake, initiator, &H, &KEY, &[9; 32], &PEER),
            leaf(handshake, initiator, &H, &KEY, &OWN, &[9; 32]),
            // Reflection: the verifier's own leaf never equals the prover's.
            leaf(handshake, initiator, &H, &KEY, &PEER, &OWN),
        ] {
            assert_ne!(honest, other);
        }
    }

    #[test]
    fn every_input_of_report_data_counts() {
        let pod = PodIdentity::new("demo", "embedder-0", "u").unwrap();
        let other_pod = PodIdentity::new("demo", "embedder-1", "u").unwrap();
        let [policy, trust, other] = [5, 6, 7].map(|byte| Digest::new([byte; 32]));
        let honest = ReportSubject {
            platform: Platform::SevSnp,
            pod: &pod,
            own_static: &OWN,
            policy: &policy,
            trust: &trust,
            workload: None,
        };
        let data = |subject: ReportSubject<'_>| report_data(&subject, 1, &H);
        for changed in [
            data(ReportSubject { platform: Platform::Simulated, ..honest }),
            data(ReportSubject { pod: &other_pod, ..honest }),
            data(ReportSubject { own_static: &PEER, ..honest }),
            data(ReportSubject { policy: &other, ..honest }),
            data(ReportSubject { trust: &other, ..honest }),
            data(ReportSubject { policy: &trust, trust: &policy, ..honest }),
            report_data(&honest, 2, &H),
            report_data(&honest, 1, &KEY),
        ] {
            assert_ne!(changed, data(honest));
        }
    }
}
