//! What the remote has said and what lies before it has not arrived: bytes out of order, in pages that are there while
//! they are needed.

use std::collections::VecDeque;

use crate::limits::STREAM_RANGES_MAX;
use crate::recovery::Ranges;
use crate::size::{index, wide};

const PAGE_BYTES: usize = 1 << 16;

/// There is no room for it; it is to be treated as lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoRoom;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// Everything before was handed on.
    next: u64,
    /// From the page that holds `next`.
    pages: VecDeque<Option<Box<[u8]>>>,
    held: Ranges,
}

impl Incoming {
    /// Where the sequence goes on.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Whether something waits for bytes before it.
    pub(super) fn has_gaps(&self) -> bool {
        !self.held.is_empty()
    }

    /// Keeps bytes that may not be next. The caller sees to it that they are within the window.
    pub(super) fn keep(&mut self, offset: u64, bytes: &[u8]) -> Result<(), NoRoom> {
        let end = offset.saturating_add(wide(bytes.len()));
        let start = offset.max(self.next);
        if start >= end {
            return Ok(());
        }
        if self.held.len() >= STREAM_RANGES_MAX && start != self.next {
            return Err(NoRoom);
        }
        self.held.insert(start..end);
        let mut rest = bytes.get(index(start.saturating_sub(offset))..).unwrap_or_default();
        let mut at = index(start.saturating_sub(self.first_page()));
        while !rest.is_empty() {
            let (page, within) = (at / PAGE_BYTES, at % PAGE_BYTES);
            let (here, after) = rest.split_at(rest.len().min(PAGE_BYTES.saturating_sub(within)));
            if self.pages.len() <= page {
                self.pages.resize_with(page.saturating_add(1), || None);
            }
            if let Some(place) = self.pages.get_mut(page) {
                let place = place.get_or_insert_with(|| vec![0; PAGE_BYTES].into_boxed_slice());
                let end = within.saturating_add(here.len());
                place.get_mut(within..end).unwrap_or_default().copy_from_slice(here);
            }
            (rest, at) = (after, at.saturating_add(here.len()));
        }
        Ok(())
    }

    /// The bytes that are next, as far as they lie in one place.
    pub(super) fn ready(&self) -> &[u8] {
        let Some(first) = self.held.first().filter(|first| first.start == self.next) else { return &[] };
        let within = index(self.next.saturating_sub(self.first_page()));
        let length = index(first.end.saturating_sub(first.start)).min(PAGE_BYTES.saturating_sub(within));
        let page = self.pages.front().and_then(Option::as_deref).unwrap_or_default();
        page.get(within..within.saturating_add(length)).unwrap_or_default()
    }

    /// So many of the bytes that are next were handed on.
    pub(super) fn advance(&mut self, bytes: usize) {
        let before = self.first_page();
        self.next = self.next.saturating_add(wide(bytes));
        if self.held.is_empty() && self.pages.is_empty() {
            return;
        }
        self.held.remove_below(self.next);
        let passed = index(self.first_page().saturating_sub(before)) / PAGE_BYTES;
        self.pages.drain(..passed.min(self.pages.len()));
        if self.held.is_empty() {
            self.pages = VecDeque::new();
        }
    }

    /// Where the page begins that holds `next`.
    const fn first_page(&self) -> u64 {
        self.next & !(PAGE_BYTES as u64).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drain(incoming: &mut Incoming, into: &mut Vec<u8>) {
        loop {
            let ready = incoming.ready().to_vec();
            if ready.is_empty() {
                return;
            }
            into.extend_from_slice(&ready);
            incoming.advance(ready.len());
        }
    }

    #[test]
    fn so_many_gaps_are_enough() {
        let mut incoming = Incoming::default();
        for gap in 0..STREAM_RANGES_MAX as u64 {
            assert_eq!(incoming.keep(1 + 2 * gap, b"x"), Ok(()));
        }
        assert_eq!(incoming.keep(10_000_000, b"x"), Err(NoRoom));
        assert!(incoming.has_gaps() && incoming.ready().is_empty());
    }

    proptest! {
        /// In whatever pieces and order they come, bytes are handed on once and as they were.
        #[test]
        fn bytes_come_out_in_order(pieces in prop::collection::vec((0_usize..300_000, 1_usize..40_000), 1..60)) {
            let byte = |at: usize| (at * 31 % 251) as u8;
            let mut incoming = Incoming::default();
            let (mut out, mut end) = (Vec::new(), 0);
            for (start, length) in pieces {
                let bytes: Vec<u8> = (start..start + length).map(byte).collect();
                incoming.keep(start as u64, &bytes).unwrap();
                end = end.max(start + length);
                drain(&mut incoming, &mut out);
            }
            let all: Vec<u8> = (0..end).map(byte).collect();
            incoming.keep(0, &all).unwrap();
            drain(&mut incoming, &mut out);
            prop_assert_eq!(out, all);
            prop_assert!(!incoming.has_gaps() && incoming.pages.is_empty(), "nothing is kept then");
        }
    }
}
