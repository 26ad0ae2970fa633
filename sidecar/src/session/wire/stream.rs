//! Records over a TCP connection.

use std::io;
use std::time::Duration;

use sealane_protocol::Moment;
use sealane_protocol::connection::{Connection, Fail, Sink};
use sealane_protocol::record::InputBuffer;

use super::Moved;
use crate::link::tcp::{self, Link};
use crate::session::carried::Hindrance;

/// See the module's documentation.
#[derive(Debug)]
pub(in crate::session) struct Stream {
    link: Link,
    input: InputBuffer,
    /// Why it is there in the place of datagrams.
    instead: Option<Hindrance>,
}

impl Stream {
    pub(in crate::session) const fn new(link: Link, instead: Option<Hindrance>) -> Self {
        Self { link, input: InputBuffer::new(), instead }
    }

    pub(super) const fn instead(&self) -> Option<Hindrance> {
        self.instead
    }

    pub(super) fn dialled(&self) -> Option<Duration> {
        self.link.dialled()
    }

    pub(super) fn congestion(&self) -> Option<String> {
        self.link.congestion()
    }

    pub(super) fn put(&self, connection: &mut Connection, now: Moment) -> Moved {
        let mut moved = Moved::NOTHING;
        loop {
            let output = connection.poll_output(now);
            if output.is_empty() {
                return moved;
            }
            match self.link.put(output) {
                tcp::Moved::Bytes(bytes) => connection.output_written(bytes),
                tcp::Moved::Blocked => return Moved { blocked: true, ..moved },
                // Not cut yet: the reason of the remote's close may lie unread, and taking comes to the end as well.
                tcp::Moved::Over => return moved,
            }
            moved.any = true;
        }
    }

    pub(super) fn take(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        sink: &mut dyn Sink,
    ) -> (Moved, Result<(), Fail>) {
        match self.link.take(self.input.space()) {
            tcp::Moved::Bytes(bytes) => self.input.filled(bytes),
            tcp::Moved::Blocked => return (Moved::NOTHING, Ok(())),
            tcp::Moved::Over => return (Moved { cut: true, ..Moved::NOTHING }, Ok(())),
        }
        let handled = connection.handle_input(now, self.input.unread(), sink);
        let handled = handled.map(|consumed| self.input.consumed(consumed));
        (Moved { any: true, ..Moved::NOTHING }, handled)
    }

    pub(super) async fn ready(&self, writing: bool) -> io::Result<()> {
        self.link.ready(writing).await.map(drop)
    }

    pub(super) async fn writable(&self) -> io::Result<()> {
        self.link.writable().await
    }

    pub(super) const fn widen(&mut self) {
        self.input.widen();
    }

    pub(super) fn release(&mut self) {
        self.input.release();
    }
}
