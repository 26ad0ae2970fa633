//! What travels and how it is checked: a few different payloads in a fixed order, and an inbox that knows which one
//! must come next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::random::SplitMix;

/// Different payloads: a message that is repeated, skipped or handed up twice is another one.
const PAYLOADS: usize = 4;
/// Bytes compared at the beginning, at the end and at a place that moves, where time is taken.
const PROBE_BYTES: usize = 64;
/// Step of the moving place; odd, so that it visits every place of a message in the long run.
const PROBE_STEP: u64 = 9_973;

/// Messages of one length, numbered without end: message `n` is payload `n` modulo their number.
#[derive(Debug, Clone)]
pub(crate) struct Payloads(Arc<[Bytes]>);

impl Payloads {
    pub(crate) fn new(length: usize) -> Self {
        let mut random = SplitMix::new(length as u64);
        let payload = |_| {
            let mut bytes = vec![0; length];
            random.fill(&mut bytes);
            Bytes::from(bytes)
        };
        Self((0..PAYLOADS).map(payload).collect())
    }

    pub(crate) fn message(&self, number: u64) -> &Bytes {
        &self.0[(number % self.0.len() as u64) as usize]
    }

    /// Bytes of every message.
    pub(crate) fn length(&self) -> usize {
        self.0[0].len()
    }
}

/// Receives messages in order and compares them.
#[derive(Debug)]
pub(crate) struct Inbox {
    payloads: Payloads,
    /// As many places as there are payloads, used in turn, as an application's memory is.
    memory: Vec<u8>,
    /// The message that comes next.
    next: u64,
    /// Where the number of messages is told of as they come.
    counter: Option<Arc<AtomicU64>>,
    /// Compare every byte, not only probes.
    thorough: bool,
    wrong: Option<String>,
}

impl Inbox {
    pub(crate) fn new(payloads: Payloads) -> Self {
        let memory = vec![0; payloads.length() * PAYLOADS];
        Self { payloads, memory, next: 0, counter: None, thorough: true, wrong: None }
    }

    pub(crate) const fn be_thorough(&mut self, thorough: bool) {
        self.thorough = thorough;
    }

    /// Tells of every further message there.
    pub(crate) fn count_into(&mut self, counter: Arc<AtomicU64>) {
        self.counter = Some(counter);
    }

    /// How many messages have come.
    pub(crate) const fn count(&self) -> u64 {
        self.next
    }

    /// What was wrong first, if anything was.
    pub(crate) const fn take_wrong(&mut self) -> Option<String> {
        self.wrong.take()
    }

    pub(crate) fn report(&mut self, wrong: impl FnOnce() -> String) {
        if self.wrong.is_none() {
            self.wrong = Some(wrong());
        }
    }

    /// Puts a part of the next message where the application wants it.
    pub(crate) fn put(&mut self, offset: usize, bytes: &[u8]) {
        let place = self.place(self.next);
        let whole = &mut self.memory[place];
        match offset.checked_add(bytes.len()).and_then(|end| whole.get_mut(offset..end)) {
            Some(space) => space.copy_from_slice(bytes),
            None => self.report(|| format!("bytes {offset} to +{} of a message are too many", bytes.len())),
        }
    }

    /// Where the next message belongs, from `offset` on, for whoever reads straight into it.
    pub(crate) fn space(&mut self, offset: usize) -> &mut [u8] {
        let place = self.place(self.next);
        self.memory[place].get_mut(offset..).unwrap_or_default()
    }

    /// The next message is complete in this inbox's memory.
    pub(crate) fn finish(&mut self) {
        let place = self.place(self.next);
        let wrong = self.differs(&self.memory[place]);
        self.note(wrong);
    }

    /// The next message is complete in memory of somebody else.
    pub(crate) fn accept(&mut self, bytes: &[u8]) {
        let wrong = self.differs(bytes);
        self.note(wrong);
    }

    /// The message that came last, if it was put here.
    pub(crate) fn last(&self) -> &[u8] {
        &self.memory[self.place(self.next.saturating_sub(1))]
    }

    fn note(&mut self, wrong: Option<&'static str>) {
        let number = self.next;
        self.next += 1;
        if let Some(counter) = &self.counter {
            counter.store(self.next, Ordering::Relaxed);
        }
        if let Some(wrong) = wrong {
            self.report(|| format!("message {number}: {wrong}"));
        }
    }

    fn place(&self, number: u64) -> std::ops::Range<usize> {
        let length = self.payloads.length();
        let start = (number % PAYLOADS as u64) as usize * length;
        start..start + length
    }

    fn differs(&self, bytes: &[u8]) -> Option<&'static str> {
        let expected = self.payloads.message(self.next);
        if bytes.len() != expected.len() {
            return Some("its length is wrong");
        }
        if self.thorough {
            return (bytes != expected).then_some("its bytes are wrong");
        }
        let probe = PROBE_BYTES.min(bytes.len());
        let last = bytes.len() - probe;
        let moving = (self.next.wrapping_mul(PROBE_STEP) % (last as u64 + 1)) as usize;
        let same = |start: usize| bytes[start..start + probe] == expected[start..start + probe];
        (!(same(0) && same(last) && same(moving))).then_some("its bytes are wrong")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox(length: usize) -> Inbox {
        Inbox::new(Payloads::new(length))
    }

    #[test]
    fn messages_in_order_are_right() {
        let mut inbox = inbox(1000);
        for thorough in [true, false] {
            inbox.be_thorough(thorough);
            for _ in 0..9 {
                let message = inbox.payloads.message(inbox.count()).clone();
                inbox.put(0, &message[..400]);
                inbox.space(400).copy_from_slice(&message[400..]);
                inbox.finish();
                assert_eq!(inbox.last(), &message[..]);
            }
        }
        assert_eq!((inbox.count(), inbox.take_wrong()), (18, None));
    }

    #[test]
    fn a_changed_byte_a_repeat_and_a_wrong_length_are_seen() {
        let changed = |at: usize| {
            let mut inbox = inbox(1000);
            let mut message = inbox.payloads.message(0).to_vec();
            message[at] ^= 1;
            inbox.accept(&message);
            inbox.take_wrong()
        };
        assert!((0..1000).step_by(99).all(|at| changed(at).is_some()));
        let mut repeated = inbox(1000);
        repeated.be_thorough(false);
        let message = repeated.payloads.message(0).clone();
        repeated.accept(&message);
        repeated.accept(&message);
        assert_eq!(repeated.take_wrong().as_deref(), Some("message 1: its bytes are wrong"));
        repeated.accept(&message[1..]);
        assert_eq!(repeated.take_wrong().as_deref(), Some("message 2: its length is wrong"));
        repeated.put(990, &[0; 11]);
        assert!(repeated.take_wrong().is_some());
    }
}
