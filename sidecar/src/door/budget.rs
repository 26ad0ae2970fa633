//! How much memory all segments of the pod take together. It is charged to the sidecar's own limit, so exceeding it
//! would end the sidecar, not the client.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::take::TakeSegments;
use crate::metrics::Door as Metrics;
use crate::metrics::labels::SideLabel;

/// Who fills the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Put,
    Take,
}

/// The pod's account.
#[derive(Debug)]
pub(super) struct Budget {
    total: u64,
    metrics: Metrics,
    used: Mutex<Used>,
    arenas: Mutex<Vec<Weak<TakeSegments>>>,
}

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
        Arc::new(Self { total, metrics, used: Mutex::default(), arenas: Mutex::default() })
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
        let granted = self.try_grant(side, bytes).or_else(|| {
            self.each_arena(TakeSegments::trim);
            self.try_grant(side, bytes)
        });
        if granted.is_none() {
            self.metrics.arena_full.get_or_create(&side.label()).inc();
        }
        granted
    }

    fn try_grant(self: &Arc<Self>, side: Side, bytes: u64) -> Option<Grant> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = used.put.checked_add(used.take)?.checked_add(bytes)?;
        let own = used.of(side).checked_add(bytes)?;
        if sum > self.total || own > self.side_bytes_max() {
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

impl Drop for Grant {
    fn drop(&mut self) {
        let mut used = self.budget.used.lock().unwrap_or_else(PoisonError::into_inner);
        let own = used.of(self.side);
        *own = own.saturating_sub(self.bytes);
        drop(used);
        let Budget { metrics, .. } = &*self.budget;
        metrics.segments.get_or_create(&self.side.label()).dec();
        metrics.arena.get_or_create(&self.side.label()).dec_by(counted(self.bytes));
        // An arena that could not grow can try again.
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
        drop(put);
        assert!(budget.grant(Side::Take, 201).is_none());
        drop(take);
        assert!(budget.grant(Side::Take, 300).is_some());
        assert!(budget.grant(Side::Take, u64::MAX).is_none());
        let bytes = |side: Side| metrics.arena.get_or_create(&side.label()).get();
        assert_eq!((bytes(Side::Put), bytes(Side::Take)), (0, 0), "what is given back is not counted");
        assert_eq!(metrics.arena_full.get_or_create(&Side::Take.label()).get(), 3);
    }
}
