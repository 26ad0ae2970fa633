//! Two connections on one bottleneck.

use sealane_protocol::datagram::Congestion;
use sealane_sim::datagrams::{Crossing, Link, Steps};

use crate::bench::{DELAY_MICROS, SECOND, tuning};

/// 20 Mbit/s, so that a minute is over soon.
const RATE: u64 = 2_500_000;
const PIPE_BYTES: u64 = 50_000;
/// Between their beginnings, from there until they are looked at, and how long they are.
const APART_MICROS: u64 = 5 * SECOND;
const WARM_MICROS: u64 = 20 * SECOND;
const LOOK_MICROS: u64 = 60 * SECOND;

/// What either has, in permille of the link, whose queue holds so many bytes.
fn shares(pair: [Congestion; 2], queue_bytes: u64) -> [u64; 2] {
    let link = || Link::new(Steps::always(RATE), queue_bytes);
    let mut crossing = Crossing::new(11, link(), link());
    let flows = pair.map(|congestion| {
        let flow = crossing.establish(tuning(congestion), |path| {
            (path.delay_micros, path.jitter_micros) = (DELAY_MICROS, 200);
        });
        crossing.flood(flow);
        crossing.network.run(APART_MICROS);
        flow
    });
    crossing.network.run(WARM_MICROS);
    crossing.rates(flows, LOOK_MICROS).map(|rate| rate * 1_000 / RATE)
}

/// Neither has more than so many percent of what the other has, and together they use the link.
fn assert_fair(pair: [Congestion; 2], percent_max: u64) {
    for queue_bytes in [PIPE_BYTES, 2 * PIPE_BYTES] {
        let [first, second] = shares(pair, queue_bytes);
        println!("{pair:?}, a queue of {queue_bytes} bytes: {first} ‰ and {second} ‰ of the link");
        let (less, more) = (first.min(second), first.max(second));
        assert!(more * 100 <= less * percent_max, "{pair:?}: {first} ‰ and {second} ‰");
        assert!(first + second >= 900, "{pair:?}: together {} ‰", first + second);
    }
}

#[test]
fn a_model_and_a_cubic_get_along() {
    assert_fair([Congestion::Model, Congestion::Cubic], 200);
    assert_fair([Congestion::Cubic, Congestion::Model], 200);
}

#[test]
fn two_of_a_kind_get_along() {
    assert_fair([Congestion::Cubic; 2], 200);
    // Two models that probe at about the same time take long to find out about each other.
    assert_fair([Congestion::Model; 2], 300);
}
