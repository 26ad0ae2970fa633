//! What the paths of sessions do. Of those that TCP carries, the kernel tells its congestion control; the rest is of datagrams.
//!
//! A session has as many paths as connections, and no series names one of them. What is counted is the sum. What is
//! measured is that of the worst: the longest round trip and the smallest datagram are what somebody has to look at. The
//! window is a sum again, because that is what bounds the session's throughput.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use sealane_protocol::datagram::{PathCounts, PathFigures, RoundTrip};

use super::labels::{Fate, SessionCongestionLabels, SessionFateLabels, SessionLabels};
use super::register::{begin, register, register_in};

type Seconds = Gauge<f64, AtomicU64>;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Paths {
    datagrams: Family<SessionFateLabels, Counter>,
    moves: Family<SessionLabels, Counter>,
    round_trip: Family<SessionLabels, Seconds>,
    round_trip_min: Family<SessionLabels, Seconds>,
    datagram_bytes: Family<SessionLabels, Gauge>,
    window_bytes: Family<SessionLabels, Gauge>,
    congestion: Family<SessionCongestionLabels, Gauge>,
    watched: Mutex<Connections>,
}

/// Those that there are, and what they told last.
#[derive(Debug, Default)]
struct Connections {
    next: u64,
    known: BTreeMap<u64, (SessionLabels, Path)>,
}

/// What was told of one.
#[derive(Debug)]
enum Path {
    Datagrams(PathFigures),
    /// The congestion control that the kernel named.
    Stream(String),
}

impl Path {
    fn congestion(&self) -> &str {
        match self {
            Self::Datagrams(figures) => figures.congestion.as_str(),
            Self::Stream(congestion) => congestion,
        }
    }
}

/// The path of one connection. Dropping it ends what is shown of it, but for what was counted.
pub(crate) struct Watched<'a> {
    paths: &'a Paths,
    number: u64,
}

impl Paths {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            datagrams: register(
                registry,
                "path_datagrams",
                "Datagrams that ask for an answer, by their fate",
            ),
            moves: register(registry, "path_moves", "Times that a replica was followed to another address"),
            round_trip: register_in(
                registry,
                "path_round_trip",
                Unit::Seconds,
                "Smoothed round trip of the connection with the longest",
            ),
            round_trip_min: register_in(
                registry,
                "path_round_trip_min",
                Unit::Seconds,
                "Smallest round trip of that connection",
            ),
            datagram_bytes: register_in(
                registry,
                "path_datagram",
                Unit::Bytes,
                "UDP payload of a full datagram, on the connection with the smallest",
            ),
            window_bytes: register_in(
                registry,
                "path_window",
                Unit::Bytes,
                "What all connections together may have on the way",
            ),
            congestion: register(
                registry,
                "path_congestion_control",
                "Connections by their congestion control; of TCP, as the kernel names it",
            ),
            watched: Mutex::default(),
        }
    }

    /// A connection of a session is carried in datagrams.
    pub(crate) fn watch(&self, labels: SessionLabels, figures: PathFigures) -> Watched<'_> {
        begin(&self.datagrams, Fate::ALL.map(|fate| labels.clone().fate(fate)));
        begin(&self.moves, [labels.clone()]);
        let before = PathFigures { counts: PathCounts::default(), ..figures };
        let watched = self.begin(labels, Path::Datagrams(before));
        watched.tell(figures);
        watched
    }

    /// A connection of a session is carried by TCP, under what the kernel calls `congestion`.
    pub(crate) fn watch_stream(&self, labels: SessionLabels, congestion: String) -> Watched<'_> {
        self.begin(labels, Path::Stream(congestion))
    }

    fn begin(&self, labels: SessionLabels, path: Path) -> Watched<'_> {
        let mut watched = self.watched();
        let number = watched.next;
        watched.next = number.wrapping_add(1);
        watched.known.insert(number, (labels, path));
        drop(watched);
        Watched { paths: self, number }
    }

    /// The congestion controls of each session's connections.
    pub(crate) fn congestion(&self) -> BTreeMap<SessionLabels, BTreeSet<String>> {
        let mut of_sessions: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (labels, path) in self.watched().known.values() {
            of_sessions.entry(labels.clone()).or_default().insert(path.congestion().to_owned());
        }
        of_sessions
    }

    /// Brings up to date what is measured.
    pub(crate) fn look(&self) {
        let mut worst: BTreeMap<SessionLabels, PathFigures> = BTreeMap::new();
        let mut under: BTreeMap<SessionCongestionLabels, i64> = BTreeMap::new();
        for (labels, path) in self.watched().known.values() {
            if let Path::Datagrams(figures) = path {
                match worst.get_mut(labels) {
                    Some(so_far) => *so_far = worse(so_far, figures),
                    None => drop(worst.insert(labels.clone(), *figures)),
                }
            }
            *under.entry(labels.clone().under(path.congestion())).or_default() += 1;
        }
        let Self {
            datagrams: _,
            moves: _,
            round_trip,
            round_trip_min,
            datagram_bytes,
            window_bytes,
            congestion,
            watched: _,
        } = self;
        [round_trip, round_trip_min].into_iter().for_each(Family::clear);
        [datagram_bytes, window_bytes].into_iter().for_each(Family::clear);
        congestion.clear();
        for (labels, connections) in under {
            congestion.get_or_create(&labels).set(connections);
        }
        for (labels, figures) in worst {
            if let Some(trip) = figures.round_trip {
                round_trip.get_or_create(&labels).set(seconds(trip.smoothed_micros));
                round_trip_min.get_or_create(&labels).set(seconds(trip.min_micros));
            }
            datagram_bytes.get_or_create(&labels).set(figures.datagram_bytes.into());
            let window = i64::try_from(figures.window_bytes).unwrap_or(i64::MAX);
            window_bytes.get_or_create(&labels).set(window);
        }
    }

    pub(super) fn forget(&self, labels: &SessionLabels) {
        for fate in Fate::ALL {
            self.datagrams.remove(&labels.clone().fate(fate));
        }
        self.moves.remove(labels);
    }

    fn watched(&self) -> MutexGuard<'_, Connections> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched<'_> {
    /// What is known of the path by now.
    pub(crate) fn tell(&self, figures: PathFigures) {
        let paths = self.paths;
        let mut watched = paths.watched();
        let Some((labels, Path::Datagrams(shown))) = watched.known.get_mut(&self.number) else { return };
        let before = std::mem::replace(shown, figures).counts;
        let labels = labels.clone();
        drop(watched);
        let now = figures.counts;
        for (fate, now, before) in [
            (Fate::Sent, now.sent, before.sent),
            (Fate::Lost, now.lost, before.lost),
            (Fate::Late, now.late, before.late),
        ] {
            let labels = labels.clone().fate(fate);
            paths.datagrams.get_or_create(&labels).inc_by(now.saturating_sub(before));
        }
        paths.moves.get_or_create(&labels).inc_by(now.moves.saturating_sub(before.moves));
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.paths.watched().known.remove(&self.number);
    }
}

/// What is told of two paths. Counts and congestion controls are told elsewhere.
fn worse(one: &PathFigures, other: &PathFigures) -> PathFigures {
    let longest = |trip: &RoundTrip| trip.smoothed_micros;
    PathFigures {
        counts: one.counts,
        round_trip: [one.round_trip, other.round_trip].into_iter().flatten().max_by_key(longest),
        datagram_bytes: one.datagram_bytes.min(other.datagram_bytes),
        window_bytes: one.window_bytes.saturating_add(other.window_bytes),
        congestion: one.congestion,
    }
}

/// Microseconds stay far below 2^53.
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}
