//! HKDF-SHA-256 (RFC 5869) from the handshake's output to AEAD keys.
//!
//! ```text
//! root  = Extract(salt = h, IKM = split_i2r ‖ split_r2i ‖ ML-KEM secret, or that of the ticket)
//! info  = "sealane/1 " ["classical "] ‖ label ‖ 0x00 ‖ suite ‖ h ‖ context
//! ```
//!
//! The handshake hash `h` is public: it separates, it is never key material.

use std::fmt;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

use super::label::{PREFIX_CLASSICAL, PREFIX_HYBRID};
use super::{EvidenceDigests, Label, Secret, TicketId};
use crate::handshake::Suite;

/// The two keys of Noise's final Split(), before anything was sealed with them.
pub(crate) struct Split {
    pub(crate) initiator: Secret<32>,
    pub(crate) responder: Secret<32>,
}

/// What every expansion of one handshake has in common.
#[derive(Clone, Copy)]
struct Scope {
    suite: Suite,
    handshake_hash: [u8; 32],
}

/// The secret that both ends share after the handshake.
pub(crate) struct Root {
    prk: Prk,
    scope: Scope,
}

/// The secret of one phase of one direction of one link.
pub(crate) struct LinkSecret {
    secret: Secret<32>,
    scope: Scope,
}

/// What further links are named, proved and sealed by, between one handshake of a connection and the next.
pub(crate) struct Joining {
    join: Prk,
    /// From the secret of everything that the initiator sends: it alone sends over such links.
    joined: Prk,
    scope: Scope,
}

/// What the tickets of one handshake are made from, as long as its connection lives.
pub(crate) struct Resumption {
    secret: Secret<32>,
    scope: Scope,
}

impl Root {
    /// The KEM secret is there exactly when the suite is hybrid; the handshake sees to that.
    pub(crate) fn new(
        split: &Split,
        kem: Option<&Secret<32>>,
        suite: Suite,
        handshake_hash: [u8; 32],
    ) -> Self {
        debug_assert_eq!(kem.is_some(), suite.post_quantum());
        Self::extract(split, kem, suite, handshake_hash)
    }

    /// The root of a connection that was resumed: the secret of its ticket takes the place of the KEM secret, from which
    /// it came if the suite is hybrid. So these keys hold against whoever does not know the ticket even if nothing else
    /// of the handshake did.
    pub(crate) fn resumed(
        split: &Split,
        ticket: &Secret<32>,
        suite: Suite,
        handshake_hash: [u8; 32],
    ) -> Self {
        Self::extract(split, Some(ticket), suite, handshake_hash)
    }

    fn extract(split: &Split, kem: Option<&Secret<32>>, suite: Suite, handshake_hash: [u8; 32]) -> Self {
        let mut material = Secret::<96>::zeroed();
        let (halves, third) = material.bytes_mut().split_at_mut(64);
        let (first, second) = halves.split_at_mut(32);
        first.copy_from_slice(split.initiator.expose());
        second.copy_from_slice(split.responder.expose());
        if let Some(kem) = kem {
            third.copy_from_slice(kem.expose());
        }
        let used = if kem.is_some() { material.expose().as_slice() } else { halves_of(&material) };
        let prk = Salt::new(HKDF_SHA256, &handshake_hash).extract(used);
        Self { prk, scope: Scope { suite, handshake_hash } }
    }

    /// A secret that both ends know and nobody else does; leaves of the evidence tree commit to it.
    pub(crate) fn binding_key(&self) -> Secret<32> {
        self.scope.expand(&self.prk, Label::Binding, &[])
    }

    /// What tickets are made from.
    pub(crate) fn resumption(&self) -> Resumption {
        Resumption { secret: self.scope.expand(&self.prk, Label::Resume, &[]), scope: self.scope }
    }

    /// What further links begin with.
    pub(crate) fn joining(&self) -> Joining {
        let join: Secret<32> = self.scope.expand(&self.prk, Label::Join, &[]);
        let joined = self.of_direction(Label::Initiator, Label::Joined, &[]);
        let prk = |secret: &Secret<32>| Prk::new_less_safe(HKDF_SHA256, secret.expose());
        Joining { join: prk(&join), joined: prk(&joined.secret), scope: self.scope }
    }

    /// The secret of the direction `from` of link 0, the connection's own, which has no nonces: zeros.
    pub(crate) fn link(&self, from: Label) -> LinkSecret {
        debug_assert!(matches!(from, Label::Initiator | Label::Responder));
        self.of_direction(from, Label::Link, &[&[0; 4], &[0; 64]])
    }

