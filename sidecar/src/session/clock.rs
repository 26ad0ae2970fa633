//! The only reader of time.
//!
//! A host may turn the wall clock of its guests, so wall time is taken as the largest of what the clock says, when
//! this release was made, and the newest date that signed material proved; from there it only runs forwards, at the
//! speed of the monotonic clock. A wall clock that falls behind that raises [`Clock::suspect`].

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use sealane_protocol::Moment;
use sealane_types::UnixSeconds;

/// This release is not older: 2026-11-01T00:00:00Z.
const RELEASED: UnixSeconds = UnixSeconds(1_793_491_200);

/// How far the wall clock may fall behind before it is suspect: time servers step clocks by less than this.
const BACKWARDS_SECONDS_MAX: u64 = 5;

/// Source of wall time. The sidecar of release images has the clock of its machine and no other; tests hold one of their
/// own, so that what expires does so when they say, and the simulated sidecar may have one that a test steps.
pub trait WallClock: fmt::Debug + Send + Sync {
    /// Seconds since 1970. What it says is not believed where it runs backwards.
    fn now(&self) -> UnixSeconds;
}

/// A function that reads wall time.
pub(crate) type ReadWall = fn() -> UnixSeconds;

impl WallClock for ReadWall {
    fn now(&self) -> UnixSeconds {
        self()
    }
}

/// Monotonic and wall time of this process.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    wall: Arc<dyn WallClock>,
    /// Wall time that was certain at a monotonic instant.
    anchor: Mutex<(Instant, UnixSeconds)>,
    suspect: AtomicBool,
}

impl Clock {
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::reading(system_wall)
    }

    /// A clock whose wall time comes from a function.
    #[must_use]
    pub(crate) fn reading(read_wall: ReadWall) -> Self {
        Self::following(Arc::new(read_wall))
    }

    /// A clock whose wall time comes from `wall`.
    #[must_use]
    pub(crate) fn following(wall: Arc<dyn WallClock>) -> Self {
        let start = Instant::now();
        let suspect = AtomicBool::new(wall.now() < RELEASED);
        Self { start, wall, anchor: Mutex::new((start, RELEASED)), suspect }
    }

    /// Monotonic time since this clock was made.
    #[must_use]
    pub(crate) fn moment(&self) -> Moment {
        let micros = self.start.elapsed().as_micros();
        Moment::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// How long until `moment`; zero when it has passed.
    #[must_use]
    pub(crate) fn until(&self, moment: Moment) -> Duration {
        Duration::from_micros(moment.micros_since(self.moment()))
    }

    /// Wall time that never runs backwards.
    #[must_use]
    pub(crate) fn unix(&self) -> UnixSeconds {
        let wall = self.wall.now();
        let mut anchor = self.anchor.lock().unwrap_or_else(PoisonError::into_inner);
        let certain = anchor.1.plus(anchor.0.elapsed().as_secs());
        if wall >= certain {
            // Following a clock that runs ahead moves the anchor; reading it in order keeps the fraction of a second.
            if wall > certain {
                *anchor = (Instant::now(), wall);
            }
            self.suspect.store(false, Ordering::Relaxed);
            return wall;
        }
        if certain.0 - wall.0 > BACKWARDS_SECONDS_MAX {
            self.suspect.store(true, Ordering::Relaxed);
        }
        certain
    }

    /// What the machine says, for spans: it is not believed in any other place.
    #[must_use]
    pub(crate) fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    /// Signed material proved that it is at least `date`.
    pub(crate) fn at_least(&self, date: UnixSeconds) {
        let mut anchor = self.anchor.lock().unwrap_or_else(PoisonError::into_inner);
        if date > anchor.1.plus(anchor.0.elapsed().as_secs()) {
            *anchor = (Instant::now(), date);
        }
    }

    /// Whether the wall clock was seen behind time that is certain.
    #[must_use]
    pub(crate) fn suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

fn system_wall() -> UnixSeconds {
    // A clock before 1970 reads as 1970 and so is suspect.
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(UnixSeconds(0), |since| UnixSeconds(since.as_secs()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn wall_time_never_runs_backwards() {
        static WALL: AtomicU64 = AtomicU64::new(1_800_000_000);
        let clock = Clock::reading(|| UnixSeconds(WALL.load(Ordering::Relaxed)));
        assert_eq!(clock.unix(), UnixSeconds(1_800_000_000));
        assert!(!clock.suspect());
        WALL.store(1_700_000_000, Ordering::Relaxed);
        assert!(clock.unix() >= UnixSeconds(1_800_000_000));
        assert!(clock.suspect(), "a step backwards is told");
        WALL.store(1_900_000_000, Ordering::Relaxed);
        assert_eq!(clock.unix(), UnixSeconds(1_900_000_000));
        assert!(!clock.suspect());
    }

    #[test]
    fn a_clock_before_the_release_or_before_signed_dates_is_not_believed() {
        let clock = Clock::reading(|| UnixSeconds(1_000));
        assert!(clock.suspect());
        assert!(clock.unix() >= RELEASED);
        clock.at_least(RELEASED.plus(1_000_000));
        assert!(clock.unix() >= RELEASED.plus(1_000_000));
        clock.at_least(RELEASED);
        assert!(clock.unix() >= RELEASED.plus(1_000_000), "an older date takes nothing back");
    }
}
