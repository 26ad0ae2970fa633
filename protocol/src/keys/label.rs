//! Every label that secrets are derived under, in one table. `PROTOCOL.md` repeats it.

/// What a derived secret is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    /// Secret of everything that the initiator sends.
    Initiator,
    /// Secret of everything that the responder sends.
    Responder,
    /// Secret that a leaf of the evidence tree commits to.
    Binding,
    /// Secret that the connection's tickets are made from.
    Resume,
    /// From that secret: secret of one ticket.
    Ticket,
    /// From a direction's secret, or for further links from what is made of it for them: secret of one link.
    Link,
    /// Secret that further links of the connection are named and proved by.
    Join,
    /// From that secret: their name on the wire.
    JoinName,
    /// From a direction's secret: secret that those of further links are made from.
    Joined,
    /// From a direction's secret: secret of its datagrams, where they take the place of links.
    Datagrams,
    /// From the secret of datagrams: key that hides their headers.
    Header,
    /// From a phase's secret: AEAD key.
    Key,
    /// From a phase's secret: AEAD nonce mask.
    Nonce,
    /// From a phase's secret: secret of the next phase.
    Update,
}

impl Label {
    pub(crate) const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Initiator => b"initiator",
            Self::Responder => b"responder",
            Self::Binding => b"binding",
            Self::Resume => b"resume",
            Self::Ticket => b"ticket",
            Self::Link => b"link",
            Self::Join => b"join",
            Self::JoinName => b"join name",
            Self::Joined => b"joined",
            Self::Datagrams => b"datagrams",
            Self::Header => b"header",
            Self::Key => b"key",
            Self::Nonce => b"nonce",
            Self::Update => b"update",
        }
    }
}

/// Starts every label of a hybrid suite.
pub(crate) const PREFIX_HYBRID: &[u8] = b"sealane/1 ";
/// Starts every label of a classical suite, so that leaving out the ML-KEM secret can never give the keys of
/// a hybrid handshake.
pub(crate) const PREFIX_CLASSICAL: &[u8] = b"sealane/1 classical ";
