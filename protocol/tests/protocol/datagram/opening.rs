//! The handshake over datagrams, whatever happens to them.

use sealane_protocol::connection::ClosedBy;
use sealane_protocol::datagram::{Greeter, Greeting, Route, route};
use sealane_support::datagrams::TUNING;
use sealane_support::pair::{Pair, Recipe};
use sealane_support::world::{Counter, Who};
use sealane_types::Reason;

use super::net::{Net, address};

const FLIGHT: u8 = 0x82;
const ASK: u8 = 0x80;

/// Whichever datagram is lost, once, it is said again.
#[test]
fn each_datagram_of_a_handshake_may_be_lost() {
    for lost in 0..30 {
        let mut net = Net::new();
        let mut count = 0;
        net.bend = Box::new(move |_, _, _| {
            count += 1;
            usize::from(count != lost + 1)
        });
        net.run_until(|net| net.is_established());
        assert_eq!(net.responder.begun, 1, "datagram {lost}");
    }
}

#[test]
fn each_datagram_of_a_handshake_may_come_twice() {
    let mut net = Net::new();
    net.bend = Box::new(|_, _, _| 2);
    net.run_until(|net| net.is_established());
    assert_eq!(net.responder.begun, 1);
}

#[test]
fn nothing_is_kept_for_who_does_not_come_back_with_a_cookie() {
    let mut net = Net::new();
    // It asks, and never hears.
    net.bend = Box::new(|who, _, _| usize::from(who == Who::Embedder));
    net.run_for(3_000_000);
    assert!(net.responder.engine.is_none());
    assert_eq!(net.responder.begun, 0);
}

/// What goes to an address that was not shown to receive is shorter than what came from there.
#[test]
fn nobody_is_flooded_with_answers() {
    let greeter = Greeter::new(&mut Counter(1)).unwrap();
    let (mut sent, mut net) = (Vec::new(), Net::new());
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let keep = std::rc::Rc::clone(&seen);
    net.bend = Box::new(move |who, _, datagram| {
        if who == Who::Embedder {
            keep.borrow_mut().push(datagram.clone());
        }
        1
    });
    net.run_until(|net| net.is_established());
    for datagram in seen.borrow().iter() {
        for length in [datagram.len(), datagram.len() / 2, 11, 10, 3] {
            let mut space = [0; 2_000];
            let datagram = &datagram[..length.min(datagram.len())];
            let greeting = greeter.greet(net.now, address(Who::Embedder), datagram, &mut space);
            match greeting {
                Greeting::Answer(answer) => {
                    assert!(answer < datagram.len());
                    sent.push(answer);
                }
                Greeting::Ignore => {}
                Greeting::Begin(beginning) => panic!("{beginning:?} with a cookie of another process"),
            }
        }
    }
    assert!(sent.len() > 2, "asked for a cookie, and told that it is unknown: {sent:?}");
}

#[test]
fn a_flight_is_too_large_for_one_datagram_and_none_is_larger_than_every_path_carries() {
    let mut net = Net::new();
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let keep = std::rc::Rc::clone(&seen);
    net.bend = Box::new(move |_, _, datagram| {
        if datagram[0] & 0x80 != 0 {
            keep.borrow_mut().push((datagram[0], datagram.len()));
        }
        1
    });
    net.run_until(|net| net.is_established());
    let seen = seen.borrow();
    let flights: Vec<_> = seen.iter().filter(|(kind, _)| *kind == FLIGHT).collect();
    assert!(flights.iter().all(|(_, length)| *length <= 1_200), "{seen:?}");
    assert_eq!(flights.len(), 5, "two, two, and one: {seen:?}");
    assert_eq!(seen[0], (ASK, 1_200));
}

#[test]
fn a_refusal_is_heard() {
    let mut net = Net::of(
        Recipe {
            initiator: Box::new(|local| {
                local.suites.retain(|suite| suite.cipher == sealane_types::Cipher::Aes256Gcm);
            }),
            responder: Box::new(|local| {
                local.suites.retain(|suite| suite.cipher == sealane_types::Cipher::ChaCha20Poly1305);
            }),
            ..Recipe::default()
        },
        TUNING,
    );
    net.run_until(|net| net.initiator.side.closed().is_some());
    assert_eq!(net.initiator.side.closed(), Some((ClosedBy::Unauthenticated, Reason::SuiteRefused)));
}

/// Nobody answers a refusal: it is said a few times, and then there is nothing left to wait for.
#[test]
fn a_refusal_is_not_said_for_ever() {
    let mut net = Net::of(
        Recipe {
            responder: Box::new(|local| {
                local.suites.retain(|suite| suite.cipher == sealane_types::Cipher::ChaCha20Poly1305);
            }),
            initiator: Box::new(|local| {
                local.suites.retain(|suite| suite.cipher == sealane_types::Cipher::Aes256Gcm);
            }),
            ..Recipe::default()
        },
        TUNING,
    );
    net.run_until(|net| net.responder.side.closed().is_some());
    net.run_for(5_000_000);
    assert!(net.responder.engine.as_ref().unwrap().is_settled());
    assert!(net.initiator.engine.as_ref().unwrap().is_settled());
}

#[test]
fn whoever_gave_up_before_anybody_heard_it_says_no_more() {
    let mut net = Net::new();
    net.bend = Box::new(|_, _, _| 0);
    net.run_until(|net| net.initiator.side.closed().is_some());
    assert_eq!(net.initiator.side.closed(), Some((ClosedBy::Local, Reason::HandshakeTimeout)));
    net.bend = Box::new(|who, _, _| panic!("{who:?} says something"));
    net.run_for(10_000_000);
    assert!(net.initiator.engine.as_ref().unwrap().is_settled());
}

#[test]
fn a_ticket_resumes_over_datagrams() {
    let mut pair = Pair::connected();
    pair.give_ticket(600);
    let ticket = pair.take_ticket();
    let mut net = Net::over(pair.resuming(ticket), TUNING);
    assert!(net.initiator.side.connection.is_resumed());
    net.run_until(|net| net.is_established());
}

#[test]
fn who_was_started_anew_says_so_and_the_other_side_does_not_wait() {
    let mut net = Net::new();
    net.run_until(|net| net.is_established());
    let before = net.now;
    net.responder.engine = None;
    net.initiator.side.connection.handle_timeout(net.now.plus_micros(6_000_000));
    net.run_until(|net| net.initiator.side.closed().is_some());
    assert_eq!(net.initiator.side.closed(), Some((ClosedBy::Cut, Reason::LinkLost)));
    assert!(
        net.now.micros_since(before) < 3_000_000,
        "long before silence ends it: {}",
        net.now.micros_since(before)
    );
}

#[test]
fn what_is_nothing_of_this_protocol_has_no_way() {
    for datagram in [&b""[..], b"hello", &[0xff; 1_200], &[FLIGHT], &[ASK, 1, 0]] {
        assert_eq!(route(datagram), None, "{datagram:?}");
    }
    let mut ask = vec![0; 1_200];
    (ask[0], ask[1]) = (ASK, 1);
    assert_eq!(route(&ask), Some(Route::Stranger));
    assert_eq!(route(&ask[..1_199]), None, "too short to show that datagrams of this size arrive");
}
