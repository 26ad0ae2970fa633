//! Figures of transports: what is believed, for how long, and what is recommended.

use sealane_operator_api::Level;
use sealane_operator_api::well_known::condition::RECOMMENDED;

use super::*;
use crate::benchmark::transports::stale_in;

const DAY: i64 = 86_400;

/// A row in GB/s, sure by a percent.
pub(super) fn row(case: &str, ours: f64) -> Line {
    Line {
        id: RowId::new("transport", case),
        unit: Unit::GigabytesPerSecond,
        better: Better::Higher,
        ours,
        bounds: Some(Interval { low: ours * 0.99, high: ours * 1.01 }),
        ratio: None,
        verdict: None,
        correct: true,
        noisy: false,
    }
}

fn rows(aes256: f64, chacha: f64, aes128: f64) -> Vec<Line> {
    vec![row("Tcp+Aes256Gcm", aes256), row("Tcp+ChaCha20Poly1305", chacha), row("Tcp+Aes128Gcm", aes128)]
}

/// A cluster of one pool whose first run found `rows`.
fn measured(rows: Vec<Line>) -> World {
    let mut world = World::new(json!({}));
    world.rows = rows;
    world.whole_run(4.0);
    world
}

impl World {
    /// Another run, that finds these.
    fn again(&mut self, rows: Vec<Line>) {
        self.rows = rows;
        self.generation += 1;
        self.whole_run(4.0);
    }

    fn after(&mut self, days: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(days * DAY)).unwrap();
    }

    fn cipher(&self) -> Option<&str> {
        self.status.pools[0].known.recommended.as_ref().map(|transport| transport.cipher.as_str())
    }

    fn figures(&self) -> Vec<(&str, i64)> {
        let figures = self.status.pools[0].known.transports.iter();
        figures.map(|figure| (figure.cipher.as_str(), figure.megabytes_per_second)).collect()
    }

    fn ignored(&self) -> Vec<(&str, &str)> {
        let rows = self.status.pools[0].known.ignored.iter();
        rows.map(|row| (row.row.as_str(), row.reason.as_str())).collect()
    }
}

#[test]
fn the_fastest_transport_is_recommended_with_its_figures() {
    let world = measured(rows(1.0, 0.5, 1.5));
    assert_eq!(world.figures(), [("Aes256Gcm", 1000), ("ChaCha20Poly1305", 500), ("Aes128Gcm", 1500)]);
    assert_eq!(world.cipher(), Some("Aes128Gcm"));
    let (status, reason, message) = world.condition(RECOMMENDED);
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Recommended"));
    assert_eq!(message, "pool all: Tcp+Aes128Gcm, 1500 MB/s (run 01234567-1)");
}

#[test]
fn a_recommendation_stays_until_another_is_better_beyond_doubt_and_by_enough() {
    let mut world = measured(rows(1.0, 0.5, 1.5));
    world.again(rows(1.6, 0.5, 1.5));
    assert_eq!(world.cipher(), Some("Aes128Gcm"), "7 % better");
    assert_eq!(world.figures()[0], ("Aes256Gcm", 1600), "its figures are new all the same");
    let mut doubtful = rows(1.8, 0.5, 1.5);
    doubtful[0].bounds = Some(Interval { low: 1.4, high: 2.0 });
    world.again(doubtful);
    assert_eq!(world.cipher(), Some("Aes128Gcm"), "its bounds overlap");
    world.again(rows(1.8, 0.5, 1.5));
    assert_eq!(world.cipher(), Some("Aes256Gcm"));
    world.spec.recommendation.hysteresis_percent = 90;
    world.again(rows(1.0, 0.5, 1.8));
    assert_eq!(world.cipher(), Some("Aes256Gcm"));
}

