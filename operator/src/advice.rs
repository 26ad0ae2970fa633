//! What Benchmarks know about transports between nodes, and how one transport is preferred to another. Pure.
//!
//! It never widens anything: whoever asks brings the transports that policy and spec permit.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sealane_types::{Carrier, Cipher, UnixSeconds};

/// What moves the bytes of a session and what seals them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transport {
    pub carrier: Carrier,
    pub cipher: Cipher,
}

impl Transport {
    /// `None` for words of another release.
    #[must_use]
    pub fn read(carrier: &str, cipher: &str) -> Option<Self> {
        Some(Self { carrier: carrier.parse().ok()?, cipher: cipher.parse().ok()? })
    }

    /// Whether a session can have it that does not name its carrier: AF_XDP takes privileges, which have to be declared.
    #[must_use]
    pub fn is_open(self) -> bool {
        self.carrier != Carrier::AfXdp
    }

    /// Every transport, in the order in which they are preferred while nothing is measured.
    pub fn all() -> impl Iterator<Item = Self> {
        Carrier::ALL
            .iter()
            .flat_map(|carrier| Cipher::ALL.iter().map(|cipher| Self { carrier: *carrier, cipher: *cipher }))
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.carrier, self.cipher)
    }
}

/// What one run found about the transports of one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figures {
    /// Namespace and name.
    pub benchmark: String,
    pub run: String,
    pub pool: String,
    pub measured: UnixSeconds,
    /// After this they are stale.
    pub valid_until: UnixSeconds,
    pub hysteresis_percent: u32,
    /// Goodput from end to end, in 10^6 bytes a second.
    pub transports: BTreeMap<Transport, u64>,
}

/// Whether there is advice at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Standing {
    /// This installation runs no Benchmarks.
    #[default]
    Off,
    /// They have not all been read since this replica began to lead: what was recommended before still counts.
    Pending,
    Known,
}

/// What one Benchmark knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contribution {
    /// Figures of its pools, each with the nodes that belong to the pool now.
    pub pools: Vec<(Arc<Figures>, Vec<String>)>,
    /// Figures between two of its pools.
    pub pairs: Vec<(String, String, Arc<Figures>)>,
}

impl Contribution {
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pools.is_empty() && self.pairs.is_empty()
    }
}

/// What is known of each node, and between pools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advice {
    standing: Standing,
    /// The newest first.
    nodes: BTreeMap<String, Vec<Arc<Figures>>>,
    /// By Benchmark, and the two pools in the order of their names: a pair is measured one way, and counts for both.
    pairs: BTreeMap<(String, [String; 2]), Arc<Figures>>,
}

/// Two pools, and what is known of what lies between them.
#[derive(Debug, Clone, Copy)]
pub struct Between<'a> {
    pub from: &'a Figures,
    pub to: &'a Figures,
    /// Of a client in the one and a server in the other.
    measured: Option<&'a Figures>,
}

impl<'a> Between<'a> {
    /// What `transport` reaches, in 10^6 bytes a second: as it was measured between the two, or else no more than the slower
    /// of the two does within itself.
    #[must_use]
    pub fn goodput(&self, transport: Transport) -> Option<u64> {
        let of = |figures: &Figures| figures.transports.get(&transport).copied();
        match self.measured {
            Some(measured) => of(measured),
            None => Some(of(self.from)?.min(of(self.to)?)),
        }
    }

    /// Whether it was measured over the network. What two nodes do within themselves compares ciphers, and no carriers: a network
    /// may not even let all of them pass.
    #[must_use]
    pub const fn is_of_network(&self) -> bool {
        self.measured.is_some()
    }

    /// When something of it becomes stale: the pools' figures as well, without which nobody asks for a pair's.
    #[must_use]
    pub fn valid_until(&self) -> UnixSeconds {
        let pools = self.from.valid_until.min(self.to.valid_until);
        self.measured.map_or(pools, |measured| pools.min(measured.valid_until))
    }

    /// What it rests on.
    pub fn figures(&self) -> impl Iterator<Item = &'a Figures> + use<'a> {
        let pools = if self.measured.is_some() { [None, None] } else { [Some(self.from), Some(self.to)] };
        self.measured.into_iter().chain(pools.into_iter().flatten())
    }
}

