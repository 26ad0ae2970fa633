//! What acknowledgements cost.

use std::cell::RefCell;
use std::rc::Rc;

use sealane_support::world::Who;

use super::net::{Dice, Net, bytes};

/// A header, a tag, and an acknowledgement of some runs beside the newest.
const FEW_RUNS_BYTES: usize = 13 + 16 + 26 + 5 * 8;

#[test]
fn losses_that_both_sides_know_of_are_not_told_again_and_again() {
    let mut net = Net::streaming();
    let sizes = Rc::new(RefCell::new(Vec::new()));
    let (seen, mut dice) = (Rc::clone(&sizes), Dice(86_028_121));
    net.bend = Box::new(move |who, _, datagram| {
        if who == Who::Ranker {
            seen.borrow_mut().push(datagram.len());
            return 1;
        }
        usize::from(!dice.one_in(100))
    });
    for sequence in 0..100 {
        net.push(sequence, bytes(sequence as u8, 100_000));
    }
    net.run_until(|net| net.taken() == 100);
    let sizes = sizes.borrow();
    let later = sizes.get(sizes.len() / 2..).unwrap();
    let few = later.iter().filter(|size| **size <= FEW_RUNS_BYTES).count();
    assert!(few * 10 >= later.len() * 9, "{few} of {} are short", later.len());
}
