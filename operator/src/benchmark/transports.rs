//! What runs say about transports: which figures count, for how long, and what they recommend. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sealane_operator_api::well_known::condition::RECOMMENDED;
use sealane_operator_api::{
    BenchmarkStatus, IgnoredRow, KnownTransports, Level, PastRun, PoolStatus, Recommendation, RunOutcome,
    Transport as Words, TransportFigure, word,
};
use sealane_results::{Better, Line, Summary, Unit};

use super::group::{GROUPS_MAX, Group};
use super::situation::Situation;
use crate::advice::{Rival, Transport, settle};
use crate::condition::Finding;

/// Rows are `transport/CARRIER+CIPHER`; those with a peer are comparisons, and not ours to choose.
const ROW: &str = "transport/";
const MEGABYTES: f64 = 1_000.0;
/// In GB/s: less is no transport, and more is no machine.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.001..=1_000.0;
/// What a status holds of them.
const ROWS_MAX: usize = 16;

/// What a run says of transports, and by which rules it counts.
pub(super) struct Judgement<'a> {
    pub(super) found: &'a [Summary],
    pub(super) run: &'a PastRun,
    pub(super) rules: &'a Recommendation,
}

impl Judgement<'_> {
    /// Tells all `groups` what is known of their transports. Those of `before` that the run did not reach are added as they
    /// were known, as long as they are fresh and their pools are `present`.
    pub(super) fn complete<G: Group>(&self, groups: &mut Vec<G>, before: &[G], present: &BTreeSet<String>) {
        let is_left_out = |earlier: &&G| {
            earlier.pools().all(|pool| present.contains(pool))
                && !groups.iter().any(|group| group.name() == earlier.name())
                && self.is_fresh(earlier.known())
        };
        let room = GROUPS_MAX.saturating_sub(groups.len());
        let unreached: Vec<G> = before.iter().filter(is_left_out).take(room).map(G::unreached).collect();
        groups.extend(unreached);
        for group in groups {
            let earlier = before.iter().find(|earlier| earlier.name() == group.name()).map(G::known);
            let name = group.name().to_owned();
            let is_of_network = group.pools().nth(1).is_some();
            self.judge(&name, is_of_network, group.known_mut(), earlier);
        }
    }

    /// Whether what is known counts at the end of the run.
    fn is_fresh(&self, known: &KnownTransports) -> bool {
        !known.transports.is_empty() && is_fresh(known, self.run.completion_time.0, self.rules)
    }

    /// Tells a group of nodes, a pool or a pair, what is known of its transports. Where a row cannot be believed that counted
    /// before, or there is none, what was known `earlier` stays as long as it is fresh: half a picture would choose among what
    /// is left of it.
    fn judge(
        &self,
        group: &str,
        is_of_network: bool,
        known: &mut KnownTransports,
        earlier: Option<&KnownTransports>,
    ) {
        let Self { found, run, rules } = self;
        let nodes: Vec<&Summary> = found.iter().filter(|one| one.place.group() == group).collect();
        let (rivals, ignored) = sorted(&nodes, run.level);
        let kept = earlier.filter(|earlier| self.is_fresh(earlier));
        match kept {
            Some(kept) if rivals.is_empty() || is_missed(&ignored, kept) => *known = kept.clone(),
            _ if rivals.is_empty() => {}
            _ => {
                let now = earlier.and_then(|earlier| read(earlier.recommended.as_ref()?));
                known.recommended = best(&rivals, is_of_network, now, rules).map(words);
                known.transports = rivals.iter().map(figure).collect();
                known.transports_run = Some(run.id.clone());
                known.transports_time = Some(run.completion_time.clone());
            }
        }
        known.ignored = ignored;
    }
}

/// Whether a row is ignored that counted before.
fn is_missed(ignored: &[IgnoredRow], before: &KnownTransports) -> bool {
    ignored.iter().filter_map(|row| of_row(&row.row)).any(|transport| {
        before.transports.iter().any(|one| Transport::read(&one.carrier, &one.cipher) == Some(transport))
    })
}