    /// The secret of the datagrams of the direction `from`. It differs from that of every link, so that a handshake which
    /// somebody carried from one kind of carrier to the other gives two sides that do not understand each other.
    pub(crate) fn datagrams(&self, from: Label) -> LinkSecret {
        self.of_direction(from, Label::Datagrams, &[])
    }

    fn of_direction(&self, from: Label, label: Label, context: &[&[u8]]) -> LinkSecret {
        let direction: Secret<32> = self.scope.expand(&self.prk, from, &[]);
        let direction = Prk::new_less_safe(HKDF_SHA256, direction.expose());
        LinkSecret { secret: self.scope.expand(&direction, label, context), scope: self.scope }
    }
}

impl Joining {
    /// What such links are known by on the wire.
    pub(crate) fn name(&self) -> [u8; 16] {
        *self.scope.expand(&self.join, Label::JoinName, &[]).expose()
    }

    /// The proof of `by` that it knows the connection: of the initiator for its nonce, of the responder for both.
    pub(crate) fn proof(&self, by: Label, link: u8, nonces: &[u8]) -> Secret<32> {
        debug_assert!(matches!(by, Label::Initiator | Label::Responder));
        self.scope.expand(&self.join, by, &[&u32::from(link).to_be_bytes(), nonces])
    }

    /// The secret of one such link.
    pub(crate) fn link(&self, link: u8, nonces: &[u8; 64]) -> LinkSecret {
        let secret = self.scope.expand(&self.joined, Label::Link, &[&u32::from(link).to_be_bytes(), nonces]);
        LinkSecret { secret, scope: self.scope }
    }
}

impl Resumption {
    /// The secret of one ticket, which both sides make for themselves. It differs where they saw other evidence.
    pub(crate) fn ticket(&self, id: TicketId, evidence: &EvidenceDigests) -> Secret<32> {
        let prk = Prk::new_less_safe(HKDF_SHA256, self.secret.expose());
        let [initiator, responder] = evidence.parts();
        self.scope.expand(&prk, Label::Ticket, &[&id.0, initiator, responder])
    }
}

impl LinkSecret {
    pub(crate) fn key(&self) -> Secret<32> {
        self.derive(Label::Key)
    }

    pub(crate) fn nonce(&self) -> Secret<12> {
        self.derive(Label::Nonce)
    }

    /// What hides the headers of datagrams.
    pub(crate) fn header(&self) -> Secret<32> {
        self.derive(Label::Header)
    }

    /// The secret of the next phase; this one is kept, because packets of it may still be on their way.
    pub(crate) fn successor(&self) -> Self {
        Self { secret: self.derive(Label::Update), scope: self.scope }
    }

    /// The secret of the next phase; this one is wiped.
    pub(crate) fn update(self) -> Self {
        self.successor()
    }

    pub(crate) const fn suite(&self) -> Suite {
        self.scope.suite
    }

    #[cfg(test)]
    pub(crate) const fn secret(&self) -> &Secret<32> {
        &self.secret
    }

    fn derive<const N: usize>(&self, label: Label) -> Secret<N> {
        self.scope.expand(&Prk::new_less_safe(HKDF_SHA256, self.secret.expose()), label, &[])
    }
}

impl Scope {
    fn expand<const N: usize>(&self, prk: &Prk, label: Label, context: &[&[u8]]) -> Secret<N> {
        let prefix = if self.suite.post_quantum() { PREFIX_HYBRID } else { PREFIX_CLASSICAL };
        let suite = self.suite.code().to_be_bytes();
        let context = context.concat();
        let info: [&[u8]; 6] = [prefix, label.as_bytes(), &[0], &suite, &self.handshake_hash, &context];
        let mut secret = Secret::zeroed();
        #[expect(clippy::expect_used, reason = "RFC 5869 §2.3: only lengths above 255 hashes fail")]
        prk.expand(&info, Length(N)).and_then(|okm| okm.fill(secret.bytes_mut())).expect("N is at most 32");
        secret
    }
}

impl fmt::Debug for Joining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Joining(redacted)")
    }
}

impl fmt::Debug for Resumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resumption(redacted)")
    }
}

impl fmt::Debug for LinkSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkSecret(redacted)")
    }
}

fn halves_of(material: &Secret<96>) -> &[u8] {
    material.expose().split_at(64).0
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}
