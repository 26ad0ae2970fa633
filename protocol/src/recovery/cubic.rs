//! CUBIC (RFC 9438) after a start by HyStart++ (RFC 9406), within the frame of RFC 9002, section 7.

use sealane_types::CongestionControl;

use super::controller::{Acknowledged, Controller, INITIAL_DATAGRAMS, Lost, WINDOW_BYTES_MAX};
use super::rtt::Rtt;
use crate::Moment;

mod growth;
mod start;

use growth::Growth;
use start::Start;

/// A window never gets smaller (RFC 9002, section 7.2).
const MINIMUM_DATAGRAMS: u64 = 2;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Cubic {
    datagram_bytes: u64,
    window: u64,
    /// Below it, the window grows by what is acknowledged (RFC 9002, section 7.3.1).
    threshold: u64,
    /// What was sent until then does not count again, neither as loss nor as success.
    recovery: Option<Moment>,
    start: Start,
    growth: Growth,
    undo: Option<Box<Undo>>,
}

/// What there was before the last reduction (RFC 9438, section 4.9.2).
#[derive(Debug, Clone, Copy)]
struct Undo {
    window: u64,
    threshold: u64,
    recovery: Option<Moment>,
    growth: Growth,
}

impl Cubic {
    pub(crate) fn new(datagram_bytes: u64) -> Self {
        Self {
            datagram_bytes,
            window: datagram_bytes.saturating_mul(INITIAL_DATAGRAMS),
            threshold: u64::MAX,
            recovery: None,
            start: Start::default(),
            growth: Growth::default(),
            undo: None,
        }
    }

    const fn minimum(&self) -> u64 {
        self.datagram_bytes.saturating_mul(MINIMUM_DATAGRAMS)
    }

    fn is_of_recovery(&self, sent: Moment) -> bool {
        self.recovery.is_some_and(|recovery| sent <= recovery)
    }

    fn reduce(&mut self, now: Moment) {
        self.undo = Some(Box::new(Undo {
            window: self.window,
            threshold: self.threshold,
            recovery: self.recovery,
            growth: self.growth,
        }));
        self.recovery = Some(now);
        self.window = self.growth.reduce(self.window).max(self.minimum());
        self.threshold = self.window;
    }
}

impl Controller for Cubic {
    fn on_sent(&mut self, now: Moment, bytes: u64, in_flight: u64) {
        self.start.on_sent(now);
        if in_flight <= bytes {
            // Time in which nothing was on the way is none in which the window may have grown (RFC 9438, section 5.8).
            self.growth.rest(now);
        }
    }

    fn on_acknowledged(&mut self, acknowledged: &Acknowledged, rtt: &Rtt) {
        let Acknowledged { now, bytes, newest_sent, limited, .. } = *acknowledged;
        if self.is_of_recovery(newest_sent) || limited {
            self.growth.rest(now);
            return;
        }
        let grown = if self.window < self.threshold {
            let grown = self.window.saturating_add(self.start.growth(bytes, newest_sent, rtt));
            if self.start.is_over() {
                self.threshold = grown;
            }
            self.growth.rest(now);
            grown
        } else {
            self.growth.grow(now, self.window, bytes, self.datagram_bytes, rtt)
        };
        self.window = grown.min(WINDOW_BYTES_MAX);
    }

    fn on_lost(&mut self, lost: &Lost, _: &Rtt) {
        if !self.is_of_recovery(lost.newest_sent) {
            self.reduce(lost.now);
        }
        if lost.persistent {
            // RFC 9002, section 7.6.2: as on a path that is not known, but up to where it once was.
            self.window = self.minimum();
            (self.recovery, self.undo) = (None, None);
            (self.start, self.growth) = (Start::default(), Growth::default());
        }
    }

    fn on_spurious_loss(&mut self, newest_sent: Moment) {
        let of_last_event = self.is_of_recovery(newest_sent);
        let Some(undo) = self.undo.take_if(|undo| {
            of_last_event && undo.recovery.is_none_or(|of_event_before| newest_sent > of_event_before)
        }) else {
            return;
        };
        if undo.window > self.window {
            (self.window, self.threshold) = (undo.window, undo.threshold);
            (self.recovery, self.growth) = (undo.recovery, undo.growth);
            self.growth.forget_epoch();
        }
    }

    fn on_datagram_bytes(&mut self, bytes: u64) {
        let untouched = self.window == self.datagram_bytes.saturating_mul(INITIAL_DATAGRAMS);
        self.datagram_bytes = bytes;
        if untouched {
            self.window = bytes.saturating_mul(INITIAL_DATAGRAMS);
        }
        self.window = self.window.max(self.minimum());
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn rate(&self) -> Option<u64> {
        None
    }

    fn name(&self) -> CongestionControl {
        CongestionControl::Cubic
    }
}

#[cfg(test)]
mod tests;
