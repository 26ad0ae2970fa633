use super::super::bottleneck::{DATAGRAM, world};
use super::super::cubic::Cubic;
use super::*;

const SECOND: u64 = 1_000_000;

fn at(micros: u64) -> Moment {
    Moment::from_micros(micros)
}

#[test]
fn one_percent_of_random_loss_costs_little_and_cubic_nearly_all() {
    for (mbit, round_trip) in [(100, 20_000), (20, 100_000), (1_000, 1_000), (1_000, 5_000)] {
        let mut lossy = world(mbit, round_trip, 10, 10);
        lossy.join(Box::new(Bbr::new(DATAGRAM)), at(0));
        lossy.run(2 * SECOND);
        let delivered = lossy.run(12 * SECOND)[0];
        assert!(delivered * 100 >= lossy.capacity(12 * SECOND) * 93, "{mbit}, {round_trip}: {delivered}");
        let mut lossy = world(mbit, round_trip, 10, 10);
        lossy.join(Box::new(Cubic::new(DATAGRAM)), at(0));
        lossy.run(2 * SECOND);
        let delivered = lossy.run(4 * SECOND)[0];
        assert!(delivered * 100 <= lossy.capacity(4 * SECOND) * 30, "{mbit}, {round_trip}: {delivered}");
    }
}

#[test]
fn five_percent_of_random_loss_leaves_most() {
    let mut lossy = world(100, 20_000, 10, 50);
    lossy.join(Box::new(Bbr::new(DATAGRAM)), at(0));
    lossy.run(2 * SECOND);
    let delivered = lossy.run(12 * SECOND)[0];
    assert!(delivered * 100 >= lossy.capacity(12 * SECOND) * 65, "{delivered}");
}

#[test]
fn it_fills_a_link_and_hardly_queues_however_deep_the_queue_is() {
    for tenths in [1, 5, 20, 100] {
        let mut link = world(100, 20_000, tenths, 0);
        link.join(Box::new(Bbr::new(DATAGRAM)), at(0));
        link.run(2 * SECOND);
        assert!(link.queue_max <= link.pipe() * 2, "{tenths}: {} queued at the start", link.queue_max);
        (link.queue_max, link.flows[0].lost) = (0, 0);
        let delivered = link.run(20 * SECOND)[0];
        assert!(delivered * 100 >= link.capacity(20 * SECOND) * 95, "{tenths}: {delivered}");
        assert!(link.queue_max * 2 < link.pipe(), "{tenths}: {} queued", link.queue_max);
        assert!(link.flows[0].controller.window() <= link.pipe() * 5 / 2);
        assert!(link.flows[0].lost * 100 < delivered, "{tenths}: {} lost", link.flows[0].lost);
    }
}

#[test]
fn it_shares_with_cubic_whoever_comes_first() {
    for (mbit, tenths) in [(20, 5), (20, 10), (20, 40), (100, 10), (100, 20)] {
        for (bbr_at, cubic_at) in [(0, 5), (5, 0)] {
            let mut link = world(mbit, 20_000, tenths, 0);
            link.join(Box::new(Bbr::new(DATAGRAM)), at(bbr_at * SECOND));
            link.join(Box::new(Cubic::new(DATAGRAM)), at(cubic_at * SECOND));
            link.run(20 * SECOND);
            let delivered = link.run(60 * SECOND);
            let (less, more) = (delivered[0].min(delivered[1]), delivered[0].max(delivered[1]));
            assert!(more <= less * 2, "{mbit}, {tenths}, {bbr_at}: {delivered:?}");
            assert!((less + more) * 100 >= link.capacity(60 * SECOND) * 95, "{delivered:?}");
        }
    }
}

