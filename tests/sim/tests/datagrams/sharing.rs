//! Two connections on one bottleneck.

use sealane_protocol::datagram::Congestion;
use sealane_sim::datagrams::Crossing;

use crate::bench::{DELAY_MICROS, RATE, SECOND, link, tuning};

/// What either has, in permille of the link, over `seconds`, when the second begins `later` after the first.
fn shares(pair: [Congestion; 2], later: u64, seconds: u64) -> [u64; 2] {
    let mut crossing = Crossing::new(11, link(), link());
    let [first, second] = pair.map(|congestion| {
        let flow = crossing.establish(tuning(congestion), |path| path.delay_micros = DELAY_MICROS);
        crossing.flood(flow);
        crossing.network.run(later);
        flow
    });
    crossing.network.run(10 * SECOND);
    crossing.rates([first, second], seconds * SECOND).map(|rate| rate * 1_000 / RATE)
}

fn assert_fair(name: &str, pair: [Congestion; 2]) {
    for later in [0, 3 * SECOND] {
        let [first, second] = shares(pair, later, 20);
        println!("{name}, {} s apart: {first} ‰ and {second} ‰ of the link", later / SECOND);
        assert!(first <= 2 * second && second <= 2 * first, "{name}: {first} ‰ and {second} ‰");
        assert!(first + second >= 850, "{name}: together {} ‰", first + second);
    }
}

#[test]
fn a_model_and_a_cubic_get_along() {
    assert_fair("Model and CUBIC", [Congestion::Model, Congestion::Cubic]);
    assert_fair("CUBIC and Model", [Congestion::Cubic, Congestion::Model]);
}

#[test]
fn two_of_a_kind_get_along() {
    assert_fair("CUBIC and CUBIC", [Congestion::Cubic; 2]);
    assert_fair("Model and Model", [Congestion::Model; 2]);
}