impl Advice {
    /// Of an installation that has not read its Benchmarks yet.
    #[must_use]
    pub fn pending() -> Self {
        Self { standing: Standing::Pending, ..Self::default() }
    }

    /// From the figures of pools, each with the nodes that belong to the pool now.
    #[must_use]
    pub fn new<'a>(known: impl Iterator<Item = &'a Contribution>) -> Self {
        let mut nodes: BTreeMap<String, Vec<Arc<Figures>>> = BTreeMap::new();
        let mut pairs = BTreeMap::new();
        for Contribution { pools, pairs: between } in known {
            for (figures, members) in pools {
                for node in members {
                    nodes.entry(node.clone()).or_default().push(Arc::clone(figures));
                }
            }
            for (from, to, figures) in between {
                pairs.insert((figures.benchmark.clone(), ends(from, to)), Arc::clone(figures));
            }
        }
        nodes.values_mut().for_each(|of_node| of_node.sort_by_key(|figures| Reverse(figures.measured)));
        Self { standing: Standing::Known, nodes, pairs }
    }

    #[must_use]
    pub const fn standing(&self) -> Standing {
        self.standing
    }

    /// What is known at `now` of `candidates` between the pools that two nodes' figures are of. Only a Benchmark that knows
    /// both pools can have measured between them. A pair that lacks a cipher which both pools have counts as not measured:
    /// figures over a network and within a node are not compared with each other. A carrier of which it has nothing at all is
    /// not reached between the two, whatever it does within a node.
    #[must_use]
    pub fn between<'a>(
        &'a self,
        (from, to): (&'a Figures, &'a Figures),
        candidates: &[Transport],
        now: UnixSeconds,
    ) -> Between<'a> {
        let key = || (from.benchmark.clone(), ends(&from.pool, &to.pool));
        let measured = (from.benchmark == to.benchmark).then(|| self.pairs.get(&key())).flatten();
        let fresh = measured.map(|figures| &**figures).filter(|figures| now <= figures.valid_until);
        let has = |figures: &Figures, transport| figures.transports.contains_key(transport);
        let lacks = |figures: &Figures| {
            let passes =
                |one: &&Transport| figures.transports.keys().any(|known| known.carrier == one.carrier);
            let mut passing = candidates.iter().filter(passes).peekable();
            passing.peek().is_none()
                || passing.any(|one| !has(figures, one) && has(from, one) && has(to, one))
        };
        Between { from, to, measured: fresh.filter(|figures| !lacks(figures)) }
    }

    /// The newest figures of `node` that count at `now`.
    ///
    /// # Errors
    /// There are none; the newest that are stale, if there are such.
    pub fn of_node(&self, node: &str, now: UnixSeconds) -> Result<&Arc<Figures>, Option<&Arc<Figures>>> {
        let known = self.nodes.get(node).map(Vec::as_slice).unwrap_or_default();
        known.iter().find(|figures| now <= figures.valid_until).ok_or_else(|| known.first())
    }
}

/// The names of two pools, in an order that does not depend on who sends.
fn ends(one: &str, other: &str) -> [String; 2] {
    let mut ends = [one.to_owned(), other.to_owned()];
    ends.sort();
    ends
}

/// A transport that was measured, in 10^6 bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rival {
    pub transport: Transport,
    pub goodput: u64,
    /// Between which it lies with 95 % confidence.
    pub bounds: Option<(u64, u64)>,
}

impl Rival {
    /// Whether it beats `other` by `percent` at least, beyond doubt.
    fn beats(&self, other: &Self, percent: u32) -> bool {
        let enough = self.goodput.saturating_mul(100)
            >= other.goodput.saturating_mul(100_u64.saturating_add(percent.into()));
        let apart = match (self.bounds, other.bounds) {
            (Some((low, _)), Some((_, high))) => low > high,
            _ => true,
        };
        enough && apart
    }
}

