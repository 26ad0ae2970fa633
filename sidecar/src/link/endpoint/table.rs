//! The connections of one endpoint, by how either side calls them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sealane_protocol::datagram::{ConnectionId, Route};
use tokio::sync::Notify;

use super::inbox::Inbox;

/// How a remote calls a connection, and where it is.
pub(super) type Opening = (SocketAddr, ConnectionId);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Table {
    connections: Mutex<Connections>,
    /// Told when a connection is forgotten.
    forgotten: Notify,
}

#[derive(Debug, Default)]
struct Connections {
    inboxes: HashMap<ConnectionId, Inbox>,
    /// How remotes call connections while they do not know how this side calls them, or have forgotten it.
    openings: HashMap<Opening, ConnectionId>,
}

impl Table {
    /// Resolves when no connection is left.
    pub(super) async fn deserted(&self) {
        loop {
            let forgotten = self.forgotten.notified();
            if self.lock().inboxes.is_empty() {
                return;
            }
            forgotten.await;
        }
    }

    /// A connection begins, and hears what is put into its inbox.
    pub(super) fn add(&self, id: ConnectionId, opening: Option<Opening>) -> Inbox {
        let inbox = Inbox::default();
        let mut connections = self.lock();
        connections.inboxes.insert(id, inbox.clone());
        connections.openings.extend(opening.map(|opening| (opening, id)));
        inbox
    }

    /// The remote of connection `id` calls it so.
    pub(super) fn call(&self, id: ConnectionId, opening: Opening) {
        self.lock().openings.insert(opening, id);
    }

    /// Whose a datagram of `from` is.
    pub(super) fn find(&self, from: SocketAddr, for_whom: Route) -> Option<Inbox> {
        let connections = self.lock();
        let id = match for_whom {
            Route::To(id) => Some(id),
            Route::Opening(id) => connections.openings.get(&(from, id)).copied(),
            Route::Stranger => None,
        };
        id.and_then(|id| connections.inboxes.get(&id).cloned())
    }

    /// A connection is over.
    pub(super) fn forget(&self, id: ConnectionId, opening: Option<Opening>) {
        let mut connections = self.lock();
        connections.inboxes.remove(&id);
        if let Some(opening) = opening {
            connections.openings.remove(&opening);
        }
        drop(connections);
        self.forgotten.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use sealane_protocol::datagram::route;

    use super::*;
    use crate::context::tests::endpoint;

    const FROM: ([u8; 4], u16) = ([10, 0, 0, 2], 9);

    fn id(to: u8) -> ConnectionId {
        let mut packet = vec![to; 100];
        packet[0] = 0b0100_0000;
        match route(&packet) {
            Some(Route::To(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_remote_that_forgot_a_connection_names_it_by_its_own_word() {
        let endpoint = endpoint();
        let mut dialled = endpoint.subscribe_dialling(id(1));
        assert!(!dialled.is_called());
        dialled.called(FROM.into(), id(7));
        assert!(dialled.is_called());
        assert_eq!(endpoint.table.lock().openings.get(&(FROM.into(), id(7))), Some(&id(1)));
        drop(dialled);
        let left = endpoint.table.lock();
        assert!(left.openings.is_empty() && left.inboxes.is_empty());
    }
}
