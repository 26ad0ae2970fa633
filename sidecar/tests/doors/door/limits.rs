//! How many of everything a client may have, and that whoever breaks a rule hears which.

use rustix::io::Errno;

use crate::door::client::{
    CLOSED, Client, DELIVER, FAILED, MIB, NO_SEGMENT, OPENED, Served, WELCOME, entry, until,
};

const CLIENTS_MAX: usize = 64;
const LANES_PER_CLIENT_MAX: u32 = 64;
const SEGMENTS_PER_CLIENT_MAX: usize = 256;
const SEGMENT_STEP_BYTES: u64 = 64 << 10;
const WINDOW_TENSORS: u64 = 1024;
/// `FAILED` of the client as a whole: it broke a rule.
const MISUSE: u8 = 4;
/// `FAILED` of a lane that cannot be opened.
const REFUSED: u8 = 2;

impl Client {
    /// Hears until the client's end, which says what it did wrong.
    #[track_caller]
    fn is_told(&self, rule: &str) {
        let last = loop {
            let heard = self.hear();
            if heard.kind == FAILED {
                break heard;
            }
            assert_ne!(heard.kind, 0, "it hung up without a word");
        };
        assert_eq!((last.lane, last.flags), (0, MISUSE), "{}", last.words());
        assert!(last.words().contains(rule), "{}", last.words());
        assert_eq!(self.hear().kind, 0, "and it hung up");
    }

    /// Took or released, as `kind` says, one delivery of lane 1.
    fn answer(&self, kind: u8, delivery: u64) {
        self.say(kind, 0, 1, 1, &[&delivery.to_le_bytes()]);
    }
}

const TOOK: u8 = 6;
const RELEASE: u8 = 7;

#[test]
fn one_client_too_many_is_told_so() {
    let served = Served::start(MIB);
    let mut clients: Vec<Client> = (0..CLIENTS_MAX).map(|_| served.client()).collect();
    let turned_away = Client::connect(&served.path()).hear();
    assert_eq!((turned_away.kind, turned_away.lane), (FAILED, 0));
    assert!(turned_away.words().contains("64 clients"), "{}", turned_away.words());
    // A seat that becomes free is given to the next.
    clients.pop();
    until("a free seat", || {
        let next = Client::connect(&served.path());
        // One that is turned away may be hung up on before it has spoken.
        next.try_hello().and_then(|()| next.try_hear()).is_ok_and(|heard| heard.kind == WELCOME)
    });
}

#[test]
fn a_client_has_so_many_lanes_and_no_more() {
    let served = Served::start(MIB);
    let client = served.client();
    for lane in 1..=LANES_PER_CLIENT_MAX {
        assert_eq!(client.open(lane, false, "lanes").kind, OPENED);
    }
    let refused = client.open(LANES_PER_CLIENT_MAX + 1, false, "lanes");
    assert_eq!((refused.kind, refused.lane, refused.flags), (FAILED, LANES_PER_CLIENT_MAX + 1, REFUSED));
    assert!(refused.words().contains("64 lanes"), "{}", refused.words());
    goes_on(&client, LANES_PER_CLIENT_MAX);
}

#[test]
fn a_name_that_no_session_has_ends_that_lane_alone() {
    let served = Served::start(MIB);
    let client = served.client();
    assert_eq!(client.open(1, false, "lanes").kind, OPENED);
    for (lane, name) in [(2, "Activations"), (3, "demo/activations"), (4, "")] {
        let refused = client.open(lane, false, name);
        assert_eq!((refused.kind, refused.lane, refused.flags), (FAILED, lane, REFUSED));
        assert!(refused.words().contains("cannot name a session"), "{}", refused.words());
    }
    goes_on(&client, 1);
    assert_eq!(client.open(5, false, "others").kind, OPENED);
}

/// The lane that sends still ends as it should.
fn goes_on(client: &Client, lane: u32) {
    client.say(5, 0, 0, lane, &[]);
    assert_eq!(client.expect(CLOSED).lane, lane);
}

#[test]
fn clients_are_asked_for_what_lies_idle_when_another_wants_it() {
    let served = Served::start(16 * MIB);
    let (idle, poor) = (served.client(), served.client());
    let segment = idle.segment(1, 8 * MIB).short(0);
    poor.say(2, 0, 0, 1, &[&(8 * MIB).to_le_bytes()]);
    assert_eq!(poor.expect(NO_SEGMENT).lane, 1);
    assert_eq!(idle.expect(NO_SEGMENT).lane, 0);
    idle.say(8, 0, 0, 0, &[&segment.to_le_bytes()]);
    // Its messages are read in order, so the memory is free when this is answered.
    assert_eq!(idle.open(1, false, "others").kind, OPENED);
    poor.segment(1, 8 * MIB);
}

