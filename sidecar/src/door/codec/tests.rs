//! The examples of `tests/vectors/door.json`: what a client says is parsed, what the sidecar says is encoded.

use std::time::Duration;

use proptest::prelude::*;
use sealane_types::{Dtype, Reason};
use serde_json::Value;

use super::super::{fault::Fault, limits};
use super::*;
use crate::handoff::{LaneIncarnation, ReplicaId, Sequence, Span, TensorHeader};

fn vectors() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/door.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn sixteen(value: &Value) -> [u8; 16] {
    hex::decode(text(value)).unwrap().try_into().unwrap()
}

fn dtype(value: &Value) -> Dtype {
    text(value).parse().unwrap()
}

fn numbers(value: &Value) -> Vec<u64> {
    list(value).iter().map(number).collect()
}

fn request(m: &Value) -> Request {
    let lane = m["lane"].as_u64().unwrap_or_default() as u32;
    match text(&m["kind"]) {
        "HELLO" => Request::Hello { name: text(&m["client"]).to_owned() },
        "WANT" => Request::Want { lane, bytes: number(&m["bytes"]) },
        "OPEN" => {
            let session = text(&m["session"]).to_owned();
            let timeout = Duration::from_millis(number(&m["timeoutMs"])).min(Duration::from_secs(86_400));
            if m["receive"] == true {
                return Request::OpenReceiver { lane, session, timeout };
            }
            let incarnation = LaneIncarnation(sixteen(&m["incarnation"]));
            let base = Sequence(number(&m["base"]));
            Request::OpenSender { lane, session, incarnation, base, timeout, resume: m["resume"] == true }
        }
        "PUT" => Request::Put { lane, entries: list(&m["entries"]).iter().map(put_entry).collect() },
        "CLOSE" => Request::Close { lane, abandon: m["abandon"] == true },
        "TOOK" => Request::Took { lane, deliveries: numbers(&m["deliveries"]), partly: m["partly"] == true },
        "RELEASE" => {
            Request::Release { lane, deliveries: numbers(&m["deliveries"]), taken: m["taken"] == true }
        }
        "DROP" => Request::Drop { segment: number(&m["segment"]) as u32 },
        kind => panic!("{kind} is not a request"),
    }
}

fn put_entry(e: &Value) -> PutEntry {
    PutEntry {
        sequence: number(&e["sequence"]),
        offset: number(&e["offset"]),
        length: number(&e["length"]),
        segment: number(&e["segment"]) as u32,
        dtype: dtype(&e["dtype"]).code(),
        shape: numbers(&e["shape"]),
        run: e["run"] == true,
        name: text(&e["name"]).to_owned(),
        assigned: list(&e["assigned"]).iter().map(|replica| ReplicaId(sixteen(replica))).collect(),
    }
}

#[test]
fn requests_parse() {
    for message in list(&vectors()["client"]) {
        let bytes = hex::decode(text(&message["hex"])).unwrap();
        assert_eq!(Request::parse(&bytes).unwrap(), request(message), "{}", message["example"]);
    }
}

#[test]
fn broken_requests_are_refused_by_name() {
    for message in list(&vectors()["refused"]) {
        let bytes = hex::decode(text(&message["hex"])).unwrap();
        let fault = Request::parse(&bytes).unwrap_err();
        let name = format!("{fault:?}");
        let name = name.split([' ', '(', '{']).next().unwrap();
        assert_eq!(name, text(&message["fault"]), "{}", message["example"]);
    }
}

#[test]
fn replies_encode() {
    for m in list(&vectors()["sidecar"]) {
        let lane = m["lane"].as_u64().unwrap_or_default() as u32;
        let mut packet = vec![0xff; 3];
        encode(m, lane, &mut packet);
        assert_eq!(hex::encode(&packet), text(&m["hex"]), "{}", m["example"]);
    }
}

