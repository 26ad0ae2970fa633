//! The take segments of one receiver lane: where arriving tensors are written, and what bounds how many are under
//! way.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sealane_arena::VolatileSlice;
use tokio::sync::Notify;

use super::budget::{Budget, Grant, Side};
use super::extents::{Extents, aligned};
use super::limits;
use super::segment::{Segment, SegmentIds, rounded};
use crate::handoff::{NoSlot, SlotId, TakeArena};

/// Where a slot lies, in the words of a `DELIVER` entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: u32,
    pub(super) offset: u64,
}

#[derive(Debug)]
pub(super) struct TakeSegments {
    this: Weak<Self>,
    side: Side,
    budget: Arc<Budget>,
    bytes_max: u64,
    ids: Arc<SegmentIds>,
    state: Mutex<State>,
    freed: Arc<Notify>,
    /// Told when [`TakeSegments::announcements`] has something.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    parts: Vec<Part>,
    slots: HashMap<SlotId, Slot>,
    last_slot: u64,
    growing: bool,
    dropped: Vec<u32>,
}

#[derive(Debug)]
struct Part {
    segment: Arc<Segment>,
    extents: Extents,
    announced: bool,
}

/// A slot; without a segment when it has no bytes.
#[derive(Debug, Clone)]
struct Slot {
    segment: Option<Arc<Segment>>,
    offset: u64,
    bytes: u64,
}

/// What the client has to learn before the next delivery.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    pub(super) added: Vec<Arc<Segment>>,
    pub(super) dropped: Vec<u32>,
}

impl State {
    fn reserve(&mut self, bytes: u64) -> Option<SlotId> {
        let (segment, offset) = if bytes == 0 {
            (None, 0)
        } else {
            let take = |part: &mut Part| Some((part.segment.clone(), part.extents.take(bytes)?));
            let (segment, offset) = self.parts.iter_mut().find_map(take)?;
            (Some(segment), offset)
        };
        self.last_slot += 1;
        let id = SlotId(self.last_slot);
        self.slots.insert(id, Slot { segment, offset, bytes });
        Some(id)
    }

    /// Whether a tensor of `bytes` justifies another segment. What counts is what is held: in segments of which no gap is
    /// large enough, it would wait for ever. A large tensor has a segment of its own, so the largest one tells what is
    /// held.
    fn may_grow(&self, bytes: u64) -> bool {
        let largest = self.parts.iter().map(|part| part.extents.bytes()).max().unwrap_or(0);
        let wanted = bytes.max(largest).saturating_mul(limits::TENSORS_HELD_WANTED);
        let held = self.slots.values().fold(bytes, |sum, slot| sum.saturating_add(slot.bytes));
        !self.growing && held <= wanted.max(limits::ARENA_USUAL_BYTES_MAX)
    }

    /// Takes out the segments that hold nothing.
    fn trim(&mut self) -> Vec<Arc<Segment>> {
        let (idle, busy) = self.parts.drain(..).partition(|part: &Part| part.extents.all_free());
        self.parts = busy;
        let idle: Vec<Part> = idle;
        self.dropped.extend(idle.iter().filter(|part| part.announced).map(|part| part.segment.id));
        idle.into_iter().map(|part| part.segment).collect()
    }
}

impl TakeSegments {
    pub(super) fn new(budget: &Arc<Budget>, ids: Arc<SegmentIds>) -> Arc<Self> {
        Self::on(Side::Take, budget, budget.side_bytes_max(), ids)
    }

