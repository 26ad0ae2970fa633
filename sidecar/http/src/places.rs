//! Who may have a connection.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// How many connections a listener has at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caps {
    /// Of all sources.
    pub(crate) connections: usize,
    /// Of one source.
    pub(crate) per_source: usize,
}

impl Caps {
    /// For probes and metrics: what Prometheus and kubelet open is a few connections each.
    pub(crate) const MANAGEMENT: Self = Self { connections: 256, per_source: 64 };
}

/// The connections that a listener has.
#[derive(Debug)]
pub(crate) struct Places {
    caps: Caps,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    taken: usize,
    /// The oldest of each source first.
    sources: HashMap<IpAddr, VecDeque<(u64, CancellationToken)>>,
}

/// One connection; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    source: IpAddr,
    number: u64,
    evicted: CancellationToken,
}

impl Places {
    pub(crate) fn new(caps: Caps) -> Arc<Self> {
        Arc::new(Self { caps, inner: Mutex::default() })
    }

    /// A place for a connection of `source`, if it may have one. Where all are taken, the source with most of them loses
    /// its oldest to one that has at least two fewer: a flood of some sources keeps no other out.
    pub(crate) fn admit(self: &Arc<Self>, source: IpAddr) -> Option<Place> {
        let source = source.to_canonical();
        let mut inner = self.lock();
        let own = inner.sources.get(&source).map_or(0, VecDeque::len);
        if own >= self.caps.per_source || (inner.taken >= self.caps.connections && !inner.evict(own)) {
            return None;
        }
        let (number, evicted) = (inner.next, CancellationToken::new());
        inner.next = inner.next.wrapping_add(1);
        inner.taken = inner.taken.saturating_add(1);
        inner.sources.entry(source).or_default().push_back((number, evicted.clone()));
        Some(Place { places: Arc::clone(self), source, number, evicted })
    }

    /// How many are taken.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.lock().taken
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Takes a place from the source with most, for one that has `own`. Whether there was such a source.
    fn evict(&mut self, own: usize) -> bool {
        let most = self.sources.values_mut().max_by_key(|connections| connections.len());
        let Some((_, oldest)) =
            most.filter(|most| most.len() > own.saturating_add(1)).and_then(VecDeque::pop_front)
        else {
            return false;
        };
        oldest.cancel();
        self.taken = self.taken.saturating_sub(1);
        true
    }
}

impl Place {
    /// Resolves when the place was given to another source: the connection ends.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.places.lock();
        let Some(connections) = inner.sources.get_mut(&self.source) else { return };
        let before = connections.len();
        connections.retain(|(number, _)| *number != self.number);
        // None when it was evicted before.
        let gone = before.saturating_sub(connections.len());
        if connections.is_empty() {
            inner.sources.remove(&self.source);
        }
        inner.taken = inner.taken.saturating_sub(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Caps = Caps { connections: 8, per_source: 5 };

    fn source(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn take(places: &Arc<Places>, last: u8, count: usize) -> Vec<Place> {
        (0..count).filter_map(|_| places.admit(source(last))).collect()
    }

    #[test]
    fn one_source_has_so_many() {
        let places = Places::new(CAPS);
        let held = take(&places, 1, 9);
        assert_eq!((held.len(), places.taken()), (5, 5));
        let others = take(&places, 2, 9);
        assert_eq!((others.len(), places.taken()), (4, 8), "others get as many");
        drop((held, others));
        assert_eq!(take(&places, 1, 9).len(), 5, "and places come back");
    }

    #[test]
    fn whoever_has_most_gives_way_to_whoever_has_less() {
        let places = Places::new(CAPS);
        let (many, some) = (take(&places, 1, 5), take(&places, 2, 3));
        assert_eq!(places.taken(), 8);
        let late = places.admit(source(3)).expect("it has none yet");
        assert_eq!(places.taken(), 8);
        let evicted: Vec<_> = many.iter().map(|place| place.evicted.is_cancelled()).collect();
        assert_eq!(evicted, [true, false, false, false, false], "the oldest of the source with most");
        assert!(some.iter().all(|place| !place.evicted.is_cancelled()));
        drop(many);
        assert_eq!(places.taken(), 4, "one that was evicted is counted once");
        drop((some, late));
        assert_eq!(places.taken(), 0);
        assert!(places.lock().sources.is_empty());
    }

    #[test]
    fn equals_do_not_drive_each_other_out() {
        let places = Places::new(CAPS);
        let held: Vec<_> = (0..8).map(|last| places.admit(source(last)).unwrap()).collect();
        assert!(places.admit(source(9)).is_none());
        assert!(held.iter().all(|place| !place.evicted.is_cancelled()));
    }

    #[test]
    fn mapped_addresses_are_the_same_source() {
        let places = Places::new(CAPS);
        let _held = take(&places, 1, 5);
        assert!(places.admit("::ffff:10.0.0.1".parse().unwrap()).is_none());
    }
}
