//! How much memory all segments of the pod take together. It is charged to the sidecar's own limit, so exceeding it
//! would end the sidecar, not the client.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;

use super::limits;
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
    put: Granted,
    take: Granted,
}

/// What one side has.
#[derive(Debug, Default)]
struct Granted {
    bytes: u64,
    /// How many grants there are of each size.
    sizes: BTreeMap<u64, usize>,
}

impl Granted {
    fn largest(&self) -> u64 {
        self.sizes.last_key_value().map_or(0, |(size, _)| *size)
    }

    fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        *self.sizes.entry(bytes).or_default() += 1;
    }

    fn remove(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Some(count) = self.sizes.get_mut(&bytes) {
            *count -= 1;
            if *count == 0 {
                self.sizes.remove(&bytes);
            }
        }
    }
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
    const fn of(&mut self, side: Side) -> &mut Granted {
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

    /// The usual segment: small enough to leave a side all that it can have.
    pub(super) fn segment_bytes(&self) -> u64 {
        let eighth = self.total / 8;
        limits::SEGMENT_BYTES
            .min(eighth - eighth % limits::SEGMENT_STEP_BYTES)
            .max(limits::SEGMENT_STEP_BYTES)
    }

    /// What a side can have whose largest grant has `largest` bytes. The other side keeps room for two of that size, one that its
    /// application still views and one that arrives; otherwise two pods that send each other tensors of that size would
    /// both fill what they put from, and wait for ever for room to take. For one of more than a quarter that is too much to
    /// ask: it goes alone, beside a quarter of what is smaller.
    fn side_limit(&self, largest: u64) -> u64 {
        let leaves_two = self.total.saturating_sub(largest.saturating_mul(2));
        let goes_alone = largest.saturating_add(self.total / 4);
        self.side_bytes_max().min(leaves_two.max(goes_alone))
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
        let sum = used.put.bytes.checked_add(used.take.bytes)?.checked_add(bytes)?;
        let granted = used.of(side);
        let limit = self.side_limit(granted.largest().max(bytes));
        let own = granted.bytes.checked_add(bytes)?;
        let left = self.total.checked_sub(sum)?.min(limit.checked_sub(own)?);
        if left < spare {
            return None;
        }
        granted.add(bytes);
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
        used.of(self.side).remove(self.bytes);
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

    /// What two pods need that send each other tensors of one size and look at one while they wait for the next.
    #[test]
    fn a_side_full_of_tensors_leaves_room_for_as_large_ones_on_the_other() {
        const TOTAL: u64 = 512;
        for bytes in 1..=TOTAL * 3 / 8 {
            for (filled, other) in [(Side::Put, Side::Take), (Side::Take, Side::Put)] {
                let budget = Budget::new(TOTAL, Metrics::default());
                let full: Vec<_> = std::iter::from_fn(|| budget.grant(filled, bytes)).collect();
                let small: Vec<_> = std::iter::from_fn(|| budget.grant(filled, 1)).collect();
                assert!(!full.is_empty());
                let found: Vec<_> = (0..2).map_while(|_| budget.grant(other, bytes)).collect();
                let wanted = if bytes <= TOTAL / 4 { 2 } else { 1 };
                assert_eq!(found.len(), wanted, "{bytes} after {} and {} small", full.len(), small.len());
            }
        }
        for total in [1, 16, 64, 512, 4096].map(|mib: u64| mib << 20) {
            let budget = Budget::new(total, Metrics::default());
            assert_eq!(budget.side_limit(budget.segment_bytes()), budget.side_bytes_max(), "{total}");
        }
        let budget = Budget::new(TOTAL, Metrics::default());
        let beside = budget.grant(Side::Put, TOTAL / 4);
        assert!(
            beside.is_some() && budget.grant(Side::Put, TOTAL / 2).is_some(),
            "one that is larger goes alone"
        );
    }

    /// As the client does, so that neither asks for what the other refuses.
    #[test]
    fn limits_are_those_of_the_vectors() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/door.json");
        let vectors: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for case in vectors["limits"].as_array().unwrap() {
            let number = |name: &str| case[name].as_u64().unwrap();
            let budget = Budget::new(number("arenaBytes"), Metrics::default());
            let limits = (budget.side_bytes_max(), budget.side_limit(number("largest")));
            assert_eq!(limits, (number("putBytesMax"), number("limit")), "{}", case["example"]);
        }
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
