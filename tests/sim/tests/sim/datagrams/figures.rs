//! What connections tell of their paths, against what the paths did.

use sealane_protocol::datagram::PathFigures;
use sealane_sim::datagrams::{Crossing, Flow, Steps, address_of_initiator};
use sealane_types::CongestionChoice;

use super::bench::{DELAY_MICROS, SECOND, link, tuning};

const BOTH: [CongestionChoice; 2] = [CongestionChoice::Bbr, CongestionChoice::Cubic];
const ETHERNET_BYTES: u16 = 1_472;

/// Of the side that sends tensors.
fn figures(crossing: &Crossing, flow: Flow) -> PathFigures {
    crossing.network.node(flow.initiator).party.engine.as_ref().unwrap().path_figures()
}

#[test]
fn a_path_that_loses_nothing_is_told_as_it_is() {
    for congestion in BOTH {
        let mut crossing = Crossing::new(17, link(), link());
        let flow = crossing.establish(tuning(congestion), |path| path.delay_micros = DELAY_MICROS);
        // Less than the queue holds, so that nothing is lost there either.
        for _ in 0..40 {
            crossing.push(flow, &[100_000]);
            crossing.network.run(SECOND / 10);
        }
        let told = figures(&crossing, flow);
        assert_eq!((told.counts.lost, told.counts.late, told.counts.moves), (0, 0, 0), "{congestion:?}");
        assert!(told.counts.sent > 40 * 100_000 / u64::from(ETHERNET_BYTES), "{congestion:?}: {told:?}");
        assert_eq!(told.datagram_bytes, ETHERNET_BYTES);
        assert!(told.window_bytes > u64::from(ETHERNET_BYTES), "{congestion:?}: {told:?}");
        let trip = told.round_trip.unwrap();
        assert!((2 * DELAY_MICROS..3 * DELAY_MICROS).contains(&trip.min_micros), "{congestion:?}: {trip:?}");
        assert!(trip.smoothed_micros >= trip.min_micros && trip.smoothed_micros < 5 * DELAY_MICROS);
    }
}

#[test]
fn what_a_path_loses_is_told_to_within_a_tenth() {
    for (congestion, permille) in
        [(CongestionChoice::Bbr, 10), (CongestionChoice::Bbr, 50), (CongestionChoice::Cubic, 30)]
    {
        let mut crossing = Crossing::new(19, link(), link());
        let flow = crossing.establish(tuning(congestion), |path| path.delay_micros = DELAY_MICROS);
        crossing.change(flow, |path| path.lost_permille = permille);
        crossing.flood(flow);
        crossing.network.run(20 * SECOND);
        let (told, tally) = (figures(&crossing, flow).counts, crossing.tally(flow));
        let lost = tally.lost + tally.overflowed;
        let counted = told.lost - told.late;
        println!(
            "{congestion:?}, {permille} ‰: {counted} of {lost} lost, {} late, {} sent",
            told.late, told.sent
        );
        assert!(lost > 100 && counted.abs_diff(lost) * 10 < lost, "{congestion:?}: {counted} of {lost}");
        assert!(told.sent.abs_diff(tally.sent_datagrams) * 10 < tally.sent_datagrams, "{told:?}, {tally:?}");
    }
}

/// Reordering that looks like loss is taken back.
#[test]
fn what_is_only_late_is_told_as_late() {
    let mut crossing = Crossing::new(23, link(), link());
    let flow = crossing.establish(tuning(CongestionChoice::Bbr), |path| path.delay_micros = DELAY_MICROS);
    crossing.change(flow, |path| {
        (path.reordered_permille, path.reordered_micros_max) = (20, 2 * DELAY_MICROS);
    });
    for _ in 0..40 {
        crossing.push(flow, &[100_000]);
        crossing.network.run(SECOND / 10);
    }
    crossing.network.run(SECOND);
    let told = figures(&crossing, flow).counts;
    assert!(told.late > 0 && told.late == told.lost, "{told:?}");
}

#[test]
fn a_narrow_path_and_one_that_moves_are_told() {
    let mut crossing = Crossing::new(29, link(), link());
    let flow = crossing.establish(tuning(CongestionChoice::Bbr), |path| {
        (path.delay_micros, path.datagram_bytes_max) = (DELAY_MICROS, Steps::always(1_372));
    });
    crossing.push(flow, &[1 << 20]);
    crossing.network.run(5 * SECOND);
    let (told, tally) = (figures(&crossing, flow), crossing.tally(flow));
    assert!((1_350..=1_372).contains(&told.datagram_bytes), "{told:?}");
    assert!(tally.too_large > 0, "{tally:?}");
    assert_eq!(told.counts.lost, tally.overflowed, "what only tried a size is not lost");
    let now = crossing.network.now();
    crossing.network.rebind(flow.initiator, now, address_of_initiator(0, 1));
    crossing.push(flow, &[1 << 20]);
    crossing.network.run(5 * SECOND);
    let responder = crossing.network.node(flow.responder).party.engine.as_ref().unwrap();
    assert_eq!(responder.path_figures().counts.moves, 1);
}