fn encode(m: &Value, lane: u32, packet: &mut Vec<u8>) {
    let segment = m["segment"].as_u64().unwrap_or_default() as u32;
    let bytes = m["bytes"].as_u64().unwrap_or_default();
    let reason = m["reason"].as_str().map_or(Reason::Unspecified, |word| word.parse().unwrap());
    let message = m["message"].as_str().unwrap_or_default();
    let pairs = |value: &Value| list(value).iter().map(|pair| (number(&pair[0]), number(&pair[1]))).collect();
    match text(&m["kind"]) {
        "WELCOME" => {
            let process = sixteen(&m["process"]);
            Reply::Welcome { put_bytes_max: number(&m["putBytesMax"]), process }.encode(packet);
        }
        "SEGMENT" => Reply::Segment { lane, segment, bytes, take: m["take"] == true }.encode(packet),
        "NO_SEGMENT" => Reply::NoSegment { lane, bytes, reason, message }.encode(packet),
        "OPENED" => Reply::Opened { lane, window: number(&m["window"]) as u32 }.encode(packet),
        "FAILED" => {
            let failures = [Failure::NotReady, Failure::Refused, Failure::Closed, Failure::Misuse];
            let word = text(&m["failure"]);
            let failure = failures.into_iter().find(|failure| format!("{failure:?}") == word).unwrap();
            Reply::Failed { lane, failure, reason, message }.encode(packet);
        }
        "ASSIGNED" => {
            let entry = |e: &Value| {
                let replicas = list(&e["replicas"]).iter().map(|id| ReplicaId(sixteen(id))).collect();
                let tensors = e["tensors"].as_u64().unwrap_or(1);
                (Span::new(Sequence(number(&e["sequence"])), tensors), replicas)
            };
            let entries: Vec<_> = list(&m["entries"]).iter().map(entry).collect();
            Reply::Assigned { lane, entries: &entries }.encode(packet);
        }
        "TAKEN" => {
            let ranges: Vec<_> = pairs(&m["ranges"]);
            Reply::Taken { lane, ranges: &ranges }.encode(packet);
        }
        "UNCERTAIN" => {
            let ranges: Vec<_> = pairs(&m["ranges"]);
            Reply::Uncertain { lane, ranges: &ranges }.encode(packet);
        }
        "CLOSED" => Reply::Closed { lane }.encode(packet),
        "SENDER" => {
            let number = number(&m["number"]) as u32;
            Reply::Sender { lane, number, name: text(&m["name"]) }.encode(packet);
        }
        "DELIVER" => deliver(m, lane, packet),
        "INTERRUPTED" => Reply::Interrupted { lane, sender: text(&m["sender"]) }.encode(packet),
        "ENDED" => Reply::Ended { lane }.encode(packet),
        "DROPPED" => Reply::Dropped { lane, segment }.encode(packet),
        kind => panic!("{kind} is not a reply"),
    }
}

fn deliver(m: &Value, lane: u32, packet: &mut Vec<u8>) {
    let header = |e: &Value| TensorHeader {
        dtype: dtype(&e["dtype"]),
        shape: numbers(&e["shape"]),
        run: e["run"] == true,
        name: text(&e["name"]).to_owned(),
    };
    let headers: Vec<TensorHeader> = list(&m["entries"]).iter().map(header).collect();
    let entry = |(e, header)| {
        let e: &Value = e;
        Entry {
            delivery: number(&e["delivery"]),
            sequence: number(&e["sequence"]),
            offset: number(&e["offset"]),
            length: number(&e["length"]),
            segment: number(&e["segment"]) as u32,
            sender: number(&e["sender"]) as u32,
            header,
        }
    };
    let entries: Vec<Entry<'_>> = list(&m["entries"]).iter().zip(&headers).map(entry).collect();
    Reply::Deliver { lane, entries: &entries }.encode(packet);
}

#[test]
fn words_too_long_for_a_message_are_cut_between_characters() {
    let long = "é".repeat(40_000);
    let mut packet = Vec::new();
    let failed =
        Reply::Failed { lane: 1, failure: Failure::Closed, reason: Reason::Unspecified, message: &long };
    failed.encode(&mut packet);
    assert!(packet.len() <= super::super::limits::MESSAGE_BYTES_MAX);
    assert!(std::str::from_utf8(&packet[HEADER_BYTES + 1 + 11 + 2..]).is_ok());
}

proptest! {
    /// Whatever a client sends is parsed or refused, and an item list never allocates for bytes that are not there.
    #[test]
    fn no_packet_breaks_the_parser(kind in 0_u8..12, rest in prop::collection::vec(any::<u8>(), 0..300)) {
        let packet: Vec<u8> = std::iter::once(kind).chain(rest).collect();
        match Request::parse(&packet) {
            Ok(Request::Put { entries, .. }) => prop_assert!(entries.len() <= packet.len()),
            Ok(_) | Err(Fault::Short | Fault::Trailing(_)) => {}
            Err(fault) => prop_assert!(!fault.to_string().is_empty()),
        }
    }
}

#[test]
fn one_tensor_is_for_so_many_replicas() {
    let put = |replicas: usize| {
        // One entry on lane 1: sequence, offset, length and segment, a scalar of dtype 1 without a name, then its replicas.
        let mut packet = vec![4, 0, 1, 0, 1, 0, 0, 0];
        packet.extend([0; 28]);
        packet.extend([1, 0, 0, 0]);
        packet.extend((replicas as u32).to_le_bytes());
        packet.extend(vec![0; 16 * replicas]);
        Request::parse(&packet)
    };
    assert!(put(limits::REPLICAS_MAX).is_ok());
    let refused = put(limits::REPLICAS_MAX + 1);
    assert!(matches!(refused, Err(Fault::TooMany { max: limits::REPLICAS_MAX, .. })), "{refused:?}");
}