    /// As [`TakeSegments::new`], charged to either side, of which at most `left` can be had: the gRPC door keeps tensors that are
    /// put in segments of its own, and pays for its lanes from the same budget.
    pub(super) fn on(side: Side, budget: &Arc<Budget>, left: u64, ids: Arc<SegmentIds>) -> Arc<Self> {
        // Segments have whole steps: one for a tensor that needs a part of the last step would never be granted.
        let bytes_max = left - left % limits::SEGMENT_STEP_BYTES;
        let arena = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            side,
            budget: budget.clone(),
            bytes_max,
            ids,
            state: Mutex::default(),
            freed: Arc::default(),
            changed: Notify::new(),
        });
        budget.enter(&arena);
        arena
    }

    /// Of the largest tensor that there can ever be room for.
    pub(super) const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a segment of the usual size before a tensor asks for one, unless memory is scarce: others keep what lies idle. Blocks
    /// as [`TakeSegments::grow`].
    pub(super) fn begin(&self) {
        let usual = self.budget.segment_bytes();
        let grant = self.budget.grant_spare(self.side, usual);
        let segment = grant.and_then(|grant| self.fill(usual, grant));
        self.add(segment);
    }

    /// Adds a segment for a tensor of `bytes`. Blocks while the kernel fills it with pages.
    pub(super) fn grow(&self, bytes: u64) {
        let returns = self.budget.returns();
        let segment = self.create(bytes);
        self.state().growing = false;
        if segment.is_none() && self.budget.returns() != returns {
            // Whoever was woken meanwhile found the arena still growing.
            self.freed.notify_waiters();
        }
        self.add(segment);
    }

    fn add(&self, segment: Option<Segment>) {
        let Some(segment) = segment else { return };
        let extents = Extents::new(segment.bytes);
        self.state().parts.push(Part { segment: Arc::new(segment), extents, announced: false });
        self.changed.notify_one();
        self.freed.notify_waiters();
    }

    fn create(&self, bytes: u64) -> Option<Segment> {
        let smallest = rounded(bytes)?;
        let generous = self.create_generously(smallest.max(self.budget.segment_bytes()));
        if generous.is_some() {
            return generous;
        }
        let grant = self.budget.grant(self.side, smallest);
        if grant.is_none() {
            self.budget.ask(None);
        }
        self.fill(smallest, grant?)
    }

    fn create_generously(&self, bytes: u64) -> Option<Segment> {
        let grant = self.budget.grant_generously(self.side, bytes)?;
        self.fill(bytes, grant)
    }

    fn fill(&self, bytes: u64, grant: Grant) -> Option<Segment> {
        match Segment::create(self.ids.next()?, bytes, grant) {
            Ok(segment) => Some(segment),
            Err(error) => {
                tracing::warn!(%error, bytes, "cannot create a segment for arriving tensors");
                None
            }
        }
    }

    /// Gives idle segments back to the pod.
    pub(super) fn trim(&self) {
        let idle = self.state().trim();
        if !idle.is_empty() {
            self.changed.notify_one();
        }
        // Dropped here, without the lock: giving memory back wakes every arena, this one too.
        drop(idle);
    }

    /// Tells those who wait for room to try again.
    pub(super) fn wake(&self) {
        self.freed.notify_waiters();
    }

    /// Resolves when [`TakeSegments::announcements`] has something. Cancel safe.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What the client has not been told, each once.
    pub(super) fn announcements(&self) -> Announcements {
        let mut state = self.state();
        let mut added = Vec::new();
        for part in state.parts.iter_mut().filter(|part| !part.announced) {
            part.announced = true;
            added.push(part.segment.clone());
        }
        Announcements { added, dropped: std::mem::take(&mut state.dropped) }
    }

    /// Where a slot lies; None for one that was released. Without bytes it lies nowhere: segment 0.
    pub(super) fn place(&self, slot: SlotId) -> Option<Place> {
        let state = self.state();
        let slot = state.slots.get(&slot)?;
        let segment = slot.segment.as_ref().map_or(0, |segment| segment.id);
        Some(Place { segment, offset: slot.offset })
    }

    /// The memory of a slot and where it begins there; None for one that was released or has no bytes.
    pub(super) fn memory(&self, slot: SlotId) -> Option<(Arc<Segment>, u64)> {
        let state = self.state();
        let slot = state.slots.get(&slot)?;
        Some((slot.segment.clone()?, slot.offset))
    }
}

impl TakeArena for TakeSegments {
    fn reserve(&self, bytes: u64) -> Result<SlotId, NoSlot> {
        let bytes = aligned(bytes).ok_or(NoSlot::TooLarge)?;
        if bytes > self.bytes_max {
            return Err(NoSlot::TooLarge);
        }
        let mut state = self.state();
        if state.slots.len() >= limits::WINDOW_TENSORS as usize {
            return Err(NoSlot::Full);
        }
        if let Some(slot) = state.reserve(bytes) {
            return Ok(slot);
        }
        if state.may_grow(bytes)
            && let (Some(this), Ok(runtime)) = (self.this.upgrade(), tokio::runtime::Handle::try_current())
        {
            state.growing = true;
            drop(state);
            runtime.spawn_blocking(move || this.grow(bytes));
        }
        Err(NoSlot::Full)
    }