/// What can be chosen from, and the rows that count for nothing. Figures of level Smoke mean nothing, and are not even told.
fn sorted(nodes: &[&Summary], level: Level) -> (Vec<Rival>, Vec<IgnoredRow>) {
    let (mut rivals, mut ignored): (Vec<Rival>, Vec<IgnoredRow>) = Default::default();
    if level == Level::Smoke {
        return (rivals, ignored);
    }
    let as_asked = nodes.iter().all(|node| node.level == level.word());
    for row in Summary::of_pool(nodes) {
        let Some(transport) = of_row(&row.id.0) else { continue };
        if rivals.iter().any(|rival| rival.transport == transport) || ignored.len() == ROWS_MAX {
            continue;
        }
        match fault(&row, as_asked) {
            None => rivals.push(rival(transport, &row)),
            Some(reason) => ignored.push(IgnoredRow { row: row.id.0, reason: reason.to_owned() }),
        }
    }
    // The order of the runner is none of theirs.
    rivals.sort_by_key(|rival| rival.transport);
    (rivals, ignored)
}

/// `None` for other rows, and for words that a newer runner measures and this release cannot choose.
fn of_row(id: &str) -> Option<Transport> {
    let (carrier, cipher) = id.strip_prefix(ROW)?.split_once('+')?;
    Transport::read(carrier, cipher)
}

/// A key signs what a runner says, not that it makes sense.
fn fault(row: &Line, as_asked: bool) -> Option<&'static str> {
    let in_kind = row.unit == Unit::GigabytesPerSecond && row.better == Better::Higher;
    if !(as_asked && in_kind && row.correct && PLAUSIBLE.contains(&row.ours)) {
        return Some(word::FIGURES_IMPLAUSIBLE);
    }
    row.noisy.then_some(word::FIGURES_NOISY)
}

fn rival(transport: Transport, row: &Line) -> Rival {
    // Of a figure that is plausible; bounds below nothing are cut.
    let whole = |value: f64| (value * MEGABYTES).round() as u64;
    let bounds = row.bounds.map(|bounds| (whole(bounds.low), whole(bounds.high)));
    Rival { transport, goodput: whole(row.ours), bounds }
}

/// What a session takes that leaves all open. Carriers are compared by what a network does to them, and not within a node.
fn best(
    rivals: &[Rival],
    is_of_network: bool,
    now: Option<Transport>,
    rules: &Recommendation,
) -> Option<Transport> {
    let default = Transport::all().next()?;
    let percent = u32::try_from(rules.hysteresis_percent).unwrap_or_default();
    let is_open = |one: Transport| one.is_open() && (is_of_network || one.carrier == default.carrier);
    let open: Vec<Rival> = rivals.iter().copied().filter(|rival| is_open(rival.transport)).collect();
    settle(&open, now, default, percent).map(|rival| rival.transport)
}

fn figure(rival: &Rival) -> TransportFigure {
    let Words { carrier, cipher } = words(rival.transport);
    TransportFigure {
        carrier,
        cipher,
        megabytes_per_second: i64::try_from(rival.goodput).unwrap_or(i64::MAX),
    }
}

fn words(transport: Transport) -> Words {
    Words { carrier: transport.carrier.to_string(), cipher: transport.cipher.to_string() }
}

fn read(words: &Words) -> Option<Transport> {
    Transport::read(&words.carrier, &words.cipher)
}

/// How long the figures of a pool still count; `None` when they do not.
fn left(known: &KnownTransports, now: Timestamp, rules: &Recommendation) -> Option<SignedDuration> {
    let age = now.duration_since(known.transports_time.as_ref()?.0);
    SignedDuration::from_secs(rules.valid_seconds).checked_sub(age).filter(|left| !left.is_negative())
}

fn is_fresh(known: &KnownTransports, now: Timestamp, rules: &Recommendation) -> bool {
    left(known, now, rules).is_some()
}

/// When the first of the figures becomes stale.
#[must_use]
pub(super) fn stale_in(rules: &Recommendation, status: &BenchmarkStatus, now: Timestamp) -> Option<Duration> {
    let of_pools = status.pools.iter().map(|pool| &pool.known);
    let known = of_pools.chain(status.pairs.iter().map(|pair| &pair.known));
    let first = known.filter_map(|known| left(known, now, rules)).min()?;
    // A second more, so that it has come.
    Some(Duration::try_from(first).ok()?.saturating_add(Duration::from_secs(1)))
}

