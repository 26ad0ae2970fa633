//! Connections that begin with a ticket of an earlier one.

use anyhow::Result;
use sealane_protocol::limits::TICKETS_OF_ATTESTATION_MAX;

use super::mover::Stream;
use super::{Nothing, Ours, Sealed};
use crate::carrier::Carrier;
use crate::wire::{Open, Side};

/// Both parties of connections that are resumed.
#[derive(Debug, Clone)]
pub(crate) struct Resumed(Ours);

impl Resumed {
    pub(crate) const fn new(ours: Ours) -> Self {
        Self(ours)
    }
}

impl Open for Resumed {
    type Wire = Sealed;

    /// A whole handshake with evidence, where no ticket is left, and as many tickets as it may bring.
    async fn prepare(&self) -> Result<()> {
        let Ours { sender, receiver, clock, .. } = &self.0;
        if sender.tickets() > 0 {
            return Ok(());
        }
        let (mut dialled, mut accepted) = self.0.connect().await?;
        for _ in 0..TICKETS_OF_ATTESTATION_MAX {
            receiver.issue(&mut accepted.connection, clock.now())?;
        }
        accepted.drain(true).await?;
        while sender.tickets() < TICKETS_OF_ATTESTATION_MAX as usize {
            dialled.hear(&mut Nothing).await?;
            while let Some(event) = dialled.connection.poll_event() {
                sender.answer(event, &mut dialled.connection, clock.now())?;
            }
        }
        Ok(())
    }

    async fn open(&self, carrier: Carrier, side: Side) -> Result<Sealed> {
        let now = self.0.clock.now();
        let connection = match side {
            Side::Dialler => self.0.sender.resume(now)?,
            Side::Accepter => self.0.receiver.begin(side, now)?,
        };
        self.0.establish(Stream::new(carrier), side, connection).await
    }
}
