//! What the statement of a pinned key says.

use sealane_types::PublicKey;

/// That the holder of a key made the statement. There is nothing else to tell: no guest, no platform, no TCB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyClaims {
    pub(crate) public_key: PublicKey,
}

impl KeyClaims {
    /// The Ed25519 key that signed.
    #[must_use]
    pub const fn public_key(&self) -> &PublicKey {
        &self.public_key
    }
}
