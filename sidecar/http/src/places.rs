//! Who may have how much of what a listener has: connections, or bytes of bodies.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How much there is.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// For all sources.
    pub total: usize,
    /// For one source.
    pub per_source: usize,
}

/// What is shared, and who has it.
#[derive(Debug)]
pub struct Places {
    caps: Caps,
    inner: Mutex<Inner>,
    released: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    taken: usize,
    sources: HashMap<IpAddr, Source>,
}

#[derive(Debug, Default)]
struct Source {
    taken: usize,
    /// The oldest first.
    places: VecDeque<Held>,
}

#[derive(Debug)]
struct Held {
    number: u64,
    weight: usize,
    evicted: CancellationToken,
}

/// A part of what is shared; dropping it gives it back.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    source: IpAddr,
    number: u64,
    evicted: CancellationToken,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The source has what one source may have.
    Source,
    /// All is taken, and no source has so much more that it had to give way.
    Full,
}

impl Places {
    #[must_use]
    pub fn new(caps: Caps) -> Arc<Self> {
        Arc::new(Self { caps, inner: Mutex::default(), released: Notify::new() })
    }

    /// Takes `weight` for `source`. Where all is taken, the source with most loses its oldest place to one that has
    /// less even with what it asks for: a flood of some sources keeps no other out.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn admit(self: &Arc<Self>, source: IpAddr, weight: usize) -> Result<Place, Refused> {
        let source = source.to_canonical();
        let mut inner = self.lock();
        let own = inner.sources.get(&source).map_or(0, |source| source.taken).saturating_add(weight);
        if own > self.caps.per_source {
            return Err(Refused::Source);
        }
        let missing = inner.taken.saturating_add(weight).saturating_sub(self.caps.total);
        if !inner.evict(missing, own) {
            return Err(Refused::Full);
        }
        let (number, evicted) = (inner.next, CancellationToken::new());
        inner.next = inner.next.wrapping_add(1);
        inner.taken = inner.taken.saturating_add(weight);
        let held = inner.sources.entry(source).or_default();
        held.taken = own;
        held.places.push_back(Held { number, weight, evicted: evicted.clone() });
        Ok(Place { places: Arc::clone(self), source, number, evicted })
    }

    /// Waits for [`Places::admit`] to succeed. Cancel safe.
    pub async fn admitted(self: &Arc<Self>, source: IpAddr, weight: usize) -> Place {
        loop {
            let released = self.released.notified();
            if let Ok(place) = self.admit(source, weight) {
                return place;
            }
            released.await;
        }
    }

    /// How much `source` has.
    #[must_use]
    pub fn taken_by(&self, source: IpAddr) -> usize {
        self.lock().sources.get(&source.to_canonical()).map_or(0, |source| source.taken)
    }

    /// How much is taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.lock().taken
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Frees at least `missing` for a source that is to have `own`: the oldest places of whichever source has most at each
    /// step, and more than `own`. Whether there are enough of those; if not, nobody loses anything.
    fn evict(&mut self, missing: usize, own: usize) -> bool {
        let Some(evicted) = self.victims(missing, own) else { return false };
        for (address, places) in evicted {
            let Some(source) = self.sources.get_mut(&address) else { continue };
            for oldest in source.places.drain(..places) {
                oldest.evicted.cancel();
                source.taken = source.taken.saturating_sub(oldest.weight);
                self.taken = self.taken.saturating_sub(oldest.weight);
            }
        }
        true
    }

    /// How many of their oldest places which sources would lose.
    fn victims(&self, missing: usize, own: usize) -> Option<HashMap<IpAddr, usize>> {
        let (mut victims, mut freed) = (HashMap::new(), 0_usize);
        let mut left: HashMap<IpAddr, usize> = HashMap::new();
        while freed < missing {
            let has = |(address, source): (&IpAddr, &Source)| {
                (*address, left.get(address).copied().unwrap_or(source.taken))
            };
            let (address, taken) = self.sources.iter().map(has).max_by_key(|(_, taken)| *taken)?;
            let lost = victims.entry(address).or_insert(0_usize);
            let oldest = self.sources.get(&address)?.places.get(*lost).filter(|_| taken > own)?;
            *lost = lost.saturating_add(1);
            freed = freed.saturating_add(oldest.weight);
            left.insert(address, taken.saturating_sub(oldest.weight));
        }
        Some(victims)
    }
}

