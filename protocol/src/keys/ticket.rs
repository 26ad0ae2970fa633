//! What a ticket is called, and what its secret is bound to.

use aws_lc_rs::digest::{SHA256, digest};
use sealane_attestation::binding::Role;
use sealane_types::Digest;

/// Random name of a ticket. It travels in clear when the ticket is presented: it is good once, and worth nothing
/// without the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketId(pub [u8; 16]);

/// SHA-256 of the evidence messages by which the two sides proved themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EvidenceDigests {
    initiator: Digest,
    responder: Digest,
}

impl EvidenceDigests {
    /// Before anything was shown.
    pub(crate) const NONE: Self = Self { initiator: Digest::new([0; 32]), responder: Digest::new([0; 32]) };

    /// `prover` showed this message.
    pub(crate) fn shown(&mut self, prover: Role, message: &[u8]) {
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(digest(&SHA256, message).as_ref()).for_each(|(to, from)| *to = *from);
        match prover {
            Role::Initiator => self.initiator = Digest::new(bytes),
            Role::Responder => self.responder = Digest::new(bytes),
        }
    }

    /// The initiator's, then the responder's.
    pub(crate) const fn parts(&self) -> [&[u8; 32]; 2] {
        [self.initiator.as_bytes(), self.responder.as_bytes()]
    }
}
