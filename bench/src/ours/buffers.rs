//! The same connection over memory that is handed over: records are opened in the buffers that their batch came in.

use anyhow::{Context as _, Result, bail, ensure};
use sealane_protocol::connection::{Connection, Sink};

use super::clock::Clock;
use super::mover::Mover;
use super::{Ours, Sealed};
use crate::carrier::{Handed, Plug};
use crate::wire::{Side, Start};

/// Our protocol over buffers that are handed over.
#[derive(Debug, Clone)]
pub(crate) struct OverBuffers(pub(crate) Ours);

impl Start for OverBuffers {
    type Wire = Sealed<Handed>;

    async fn start(&self, plug: Plug, side: Side) -> Result<Self::Wire> {
        let Plug::Handed(handed) = plug else { bail!("it needs buffers that are handed over") };
        self.0.establish(handed, side, self.0.begin(side)?).await
    }
}

impl Mover for Handed {
    async fn put(&mut self, connection: &mut Connection, clock: Clock, _: bool) -> Result<()> {
        loop {
            let output = connection.poll_output(clock.now());
            if output.is_empty() {
                return Ok(());
            }
            let bytes = output.len();
            ensure!(self.send(output).await, "the other end is gone");
            connection.output_written(bytes);
        }
    }

    async fn take(
        &mut self,
        connection: &mut Connection,
        clock: Clock,
        sink: &mut (dyn Sink + Send),
    ) -> Result<()> {
        let mut buffer = self.receive().await.context("the other end is gone")?;
        let used = connection.handle_input(clock.now(), &mut buffer, sink)?;
        // A batch holds whole records.
        ensure!(used == buffer.len(), "a record came in pieces");
        self.give_back(buffer);
        Ok(())
    }
}
