//! What the plaintext of a packet consists of.
//!
//! ```text
//! 00 pad           zeros to the end of the packet
//! 01 acknowledge   u64 newest ‖ u32 delay (µs) ‖ u64 bytes through ‖ u32 before ‖ u8 n ‖ n × (u32 missing ‖ u32 arrived)
//! 02 bytes         u64 offset ‖ bytes to the end of the packet (at least 1)
//! 03 ping
//! 04 challenge     8 bytes
//! 05 response      8 bytes
//! 06 reset         16 bytes
//! ```
//!
//! An acknowledgement names packets from the newest down: `before` more that arrived right before it, then in turn how many
//! are missing and how many arrived.

use std::ops::Range;

use super::pieces;
use super::reset::{RESET_TOKEN_BYTES, ResetToken};
use crate::limits::{ACKNOWLEDGED_RUNS_MAX, TAG_BYTES};
use crate::record::PACKET_HEADER_BYTES;

const PAD: u8 = 0;
const ACKNOWLEDGE: u8 = 1;
const BYTES: u8 = 2;
const PING: u8 = 3;
const CHALLENGE: u8 = 4;
const RESPONSE: u8 = 5;
const RESET: u8 = 6;

/// What a packet with bytes of the stream has beside them.
pub(crate) const BYTES_OVERHEAD: usize = PACKET_HEADER_BYTES + PART_BYTES_HEAD + TAG_BYTES;
/// Kind and offset.
const PART_BYTES_HEAD: usize = 9;
const ACKNOWLEDGEMENT_HEAD: usize = 26;

/// It is not what a sender of this protocol writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Acknowledge(Acknowledgement<'a>),
    Bytes { offset: u64, bytes: &'a [u8] },
    Ping,
    Challenge([u8; 8]),
    Response([u8; 8]),
    Reset(ResetToken),
}

/// Packets that arrived, and what may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acknowledgement<'a> {
    pub(crate) newest: u64,
    pub(crate) delay_micros: u32,
    /// Bytes of the stream that the remote has room for, from its beginning.
    pub(crate) through: u64,
    before: u32,
    runs: &'a [u8],
}

impl Acknowledgement<'_> {
    /// Ranges of numbers that arrived, newest first.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let mut lowest = self.newest.saturating_sub(u64::from(self.before));
        let first = lowest..self.newest.saturating_add(1);
        let pairs = self.runs.chunks_exact(8).filter_map(|pair| {
            let (missing, arrived) = pair.split_first_chunk::<4>()?;
            Some((u32::from_be_bytes(*missing), u32::from_be_bytes(*arrived.first_chunk::<4>()?)))
        });
        let rest = pairs.map(move |(missing, arrived)| {
            let end = lowest.saturating_sub(u64::from(missing));
            lowest = end.saturating_sub(u64::from(arrived));
            lowest..end
        });
        std::iter::once(first).chain(rest)
    }

    /// Whether its runs stay above zero and none is empty.
    fn is_true(&self) -> bool {
        let Some(mut lowest) = self.newest.checked_sub(u64::from(self.before)) else { return false };
        self.runs.chunks_exact(4).all(|run| {
            let count = run.first_chunk::<4>().map_or(0, |run| u32::from_be_bytes(*run));
            match lowest.checked_sub(u64::from(count)) {
                Some(next) if count > 0 => {
                    lowest = next;
                    true
                }
                _ => false,
            }
        })
    }
}

/// The part at the front of `plaintext`, and what follows it; `None` when nothing but padding follows.
pub(crate) fn next(plaintext: &[u8]) -> Result<Option<(Part<'_>, &[u8])>, Malformed> {
    let Some((kind, rest)) = plaintext.split_first() else { return Ok(None) };
    match *kind {
        PAD if rest.iter().all(|byte| *byte == 0) => Ok(None),
        ACKNOWLEDGE => acknowledgement(rest).map(Some),
        BYTES => {
            let (offset, bytes) = rest.split_first_chunk::<8>().ok_or(Malformed)?;
            let offset = u64::from_be_bytes(*offset);
            let fits = u64::try_from(bytes.len()).is_ok_and(|length| offset.checked_add(length).is_some());
            if bytes.is_empty() || !fits {
                return Err(Malformed);
            }
            Ok(Some((Part::Bytes { offset, bytes }, &[])))
        }
        PING => Ok(Some((Part::Ping, rest))),
        CHALLENGE | RESPONSE => {
            let (token, after) = rest.split_first_chunk::<8>().ok_or(Malformed)?;
            let part = if *kind == CHALLENGE { Part::Challenge(*token) } else { Part::Response(*token) };
            Ok(Some((part, after)))
        }
        RESET => {
            let (token, after) = rest.split_first_chunk::<RESET_TOKEN_BYTES>().ok_or(Malformed)?;
            Ok(Some((Part::Reset(ResetToken(*token)), after)))
        }
        _ => Err(Malformed),
    }
}

