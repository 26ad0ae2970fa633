//! Runs beside earlier ones, and the records that this rests on.

use super::*;

#[test]
fn what_is_worse_beyond_doubt_and_tolerance_is_a_regression() {
    let regression = json!({"regression": {"tolerancePercent": 10}, "nodePools": {"key": "pool"}});
    let mut world = World::new(regression);
    world.whole_run(4.0);
    assert_eq!(world.reason(REGRESSED), "NotCompared");
    world.generation = 2;
    world.whole_run(3.9);
    assert_eq!(world.reason(REGRESSED), "NotWorse");
    world.generation = 3;
    world.whole_run(2.0);
    let (status, reason, message) = world.condition(REGRESSED);
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Worse"));
    assert!(message.starts_with("C3/1536 in pool x: 2.00 GB/s after 3.90 GB/s, 49 % worse"), "{message}");
    assert_eq!(world.status.pools[0].regressions[0].percent, 49);
    world.generation = 4;
    world.whole_run(2.0);
    assert_eq!(world.reason(REGRESSED), "NotWorse", "against the previous run");
}

#[test]
fn small_steps_add_up_against_a_baseline_that_is_kept() {
    let mut world = World::new(json!({
        "regression": {"tolerancePercent": 10, "against": "Baseline", "minimumRuns": 2},
        "successfulRunsHistoryLimit": 2,
    }));
    let mut reasons = Vec::new();
    for (generation, figure) in [4.0, 3.8, 3.6, 3.4].into_iter().enumerate() {
        world.generation = generation as i64 + 1;
        world.whole_run(figure);
        reasons.push(world.reason(REGRESSED));
    }
    assert_eq!(world.status.baseline.as_deref(), Some("01234567-1"));
    assert_eq!(reasons, ["NotCompared", "NotCompared", "NotWorse", "Worse"]);
    let kept: Vec<&str> = world.status.runs.iter().map(|run| run.id.as_str()).collect();
    assert_eq!(kept, ["01234567-4", "01234567-3", "01234567-1"]);
    assert!(world.records.of("01234567-2").is_none());
    // Another baseline may be named.
    world.spec.regression.as_mut().unwrap().baseline_run = Some("01234567-4".to_owned());
    world.generation = 5;
    world.whole_run(3.4);
    assert_eq!(
        (world.reason(REGRESSED), world.status.baseline.as_deref()),
        ("NotWorse".to_owned(), Some("01234567-4"))
    );
}

#[test]
fn a_poisoned_record_is_not_compared_with() {
    let mut world = World::new(json!({"regression": {}}));
    world.whole_run(4.0);
    // Whoever can write ConfigMaps makes the first run look slow, so that a later one looks fast.
    let run = world.status.runs[0].clone();
    let key = Record::key_of(&run.id);
    let text = world.records.0[&key].replace("\"node\":\"a\"", "\"node\":\"b\"");
    world.records.0.insert(key, text);
    world.generation = 2;
    world.whole_run(2.0);
    let (status, reason, message) = world.condition(REGRESSED);
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "NotCompared"));
    assert!(message.contains("the record of run 01234567-1 is ignored"), "{message}");
}

#[test]
fn a_record_that_was_emptied_is_no_record() {
    let mut world = World::new(json!({"regression": {}}));
    world.whole_run(4.0);
    // Without its results, and without a record.
    let run = world.status.runs[0].id.clone();
    let mut record = world.records.of(&run).unwrap();
    record.nodes.clear();
    world.records.0.insert(Record::key_of(&run), serde_json::to_string(&record).unwrap());
    world.generation = 2;
    world.whole_run(2.0);
    assert!(world.condition(REGRESSED).2.contains("it has 0 results, and 1 nodes were measured"));
    world.generation = 3;
    world.step();
    world.step();
    let said = world.result("a", 4.0);
    world.end("a", Some(said), None);
    world.step();
    world.records.0.clear();
    world.step();
    assert_eq!(world.status.runs[0].outcome, RunOutcome::Failed);
}

#[test]
fn runs_of_other_levels_are_not_compared_and_those_of_smoke_never() {
    let mut world = World::new(json!({"regression": {"against": "Baseline"}, "level": "Smoke"}));
    world.whole_run(8.0);
    world.generation = 2;
    world.whole_run(1.0);
    assert!(world.condition(REGRESSED).2.contains("Smoke"));
    world.spec.level = sealane_operator_api::Level::Quick;
    world.generation = 3;
    world.whole_run(4.0);
    assert_eq!(world.reason(REGRESSED), "NotCompared");
    assert_eq!(world.status.baseline.as_deref(), Some("01234567-3"));
    world.generation = 4;
    world.whole_run(1.0);
    assert_eq!(world.reason(REGRESSED), "Worse");
}

#[test]
fn a_run_whose_own_record_was_changed_has_failed() {
    let mut world = World::new(json!({}));
    world.step();
    world.step();
    let said = world.result("a", 4.0);
    world.end("a", Some(said), None);
    world.step();
    let key = Record::key_of("01234567-1");
    let text = world.records.0[&key].replace("sealane-result/1 ", "sealane-result/1 AAAA");
    world.records.0.insert(key, text);
    world.step();
    assert_eq!(world.status.runs[0].outcome, RunOutcome::Failed);
    assert!(world.condition(COMPLETE).2.contains("is ignored"));
}

#[test]
fn old_records_make_room_for_new_ones() {
    let mut records = Records(BTreeMap::new());
    for run in ["one", "two", "three"] {
        records.0.insert(Record::key_of(run), "x".repeat(400 << 10));
    }
    records.bound(&["three", "two", "one"]);
    assert_eq!(records.0.keys().collect::<Vec<_>>(), ["three.json", "two.json"]);
}
