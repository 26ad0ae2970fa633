//! Whatever a controller is told, it keeps within its bounds.

use proptest::prelude::*;

use super::auto::Auto;
use super::bbr::Bbr;
use super::controller::{Acknowledged, Controller, Lost, WINDOW_BYTES_MAX};
use super::cubic::Cubic;
use super::delivery::RateSample;
use super::rtt::Rtt;
use crate::Moment;

#[derive(Debug, Clone)]
enum Told {
    Sent(u64),
    Acknowledged { bytes: u64, limited: bool, rate: Option<u64>, rtt_micros: u64 },
    Lost { bytes: u64, persistent: bool },
    Spurious { before_micros: u64 },
    DatagramBytes(u64),
    Passed(u64),
}

/// Mostly of the size that they have, sometimes of any.
fn number(usual: std::ops::Range<u64>) -> impl Strategy<Value = u64> {
    prop_oneof![12 => usual, 1 => any::<u64>(), 1 => Just(0)]
}

fn told() -> impl Strategy<Value = Vec<Told>> {
    let acknowledged = (
        number(1..200_000),
        any::<bool>(),
        prop::option::of(number(1_000..1_000_000_000)),
        number(50..300_000),
    )
        .prop_map(|(bytes, limited, rate, rtt_micros)| Told::Acknowledged {
            bytes,
            limited,
            rate,
            rtt_micros,
        });
    let lost = (number(1_200..100_000), prop::bool::weighted(0.1))
        .prop_map(|(bytes, persistent)| Told::Lost { bytes, persistent });
    let one = prop_oneof![
        4 => number(1_200..9_000).prop_map(Told::Sent),
        6 => acknowledged,
        2 => lost,
        1 => number(0..400_000).prop_map(|before_micros| Told::Spurious { before_micros }),
        1 => (1_200..65_508_u64).prop_map(Told::DatagramBytes),
        4 => number(0..400_000).prop_map(Told::Passed),
    ];
    prop::collection::vec(one, 0..80)
}

fn tell(controllers: &mut [Box<dyn Controller>; 3], told: &[Told]) {
    let (mut now, mut rtt, mut in_flight, mut delivered) = (Moment::default(), Rtt::new(), 0_u64, 0_u64);
    let mut datagram = 1_200;
    for told in told {
        let sent = Moment::from_micros(now.as_micros().saturating_sub(rtt.latest_micros()));
        if let Told::Acknowledged { rtt_micros, .. } = told {
            rtt.update(*rtt_micros, 0);
        }
        match *told {
            Told::Sent(bytes) => in_flight = in_flight.saturating_add(bytes),
            Told::Acknowledged { bytes, .. } | Told::Lost { bytes, .. } => {
                in_flight = in_flight.saturating_sub(bytes);
            }
            Told::DatagramBytes(bytes) => datagram = bytes,
            Told::Passed(micros) => now = now.plus_micros(micros),
            Told::Spurious { .. } => {}
        }
        for (controller, minimum) in controllers.iter_mut().zip([2, 4, 2]) {
            match *told {
                Told::Sent(bytes) => controller.on_sent(now, bytes, in_flight),
                Told::Acknowledged { bytes, limited, rate, rtt_micros } => {
                    let prior_delivered = delivered;
                    delivered = delivered.saturating_add(bytes);
                    let delivery = rate.map(|bytes_per_second| RateSample {
                        bytes_per_second,
                        delivered,
                        prior_delivered,
                        prior_in_flight: in_flight,
                        rtt_micros,
                        limited,
                    });
                    let acknowledged =
                        Acknowledged { now, bytes, newest_sent: sent, in_flight, limited, delivery };
                    controller.on_acknowledged(&acknowledged, &rtt);
                }
                Told::Lost { bytes, persistent } => {
                    let lost = Lost { now, bytes, newest_sent: sent, in_flight, persistent };
                    controller.on_lost(&lost, &rtt);
                }
                Told::Spurious { before_micros } => {
                    let newest_sent = Moment::from_micros(now.as_micros().saturating_sub(before_micros));
                    controller.on_spurious_loss(newest_sent);
                }
                Told::DatagramBytes(bytes) => controller.on_datagram_bytes(bytes),
                Told::Passed(_) => {}
            }
            let window = controller.window();
            let bounds = minimum * datagram..=WINDOW_BYTES_MAX;
            assert!(bounds.contains(&window), "{window} after {told:?}: {controller:?}");
            assert_ne!(controller.rate(), Some(0));
        }
    }
}

proptest! {
    #[test]
    fn a_window_stays_within_its_bounds(told in told()) {
        tell(&mut [Box::new(Cubic::new(1_200)), Box::new(Bbr::new(1_200)), Box::new(Auto::new(1_200))], &told);
    }
}
