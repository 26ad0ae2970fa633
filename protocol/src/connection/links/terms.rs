//! What both ends of a connection know of its further links before there are any.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::join::JoinRequest;
use super::{Joiner, LinkReceiver};
use crate::Moment;
use crate::connection::{Fail, StartError};
use crate::handshake::{HandshakeError, Kind, capability};
use crate::keys::{Joining, Label, Random, Root, Secret};
use crate::limits::LINKS_MAX;
use crate::record::{Level, Rekey};

/// What further links begin with, between one handshake of a connection and the next. Wiped with its last holder.
#[derive(Debug)]
pub struct LinkTerms {
    pub(super) joining: Joining,
    name: [u8; 16],
    /// Links that were joined, a bit each: none is joined twice, so that a greeting which somebody repeats leads nowhere.
    joined: AtomicU8,
}

impl LinkTerms {
    /// None where the connection has no further links.
    pub(crate) fn of(root: &Root, kind: Kind, capabilities: u32, level: Level) -> Option<Arc<Self>> {
        let wanted = kind != Kind::Audit && capabilities & capability::LINKS != 0 && level == Level::Records;
        wanted.then(|| {
            let joining = root.joining();
            let name = joining.name();
            Arc::new(Self { joining, name, joined: AtomicU8::new(0) })
        })
    }

    /// What such links are known by on the wire.
    #[must_use]
    pub const fn name(&self) -> [u8; 16] {
        self.name
    }

    /// Begins the next link of the side that dials; None when all are joined.
    ///
    /// # Errors
    /// [`StartError::Random`].
    pub fn join(self: &Arc<Self>, random: &mut dyn Random) -> Result<Option<Joiner>, StartError> {
        match (1..LINKS_MAX).find(|link| self.take(*link)) {
            Some(link) => Joiner::new(Arc::clone(self), link, random).map(Some),
            None => Ok(None),
        }
    }

    /// Admits a link that the remote joins; with what it is answered.
    ///
    /// # Errors
    /// [`Fail`]: it was not the remote who asked, or asked before.
    pub fn admit(
        &self,
        request: &JoinRequest,
        rekey: Rekey,
        random: &mut dyn Random,
        now: Moment,
    ) -> Result<(LinkReceiver, Vec<u8>), Fail> {
        let JoinRequest { name, link, nonce, proof } = request;
        let expected = self.joining.proof(Label::Initiator, *link, nonce);
        if *name != self.name || Secret::take(&mut proof.clone()) != expected {
            return Err(HandshakeError::Crypto.into());
        }
        let mut own = [0; 32];
        random.fill(&mut own).map_err(|_| HandshakeError::Crypto)?;
        if !self.take(*link) {
            return Err(Fail::Order("a link was joined twice"));
        }
        let nonces = super::join::both(nonce, &own);
        let answer = super::join::answer(&own, &self.joining.proof(Label::Responder, *link, &nonces))?;
        Ok((LinkReceiver::new(self.joining.link(*link, &nonces), rekey, now), answer))
    }

    /// Whether `link` had not been joined.
    fn take(&self, link: u8) -> bool {
        let bit = 1_u8.checked_shl(link.into()).unwrap_or(0);
        link > 0 && link < LINKS_MAX && self.joined.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}