#[test]
fn figures_that_make_no_sense_count_for_nothing_and_are_told() {
    type Spoil = fn(&mut Line);
    let spoils: [(Spoil, &str); 7] = [
        (|row| row.ours = 5_000.0, "FiguresImplausible"),
        (|row| row.ours = -1.0, "FiguresImplausible"),
        (|row| row.ours = 0.0, "FiguresImplausible"),
        (|row| row.unit = Unit::Microseconds, "FiguresImplausible"),
        (|row| row.better = Better::Lower, "FiguresImplausible"),
        (|row| row.correct = false, "FiguresImplausible"),
        (|row| row.noisy = true, "FiguresNoisy"),
    ];
    for (spoil, reason) in spoils {
        let mut spoiled = rows(1.0, 0.5, 1.5);
        spoil(&mut spoiled[2]);
        let world = measured(spoiled);
        assert_eq!(world.ignored(), [("transport/Tcp+Aes128Gcm", reason)]);
        assert_eq!(world.cipher(), Some("Aes256Gcm"), "{reason}");
        assert_eq!(world.figures().len(), 2);
        assert!(world.condition(RECOMMENDED).2.contains("transport/Tcp+Aes128Gcm of pool all is ignored"));
        // What would be taken by itself is the measure of all others.
        let mut spoiled = rows(1.0, 0.5, 1.5);
        spoil(&mut spoiled[0]);
        let world = measured(spoiled);
        assert_eq!(world.cipher(), None, "nothing is known to be better than what is not known");
        let (status, said, _) = world.condition(RECOMMENDED);
        assert_eq!((status.as_str(), said.as_str()), ("False", reason));
    }
}

#[test]
fn half_a_picture_leaves_the_one_of_before_until_that_is_stale() {
    let mut world = measured(rows(1.0, 0.5, 1.5));
    let mut poisoned = rows(1.0, 0.5, 1.5);
    poisoned[1].ours = 900_000.0;
    world.after(1);
    world.again(poisoned.clone());
    assert_eq!(world.cipher(), Some("Aes128Gcm"));
    assert_eq!(world.status.pools[0].known.transports_run.as_deref(), Some("01234567-1"));
    assert_eq!(world.ignored(), [("transport/Tcp+ChaCha20Poly1305", "FiguresImplausible")]);
    assert_eq!(world.reason(RECOMMENDED), "Recommended");
    world.again(Vec::new());
    assert_eq!(world.figures().len(), 3, "a run without the suite takes nothing back");
    world.after(30);
    world.again(poisoned);
    assert_eq!(world.status.pools[0].known.transports_run.as_deref(), Some("01234567-4"));
    assert_eq!(world.figures().len(), 2);
}

/// A row over UDP beside those over TCP.
fn over_udp(aes256: f64) -> Line {
    row("Udp+Aes256Gcm", aes256)
}

#[test]
fn within_a_node_ciphers_are_compared_and_no_carriers() {
    let mut all = rows(1.0, 0.5, 0.7);
    all.push(over_udp(1.5));
    all.push(row("AfXdp+Aes256Gcm", 9.0));
    let world = measured(all);
    let recommended = world.status.pools[0].known.recommended.clone().unwrap();
    assert_eq!((recommended.carrier.as_str(), recommended.cipher.as_str()), ("Tcp", "Aes256Gcm"));
    assert_eq!(world.figures().len(), 5, "for sessions that name one");
}

#[test]
fn a_row_that_never_counted_keeps_nothing_of_before() {
    let mut world = measured(rows(1.0, 0.5, 1.5));
    let noisy = |mut rows: Vec<Line>| {
        rows.push(Line { noisy: true, ..over_udp(5.0) });
        rows
    };
    world.after(1);
    world.again(noisy(rows(1.1, 0.5, 1.5)));
    assert_eq!(world.ignored(), [("transport/Udp+Aes256Gcm", "FiguresNoisy")]);
    assert_eq!(world.figures()[0], ("Aes256Gcm", 1100), "the picture is no smaller than before");
    let mut whole = rows(1.2, 0.5, 1.5);
    whole.push(over_udp(0.8));
    world.again(whole);
    assert_eq!(world.figures().len(), 4);
    world.again(noisy(rows(1.3, 0.5, 1.5)));
    assert_eq!((world.figures()[0], world.figures().len()), (("Aes256Gcm", 1200), 4), "now it would be");
}

#[test]
fn figures_become_stale_by_the_passing_of_time() {
    let mut world = measured(rows(1.0, 0.5, 1.5));
    let rules = world.spec.recommendation.clone();
    assert_eq!(rules.valid_seconds, 30 * DAY);
    let wait = stale_in(&rules, &world.status, world.now).unwrap();
    assert_eq!(wait.as_secs(), 30 * DAY as u64 + 1, "then it is looked at again");
    world.after(30);
    assert_eq!((world.step(), world.reason(RECOMMENDED)), (Step::Rest, "Recommended".to_owned()));
    world.now = world.now.checked_add(SignedDuration::from_secs(1)).unwrap();
    world.step();
    let (status, reason, message) = world.condition(RECOMMENDED);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "FiguresStale"));
    assert!(message.contains("run 01234567-1, more than 30 days old"), "{message}");
    assert_eq!(stale_in(&rules, &world.status, world.now), None);
    world.again(rows(1.0, 0.5, 1.5));
    assert_eq!(world.reason(RECOMMENDED), "Recommended");
}