    fn with_bytes(
        &self,
        slot: SlotId,
        offset: u64,
        length: usize,
        write: &mut dyn FnMut(VolatileSlice<'_>),
    ) -> io::Result<()> {
        let refused = || io::Error::from(io::ErrorKind::InvalidInput);
        let slot = self.state().slots.get(&slot).cloned().ok_or_else(refused)?;
        let end = offset.checked_add(length as u64).ok_or_else(refused)?;
        if end > slot.bytes {
            return Err(refused());
        }
        match &slot.segment {
            Some(segment) => write(segment.place(slot.offset + offset, length)?),
            None if length == 0 => write((&mut [][..]).into()),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }

    fn release(&self, slot: SlotId) {
        let mut state = self.state();
        let Some(slot) = state.slots.remove(&slot) else { return };
        let mut is_idle = false;
        if let Some(segment) = slot.segment
            && let Some(part) = state.parts.iter_mut().find(|part| part.segment.id == segment.id)
        {
            part.extents.give(slot.offset, slot.bytes);
            is_idle = part.extents.all_free();
        }
        drop(state);
        if is_idle && self.budget.is_short() {
            // Who waits for memory is woken by what is given back, and by nothing else.
            self.trim();
        }
        self.freed.notify_waiters();
    }

    fn freed(&self) -> Arc<Notify> {
        self.freed.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Door as Metrics;

    const MIB: u64 = 1 << 20;

    async fn reserved(arena: &TakeSegments, bytes: u64) -> SlotId {
        loop {
            let freed = arena.freed();
            let notified = freed.notified();
            match arena.reserve(bytes) {
                Ok(slot) => return slot,
                Err(NoSlot::Full) => notified.await,
                Err(NoSlot::TooLarge) => panic!("{bytes} bytes are too large"),
            }
        }
    }

    #[tokio::test]
    async fn an_arena_grows_for_large_tensors_and_gives_idle_memory_to_others() {
        let budget = Budget::new(64 * MIB, Metrics::default());
        let first = TakeSegments::new(&budget, Arc::default());
        let large = reserved(&first, 40 * MIB).await;
        assert_eq!(first.announcements().added.len(), 1);
        assert_eq!(first.reserve(49 * MIB), Err(NoSlot::TooLarge));
        first.release(large);

        let second = TakeSegments::new(&budget, Arc::default());
        let other = reserved(&second, 40 * MIB).await;
        assert_eq!(first.announcements().dropped, [1]);
        second.write_at(other, 40 * MIB - 1, &[1]).unwrap();
        assert!(second.write_at(other, 40 * MIB, &[1]).is_err());
        assert!(second.write_at(large, 0, &[1]).is_ok() == (large == other));
    }

    #[tokio::test]
    async fn an_arena_that_waits_for_memory_gets_what_becomes_idle() {
        let budget = Budget::new(64 * MIB, Metrics::default());
        let first = TakeSegments::new(&budget, Arc::default());
        let large = reserved(&first, 40 * MIB).await;
        let second = TakeSegments::new(&budget, Arc::default());
        let mut asked = budget.asked();
        let waiting = reserved(&second, 40 * MIB);
        tokio::pin!(waiting);
        tokio::select! {
            _ = &mut waiting => panic!("there is no room for both"),
            heard = asked.changed() => heard.unwrap(),
        }
        first.release(large);
        waiting.await;
        assert!(first.announcements().added.is_empty());
    }

    #[tokio::test]
    async fn each_of_64_lanes_has_room_for_a_little() {
        let budget = Budget::new(512 * MIB, Metrics::default());
        let lanes: Vec<_> = (0..64).map(|_| TakeSegments::new(&budget, Arc::default())).collect();
        for lane in &lanes {
            reserved(lane, 1000).await;
        }
    }

    #[tokio::test]
    async fn slots_without_bytes_count_too() {
        let arena = TakeSegments::new(&Budget::new(MIB, Metrics::default()), Arc::default());
        for _ in 0..limits::WINDOW_TENSORS {
            arena.reserve(0).unwrap();
        }
        assert_eq!(arena.reserve(0), Err(NoSlot::Full));
        arena.release(SlotId(1));
        assert_eq!(arena.place(arena.reserve(0).unwrap()), Some(Place { segment: 0, offset: 0 }));
    }
}
