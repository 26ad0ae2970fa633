//! How the dialler sees a replica that tensors are sent to.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use sealane_types::{PeerName, Reason};
use tokio::sync::Notify;

use super::Sending;
use super::association::Association;
use super::traffic::Outbound;
use crate::desired::Session;
use crate::session::dialer::{Keep, Purpose};
use crate::session::traffic::Traffic;

/// An association of a session that may be over before it.
pub(super) struct Kept {
    pub(super) sending: Weak<Sending>,
    pub(super) association: Arc<Association>,
}

impl Keep for Kept {
    fn peer(&self) -> &PeerName {
        self.association.peer()
    }

    fn id(&self) -> &str {
        self.association.id()
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.association.addresses()
    }

    fn is_leaving(&self) -> bool {
        self.association.is_leaving()
    }

    fn moved(&self) -> &Notify {
        &self.association.moved
    }

    fn session(&self) -> Option<Session> {
        self.sending.upgrade().map(|sending| sending.session())
    }

    fn traffic(&self, purpose: Purpose) -> Option<Box<dyn Traffic>> {
        let sending = Weak::clone(&self.sending);
        Some(Box::new(Outbound { sending, association: Arc::clone(&self.association), purpose }))
    }

    fn detach(&self, problem: (Reason, String)) {
        self.association.detach(problem);
    }

    fn end(&self) {
        self.association.end();
    }
}