fn acknowledgement(rest: &[u8]) -> Result<(Part<'_>, &[u8]), Malformed> {
    let (newest, rest) = rest.split_first_chunk::<8>().ok_or(Malformed)?;
    let (delay, rest) = rest.split_first_chunk::<4>().ok_or(Malformed)?;
    let (through, rest) = rest.split_first_chunk::<8>().ok_or(Malformed)?;
    let (before, rest) = rest.split_first_chunk::<4>().ok_or(Malformed)?;
    let (count, rest) = rest.split_first().ok_or(Malformed)?;
    let count = usize::from(*count);
    if count > ACKNOWLEDGED_RUNS_MAX {
        return Err(Malformed);
    }
    let (runs, rest) = rest.split_at_checked(count.saturating_mul(8)).ok_or(Malformed)?;
    let part = Acknowledgement {
        newest: u64::from_be_bytes(*newest),
        delay_micros: u32::from_be_bytes(*delay),
        through: u64::from_be_bytes(*through),
        before: u32::from_be_bytes(*before),
        runs,
    };
    if part.is_true() { Ok((Part::Acknowledge(part), rest)) } else { Err(Malformed) }
}

/// Writes parts one behind the other; what finds no room is left out.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    space: &'a mut [u8],
    used: usize,
}

impl<'a> Writer<'a> {
    pub(crate) const fn new(space: &'a mut [u8]) -> Self {
        Self { space, used: 0 }
    }

    /// Into the plaintext of a packet that fills `packet` at most.
    pub(super) fn of_packet(packet: &'a mut [u8]) -> Option<Self> {
        let (plaintext, _) = packet.split_last_chunk_mut::<TAG_BYTES>()?;
        Some(Self::new(plaintext.get_mut(PACKET_HEADER_BYTES..)?))
    }

    /// Bytes of the packet around what was written.
    pub(super) const fn packet_bytes(&self) -> usize {
        self.used.saturating_add(PACKET_HEADER_BYTES).saturating_add(TAG_BYTES)
    }

    #[cfg(test)]
    pub(crate) const fn used(&self) -> usize {
        self.used
    }

    pub(crate) fn ping(&mut self) {
        self.put(&[&[PING]]);
    }

    pub(crate) fn challenge(&mut self, token: [u8; 8]) {
        self.put(&[&[CHALLENGE], &token]);
    }

    pub(crate) fn response(&mut self, token: [u8; 8]) {
        self.put(&[&[RESPONSE], &token]);
    }

    /// What ends the connection once the writer's side has lost it.
    pub(crate) fn reset(&mut self, token: ResetToken) {
        self.put(&[&[RESET], &token.0]);
    }

    /// Fills the rest with padding.
    pub(crate) fn pad(&mut self) {
        self.space.get_mut(self.used..).unwrap_or_default().fill(PAD);
        self.used = self.space.len();
    }

    /// Says that these numbers arrived, as far as there is room for it.
    pub(crate) fn acknowledge(
        &mut self,
        mut newest_first: impl Iterator<Item = Range<u64>>,
        delay_micros: u32,
        through: u64,
    ) {
        let Some(first) = newest_first.next() else { return };
        let start = self.used;
        let newest = first.end.saturating_sub(1);
        let before = count(newest.saturating_sub(first.start));
        self.put(&[
            &[ACKNOWLEDGE],
            &newest.to_be_bytes(),
            &delay_micros.to_be_bytes(),
            &through.to_be_bytes(),
            &before.to_be_bytes(),
            &[0],
        ]);
        let mut runs: u8 = 0;
        // A run that was cut short is followed by one that would be counted from another place.
        let mut lowest = newest.saturating_sub(u64::from(before));
        for range in newest_first.take(ACKNOWLEDGED_RUNS_MAX) {
            let (missing, arrived) =
                (lowest.saturating_sub(range.end), range.end.saturating_sub(range.start));
            let (Ok(missing), arrived) = (u32::try_from(missing), count(arrived)) else { break };
            if lowest != first.start && runs == 0 {
                break;
            }
            if !self.put(&[&missing.to_be_bytes(), &arrived.to_be_bytes()]) {
                break;
            }
            runs = runs.saturating_add(1);
            lowest = range.end.saturating_sub(u64::from(arrived));
            if lowest != range.start {
                break;
            }
        }
        let at = start.saturating_add(ACKNOWLEDGEMENT_HEAD).saturating_sub(1);
        if let Some(place) = self.space.get_mut(at) {
            *place = runs;
        }
    }

    /// How many bytes of the stream still fit.
    pub(crate) const fn room_for_bytes(&self) -> usize {
        self.space.len().saturating_sub(self.used).saturating_sub(PART_BYTES_HEAD)
    }

