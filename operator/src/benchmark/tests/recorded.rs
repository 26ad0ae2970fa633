//! Results that a machine had, with its instructions for AES and without them (bits 57 and 33 of `OPENSSL_ia32cap`). It was
//! busy, so that bounds are wide; its doubts are left out, and what is left is decided the same way on every machine.

use sealane_operator_api::well_known::condition::RECOMMENDED;

use super::*;

const WITH_AES: &str = include_str!("recorded/with_aes.json");
const WITHOUT_AES: &str = include_str!("recorded/without_aes.json");

fn rows(recorded: &str) -> Vec<Line> {
    serde_json::from_str(recorded).unwrap()
}

fn recommended(world: &World) -> String {
    world.status.pools[0].known.recommended.as_ref().unwrap().cipher.clone()
}

#[test]
fn a_node_that_lost_its_instructions_is_a_regression_against_its_baseline() {
    let mut world = World::new(json!({"regression": {"tolerancePercent": 30, "against": "Baseline"}}));
    world.rows = rows(WITH_AES);
    world.whole_run(4.0);
    assert_eq!(world.reason(REGRESSED), "NotCompared");
    let first = world.status.runs[0].id.clone();
    world.rows = rows(WITHOUT_AES);
    // Against the baseline it stays one, however often it is measured.
    for generation in 2..4 {
        world.generation = generation;
        world.whole_run(4.0);
        let (status, reason, message) = world.condition(REGRESSED);
        assert_eq!((status.as_str(), reason.as_str()), ("True", "Worse"));
        assert!(message.contains("in pool all") && message.contains("% worse"), "{message}");
        assert_eq!(world.status.baseline.as_deref(), Some(first.as_str()));
    }
    let told: Vec<&str> = world.status.pools[0].regressions.iter().map(|row| row.row.as_str()).collect();
    assert!(told.contains(&"W1-W3/1456"), "{told:?}");
    assert!(!told.iter().any(|row| row.contains("ChaCha20Poly1305")), "it needs none of them: {told:?}");
    world.rows = rows(WITH_AES);
    world.generation = 4;
    world.whole_run(4.0);
    assert_eq!(world.reason(REGRESSED), "NotWorse");
}

#[test]
fn figures_choose_the_cipher_that_a_node_is_fast_at() {
    let mut world = World::new(json!({"recommendation": {"follow": true}}));
    world.rows = rows(WITHOUT_AES);
    world.whole_run(4.0);
    assert_eq!(recommended(&world), "ChaCha20Poly1305");
    let (status, reason, message) = world.condition(RECOMMENDED);
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Recommended"));
    assert!(message.contains("pool all: Tcp+ChaCha20Poly1305"), "{message}");
    let known = &world.status.pools[0].known;
    assert_eq!(known.transports.iter().filter(|one| one.carrier == "Udp").count(), 3);
    world.rows = rows(WITH_AES);
    world.generation = 2;
    world.whole_run(4.0);
    assert_eq!(recommended(&world), "Aes128Gcm");
}