/// Whether every pool has a recommendation, and why one has none.
#[must_use]
pub(super) fn recommended(situation: &Situation<'_>, status: &BenchmarkStatus) -> Finding {
    if let Err(why) = &situation.enabled {
        let message = format!("nothing is recommended from here: {why}");
        return Finding::unknown(RECOMMENDED, word::NAMESPACE_NOT_ENABLED, message);
    }
    if !situation.spec.is_followed() {
        let message = "sessions do not follow these figures: spec.recommendation.follow, or spec.env without it, says so";
        return Finding::unknown(RECOMMENDED, word::NOT_FOLLOWED, message);
    }
    let pools = &status.pools;
    if pools.iter().all(|pool| pool.known.transports.is_empty() && pool.known.ignored.is_empty()) {
        return Finding::unknown(RECOMMENDED, word::NOT_MEASURED, nothing(status));
    }
    let (rules, now) = (&situation.spec.recommendation, situation.now);
    let problems: Vec<(&str, String)> = pools.iter().filter_map(|pool| problem(pool, rules, now)).collect();
    let told = |parts: Vec<String>| parts.into_iter().chain(left_out(status)).collect::<Vec<_>>().join("; ");
    match problems.first() {
        Some((reason, _)) => {
            let reason = (*reason).to_owned();
            let parts = problems.into_iter().map(|(_, message)| message).collect();
            Finding::no(RECOMMENDED, &reason, told(parts))
        }
        None => {
            Finding::yes(RECOMMENDED, word::RECOMMENDED, told(pools.iter().filter_map(in_words).collect()))
        }
    }
}

fn nothing(status: &BenchmarkStatus) -> &'static str {
    match status.runs.iter().find(|run| run.outcome == RunOutcome::Succeeded) {
        None => "no run has succeeded yet",
        Some(run) if run.level == Level::Smoke => "figures of level Smoke mean nothing",
        Some(_) => "no run has measured transports",
    }
}

fn problem<'a>(pool: &'a PoolStatus, rules: &Recommendation, now: Timestamp) -> Option<(&'a str, String)> {
    let PoolStatus { name, known, .. } = pool;
    let missing = || known.ignored.first().map_or(word::NOT_MEASURED, |row| row.reason.as_str());
    if known.transports.is_empty() {
        return Some((missing(), format!("pool {name} has no figure that counts")));
    }
    if !is_fresh(known, now, rules) {
        let (run, days) = (known.transports_run.as_deref().unwrap_or_default(), rules.valid_seconds / 86_400);
        let message = format!(
            "the figures of pool {name} are of run {run}, more than {days} days old, and count no more"
        );
        return Some((word::FIGURES_STALE, message));
    }
    let message = || {
        format!("what pool {name} would take by itself was not measured, so nothing is known to be better")
    };
    known.recommended.is_none().then(|| (missing(), message()))
}

fn in_words(pool: &PoolStatus) -> Option<String> {
    let KnownTransports { transports, transports_run, recommended, .. } = &pool.known;
    let Words { carrier, cipher } = recommended.as_ref()?;
    let figure = transports.iter().find(|one| one.carrier == *carrier && one.cipher == *cipher)?;
    let run = transports_run.as_deref()?;
    Some(format!("pool {}: {carrier}+{cipher}, {} MB/s (run {run})", pool.name, figure.megabytes_per_second))
}

/// Rows that count for nothing although something is recommended without them.
fn left_out(status: &BenchmarkStatus) -> impl Iterator<Item = String> {
    let of_pools = status.pools.iter().map(|pool| (format!("of pool {}", pool.name), &pool.known));
    let of_pairs = status.pairs.iter().map(|pair| (format!("between {}", pair.name), &pair.known));
    of_pools.chain(of_pairs).flat_map(|(place, known)| {
        let ignored = known.ignored.iter();
        ignored.map(move |IgnoredRow { row, reason }| format!("{row} {place} is ignored: {reason}"))
    })
}
