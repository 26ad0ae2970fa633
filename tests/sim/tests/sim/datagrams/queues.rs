//! Queues stay short where they can, and memory is bounded where nothing arrives.

use sealane_protocol::limits::{OUTPUT_BATCH_BYTES, STREAM_WINDOW_BYTES};
use sealane_sim::datagrams::{Crossing, Link, Steps};
use sealane_types::CongestionChoice;

use super::bench::{DELAY_MICROS, PIPE_BYTES, RATE, SECOND, link, tuning};

/// The longest that a queue of sixteen pipes gets in ten seconds, after three, and what tensors have of the link.
fn queue(congestion: CongestionChoice) -> (u64, u64) {
    let mut crossing = Crossing::new(5, Link::new(Steps::always(RATE), 16 * PIPE_BYTES), link());
    let flow = crossing.establish(tuning(congestion), |path| path.delay_micros = DELAY_MICROS);
    crossing.flood(flow);
    crossing.network.run(3 * SECOND);
    crossing.network.forget_queue_bytes_max(crossing.there);
    let [rate] = crossing.rates([flow], 10 * SECOND);
    (crossing.network.queue_bytes_max(crossing.there), rate * 1_000 / RATE)
}

#[test]
fn bbr_leaves_a_deep_queue_all_but_empty() {
    let (bbr, share) = queue(CongestionChoice::Bbr);
    println!("BBR: {} ‰ of a pipe in the queue, {share} ‰ of the link", bbr * 1_000 / PIPE_BYTES);
    assert!(bbr <= PIPE_BYTES, "{bbr} bytes in a queue that holds {}", 16 * PIPE_BYTES);
    assert!(share >= 850, "{share} ‰");
    let (cubic, share) = queue(CongestionChoice::Cubic);
    println!("CUBIC: {} ‰ of a pipe in the queue, {share} ‰ of the link", cubic * 1_000 / PIPE_BYTES);
    assert!(cubic <= 16 * PIPE_BYTES && share >= 900, "{cubic} bytes, {share} ‰");
}

/// What a connection took and the other side does not have is what the engine holds, and some that is being sealed.
#[test]
fn what_waits_for_a_path_that_carries_nothing_is_bounded() {
    for congestion in [CongestionChoice::Bbr, CongestionChoice::Cubic] {
        let mut crossing = Crossing::new(3, link(), link());
        let flow = crossing.establish(tuning(congestion), |path| path.delay_micros = DELAY_MICROS);
        crossing.flood(flow);
        crossing.network.run(SECOND);
        let now = crossing.network.now();
        crossing.change(flow, |path| path.blackholes.push(now..now.plus_micros(10 * SECOND)));
        crossing.network.run(9 * SECOND);
        let held = crossing.network.node(flow.initiator).accepted_bytes() - crossing.taken_bytes(flow);
        println!("{congestion:?}: {held} bytes are held for a path that carries nothing");
        let most = STREAM_WINDOW_BYTES + 2 * OUTPUT_BATCH_BYTES as u64;
        assert!(held <= most, "{held} bytes");
    }
}

/// Nobody takes what arrives: the stream's credit ends what is sent, and nothing is lost for it.
#[test]
fn an_application_that_takes_nothing_holds_up_its_sender() {
    let mut crossing = Crossing::new(3, link(), link());
    let flow = crossing.establish(tuning(CongestionChoice::Bbr), |path| path.delay_micros = DELAY_MICROS);
    crossing.network.act(flow.responder, |speaker, _| speaker.takes = false);
    crossing.flood(flow);
    crossing.network.run(15 * SECOND);
    let sent = crossing.tally(flow).sent_bytes;
    crossing.network.run(5 * SECOND);
    assert!(crossing.tally(flow).sent_bytes - sent < 10_000, "it goes on");
    crossing.network.act(flow.responder, |speaker, _| speaker.takes = true);
    let [rate] = crossing.rates([flow], 5 * SECOND);
    assert!(rate >= RATE / 2, "{rate} bytes a second after it");
}
