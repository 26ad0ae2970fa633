//! What ties evidence to one handshake: a leaf per handshake, a tree per quote, one REPORT_DATA.
//!
//! `lp(x)` is the length of `x` in bytes as a big-endian `u32`, followed by `x`. With it:
//!
//! ```text
//! leaf        = SHA-256(0x00 ‖ lp("sealane/1 leaf") ‖ purpose ‖ role
//!                       ‖ lp(h) ‖ lp(binding key) ‖ lp(own static) ‖ lp(peer static))
//! node        = SHA-256(0x01 ‖ left ‖ right)
//! REPORT_DATA = SHA-512(lp("sealane/1 report") ‖ lp(platform) ‖ lp(pod identity) ‖ lp(own static)
//!                       ‖ lp(own policy digest) ‖ u32 leaves ‖ root)
//! ```
//!
//! Evidence of a node states the workload, and is told apart from that of a pod by a label of its own:
//!
//! ```text
//! REPORT_DATA = SHA-512(lp("sealane/1 node report") ‖ lp(platform) ‖ lp(pod identity) ‖ lp(own static)
//!                       ‖ lp(own policy digest) ‖ u32 leaves ‖ root ‖ lp(workload))
//! ```
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
const NODE_REPORT_LABEL: &[u8] = b"sealane/1 node report";
const LEAF_TAG: u8 = 0x00;

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

/// The 64 bytes that the platform signs for a tree of `leaves` leaves with `root`.
///
/// `own_static` and `policy` are the prover's: its static key, and the digest of the policy it runs under.
#[must_use]
pub fn report_data(
    platform: Platform,
    pod: &PodIdentity,
    own_static: &[u8; 32],
    policy: &Digest,
    leaves: u32,
    root: &[u8; 32],
) -> [u8; 64] {
    finish(report(REPORT_LABEL, platform, pod, own_static, policy, leaves, root))
}

/// As [`report_data`], for evidence of the node on which the pod runs `workload`, as its node agent states. `own_static`
/// and `policy` are those of the sidecar that asks; `pod` and `workload` the agent finds out by itself.
#[must_use]
pub fn node_report_data(
    platform: Platform,
    pod: &PodIdentity,
    own_static: &[u8; 32],
    policy: &Digest,
    leaves: u32,
    root: &[u8; 32],
    workload: &StatedWorkload,
) -> [u8; 64] {
    let mut hash = report(NODE_REPORT_LABEL, platform, pod, own_static, policy, leaves, root);
    update_prefixed(&mut hash, &workload.encode());
    finish(hash)
}

/// What both kinds of REPORT_DATA begin with.
fn report(
    label: &[u8],
    platform: Platform,
    pod: &PodIdentity,
    own_static: &[u8; 32],
    policy: &Digest,
    leaves: u32,
    root: &[u8; 32],
) -> Context {
    let mut hash = Context::new(&SHA512);
    update_prefixed(&mut hash, label);
    update_prefixed(&mut hash, platform.as_str().as_bytes());
    update_prefixed(&mut hash, pod.as_str().as_bytes());
    update_prefixed(&mut hash, own_static);
    update_prefixed(&mut hash, policy.as_bytes());
    hash.update(&leaves.to_be_bytes());
    hash.update(root);
    hash
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
        let (digest, other_digest) = (Digest::new([5; 32]), Digest::new([6; 32]));
        let honest = report_data(Platform::SevSnp, &pod, &OWN, &digest, 1, &H);
        for other in [
            report_data(Platform::Simulated, &pod, &OWN, &digest, 1, &H),
            report_data(Platform::SevSnp, &other_pod, &OWN, &digest, 1, &H),
            report_data(Platform::SevSnp, &pod, &PEER, &digest, 1, &H),
            report_data(Platform::SevSnp, &pod, &OWN, &other_digest, 1, &H),
            report_data(Platform::SevSnp, &pod, &OWN, &digest, 2, &H),
            report_data(Platform::SevSnp, &pod, &OWN, &digest, 1, &KEY),
        ] {
            assert_ne!(honest, other);
        }
    }
}