#[test]
fn nothing_is_recommended_from_nothing() {
    let mut world = World::new(json!({}));
    world.step();
    assert_eq!(world.condition(RECOMMENDED).2, "no run has succeeded yet");
    let world = measured(Vec::new());
    let (status, reason, message) = world.condition(RECOMMENDED);
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "NotMeasured"));
    assert_eq!(message, "no run has measured transports");
    let mut world = World::new(json!({"level": "Smoke"}));
    world.rows = rows(1.0, 0.5, 1.5);
    world.whole_run(4.0);
    assert_eq!((world.figures().len(), world.ignored().len(), world.cipher()), (0, 0, None));
    assert_eq!(world.condition(RECOMMENDED).2, "figures of level Smoke mean nothing");
}

#[test]
fn a_result_of_another_level_than_was_asked_for_is_ignored() {
    let mut world = World::new(json!({}));
    world.spec.level = Level::Full;
    world.rows = rows(1.0, 0.5, 1.5);
    world.whole_run(4.0);
    assert_eq!((world.figures().len(), world.ignored().len()), (0, 3));
    assert_eq!(world.reason(RECOMMENDED), "FiguresImplausible");
}

#[test]
fn comparisons_and_words_of_another_release_are_not_ours_to_choose() {
    let mut more = rows(1.0, 0.5, 1.05);
    more.extend([row("Tcp+Aes128Gcm@plaintext", 90.0), row("Pigeon+Aes256Gcm", 90.0), row("Tcp", 90.0)]);
    // A second row of the same name does not count either.
    more.push(row("Tcp+ChaCha20Poly1305", 90.0));
    let world = measured(more);
    assert_eq!((world.cipher(), world.figures().len(), world.ignored().len()), (Some("Aes256Gcm"), 3, 0));
}

#[test]
fn what_was_not_signed_or_failed_recommends_nothing() {
    let mut world = World::new(json!({}));
    world.step();
    world.step();
    let place = place("01234567-1", "all", "a");
    let forged = Summary { rows: rows(1.0, 0.5, 9.0), ..summary(place, 1.0) };
    let said = RunKey::new(Zeroizing::new([99; 32])).seal(forged).unwrap().to_string();
    world.end("a", Some(said), None);
    world.step();
    assert!(matches!(world.step(), Step::Finish(Finish { outcome: RunOutcome::Failed, .. })));
    assert_eq!((world.status.pools.len(), world.reason(RECOMMENDED).as_str()), (0, "NotMeasured"));
    assert!(world.condition(COMPLETE).2.contains("is ignored"));
}

#[test]
fn where_the_operator_runs_none_nothing_is_recommended() {
    let mut world = measured(rows(1.0, 0.5, 1.5));
    world.enabled = Err("not here".to_owned());
    world.step();
    let (status, reason, _) = world.condition(RECOMMENDED);
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "NamespaceNotEnabled"));
}

#[test]
fn a_pool_that_a_run_does_not_reach_is_known_as_it_was_until_it_is_gone() {
    let mut world = World::new(pools_by_label());
    world.rows = rows(1.0, 0.5, 1.5);
    world.whole_run(4.0);
    world.nodes[0].cordoned = true;
    world.generation = 2;
    world.whole_run(4.0);
    let names =
        |world: &World| -> Vec<String> { world.status.pools.iter().map(|pool| pool.name.clone()).collect() };
    assert_eq!(names(&world), ["y", "x"]);
    let unreached = &world.status.pools[1];
    assert_eq!((unreached.nodes, unreached.figures.len(), unreached.known.transports.len()), (0, 0, 3));
    assert_eq!(unreached.known.transports_run.as_deref(), Some("01234567-1"));
    world.nodes.remove(0);
    world.generation = 3;
    world.whole_run(4.0);
    assert_eq!(names(&world), ["y"]);
}