#[test]
fn it_shares_with_its_like() {
    for (mbit, tenths) in [(20, 5), (20, 50), (50, 10), (100, 10), (100, 50)] {
        let mut link = world(mbit, 20_000, tenths, 0);
        link.join(Box::new(Bbr::new(DATAGRAM)), at(0));
        link.join(Box::new(Bbr::new(DATAGRAM)), at(3 * SECOND));
        link.run(20 * SECOND);
        let delivered = link.run(60 * SECOND);
        let (less, more) = (delivered[0].min(delivered[1]), delivered[0].max(delivered[1]));
        assert!(more <= less * 2, "{mbit}, {tenths}: {delivered:?}");
    }
}

#[test]
fn it_follows_a_link_that_gets_slower_and_faster() {
    let mut link = world(100, 20_000, 20, 0);
    link.join(Box::new(Bbr::new(DATAGRAM)), at(0));
    link.run(5 * SECOND);
    link.link.bytes_per_second /= 4;
    link.run(8 * SECOND);
    link.queue_max = 0;
    let delivered = link.run(5 * SECOND)[0];
    assert!(delivered * 100 >= link.capacity(5 * SECOND) * 90, "{delivered}");
    assert!(link.queue_max <= link.pipe() * 3 / 2, "{}", link.queue_max);
    link.link.bytes_per_second *= 4;
    link.run(10 * SECOND);
    let delivered = link.run(5 * SECOND)[0];
    assert!(delivered * 100 >= link.capacity(5 * SECOND) * 90, "{delivered}");
}

#[test]
fn it_comes_back_after_a_link_that_was_gone() {
    let mut link = world(100, 20_000, 10, 0);
    link.join(Box::new(Bbr::new(DATAGRAM)), at(0));
    link.run(5 * SECOND);
    link.link.loss_permille = 1_000;
    link.run(3 * SECOND);
    assert_eq!(link.flows[0].controller.window(), 4 * DATAGRAM);
    link.link.loss_permille = 0;
    link.run(3 * SECOND);
    let delivered = link.run(2 * SECOND)[0];
    assert!(delivered * 100 > link.capacity(2 * SECOND) * 90, "{delivered}");
}

fn sample(bytes_per_second: u64, prior_delivered: u64, limited: bool) -> RateSample {
    let delivered = prior_delivered + 10_000;
    RateSample {
        bytes_per_second,
        delivered,
        prior_delivered,
        prior_in_flight: 10_000,
        rtt_micros: 10_000,
        limited,
    }
}

fn acknowledged(now: u64, delivery: RateSample) -> Acknowledged {
    let limited = delivery.limited;
    let (bytes, in_flight) = (10_000, 10_000);
    Acknowledged { now: at(now), bytes, newest_sent: at(now), in_flight, limited, delivery: Some(delivery) }
}

#[test]
fn an_application_that_sends_little_does_not_make_the_path_slow() {
    let (mut bbr, rtt) = (Bbr::new(DATAGRAM), Rtt::new());
    assert_eq!((bbr.rate(), bbr.window()), (None, 10 * DATAGRAM));
    bbr.on_acknowledged(&acknowledged(10_000, sample(1_000_000, 0, false)), &rtt);
    assert_eq!(bbr.rate(), Some(2_770_000));
    for round in 1..1_000 {
        bbr.on_acknowledged(&acknowledged(round * 10_000, sample(1_000, round * 10_000, true)), &rtt);
    }
    assert_eq!(bbr.bandwidth.bytes_per_second(), 1_000_000);
    assert_eq!(bbr.phase, Phase::Startup, "nor does it end the start");
}

