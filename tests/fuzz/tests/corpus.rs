//! Every input of the corpus and a fixed number of mutations, with their memory measured.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "times are told; a test fails by panicking")]

use std::time::Instant;

use sealane_fuzz::{TARGETS, Target, corpus, find, mutate::mutate};
use sealane_support::world::Counter;

/// Largest input of the corpus: what is larger says nothing more and costs every clone of the repository.
const CORPUS_BYTES_MAX: usize = 16_384;

fn replay(name: &str) {
    let target = find(name).unwrap();
    let inputs = corpus::load(name);
    assert!(!inputs.is_empty(), "an empty corpus tests nothing");
    // What is made once per process is not the input's.
    (target.run)(&inputs[0].1);
    let begun = Instant::now();
    for (file, input) in &inputs {
        assert!(input.len() <= CORPUS_BYTES_MAX, "{name}/{file} is larger than an input needs to be");
        measured(target, file, input);
    }
    let mut random = Counter(0x5ea1_a4e0);
    for number in 0..target.mutations {
        let (file, seed) = &inputs[random.below(inputs.len())];
        let other = &inputs[random.below(inputs.len())].1;
        let input = mutate(&mut random, seed, other);
        measured(target, &format!("{file}, mutation {number}"), &input);
    }
    let spent = begun.elapsed();
    println!("{name}: {} inputs, {} mutations, {spent:.1?}", inputs.len(), target.mutations);
}

fn measured(target: &Target, what: &str, input: &[u8]) {
    let used = allocation_counter::measure(|| {
        let run = std::panic::catch_unwind(|| (target.run)(input));
        assert!(run.is_ok(), "{} failed on {what}: {}", target.name, hex::encode(input));
    });
    let allowed = target.memory.per_byte * input.len() as u64 + target.memory.fixed;
    assert!(
        used.bytes_max <= allowed,
        "{} on {what}: {} bytes for an input of {}, {allowed} are allowed: {}",
        target.name,
        used.bytes_max,
        input.len(),
        hex::encode(input)
    );
}

macro_rules! replays {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { replay(stringify!($name)); })*

        #[test]
        fn every_target_is_replayed() {
            let mut replayed = vec![$(stringify!($name)),*];
            let mut targets: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            replayed.sort_unstable();
            targets.sort_unstable();
            assert_eq!(replayed, targets);
        }
    };
}

replays!(
    bundle,
    collateral,
    configuration,
    datagrams,
    door,
    environment,
    evidence,
    file,
    flights,
    frames,
    hello,
    inbound,
    initdata,
    join,
    keyed,
    nitro,
    outbound,
    packets,
    pipes,
    policy_chain,
    policy_document,
    records,
    registration,
    reply,
    report,
    report_message,
    tdx,
    tdx_collateral,
);
