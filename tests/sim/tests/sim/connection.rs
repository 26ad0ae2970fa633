//! The model against the real connections; and a rogue with genuine keys against a careful receiver.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use sealane_sim::{Rogue, World, hostile, setting, transitions};

/// About fifteen seconds of a run of tests; `PROPTEST_CASES` asks for more.
fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(cases),
        max_shrink_iters: 4_000,
        // Beside this file; what is found is committed with the fix.
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(2_500))]

    /// Whatever happens on the way, everything pushed is delivered once, as it was, to a verified peer; and what cannot
    /// be known is said.
    #[test]
    fn nothing_is_lost_repeated_or_changed(setting in setting(), transitions in transitions(1..60)) {
        let mut world = World::new(setting);
        for transition in &transitions {
            world.apply(transition);
        }
        world.heal();
    }
}

proptest! {
    #![proptest_config(config(2_500))]

    /// Frames in any order and with any numbers, under genuine keys: the receiver's memory stays within its bounds, and
    /// nothing reaches an application twice.
    #[test]
    fn a_verified_peer_may_say_anything(setting in setting(), frames in hostile(1..60)) {
        let mut rogue = Rogue::new(&setting);
        for frame in &frames {
            if !rogue.say(frame) {
                break;
            }
        }
    }
}
