//! How fast the window opens.

use super::net::{DELAY_MICROS, Net, bytes};

/// A window that begins with ten datagrams and doubles with each round trip carries this much in so many.
#[test]
fn the_window_opens_while_there_is_something_to_say() {
    let mut net = Net::streaming();
    let began = net.now;
    net.push(0, bytes(1, 4 << 20));
    net.run_until(|net| net.taken() == 1);
    let round_trips = net.now.micros_since(began) / (2 * DELAY_MICROS);
    assert!(round_trips < 30, "{round_trips} round trips for 4 MiB");
}
