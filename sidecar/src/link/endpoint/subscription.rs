//! What one connection has of an endpoint.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sealane_protocol::Moment;
use sealane_protocol::datagram::{ConnectionId, Transmit};

use super::batch::Batch;
use super::inbox::Inbox;
use super::table::{Opening, Table};
use crate::link::udp::{Put, Socket, Unsent};
use crate::link::xdp::{Path, Xdp};

/// What a connection of this endpoint sends and receives with. Dropping it makes the endpoint forget the connection.
pub(crate) struct Subscription {
    socket: Arc<Socket>,
    /// Past the kernel, if that is how it is carried.
    path: Option<Box<Path>>,
    /// Where its remote sends to, which is where answers come from.
    pub(super) local: Option<IpAddr>,
    inbox: Inbox,
    /// Taken out of the inbox by whoever waited for it.
    next: Option<Batch>,
    /// Many wait for room of the one socket, so each has a place of its own in the line.
    room: Option<Room>,
    table: Arc<Table>,
    id: ConnectionId,
    /// How the remote calls it.
    opening: Option<Opening>,
}

type Room = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

impl Subscription {
    /// Of the connection `id`, beginning with `first`.
    pub(super) fn new(
        socket: Arc<Socket>,
        table: Arc<Table>,
        id: ConnectionId,
        opening: Option<Opening>,
        first: Option<Batch>,
    ) -> Self {
        let inbox = table.add(id, opening);
        Self { socket, path: None, local: None, inbox, next: first, room: None, table, id, opening }
    }

    /// The next datagrams; none: there are none now.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        let batch = self.next.take().or_else(|| self.inbox.take())?;
        self.local = batch.to.or(self.local);
        Some(batch)
    }

    /// From now on datagrams leave past the kernel.
    pub(crate) fn pass_kernel(&mut self, xdp: Arc<Xdp>) {
        self.path = Some(Box::new(Path::new(xdp)));
    }

    /// Its remote, at `source`, calls the connection `id`.
    pub(crate) fn called(&mut self, source: SocketAddr, id: ConnectionId) {
        if self.opening.is_none() {
            self.table.call(self.id, (source, id));
            self.opening = Some((source, id));
        }
    }

    pub(crate) const fn is_called(&self) -> bool {
        self.opening.is_some()
    }

    /// See [`Socket::put`].
    pub(crate) fn put(
        &mut self,
        now: Moment,
        fill: impl FnOnce(&mut [u8], usize) -> Option<Transmit>,
    ) -> Option<Put> {
        match &mut self.path {
            Some(path) => path.put(&self.socket, self.local, now, fill),
            None => self.socket.put_from(self.local, fill),
        }
    }

    /// See [`Socket::put_again`].
    pub(crate) fn put_again(&mut self, now: Moment, unsent: Unsent) -> Put {
        match &mut self.path {
            Some(path) => path.put_again(&self.socket, now, unsent),
            None => self.socket.put_again(unsent),
        }
    }

    /// Gives back memory that an idle connection has no use for.
    pub(crate) fn release(&self) {
        self.inbox.release();
    }

    /// Whether something has arrived, or there is room if `writing`.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>, writing: bool) -> Poll<io::Result<()>> {
        if self.next.is_some() {
            return Poll::Ready(Ok(()));
        }
        if let Poll::Ready(batch) = self.inbox.poll_take(context) {
            self.next = Some(batch);
            return Poll::Ready(Ok(()));
        }
        if !writing {
            self.room = None;
            return Poll::Pending;
        }
        let room = self.room.get_or_insert_with(|| match &self.path {
            Some(path) => Box::pin(path.room()),
            None => {
                let socket = Arc::clone(&self.socket);
                Box::pin(async move { socket.writable().await })
            }
        });
        let ready = room.as_mut().poll(context);
        if ready.is_ready() {
            self.room = None;
        }
        ready
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.table.forget(self.id, self.opening);
    }
}
