//! How much memory all segments of the pod take together. It is charged to the sidecar's own limit, so exceeding it
//! would end the sidecar, not the client.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;

use super::take::TakeSegments;
use crate::metrics::Door as Metrics;
use crate::metrics::labels::SideLabel;

/// Who fills the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Put,
    Take,
}

/// What segments beyond the need of the moment leave of a side: so large a part of it is there for lanes that need little.
const SPARE_PARTS: u64 = 8;

/// The pod's account.
#[derive(Debug)]
pub(super) struct Budget {
    total: u64,
    metrics: Metrics,
    used: Mutex<Used>,
    arenas: Mutex<Vec<Weak<TakeSegments>>>,
    /// Somebody got none: what becomes idle goes back at once.
    short: AtomicBool,
    /// How often memory was given back.
    returns: AtomicU64,
    /// The sidecar ends before its clients do.
    ended: AtomicBool,
    /// Who asked in vain last.
    asked: watch::Sender<Option<Asker>>,
}

/// A client that asks in vain; it knows of its own idle segments by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asker(pub(super) usize);

#[derive(Debug, Default)]
struct Used {
    put: u64,
    take: u64,
}

impl Side {
    const fn label(self) -> SideLabel {
        match self {
            Self::Put => SideLabel { side: "put" },
            Self::Take => SideLabel { side: "take" },
        }
    }
}

impl Used {
    const fn of(&mut self, side: Side) -> &mut u64 {
        match side {
            Side::Put => &mut self.put,
            Side::Take => &mut self.take,
        }
    }
}

/// Memory set aside; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Grant {
    budget: Arc<Budget>,
    side: Side,
    bytes: u64,
}

impl Budget {
    pub(super) fn new(total: u64, metrics: Metrics) -> Arc<Self> {
        metrics.arena_limit.set(i64::try_from(total).unwrap_or(i64::MAX));
        Arc::new(Self {
            total,
            metrics,
            used: Mutex::default(),
            arenas: Mutex::default(),
            short: AtomicBool::default(),
            returns: AtomicU64::default(),
            ended: AtomicBool::default(),
            asked: watch::Sender::new(None),
        })
    }

    /// What either side can have: three quarters, so that a pod which puts and takes can always do both.
    pub(super) const fn side_bytes_max(&self) -> u64 {
        self.total - self.total / 4
    }

    /// Enters an arena into the list of those that give back idle memory when others need it.
    pub(super) fn enter(&self, arena: &Arc<TakeSegments>) {
        let mut arenas = self.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        arenas.retain(|arena| arena.strong_count() > 0);
        arenas.push(Arc::downgrade(arena));
    }

    /// Sets `bytes` aside, taking back idle take segments if it must. None when there is no room now.
    pub(super) fn grant(self: &Arc<Self>, side: Side, bytes: u64) -> Option<Grant> {
        let granted = self.try_grant(side, bytes, 0).or_else(|| {
            self.short.store(true, Ordering::SeqCst);
            self.each_arena(TakeSegments::trim);
            self.try_grant(side, bytes, 0)
        });
        if granted.is_none() {
            self.metrics.arena_full.get_or_create(&side.label()).inc();
        }
        granted
    }

    /// As [`Budget::grant`] for more than is needed now: leaves some to lanes that need little.
    pub(super) fn grant_generously(self: &Arc<Self>, side: Side, bytes: u64) -> Option<Grant> {
        self.grant_spare(side, bytes).or_else(|| {
            self.each_arena(TakeSegments::trim);
            self.grant_spare(side, bytes)
        })
    }

    /// As [`Budget::grant_generously`] where nobody has to give anything back for it.
    pub(super) fn grant_spare(self: &Arc<Self>, side: Side, bytes: u64) -> Option<Grant> {
        self.try_grant(side, bytes, self.side_bytes_max() / SPARE_PARTS)
    }

    /// Whether somebody waits for memory.
    pub(super) fn is_short(&self) -> bool {
        self.short.load(Ordering::SeqCst)
    }

    /// How often memory was given back so far.
    pub(super) fn returns(&self) -> u64 {
        self.returns.load(Ordering::SeqCst)
    }