#[test]
fn a_client_has_so_many_segments_and_no_more() {
    let served = Served::start(64 * MIB);
    let client = served.client();
    let first = client.segment(1, SEGMENT_STEP_BYTES).short(0);
    for _ in 1..SEGMENTS_PER_CLIENT_MAX {
        client.segment(1, SEGMENT_STEP_BYTES);
    }
    client.say(2, 0, 0, 1, &[&SEGMENT_STEP_BYTES.to_le_bytes()]);
    assert!(client.expect(NO_SEGMENT).words().contains("as many segments as it may"));
    client.say(8, 0, 0, 0, &[&first.to_le_bytes()]);
    client.segment(1, SEGMENT_STEP_BYTES);
}

#[test]
fn wants_that_nobody_hears_the_answers_of_are_bounded() {
    let served = Served::start(MIB);
    let client = served.client();
    // Answers fill the socket, then wants fill their queue; the end comes while this still speaks, and its last word finds
    // no room.
    let want = || client.try_say(2, 0, 0, 1, &[&u64::MAX.to_le_bytes()]);
    let _ = (0..20_000).try_for_each(|_| want());
    let end = loop {
        match client.try_hear() {
            Ok(heard) if heard.kind == NO_SEGMENT => {}
            other => break other.map(|heard| heard.kind),
        }
    };
    assert!(matches!(end, Ok(0 | FAILED) | Err(Errno::CONNRESET)), "{end:?}");
}

#[test]
fn a_lane_has_so_many_tensors_under_way() {
    let served = Served::start(MIB);
    let client = served.client();
    assert_eq!(client.open(1, false, "window").kind, OPENED);
    let window: Vec<_> = (0..WINDOW_TENSORS).map(|sequence| entry(sequence, 0, 0, 0)).collect();
    client.put(1, &window);
    client.put(1, &[entry(WINDOW_TENSORS, 0, 0, 0)]);
    client.is_told("the window of 1024");
}

#[test]
fn numbers_of_a_lane_grow() {
    let served = Served::start(MIB);
    let client = served.client();
    assert_eq!(client.open(1, false, "numbers").kind, OPENED);
    client.put(1, &[entry(3, 0, 0, 0), entry(3, 0, 0, 0)]);
    client.is_told("sequence 3 does not grow");
}

#[test]
fn numbers_of_lanes_grow() {
    let served = Served::start(MIB);
    for (first, second) in [(1, 1), (7, 6), (1, 0)] {
        let client = served.client();
        assert_eq!(client.open(first, false, "lanes").kind, OPENED);
        client.ask(second, false, "lanes");
        client.is_told(&format!("lane {second} cannot be opened"));
    }
}

/// A client that takes, and one delivery of its lane 1, which it has not answered.
fn delivered(served: &Served, session: &str) -> (Client, u64) {
    let (putting, taking) = (served.client(), served.client());
    assert_eq!(taking.open(1, true, session).kind, OPENED);
    assert_eq!(putting.open(1, false, session).kind, OPENED);
    putting.put(1, &[entry(0, 0, 0, 0)]);
    let delivery = loop {
        let heard = taking.hear();
        assert_ne!(heard.kind, FAILED, "{}", heard.words());
        if heard.kind == DELIVER {
            break heard.number(0);
        }
    };
    (taking, delivery)
}

#[test]
fn what_was_not_delivered_is_neither_taken_nor_released() {
    let served = Served::start(64 * MIB);
    for (session, before, last) in [
        ("taken-twice", &[TOOK][..], TOOK),
        ("taken-after-release", &[TOOK, RELEASE], TOOK),
        ("released-untaken", &[], RELEASE),
        ("released-twice", &[TOOK, RELEASE], RELEASE),
    ] {
        let (client, delivery) = delivered(&served, session);
        before.iter().for_each(|kind| client.answer(*kind, delivery));
        client.answer(last, delivery);
        client.is_told(&format!("delivery {delivery} was not delivered"));
    }
    for kind in [TOOK, RELEASE] {
        let (client, delivery) = delivered(&served, "never-delivered");
        client.answer(kind, delivery + 1000);
        client.is_told("was not delivered");
    }
}
