//! Packets that are numbered, so that whoever receives them sees what is missing, changed, repeated or late.

use std::sync::Arc;

use crate::random::SplitMix;

/// Packets that are sent or received together, where the way allows it.
pub(crate) const BATCH: usize = 64;
const NUMBER_BYTES: usize = 8;
/// Bytes compared at the end of a packet, and at a place that moves.
const PROBE_BYTES: usize = 64;
const PROBE_STEP: u64 = 9_973;
/// Packets of which every byte is compared, before only those are.
const THOROUGH: u64 = 1_024;

/// Packets of one length, without end.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    pub(super) bytes: usize,
}

/// Packets to be sent, in memory for a batch.
#[derive(Debug)]
pub(super) struct Outgoing {
    memory: Vec<u8>,
    bytes: usize,
    next: u64,
}

/// Packets as they come.
#[derive(Debug)]
pub(super) struct Incoming {
    pattern: Arc<[u8]>,
    bytes: usize,
    /// Behind the last that came.
    next: u64,
    count: u64,
    wrong: Option<String>,
}

impl Flow {
    pub(crate) fn new(bytes: usize) -> Self {
        let mut memory = vec![0; BATCH * bytes];
        SplitMix::new(bytes as u64).fill(&mut memory);
        let pattern = memory.clone().into();
        Self {
            outgoing: Outgoing { memory, bytes, next: 0 },
            incoming: Incoming { pattern, bytes, next: 0, count: 0, wrong: None },
            bytes,
        }
    }
}

impl Outgoing {
    /// The next packets, at most `most` of them.
    pub(super) fn next(&mut self, most: usize) -> &[u8] {
        let first = (self.next % BATCH as u64) as usize;
        let count = most.min(BATCH - first);
        let packets = &mut self.memory[first * self.bytes..(first + count) * self.bytes];
        for packet in packets.chunks_exact_mut(self.bytes) {
            packet[..NUMBER_BYTES].copy_from_slice(&self.next.to_le_bytes());
            self.next += 1;
        }
        packets
    }

    /// How many there have been.
    pub(super) const fn count(&self) -> u64 {
        self.next
    }
}

impl Incoming {
    /// Compares a packet with what it has to be.
    pub(super) fn take(&mut self, packet: &[u8]) {
        if let Some(wrong) = self.differs(packet) {
            self.wrong.get_or_insert_with(|| format!("packet {}: {wrong}", self.count));
        }
        self.count += 1;
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    pub(super) const fn take_wrong(&mut self) -> Option<String> {
        self.wrong.take()
    }

    fn differs(&mut self, packet: &[u8]) -> Option<&'static str> {
        let Some((number, rest)) = packet.split_first_chunk::<NUMBER_BYTES>() else {
            return Some("it has no number");
        };
        if packet.len() != self.bytes {
            return Some("its length is wrong");
        }
        let number = u64::from_le_bytes(*number);
        if number < self.next {
            return Some("it came twice, or after a later one");
        }
        self.next = number.wrapping_add(1);
        let start = (number % BATCH as u64) as usize * self.bytes;
        let expected = &self.pattern[start + NUMBER_BYTES..start + self.bytes];
        let same = if self.count < THOROUGH {
            rest == expected
        } else {
            let probe = PROBE_BYTES.min(rest.len());
            let last = rest.len() - probe;
            let moving = (number.wrapping_mul(PROBE_STEP) % (last as u64 + 1)) as usize;
            let same = |start: usize| rest[start..start + probe] == expected[start..start + probe];
            same(last) && same(moving)
        };
        (!same).then_some("its bytes are wrong")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(flow: &mut Flow, change: impl Fn(&mut Vec<u8>)) -> Option<String> {
        let mut packet = flow.outgoing.next(1).to_vec();
        change(&mut packet);
        flow.incoming.take(&packet);
        flow.incoming.take_wrong()
    }

    #[test]
    fn packets_are_all_different_and_right_also_where_some_are_missing() {
        let mut flow = Flow::new(100);
        for round in 0..3 * THOROUGH as usize {
            let packets = flow.outgoing.next(BATCH).to_vec();
            for (place, packet) in packets.chunks_exact(100).enumerate() {
                if (place + round) % 7 > 0 {
                    flow.incoming.take(packet);
                }
            }
        }
        assert_eq!(flow.incoming.take_wrong(), None);
        assert_eq!(flow.outgoing.count(), 3 * THOROUGH * BATCH as u64);
        assert!(flow.incoming.count() < flow.outgoing.count());
    }

    #[test]
    fn what_is_changed_repeated_or_cut_is_seen() {
        for at in NUMBER_BYTES..200 {
            assert!(taken(&mut Flow::new(200), |packet| packet[at] ^= 1).is_some(), "{at}");
        }
        assert!(taken(&mut Flow::new(200), |packet| packet.truncate(199)).is_some());
        assert!(taken(&mut Flow::new(200), |packet| packet.truncate(3)).is_some());
        let mut flow = Flow::new(64);
        let packet = flow.outgoing.next(1).to_vec();
        flow.incoming.take(&packet);
        assert_eq!(flow.incoming.take_wrong(), None);
        flow.incoming.take(&packet);
        assert_eq!(
            flow.incoming.take_wrong().as_deref(),
            Some("packet 1: it came twice, or after a later one")
        );
        let mut late = Flow::new(200);
        late.incoming.count = THOROUGH;
        assert!(taken(&mut late, |packet| packet[199] ^= 1).is_some());
    }
}
