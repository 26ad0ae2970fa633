//! Whatever happens to two sides and the paths between them, against what was pushed.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use sealane_sim::datagrams::{Trial, happenings};
use sealane_types::CongestionChoice;

/// About ten seconds of a run of tests; `PROPTEST_CASES` asks for more.
fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(cases),
        max_shrink_iters: 1_000,
        // Beside this file; what is found is committed with the fix.
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(1_000))]

    /// Everything pushed is delivered once, in order and as it was, and no side finds fault with the other.
    #[test]
    fn nothing_is_lost_repeated_or_changed(
        seed in any::<u64>(),
        congestion in prop::sample::select(vec![CongestionChoice::Auto, CongestionChoice::Cubic, CongestionChoice::Bbr]),
        happenings in happenings(1..40),
    ) {
        let mut trial = Trial::new(seed, congestion);
        for happening in &happenings {
            trial.apply(happening);
        }
        trial.heal();
    }
}