    /// From now on the pages of segments stay: clients have them mapped.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Asks every client but the `asker` for the put segments in which nothing lies.
    pub(super) fn ask(&self, asker: Option<Asker>) {
        self.asked.send_replace(asker);
    }

    /// Hears of those who ask.
    pub(super) fn asked(&self) -> watch::Receiver<Option<Asker>> {
        self.asked.subscribe()
    }

    fn try_grant(self: &Arc<Self>, side: Side, bytes: u64, spare: u64) -> Option<Grant> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = used.put.checked_add(used.take)?.checked_add(bytes)?;
        let own = used.of(side).checked_add(bytes)?;
        let left = self.total.checked_sub(sum)?.min(self.side_bytes_max().checked_sub(own)?);
        if left < spare {
            return None;
        }
        *used.of(side) = own;
        drop(used);
        self.metrics.segments.get_or_create(&side.label()).inc();
        self.metrics.arena.get_or_create(&side.label()).inc_by(counted(bytes));
        Some(Grant { budget: self.clone(), side, bytes })
    }

    fn each_arena(&self, act: impl Fn(&TakeSegments)) {
        // Acting outside the lock: an arena that gives memory back comes through here again.
        let arenas = self.arenas.lock().unwrap_or_else(PoisonError::into_inner).clone();
        arenas.iter().filter_map(Weak::upgrade).for_each(|arena| act(&arena));
    }
}

impl Grant {
    /// Whether the sidecar ends before its clients do.
    pub(super) fn has_ended(&self) -> bool {
        self.budget.ended.load(Ordering::SeqCst)
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let mut used = self.budget.used.lock().unwrap_or_else(PoisonError::into_inner);
        let own = used.of(self.side);
        *own = own.saturating_sub(self.bytes);
        drop(used);
        let Budget { metrics, .. } = &*self.budget;
        metrics.segments.get_or_create(&self.side.label()).dec();
        metrics.arena.get_or_create(&self.side.label()).dec_by(counted(self.bytes));
        // An arena that could not grow can try again, and says so if that is still too little.
        self.budget.short.store(false, Ordering::SeqCst);
        self.budget.returns.fetch_add(1, Ordering::SeqCst);
        self.budget.each_arena(TakeSegments::wake);
    }
}

/// Grants are bounded by memory, which is far below what a gauge holds.
fn counted(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_leaves_a_quarter_to_the_other() {
        let metrics = Metrics::default();
        let budget = Budget::new(400, metrics.clone());
        let put = budget.grant(Side::Put, 300).unwrap();
        assert!(budget.grant(Side::Put, 1).is_none());
        let take = budget.grant(Side::Take, 100).unwrap();
        assert!(budget.grant(Side::Take, 1).is_none());
        assert!(budget.is_short());
        drop(put);
        assert!(!budget.is_short());
        assert!(budget.grant(Side::Take, 201).is_none());
        drop(take);
        assert!(budget.grant(Side::Take, 300).is_some());
        assert!(budget.grant(Side::Take, u64::MAX).is_none());
        let bytes = |side: Side| metrics.arena.get_or_create(&side.label()).get();
        assert_eq!((bytes(Side::Put), bytes(Side::Take)), (0, 0), "what is given back is not counted");
        assert_eq!(metrics.arena_full.get_or_create(&Side::Take.label()).get(), 3);
    }

    #[test]
    fn generous_grants_leave_an_eighth_to_those_who_need_little() {
        let budget = Budget::new(512, Metrics::default());
        let large: Vec<_> = std::iter::from_fn(|| budget.grant_generously(Side::Take, 16)).collect();
        assert_eq!(large.len(), 21);
        let small: Vec<_> = (0..43).filter_map(|_| budget.grant(Side::Take, 1)).collect();
        assert_eq!(small.len(), 43);
    }

    #[test]
    fn everybody_hears_of_one_who_asks_in_vain() {
        let budget = Budget::new(64, Metrics::default());
        let mut asked = budget.asked();
        budget.ask(Some(Asker(7)));
        assert!(asked.has_changed().unwrap());
        assert_eq!(*asked.borrow_and_update(), Some(Asker(7)));
        // The next time as well, although it is the same one.
        budget.ask(Some(Asker(7)));
        assert!(asked.has_changed().unwrap());
    }
}
