//! What every congestion controller is told and asked.

use std::fmt;

use sealane_types::CongestionControl;

use super::delivery::RateSample;
use super::rtt::Rtt;
use crate::Moment;

/// Datagrams that may leave before anything is known of the path (RFC 9002, section 7.2).
pub(crate) const INITIAL_DATAGRAMS: u64 = 10;
/// No window grows beyond: 400 Gbit/s for 80 ms, and far from where sums overflow.
pub(crate) const WINDOW_BYTES_MAX: u64 = 1 << 32;

/// Decides how much may be on the path. Bytes are those of whole UDP payloads.
pub(crate) trait Controller: fmt::Debug + Send {
    /// A datagram that asks for an acknowledgement left; `in_flight` counts it.
    fn on_sent(&mut self, now: Moment, bytes: u64, in_flight: u64);
    /// One acknowledgement: all that it newly acknowledged, together.
    fn on_acknowledged(&mut self, acknowledged: &Acknowledged, rtt: &Rtt);
    /// Datagrams were found to be lost, together.
    fn on_lost(&mut self, lost: &Lost, rtt: &Rtt);
    /// Datagrams that were called lost arrived after all (all of one loss event): the reduction may be undone.
    fn on_spurious_loss(&mut self, newest_sent: Moment);
    /// The path carries datagrams of so many bytes.
    fn on_datagram_bytes(&mut self, bytes: u64);
    /// Bytes that may be in flight.
    fn window(&self) -> u64;
    /// Bytes per second at which to send; None: derive it from window and round trip.
    fn rate(&self) -> Option<u64>;
    /// What decides at present.
    fn name(&self) -> CongestionControl;
}

/// What one acknowledgement acknowledged for the first time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acknowledged {
    pub(crate) now: Moment,
    pub(crate) bytes: u64,
    /// When the newest of the acknowledged datagrams left.
    pub(crate) newest_sent: Moment,
    /// Afterwards.
    pub(crate) in_flight: u64,
    /// The application or the peer's window, not the controller, held the sender back.
    pub(crate) limited: bool,
    pub(crate) delivery: Option<RateSample>,
}

/// Datagrams that are called lost at the same time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lost {
    pub(crate) now: Moment,
    pub(crate) bytes: u64,
    /// When the newest of the lost datagrams left.
    pub(crate) newest_sent: Moment,
    /// Afterwards.
    pub(crate) in_flight: u64,
    /// All that was sent for a long time was lost (RFC 9002, section 7.6).
    pub(crate) persistent: bool,
}