    /// Room for bytes of the stream at the end of the packet, given how many there are.
    pub(crate) fn bytes(&mut self, offset: u64, length: usize) -> &mut [u8] {
        if !self.put(&[&[BYTES], &offset.to_be_bytes()]) {
            return &mut [];
        }
        let end = self.used.saturating_add(length).min(self.space.len());
        let place = self.space.get_mut(self.used..end).unwrap_or_default();
        self.used = end;
        place
    }

    fn put(&mut self, pieces: &[&[u8]]) -> bool {
        let free = self.space.get_mut(self.used..).unwrap_or_default();
        let Some(length) = pieces::put(free, pieces) else { return false };
        self.used = self.used.saturating_add(length);
        true
    }
}

fn count(packets: u64) -> u32 {
    u32::try_from(packets).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::recovery::Ranges;

    fn all(mut plaintext: &[u8]) -> Result<Vec<Part<'_>>, Malformed> {
        let mut parts = Vec::new();
        while let Some((part, rest)) = next(plaintext)? {
            parts.push(part);
            plaintext = rest;
        }
        Ok(parts)
    }

    #[test]
    fn parts_read_back() {
        let mut space = [0xaa; 64];
        let mut writer = Writer::new(&mut space);
        writer.ping();
        writer.challenge([1; 8]);
        writer.response([2; 8]);
        writer.reset(ResetToken([3; RESET_TOKEN_BYTES]));
        writer.bytes(7, 3).copy_from_slice(b"abc");
        let used = writer.used();
        let expected = [
            Part::Ping,
            Part::Challenge([1; 8]),
            Part::Response([2; 8]),
            Part::Reset(ResetToken([3; RESET_TOKEN_BYTES])),
            Part::Bytes { offset: 7, bytes: b"abc" },
        ];
        assert_eq!(all(&space[..used]).unwrap(), expected);
        let mut writer = Writer::new(&mut space);
        writer.ping();
        writer.pad();
        assert_eq!(all(&space).unwrap(), [Part::Ping]);
        space[63] = 1;
        assert_eq!(all(&space), Err(Malformed), "padding is zeros");
    }

    #[test]
    fn what_no_sender_writes_is_refused() {
        for bytes in [
            &[7][..],
            &[RESET, 1],
            &[BYTES],
            &[BYTES, 0, 0, 0, 0, 0, 0, 0, 0],
            &[BYTES, 255, 255, 255, 255, 255, 255, 255, 255, 1],
            &[CHALLENGE, 1],
            &[ACKNOWLEDGE, 0],
        ] {
            assert_eq!(next(bytes), Err(Malformed), "{bytes:?}");
        }
        let mut numbers = Ranges::default();
        numbers.insert(3..5);
        let mut space = [0; 40];
        let mut writer = Writer::new(&mut space);
        writer.acknowledge(numbers.iter().rev(), 0, 0);
        let used = writer.used();
        for (at, with) in [(8, 0), (24, 9), (25, 1), (25, 200)] {
            let mut other = space;
            other[at] = with;
            assert_eq!(next(&other[..used]), Err(Malformed), "{at} {with}");
        }
    }

    proptest! {
        #[test]
        fn an_acknowledgement_says_what_arrived(
            runs in prop::collection::vec((1_u64..50, 1_u64..50), 1..40),
            room in ACKNOWLEDGEMENT_HEAD..400,
        ) {
            let (mut numbers, mut at) = (Ranges::default(), 0);
            for (missing, arrived) in runs {
                numbers.insert(at + missing..at + missing + arrived);
                at += missing + arrived;
            }
            let mut space = vec![0; room];
            let mut writer = Writer::new(&mut space);
            writer.acknowledge(numbers.iter().rev(), 17, 99);
            let used = writer.used();
            let parts = all(&space[..used]).unwrap();
            let [Part::Acknowledge(told)] = &parts[..] else { panic!("{parts:?}") };
            prop_assert_eq!((told.delay_micros, told.through), (17, 99));
            let told: Vec<_> = told.ranges().collect();
            let newest: Vec<_> = numbers.iter().rev().take(told.len()).collect();
            let fits = (room - ACKNOWLEDGEMENT_HEAD) / 8 + 1;
            prop_assert_eq!(told.len(), numbers.len().min(fits).min(ACKNOWLEDGED_RUNS_MAX + 1));
            prop_assert_eq!(told, newest);
        }

        #[test]
        fn no_plaintext_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(parts) = all(&bytes) {
                for part in parts {
                    if let Part::Acknowledge(told) = part {
                        let ranges: Vec<_> = told.ranges().collect();
                        prop_assert!(ranges.iter().all(|range| range.start < range.end));
                        prop_assert!(ranges.windows(2).all(|pair| pair[1].end < pair[0].start));
                    }
                }
            }
        }
    }
}