impl Place {
    /// Resolves when the place was given to another source.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    #[must_use]
    pub const fn source(&self) -> IpAddr {
        self.source
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.places.lock();
        let Some(source) = inner.sources.get_mut(&self.source) else { return };
        // None when it was evicted before.
        let held = source.places.iter().position(|held| held.number == self.number);
        let given = held.and_then(|index| source.places.remove(index)).map_or(0, |held| held.weight);
        source.taken = source.taken.saturating_sub(given);
        if source.places.is_empty() {
            inner.sources.remove(&self.source);
        }
        inner.taken = inner.taken.saturating_sub(given);
        drop(inner);
        self.places.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Caps = Caps { total: 8, per_source: 5 };

    fn source(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn take(places: &Arc<Places>, last: u8, count: usize) -> Vec<Place> {
        (0..count).filter_map(|_| places.admit(source(last), 1).ok()).collect()
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
        let late = places.admit(source(3), 1).expect("it has none yet");
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
        let held: Vec<_> = (0..8).map(|last| places.admit(source(last), 1).unwrap()).collect();
        assert_eq!(places.admit(source(9), 1).unwrap_err(), Refused::Full);
        assert!(held.iter().all(|place| !place.evicted.is_cancelled()));
    }

    #[test]
    fn mapped_addresses_are_the_same_source() {
        let places = Places::new(CAPS);
        let _held = take(&places, 1, 5);
        let mapped = places.admit("::ffff:10.0.0.1".parse().unwrap(), 1);
        assert_eq!(mapped.unwrap_err(), Refused::Source);
    }

    #[test]
    fn a_heavy_place_gives_way_to_a_light_one() {
        let places = Places::new(CAPS);
        let (heavy, other) = (places.admit(source(1), 5).unwrap(), places.admit(source(2), 3).unwrap());
        assert_eq!(places.admit(source(3), 6).unwrap_err(), Refused::Source);
        assert_eq!(
            places.admit(source(3), 5).unwrap_err(),
            Refused::Full,
            "no more than whoever would give way"
        );
        let light = places.admit(source(3), 4).unwrap();
        assert!(heavy.evicted.is_cancelled() && !other.evicted.is_cancelled());
        assert_eq!(places.taken(), 7);
        assert_eq!([1, 2, 3].map(|last| places.taken_by(source(last))), [0, 3, 4]);
        drop((heavy, light));
        assert_eq!(places.taken(), 3);
    }

    #[test]
    fn nobody_gives_way_to_one_who_is_refused_all_the_same() {
        let places = Places::new(CAPS);
        let (many, some) = (take(&places, 1, 5), take(&places, 2, 3));
        // One of the five may go, and then nobody has more than the four that are asked for.
        assert_eq!(places.admit(source(3), 4).unwrap_err(), Refused::Full);
        assert!(many.iter().chain(&some).all(|place| !place.evicted.is_cancelled()));
        assert_eq!(places.taken(), 8);
        let late = places.admit(source(3), 2).expect("two of those with five");
        let evicted = many.iter().filter(|place| place.evicted.is_cancelled()).count();
        assert_eq!((evicted, places.taken(), places.taken_by(late.source())), (2, 8, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_has_what_is_given_back() {
        let places = Places::new(CAPS);
        let held = [places.admit(source(1), 5).unwrap(), places.admit(source(2), 3).unwrap()];
        let waiting = Arc::clone(&places);
        let waiter = tokio::spawn(async move { waiting.admitted(source(3), 5).await });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        drop(held);
        assert_eq!(waiter.await.unwrap().source(), source(3));
    }
}
