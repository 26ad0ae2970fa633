//! Bytes that somebody on the path writes behind the last message of a flight: behind it there are keys, and they would
//! pass for what came out of packets.

use sealane_protocol::connection::ClosedBy;
use sealane_support::datagrams::TUNING;
use sealane_support::pair::Pair;
use sealane_support::world::Who;
use sealane_types::Reason;

use super::net::Net;

const FLIGHT: u8 = 0x82;

/// Appends `extra` to flight `index`, of which every datagram says how long it is.
fn lengthen(datagram: &mut Vec<u8>, index: u8, extra: &[u8]) {
    if datagram[0] != FLIGHT || datagram[18] != index {
        return;
    }
    let head = if index == 0 { 43 } else { 23 };
    let length = usize::from(u16::from_be_bytes([datagram[19], datagram[20]]));
    let offset = usize::from(u16::from_be_bytes([datagram[21], datagram[22]]));
    let is_last = offset + datagram.len() - head == length;
    datagram[19..21].copy_from_slice(&u16::try_from(length + extra.len()).unwrap().to_be_bytes());
    if is_last {
        datagram.extend_from_slice(extra);
    }
}

fn is_clear(datagram: &[u8]) -> bool {
    datagram[0] & 0x80 != 0
}

fn record(frames: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(frames.len()).unwrap().to_be_bytes();
    [&[3, 0, high, low], frames].concat()
}

fn close(reason: Reason) -> Vec<u8> {
    record(&[&[8, 0, 0, 2], &reason.code().to_be_bytes()[..]].concat())
}

/// What a responder confirms, as a frame.
fn confirm(pair: &Pair) -> Vec<u8> {
    let text = |text: &str| [&u16::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat();
    let pod = Who::Ranker.pod().to_string();
    let mut body = 1_u16.to_be_bytes().to_vec();
    for name in ["ranker", "embedder", "activations", &pod] {
        body.extend(text(name));
    }
    body.extend(pair.responder.policy.epoch().to_be_bytes());
    body.extend(pair.responder.policy.digest().as_bytes());
    let [_, high, middle, low] = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[1, high, middle, low], &body[..]].concat()
}

/// A network in which each datagram of flight `index` that `who` sends has `extra` behind it, the first `times` times.
fn forging(who: Who, index: u8, extra: Vec<u8>, mut times: usize) -> Net {
    let mut net = Net::new();
    net.bend = Box::new(move |from, _, datagram| {
        if from == who && datagram[0] == FLIGHT && datagram[18] == index && times > 0 {
            times -= 1;
            lengthen(datagram, index, &extra);
        }
        1
    });
    net
}

/// The last message of each side, and what the remote then has keys for.
const LAST: [(Who, u8); 2] = [(Who::Ranker, 1), (Who::Embedder, 2)];

#[test]
fn a_flight_with_bytes_behind_it_is_as_if_it_had_not_come() {
    for (who, index) in LAST.into_iter().chain([(Who::Embedder, 0)]) {
        for extra in [close(Reason::PeerNotInPolicy), record(&[4, 0, 0, 0]), vec![0], vec![3, 0, 0, 9]] {
            let mut net = forging(who, index, extra, 2);
            net.run_until(|net| net.is_established() || net.initiator.side.closed().is_some());
            assert!(net.is_established(), "{who:?} {index}: {:?}", net.initiator.side.closed());
        }
    }
}

#[test]
fn nobody_closes_a_connection_in_the_name_of_the_remote() {
    for (who, index) in LAST {
        let mut net = forging(who, index, close(Reason::PeerNotInPolicy), usize::MAX);
        let victim = if who == Who::Ranker { Who::Embedder } else { Who::Ranker };
        net.run_until(|net| net.party(victim).side.closed().is_some());
        let closed = net.party(victim).side.closed();
        assert_eq!(closed, Some((ClosedBy::Local, Reason::HandshakeTimeout)), "{who:?} {index}");
    }
}

/// Both sides of a connection that is resumed say what needs no proof any more, so that forged bytes would be enough.
#[test]
fn a_resumed_initiator_is_established_by_packets_alone() {
    let mut pair = Pair::connected();
    pair.give_ticket(600);
    let ticket = pair.take_ticket();
    let pair = pair.resuming(ticket);
    let extra = record(&[confirm(&pair), vec![4, 0, 0, 0]].concat());
    let mut net = Net::over(pair, TUNING);
    net.bend = Box::new(move |who, _, datagram| {
        if who == Who::Ranker {
            lengthen(datagram, 1, &extra);
            // None of the responder's packets arrives.
            return usize::from(is_clear(datagram));
        }
        1
    });
    net.run_until(|net| {
        assert!(net.initiator.side.established().is_none(), "the responder never said so");
        net.initiator.side.closed().is_some()
    });
    assert_eq!(net.initiator.side.closed(), Some((ClosedBy::Local, Reason::HandshakeTimeout)));
}
