//! The encrypted association of two sidecars over one link. See the crate documentation for the contract.

mod event;
mod fail;
mod setup;

use sealane_attestation::{EvidenceMessage, VerifiedPeer};
use sealane_types::Reason;

use crate::Moment;
use crate::frame::{Frame, Sequence, StreamId};
use crate::handshake::Suite;
use crate::keys::Random;

pub use event::{ClosedBy, Event, EvidenceReceived, EvidenceWanted, Introduction};
pub use fail::{ApiMisuse, ChunkError, Fail, SendError, StartError};
pub use setup::{AcceptSetup, Local, PolicyView, Setup, Timing};

/// Where frames of streams go as soon as their record has opened. They borrow from the input buffer.
pub trait Sink {
    /// # Errors
    /// A [`Reason`] ends the connection with it.
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason>;
}

/// One connection.
#[derive(Debug)]
pub struct Connection {}

impl Connection {
    /// Begins as the side that dials.
    ///
    /// # Errors
    /// [`StartError`] when no suite may be offered, or randomness or cryptography failed.
    pub fn initiate(setup: Setup, random: &mut dyn Random, now: Moment) -> Result<Self, StartError> {
        todo!("{setup:?} {now:?} {}", random.fill(&mut []).is_ok())
    }

    /// Begins as the side that was dialled.
    ///
    /// # Errors
    /// See [`Self::initiate`].
    pub fn accept(setup: AcceptSetup, random: &mut dyn Random, now: Moment) -> Result<Self, StartError> {
        todo!("{setup:?} {now:?} {}", random.fill(&mut []).is_ok())
    }

    /// Takes bytes from the carrier, opens whole records in place, hands their frames to `sink`, and returns
    /// how many bytes it consumed. The rest is the beginning of a record: hand it in again with more behind it.
    /// [`limits::RECORD_WIRE_BYTES_MAX`](crate::limits::RECORD_WIRE_BYTES_MAX) bytes are always enough for one.
    ///
    /// # Errors
    /// [`Fail`] when the connection is over; the close frame that tells the remote is in the output.
    pub fn handle_input(
        &mut self,
        now: Moment,
        input: &mut [u8],
        sink: &mut dyn Sink,
    ) -> Result<usize, Fail> {
        let _ = (now, input, sink);
        todo!()
    }

    /// The carrier ended. Without an authenticated close before it, this is a cut.
    pub fn handle_cut(&mut self) {
        todo!()
    }

    /// The time of [`Self::poll_timeout`] has come.
    pub fn handle_timeout(&mut self, now: Moment) {
        let _ = now;
        todo!()
    }

    /// Sealed bytes for the carrier; empty when there are none. Seals what is queued when nothing sealed is
    /// left, so small frames coalesce while the carrier is busy.
    pub fn poll_output(&mut self, now: Moment) -> &[u8] {
        let _ = now;
        todo!()
    }

    /// The carrier took the first `bytes` of [`Self::poll_output`].
    pub fn output_written(&mut self, bytes: usize) {
        let _ = bytes;
        todo!()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        todo!()
    }

    /// When [`Self::handle_timeout`] must be called at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Moment> {
        todo!()
    }

    /// Answers [`Event::PolicyWanted`], and hands a newer policy to an established remote at any time: the JSON
    /// of a `SignedChain` whose document has `epoch`.
    ///
    /// # Errors
    /// [`ApiMisuse`] before the remote is introduced, or above the size limit.
    pub fn supply_policy(&mut self, epoch: u64, chain: &[u8]) -> Result<(), ApiMisuse> {
        let _ = (epoch, chain);
        todo!()
    }

    /// Answers [`Event::PolicyOffered`] with the verified result, and tells of a newer policy that arrived by
    /// another way. A suite below its floor closes the connection.
    pub fn policy_adopted(&mut self, view: PolicyView) {
        let _ = view;
        todo!()
    }

    /// Answers [`Event::EvidenceWanted`].
    ///
    /// # Errors
    /// [`ApiMisuse`] when none is awaited or it is too large.
    pub fn supply_evidence(&mut self, message: &EvidenceMessage) -> Result<(), ApiMisuse> {
        let _ = message;
        todo!()
    }

    /// Answers [`Event::EvidenceReceived`]; later, replaces the verdict (a new epoch, new evidence). A refusal
    /// closes the connection and tells the remote why.
    ///
    /// # Errors
    /// [`ApiMisuse`] when there is nothing to judge, or the verdict is about another Peer (which also closes).
    pub fn judged(&mut self, verdict: Result<VerifiedPeer, Reason>) -> Result<(), ApiMisuse> {
        let _ = verdict;
        todo!()
    }

    /// Answers [`Event::AuditorIntroduced`]: the static key is one of the policy's auditors.
    ///
    /// # Errors
    /// [`ApiMisuse`] when no auditor is waiting.
    pub fn admit_auditor(&mut self) -> Result<(), ApiMisuse> {
        todo!()
    }

    /// Queues a frame of a stream.
    ///
    /// # Errors
    /// [`SendError::NoRoom`] until the output is drained.
    pub fn send(&mut self, frame: &Frame<'_>) -> Result<(), SendError> {
        let _ = frame;
        todo!()
    }

    /// Queues up to `length_max` bytes of a tensor from `offset` on. `fill` puts them straight into the record;
    /// it is called at most once. Returns how many bytes were queued: at least one if `length_max` is.
    ///
    /// # Errors
    /// [`SendError::NoRoom`] until the output is drained; `fill`'s own error, with nothing queued.
    pub fn send_chunk<E>(
        &mut self,
        stream: StreamId,
        sequence: Sequence,
        offset: u64,
        length_max: u64,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<usize, ChunkError<E>> {
        let _ = (stream, sequence, offset, length_max, fill(&mut []).is_ok());
        todo!()
    }

    /// Whether [`Self::send_chunk`] has room. Control frames have some more.
    #[must_use]
    pub fn has_room(&self) -> bool {
        todo!()
    }

    /// Ends the connection and tells the remote why. Drain the output afterwards.
    pub fn close(&mut self, reason: Reason) {
        let _ = reason;
        todo!()
    }

    #[must_use]
    pub fn is_established(&self) -> bool {
        todo!()
    }

    #[must_use]
    pub fn is_closed(&self) -> bool {
        todo!()
    }

    /// What the remote claims, once it has.
    #[must_use]
    pub fn introduction(&self) -> Option<&Introduction> {
        todo!()
    }

    /// The verdict on the remote, once there is one.
    #[must_use]
    pub fn peer(&self) -> Option<&VerifiedPeer> {
        todo!()
    }

    /// The suite in use, once keys are shared.
    #[must_use]
    pub fn suite(&self) -> Option<Suite> {
        todo!()
    }
}
