//! What the engine needs that carries a connection in packets.

use super::{Connection, Fail, HandshakeFlight, Sink, State};
use crate::Moment;
use crate::record::{LevelOpener, LevelSealer, PacketOpener, PacketProof, PacketSealer, Unread};

/// The keys of a connection whose packets are sealed, as far as there are any.
pub(crate) struct PacketKeys<'a> {
    pub(crate) sealer: Option<&'a mut PacketSealer>,
    pub(crate) opener: Option<&'a mut PacketOpener>,
}

impl Connection {
    /// Takes a flight of the handshake. No frame comes of one, whatever it says.
    ///
    /// # Errors
    /// [`Fail`] when the connection is over.
    pub(crate) fn handle_flight(&mut self, now: Moment, flight: &HandshakeFlight) -> Result<(), Fail> {
        self.begin_input(now)?;
        let length = flight.bytes().len();
        let handled = match self.on_handshake(flight.bytes()) {
            Ok(Some(used)) if used != length => Err(Fail::Order("a flight was not what was awaited")),
            // None: nothing was awaited.
            other => other.map(drop),
        };
        self.ended(handled)
    }

    /// As [`Self::handle_input`], for bytes that came out of packets, each of which opened, the last one with `proof`.
    ///
    /// # Errors
    /// [`Fail`] when the connection is over; the close frame that tells the remote is in the output.
    pub(crate) fn handle_opened(
        &mut self,
        now: Moment,
        input: &[u8],
        proof: &PacketProof,
        sink: &mut dyn Sink,
    ) -> Result<usize, Fail> {
        self.begin_input(now)?;
        let mut used = 0_usize;
        while let Some(rest) = input.get(used..).filter(|rest| !rest.is_empty()) {
            let handled = self.on_record(Unread::Opened(rest, proof), sink);
            let Some(consumed) = self.ended(handled)? else { break };
            used = used.saturating_add(consumed);
        }
        Ok(used)
    }

    /// Bytes of the handshake that nothing seals.
    pub(crate) fn poll_clear(&self) -> &[u8] {
        self.core.output.clear()
    }

    /// Whether this side has keys, and what it says from now on goes out in packets.
    pub(crate) const fn is_keyed(&self) -> bool {
        !matches!(self.state, State::Opening(_) | State::Closed(None))
    }

    /// The keys that packets are sealed and opened with.
    pub(crate) fn packet_keys(&mut self) -> PacketKeys<'_> {
        let (sealer, opener) = match &mut self.state {
            State::Opening(_) => (None, None),
            State::Keyed(keyed) => {
                let opener = match &mut keyed.opener {
                    LevelOpener::Packets(opener) => Some(&mut **opener),
                    LevelOpener::Records(_) => None,
                };
                (Some(&mut keyed.sealer), opener)
            }
            State::Closed(closing) => {
                let closing =
                    closing.as_mut().map(|closing| (&mut closing.sealer, closing.opener.as_deref_mut()));
                let (sealer, opener) = closing.unzip();
                (sealer, opener.flatten())
            }
        };
        let sealer = sealer.and_then(|sealer| match sealer {
            LevelSealer::Packets(sealer) => Some(&mut **sealer),
            LevelSealer::Records(_) => None,
        });
        PacketKeys { sealer, opener }
    }

    /// All that [`Self::poll_bytes`] gave, with the memory that it lies in, if it fills most of that; `spare` takes its
    /// place.
    pub(crate) fn take_output(&mut self, spare: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
        self.core.output.take(spare)
    }
}
