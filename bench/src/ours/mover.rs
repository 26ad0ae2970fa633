//! How a connection's bytes get to the other end and back: over a stream, or in datagrams.

use anyhow::{Result, ensure};
use sealane_protocol::connection::{Connection, Sink};
use sealane_protocol::record::InputBuffer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::clock::Clock;
use crate::carrier::Carrier;

/// Moves what a connection says, and what it is told.
pub(crate) trait Mover {
    /// Makes room: some of what is queued leaves, or all of it if `everything`.
    async fn put(&mut self, connection: &mut Connection, clock: Clock, everything: bool) -> Result<()>;

    /// Waits for the other end, and hands on what it said.
    async fn take(
        &mut self,
        connection: &mut Connection,
        clock: Clock,
        sink: &mut (dyn Sink + Send),
    ) -> Result<()>;

    /// The remote is verified.
    fn widen(&mut self) {}

    /// Nobody looks for a while.
    async fn rest(&mut self, _: &mut Connection, _: Clock) -> Result<()> {
        Ok(())
    }
}

/// A carrier that keeps order.
#[derive(Debug)]
pub(crate) struct Stream {
    carrier: Carrier,
    input: InputBuffer,
}

impl Stream {
    pub(crate) const fn new(carrier: Carrier) -> Self {
        Self { carrier, input: InputBuffer::new() }
    }
}

impl Mover for Stream {
    async fn put(&mut self, connection: &mut Connection, clock: Clock, _: bool) -> Result<()> {
        loop {
            let output = connection.poll_output(clock.now());
            if output.is_empty() {
                return Ok(());
            }
            let written = self.carrier.write(output).await?;
            connection.output_written(written);
        }
    }

    async fn take(
        &mut self,
        connection: &mut Connection,
        clock: Clock,
        sink: &mut (dyn Sink + Send),
    ) -> Result<()> {
        let read = self.carrier.read(self.input.space()).await?;
        ensure!(read > 0, "the other end is gone");
        self.input.filled(read);
        let used = connection.handle_input(clock.now(), self.input.unread(), sink)?;
        self.input.consumed(used);
        Ok(())
    }

    fn widen(&mut self) {
        self.input.widen();
    }
}