/// The transport to take: the one in place, unless another beats it by `percent`; of several that do, the fastest. In place
/// is `now`, or else `default`, which is what would be taken without advice.
///
/// `None` where what is in place was not measured: then nothing is known to be better than it.
#[must_use]
pub fn settle(rivals: &[Rival], now: Option<Transport>, default: Transport, percent: u32) -> Option<Rival> {
    let find = |transport: Transport| rivals.iter().find(|rival| rival.transport == transport);
    let mut chosen = now.and_then(find).or_else(|| find(default))?;
    let in_place = chosen;
    for rival in rivals.iter().filter(|rival| rival.beats(in_place, percent)) {
        if chosen == in_place || rival.goodput > chosen.goodput {
            chosen = rival;
        }
    }
    Some(*chosen)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const AES256: Transport = Transport { carrier: Carrier::Tcp, cipher: Cipher::Aes256Gcm };
    pub(crate) const AES128: Transport = Transport { carrier: Carrier::Tcp, cipher: Cipher::Aes128Gcm };
    pub(crate) const CHACHA: Transport =
        Transport { carrier: Carrier::Tcp, cipher: Cipher::ChaCha20Poly1305 };

    pub(crate) const UDP: Transport = Transport { carrier: Carrier::Udp, cipher: Cipher::Aes256Gcm };

    /// Of pool `pool`, measured at `measured` and good for 100 seconds.
    pub(crate) fn figures(pool: &str, measured: u64, transports: &[(Transport, u64)]) -> Arc<Figures> {
        Arc::new(Figures {
            benchmark: "bench/nightly".to_owned(),
            run: format!("{pool}-{measured}"),
            pool: pool.to_owned(),
            measured: UnixSeconds(measured),
            valid_until: UnixSeconds(measured + 100),
            hysteresis_percent: 10,
            transports: transports.iter().copied().collect(),
        })
    }

    fn rival(transport: Transport, goodput: u64) -> Rival {
        Rival { transport, goodput, bounds: None }
    }

    fn settled(rivals: &[Rival], now: Option<Transport>) -> Option<Transport> {
        settle(rivals, now, AES256, 10).map(|rival| rival.transport)
    }

    #[test]
    fn another_transport_is_taken_only_when_it_is_better_by_enough() {
        let of = |aes128, chacha| [rival(AES256, 1000), rival(AES128, aes128), rival(CHACHA, chacha)];
        assert_eq!(settled(&of(1099, 500), None), Some(AES256));
        assert_eq!(settled(&of(1100, 500), None), Some(AES128));
        // What was taken stays taken: it would have to be beaten in its turn.
        assert_eq!(settled(&of(950, 500), Some(AES128)), Some(AES128));
        assert_eq!(settled(&of(900, 500), Some(AES128)), Some(AES256));
        assert_eq!(settled(&of(2000, 3000), None), Some(CHACHA), "the fastest of those that are better");
    }

    #[test]
    fn bounds_that_overlap_leave_a_doubt() {
        let slow = Rival { bounds: Some((900, 1100)), ..rival(AES256, 1000) };
        let fast = |low| Rival { bounds: Some((low, 1300)), ..rival(AES128, 1200) };
        assert_eq!(settled(&[slow, fast(1100)], None), Some(AES256));
        assert_eq!(settled(&[slow, fast(1101)], None), Some(AES128));
        assert_eq!(settled(&[rival(AES256, 1000), fast(1100)], None), Some(AES128), "no bounds, no overlap");
    }

    #[test]
    fn nothing_is_better_than_what_was_not_measured() {
        assert_eq!(settled(&[rival(AES128, 9000)], None), None);
        assert_eq!(settled(&[rival(AES256, 1000)], Some(AES128)), Some(AES256), "from the default on");
        assert_eq!(settled(&[], Some(AES128)), None);
    }

    #[test]
    fn the_newest_figures_that_are_fresh_count_for_a_node() {
        let long = Arc::new(Figures {
            valid_until: UnixSeconds(10_000),
            ..(*figures("old", 1, &[(AES256, 1)])).clone()
        });
        let new = figures("new", 50, &[(AES256, 2)]);
        let pools = vec![
            (Arc::clone(&long), vec!["a".to_owned(), "b".to_owned()]),
            (Arc::clone(&new), vec!["a".to_owned()]),
        ];
        let advice = Advice::new(std::iter::once(&Contribution { pools, pairs: Vec::new() }));
        assert_eq!(advice.standing(), Standing::Known);
        assert_eq!(advice.of_node("a", UnixSeconds(150)), Ok(&new));
        assert_eq!(advice.of_node("a", UnixSeconds(151)), Ok(&long), "older, and asked to count for longer");
        assert_eq!(advice.of_node("a", UnixSeconds(10_001)), Err(Some(&new)));
        assert_eq!(advice.of_node("b", UnixSeconds(150)), Ok(&long));
        assert_eq!(advice.of_node("c", UnixSeconds(150)), Err(None));
    }

    #[test]
    fn a_pair_is_as_fast_as_its_slower_pool_unless_it_was_measured() {
        let (one, other) = (figures("x", 1, &[(AES256, 5), (AES128, 9)]), figures("y", 1, &[(AES256, 3)]));
        let measured = figures("y → x", 1, &[(AES256, 1), (AES128, 2)]);
        let pair = ("y".to_owned(), "x".to_owned(), Arc::clone(&measured));
        let advice = |pairs: Vec<_>| Advice::new(std::iter::once(&Contribution { pools: Vec::new(), pairs }));
        let reaches = |advice: &Advice, now: u64| {
            [(&one, &other), (&other, &one)].map(|(from, to)| {
                let between = advice.between((from, to), &[AES256, AES128], UnixSeconds(now));
                (between.goodput(AES256), between.goodput(AES128), between.figures().count())
            })
        };
        assert_eq!(reaches(&advice(Vec::new()), 1), [(Some(3), None, 2); 2]);
        let known = advice(vec![pair]);
        assert_eq!(reaches(&known, 101), [(Some(1), Some(2), 1); 2], "either way, and nothing else");
        assert_eq!(reaches(&known, 102), [(Some(3), None, 2); 2], "it is stale");
        let elsewhere = Arc::new(Figures { benchmark: "bench/other".to_owned(), ..(*one).clone() });
        assert_eq!(known.between((&elsewhere, &other), &[AES256], UnixSeconds(1)).goodput(AES256), Some(3));
        // It has no figure of what both pools have: then it is no measurement to choose by.
        let partial = figures("y → x", 1, &[(AES128, 2)]);
        let partial = advice(vec![("y".to_owned(), "x".to_owned(), partial)]);
        assert_eq!(reaches(&partial, 101), [(Some(3), None, 2); 2]);
        let between = known.between((&one, &other), &[AES256], UnixSeconds(1));
        assert_eq!(between.valid_until(), UnixSeconds(101));
    }

    #[test]
    fn a_carrier_of_which_a_pair_has_no_figure_does_not_pass_there() {
        let within = [(AES256, 5), (UDP, 50)];
        let (one, other) = (figures("x", 1, &within), figures("y", 1, &within));
        let reaches = |measured: &[(Transport, u64)], candidates: &[Transport]| {
            let pair = ("x".to_owned(), "y".to_owned(), figures("x → y", 1, measured));
            let advice = Advice::new(std::iter::once(&Contribution { pools: Vec::new(), pairs: vec![pair] }));
            let between = advice.between((&one, &other), candidates, UnixSeconds(1));
            (between.goodput(AES256), between.goodput(UDP))
        };
        assert_eq!(reaches(&[(AES256, 3), (UDP, 4)], &[AES256, UDP]), (Some(3), Some(4)));
        assert_eq!(reaches(&[(AES256, 3)], &[AES256, UDP]), (Some(3), None), "within a node it does");
        // A session that names it chooses among its ciphers by what is known.
        assert_eq!(reaches(&[(AES256, 3)], &[UDP]), (Some(5), Some(50)));
    }

    #[test]
    fn words_of_another_release_are_no_transport() {
        assert_eq!(Transport::read("Tcp", "Aes128Gcm"), Some(AES128));
        assert_eq!(Transport::read("Pigeon", "Aes128Gcm"), None);
        assert_eq!(Transport::all().next(), Some(AES256));
        assert_eq!(AES128.to_string(), "Tcp+Aes128Gcm");
    }
}
