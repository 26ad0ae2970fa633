use super::super::bottleneck::{Bottleneck, DATAGRAM, Link};
use super::super::cubic::Cubic;
use super::*;

const SECOND: u64 = 1_000_000;

fn at(micros: u64) -> Moment {
    Moment::from_micros(micros)
}

fn world(mbit: u64, round_trip_micros: u64, queue_pipes_tenths: u64, loss_permille: u64) -> Bottleneck {
    let bytes_per_second = mbit * 125_000;
    let queue_bytes = bytes_per_second * round_trip_micros / 1_000_000 * queue_pipes_tenths / 10;
    Bottleneck::new(Link { bytes_per_second, round_trip_micros, queue_bytes, loss_permille })
}

#[test]
fn zz() {
    for (mbit, rtt, queue, loss) in [
        (100, 20_000, 10, 10),
        (100, 20_000, 5, 10),
        (100, 20_000, 100, 0),
        (100, 20_000, 5, 0),
        (100, 20_000, 1, 0),
        (10, 20_000, 20, 10),
        (20, 100_000, 10, 10),
        (1_000, 1_000, 10, 10),
        (1_000, 5_000, 10, 10),
        (100, 20_000, 10, 30),
        (100, 20_000, 10, 50),
        (100, 20_000, 10, 100),
    ] {
        let mut w = world(mbit, rtt, queue, loss);
        w.join(Box::new(Model::new(DATAGRAM)), at(0));
        let first = w.run(2 * SECOND)[0] * 100 / w.capacity(2 * SECOND);
        w.queue_max = 0;
        let d = w.run(12 * SECOND)[0];
        let mut c = world(mbit, rtt, queue, loss);
        c.join(Box::new(Cubic::new(DATAGRAM)), at(0));
        c.run(2 * SECOND);
        let e = c.run(12 * SECOND)[0];
        println!(
            "ZZ {mbit} {rtt} q{queue} l{loss}: first2s {first}% model {}% lost {}permille queue_max/pipe {}% cubic {}%",
            d * 100 / w.capacity(12 * SECOND),
            w.flows[0].lost * 1000 / w.flows[0].delivered,
            w.queue_max * 100 / w.pipe(),
            e * 100 / w.capacity(12 * SECOND)
        );
    }
    for (mbit, rtt, queue) in [
        (100, 20_000, 5),
        (100, 20_000, 10),
        (100, 20_000, 20),
        (100, 20_000, 40),
        (20, 20_000, 10),
        (20, 20_000, 20),
        (20, 50_000, 10),
        (20, 50_000, 20),
    ] {
        for order in 0..2 {
            let mut w = world(mbit, rtt, queue, 0);
            let (a, b) = if order == 0 { (0, 5 * SECOND) } else { (5 * SECOND, 0) };
            w.join(Box::new(Model::new(DATAGRAM)), at(a));
            w.join(Box::new(Cubic::new(DATAGRAM)), at(b));
            w.run(10 * SECOND);
            let d = w.run(60 * SECOND);
            println!(
                "ZZ share {mbit} {rtt} q{queue} order{order}: model {}% cubic {}% ",
                d[0] * 100 / w.capacity(60 * SECOND),
                d[1] * 100 / w.capacity(60 * SECOND)
            );
        }
    }
    for (n, q) in [(2, 10), (2, 5), (2, 20), (4, 10), (3, 20), (2, 100)] {
        let mut w = world(100, 20_000, q, 0);
        for i in 0..n {
            w.join(Box::new(Model::new(DATAGRAM)), at(i * 3 * SECOND));
        }
        w.run(10 * SECOND);
        w.queue_max = 0;
        let d = w.run(60 * SECOND);
        println!(
            "ZZ models q{q} {d:?} of {} queue {}%",
            w.capacity(60 * SECOND),
            w.queue_max * 100 / w.pipe()
        );
    }
}