#[test]
fn what_is_called_lost_too_early_ends_no_start() {
    let (mut bbr, rtt) = (Bbr::new(DATAGRAM), Rtt::new());
    for round in 0..2 {
        let sample = sample(1_000_000, round * 10_000, false);
        bbr.on_acknowledged(&acknowledged(10_000 + round, sample), &rtt);
    }
    let lost = Lost {
        now: at(20_000),
        bytes: 12_000,
        newest_sent: at(15_000),
        in_flight: 20_000,
        persistent: false,
    };
    bbr.on_lost(&lost, &rtt);
    assert!(bbr.phase == Phase::Drain && bbr.ceiling == Some(32_000));
    bbr.on_spurious_loss(at(14_999));
    bbr.on_spurious_loss(at(20_001));
    assert_eq!(bbr.phase, Phase::Drain, "those were others");
    bbr.on_spurious_loss(at(15_000));
    assert!(bbr.phase == Phase::Startup && bbr.ceiling.is_none() && !bbr.full.reached);
}

#[test]
fn a_little_loss_is_chance() {
    let (mut bbr, rtt) = (Bbr::new(DATAGRAM), Rtt::new());
    for round in 0..20 {
        let sample = sample(1_000_000, round * 10_000, false);
        bbr.on_acknowledged(&acknowledged(10_000 + round, sample), &rtt);
    }
    for now in [20_000, 30_000] {
        let lost = Lost {
            now: at(now),
            bytes: DATAGRAM,
            newest_sent: at(now),
            in_flight: 10_000,
            persistent: false,
        };
        bbr.on_lost(&lost, &rtt);
    }
    assert_eq!(bbr.ceiling, None);
}

#[test]
fn the_path_is_emptied_every_ten_seconds_but_not_after_a_pause() {
    let (mut bbr, rtt) = (Bbr::new(DATAGRAM), Rtt::new());
    let longer =
        |prior_delivered| RateSample { rtt_micros: 11_000, ..sample(1_000_000, prior_delivered, false) };
    bbr.on_acknowledged(&acknowledged(10_000, sample(1_000_000, 0, false)), &rtt);
    bbr.on_sent(at(11 * SECOND), DATAGRAM, DATAGRAM);
    bbr.on_acknowledged(&acknowledged(11 * SECOND, longer(10_000)), &rtt);
    assert_eq!((bbr.phase, bbr.shortest.micros()), (Phase::Startup, Some(11_000)));
    bbr.on_sent(at(22 * SECOND), DATAGRAM, 2 * DATAGRAM);
    bbr.on_acknowledged(&acknowledged(22 * SECOND, longer(20_000)), &rtt);
    assert_eq!(bbr.phase, Phase::Empty { until: None, round: 0 });
    assert_eq!(bbr.window(), 5_500.max(4 * DATAGRAM));
}

#[test]
fn a_start_that_drowns_the_path_ends_at_once_and_one_on_a_lossy_path_does_not() {
    for (lost_bytes, phase) in [(9_600, Phase::Startup), (60_000, Phase::Drain)] {
        let (mut bbr, rtt) = (Bbr::new(DATAGRAM), Rtt::new());
        bbr.on_acknowledged(&acknowledged(10_000, sample(1_000_000, 0, false)), &rtt);
        let (bytes, in_flight) = (lost_bytes, 60_000);
        let lost = Lost { now: at(20_000), bytes, newest_sent: at(15_000), in_flight, persistent: false };
        bbr.on_lost(&lost, &rtt);
        assert_eq!(bbr.phase, phase);
    }
}

#[test]
fn acknowledgements_in_heaps_do_not_starve_short_paths() {
    for (mbit, round_trip, tenths, heap) in [
        (10_000, 50, 40, 1_000),
        (1_000, 100, 200, 2_000),
        (1_000, 100, 200, 5_000),
        (100, 20_000, 10, 10_000),
    ] {
        let mut link = world(mbit, round_trip, tenths, 0);
        link.link.heap_micros = heap;
        link.join(Box::new(Bbr::new(DATAGRAM)), at(0));
        let time = if mbit >= 1_000 { SECOND / 4 } else { 5 * SECOND };
        link.run(time);
        let delivered = link.run(time)[0];
        assert!(delivered * 100 >= link.capacity(time) * 85, "{mbit}, {heap}: {delivered}");
    }
}
