//! What is carried arrives once, in order and as it was.

use sealane_types::Reason;

use super::net::{Dice, Net, bytes};

#[test]
fn a_connection_is_established_and_carries_a_tensor() {
    let mut net = Net::streaming();
    let tensor = bytes(1, 300_000);
    net.push(0, tensor.clone());
    net.run_until(|net| net.taken() == 1);
    assert_eq!(net.delivered(), [(0, tensor)]);
}

#[test]
fn losses_repeats_and_changes_on_the_way_change_nothing_that_arrives() {
    for seed in 1..20 {
        let mut net = Net::new();
        let mut dice = Dice(seed * 7_919);
        net.bend = Box::new(move |_, _, datagram| {
            // The handshake's flights are in clear: one that was changed ends it, as over TCP.
            if dice.one_in(20) && datagram[0] & 0x80 == 0 {
                let at = datagram.len() / 2;
                datagram[at] ^= 1;
            }
            match (dice.one_in(10), dice.one_in(20)) {
                (true, _) => 0,
                (_, true) => 2,
                _ => 1,
            }
        });
        net.stream();
        for sequence in 0..20 {
            net.push(sequence, bytes(sequence as u8, 40_000));
        }
        net.run_until(|net| net.taken() == 20);
        for (sequence, tensor) in net.delivered() {
            assert_eq!(tensor, bytes(sequence as u8, 40_000), "seed {seed}");
        }
        net.initiator.side.connection.close(Reason::Draining);
        net.run_until(|net| net.responder.side.closed().is_some());
    }
}
