use super::super::bottleneck::{DATAGRAM, world};
use super::*;

const SECOND: u64 = 1_000_000;
/// The shortest round trip where single losses are told.
const TRIP: u64 = 10_000;

fn at(micros: u64) -> Moment {
    Moment::from_micros(micros)
}

fn auto() -> Box<Auto> {
    Box::new(Auto::new(DATAGRAM))
}

#[test]
fn one_percent_of_random_loss_costs_little() {
    for (mbit, round_trip) in [(100, 20_000), (20, 100_000), (1_000, 1_000), (1_000, 5_000)] {
        for permille in [5, 10] {
            let mut lossy = world(mbit, round_trip, 10, permille);
            lossy.join(auto(), at(0));
            lossy.run(10 * SECOND);
            assert_eq!(lossy.flows[0].controller.name(), CongestionControl::Bbr, "{mbit}, {round_trip}");
            let delivered = lossy.run(12 * SECOND)[0];
            assert!(delivered * 100 >= lossy.capacity(12 * SECOND) * 90, "{mbit}, {round_trip}: {delivered}");
        }
    }
}

#[test]
fn a_queue_that_overflows_leaves_it_with_cubic() {
    for (mbit, tenths) in [(20, 5), (20, 10), (100, 5), (100, 10), (100, 20), (100, 40)] {
        let mut link = world(mbit, 20_000, tenths, 0);
        link.join(auto(), at(0));
        link.run(60 * SECOND);
        assert!(link.flows[0].lost > 0, "{mbit}, {tenths}");
        assert_eq!(link.flows[0].controller.name(), CongestionControl::Cubic, "{mbit}, {tenths}");
    }
}

/// Nor do others who fill it, whoever comes first: the queue may never have been empty.
#[test]
fn a_queue_that_others_fill_leaves_it_with_cubic() {
    for (mbit, tenths) in [(20, 5), (20, 10), (20, 40), (100, 10), (100, 20)] {
        for (auto_at, cubic_at) in [(0, 5), (5, 0)] {
            let mut link = world(mbit, 20_000, tenths, 0);
            link.join(auto(), at(auto_at * SECOND));
            link.join(Box::new(Cubic::new(DATAGRAM)), at(cubic_at * SECOND));
            link.run(20 * SECOND);
            let delivered = link.run(60 * SECOND);
            let (less, more) = (delivered[0].min(delivered[1]), delivered[0].max(delivered[1]));
            assert!(more <= less * 2, "{mbit}, {tenths}, {auto_at}: {delivered:?}");
            assert_eq!(
                link.flows[0].controller.name(),
                CongestionControl::Cubic,
                "{mbit}, {tenths}, {auto_at}"
            );
        }
    }
}

/// It does not go back: a path that lost by chance is shared as BBR shares.
#[test]
fn once_it_changed_it_still_shares_with_cubic() {
    for (mbit, tenths) in [(20, 10), (100, 10), (100, 20)] {
        let mut link = world(mbit, 20_000, tenths, 10);
        link.join(auto(), at(0));
        link.run(5 * SECOND);
        assert_eq!(link.flows[0].controller.name(), CongestionControl::Bbr);
        link.link.loss_permille = 0;
        link.join(Box::new(Cubic::new(DATAGRAM)), at(5 * SECOND));
        link.run(20 * SECOND);
        let delivered = link.run(60 * SECOND);
        let (less, more) = (delivered[0].min(delivered[1]), delivered[0].max(delivered[1]));
        assert!(more <= less * 2, "{mbit}, {tenths}: {delivered:?}");
    }
}

/// Round trips of so much while datagrams that left at `sent` are lost.
fn lose(auto: &mut Auto, sent: u64, trip: u64, persistent: bool) {
    let mut rtt = Rtt::new();
    rtt.update(TRIP, 0);
    rtt.update(trip, 0);
    let lost = Lost {
        now: at(sent + trip),
        bytes: DATAGRAM,
        newest_sent: at(sent),
        in_flight: 10 * DATAGRAM,
        persistent,
    };
    auto.on_lost(&lost, &rtt);
}

#[test]
fn eight_losses_are_looked_at_and_six_of_them_decide() {
    for (short, expected) in [(5, CongestionControl::Cubic), (6, CongestionControl::Bbr)] {
        let mut auto = auto();
        for event in 0..8 {
            assert_eq!(auto.name(), CongestionControl::Cubic);
            lose(&mut auto, 50_000 * event, if event < short { 11_000 } else { 11_100 }, false);
        }
        assert_eq!(auto.name(), expected, "{short}");
    }
}

#[test]
fn a_window_that_was_found_is_kept() {
    let mut auto = auto();
    auto.on_datagram_bytes(1_400);
    for event in 0..7 {
        lose(&mut auto, 50_000 * event, TRIP, false);
    }
    let before = auto.window();
    lose(&mut auto, 50_000 * 7, TRIP, false);
    assert_eq!((auto.name(), auto.rate()), (CongestionControl::Bbr, None));
    assert!(auto.window() >= before);
}

#[test]
fn what_is_lost_together_was_only_late_or_is_everything_says_little() {
    let mut auto = auto();
    for _ in 0..20 {
        lose(&mut auto, 50_000, TRIP, false);
    }
    for outage in 2..20 {
        lose(&mut auto, 50_000 * outage, TRIP, true);
    }
    for late in 20..60 {
        lose(&mut auto, 50_000 * late, TRIP, false);
        for _ in 0..3 {
            auto.on_spurious_loss(at(50_000 * late));
            auto.on_spurious_loss(at(50_000 * (late - 1)));
        }
    }
    assert_eq!((auto.name(), auto.events), (CongestionControl::Cubic, 1));
}
