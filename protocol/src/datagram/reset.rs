//! What ends a connection that its receiver does not know any more (RFC 9000 §10.3): a token that it told the sender under
//! the connection's keys, and that it makes again of the connection's id without having kept anything.

use std::ops::Range;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use subtle::ConstantTimeEq as _;

use crate::connection::Fail;
use crate::keys::{Random, RandomFailed, Secret};
use crate::record::{ConnectionId, PacketNumber};
use crate::recovery::Ranges;

pub(crate) const RESET_TOKEN_BYTES: usize = 16;
const LABEL: &[u8] = b"sealane/v1 reset";

/// Whoever knows it can end the connection, and nothing else.
#[derive(Clone, Copy)]
pub(crate) struct ResetToken(pub(crate) [u8; RESET_TOKEN_BYTES]);

impl PartialEq for ResetToken {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for ResetToken {}

impl std::fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResetToken(redacted)")
    }
}

/// Makes the tokens of one port. Two ports that are open at once never make the same: each would answer for connections of
/// the other, and so tell their tokens to whoever asks (RFC 9000 §21.11).
pub struct ResetKey {
    key: Key,
    port: u16,
}

impl ResetKey {
    /// Of the port that is dialled, and a secret that outlives the process, so that the process after it can end what this
    /// one leaves.
    #[must_use]
    pub fn new(secret: &Secret<32>, port: u16) -> Self {
        Self { key: Key::new(HMAC_SHA256, secret.expose()), port }
    }

    pub(super) fn random(random: &mut dyn Random) -> Result<Self, RandomFailed> {
        Secret::random(random).map(|secret| Self::new(&secret, 0))
    }

    pub(crate) fn token(&self, id: ConnectionId) -> ResetToken {
        let tag = sign(&self.key, &[LABEL, &self.port.to_be_bytes(), &id.0].concat());
        let mut token = [0; RESET_TOKEN_BYTES];
        token.iter_mut().zip(tag.as_ref()).for_each(|(byte, full)| *byte = *full);
        ResetToken(token)
    }
}

impl std::fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResetKey(redacted)")
    }
}

/// How either side ends the connection once it has lost it.
#[derive(Debug, Default)]
pub(super) struct Resets {
    /// Of this side, until the remote has heard it.
    untold: Option<UntoldToken>,
    remote: Option<ResetToken>,
}

/// A token, and the packets that told it.
#[derive(Debug)]
struct UntoldToken {
    token: ResetToken,
    packets: Ranges,
}

impl Resets {
    /// From now on the remote is told `token`.
    pub(super) fn tell(&mut self, token: ResetToken) {
        self.untold = Some(UntoldToken { token, packets: Ranges::new() });
    }

    /// What the next packet that asks for an acknowledgement tells.
    pub(super) fn untold(&self) -> Option<ResetToken> {
        self.untold.as_ref().map(|untold| untold.token)
    }

    pub(super) fn on_told(&mut self, packet: PacketNumber) {
        if let Some(untold) = &mut self.untold {
            untold.packets.insert(packet.0..packet.0.saturating_add(1));
        }
    }

    /// Packets arrived: with one that told the token, the remote has heard it.
    pub(super) fn on_acknowledged(&mut self, mut arrived: impl Iterator<Item = Range<u64>>) {
        let overlaps = |one: &Range<u64>, other: &Range<u64>| one.start < other.end && other.start < one.end;
        self.untold.take_if(|untold| {
            arrived.any(|arrived| untold.packets.iter().any(|told| overlaps(&told, &arrived)))
        });
    }

    /// The remote tells its token.
    pub(super) fn on_heard(&mut self, token: ResetToken) -> Result<(), Fail> {
        if *self.remote.get_or_insert(token) == token {
            return Ok(());
        }
        Err(Fail::Order("another token that ends the connection"))
    }

    /// Whether whoever says `token` is the remote, which has lost the connection.
    pub(super) fn ends(&self, token: ResetToken) -> bool {
        self.remote == Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ConnectionId = ConnectionId([7; 8]);

    fn key(fill: u8, port: u16) -> ResetKey {
        ResetKey::new(&Secret::take(&mut [fill; 32]), port)
    }

    #[test]
    fn a_token_is_its_keys_its_ports_and_its_connections() {
        let token = key(1, 14_710).token(ID);
        assert_eq!(token, key(1, 14_710).token(ID), "made again after a restart");
        assert_ne!(token, key(1, 14_710).token(ConnectionId([8; 8])));
        assert_ne!(token, key(1, 14_711).token(ID));
        assert_ne!(token, key(2, 14_710).token(ID));
        assert_eq!(format!("{token:?} {:?}", key(1, 1)), "ResetToken(redacted) ResetKey(redacted)");
    }

    #[test]
    fn it_is_told_until_a_packet_with_it_arrived() {
        let mut resets = Resets::default();
        assert_eq!(resets.untold(), None);
        let token = key(1, 1).token(ID);
        resets.tell(token);
        for packet in [0, 1, 5] {
            assert_eq!(resets.untold(), Some(token));
            resets.on_told(PacketNumber(packet));
        }
        // 2 to 4 had something else to say.
        resets.on_acknowledged([6..9, 2..5].into_iter());
        assert_eq!(resets.untold(), Some(token));
        resets.on_acknowledged([6..9, 1..3].into_iter());
        assert_eq!(resets.untold(), None, "and no longer");
    }

    #[test]
    fn only_the_token_that_was_told_ends_it() {
        let (token, other) = (key(1, 1).token(ID), key(2, 1).token(ID));
        let mut resets = Resets::default();
        assert!(!resets.ends(token), "nothing was told");
        // One's own ends nothing here.
        resets.tell(other);
        resets.on_heard(token).unwrap();
        assert!(resets.ends(token) && !resets.ends(other));
        resets.on_heard(token).unwrap();
        assert!(resets.on_heard(other).is_err(), "there is one for each side");
    }
}
