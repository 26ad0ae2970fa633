//! `packets.json`: packets of every cipher across an update and a renewal, the parts in them, and the clear datagrams
//! before them.

use std::net::SocketAddr;

use sealane_types::Cipher;
use serde_json::{Value, json};

use super::{check, keys};
use crate::Moment;
use crate::datagram::ConnectionId;
use crate::datagram::clear::{Clear, FlightPart, NOBODY};
use crate::datagram::cookie::{COOKIE_BYTES, Cookie, Cookies};
use crate::datagram::part::{Part, Writer, next};
use crate::datagram::reset::{ResetKey, ResetToken};
use crate::handshake::Suite;
use crate::keys::{Label, Random, RandomFailed, Root, Secret, Split};
use crate::limits::{DATAGRAM_BYTES_MIN, TAG_BYTES};
use crate::record::{PACKET_HEADER_BYTES, PacketHeader, PacketNumber, PacketOpener, PacketSealer, Rekey};
use crate::recovery::Ranges;

const NOW: Moment = Moment::from_micros(0);
const INITIATOR: ConnectionId = ConnectionId([0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8]);
const RESPONDER: ConnectionId = ConnectionId([0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8]);
const RENEWED_SPLIT: [[u8; 32]; 2] = [[0x77; 32], [0x88; 32]];
const RENEWED_KEM: [u8; 32] = [0x99; 32];
const RENEWED_HASH: [u8; 32] = [0xaa; 32];
/// Records as they are in packets: a Data record with a ready frame, and a Renewed record.
const READY: &[u8] = &[3, 0, 0, 4, 4, 0, 0, 0];
const RENEWED: &[u8] = &[5, 0, 0, 0];
/// Where the low half of a packet number begins anew.
const TURN: u64 = 1 << 32;

/// One part, from what it means.
enum Said {
    /// Newest first, each with its last number.
    Acknowledge {
        arrived: Vec<(u64, u64)>,
        delay: u32,
        through: u64,
    },
    Bytes(u64, &'static [u8]),
    Ping,
    Challenge([u8; 8]),
    Response([u8; 8]),
    Reset(ResetToken),
    Pad(usize),
}

impl Said {
    fn write(&self, plaintext: &mut Vec<u8>) {
        let pad = if let Self::Pad(length) = self { *length } else { 1_024 };
        let mut space = vec![0xff; pad];
        let mut writer = Writer::new(&mut space);
        match self {
            Self::Acknowledge { arrived, delay, through } => {
                let mut numbers = Ranges::new();
                for (first, last) in arrived {
                    numbers.insert(*first..last + 1);
                }
                writer.acknowledge(numbers.iter().rev(), *delay, *through);
            }
            Self::Bytes(offset, bytes) => writer.bytes(*offset, bytes.len()).copy_from_slice(bytes),
            Self::Ping => writer.ping(),
            Self::Challenge(token) => writer.challenge(*token),
            Self::Response(token) => writer.response(*token),
            Self::Reset(token) => writer.reset(*token),
            Self::Pad(_) => writer.pad(),
        }
        let used = writer.used();
        plaintext.extend_from_slice(&space[..used]);
    }

    fn is(&self, part: &Part<'_>) -> bool {
        match (self, part) {
            (Self::Acknowledge { arrived, delay, through }, Part::Acknowledge(told)) => {
                let ranges = arrived.iter().map(|(first, last)| *first..last + 1);
                ranges.eq(told.ranges()) && (*delay, *through) == (told.delay_micros, told.through)
            }
            (Self::Bytes(at, said), Part::Bytes { offset, bytes }) => at == offset && said == bytes,
            (Self::Challenge(said), Part::Challenge(token)) => said == token,
            (Self::Response(said), Part::Response(token)) => said == token,
            (Self::Reset(said), Part::Reset(token)) => said == token,
            (Self::Ping, Part::Ping) => true,
            _ => false,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Acknowledge { arrived, delay, through } => json!({
                "type": "acknowledge", "arrived": arrived, "delayMicros": delay, "bytesThrough": through,
            }),
            Self::Bytes(offset, bytes) => {
                json!({ "type": "bytes", "offset": offset, "bytes": hex::encode(bytes) })
            }
            Self::Ping => json!({ "type": "ping" }),
            Self::Challenge(token) => json!({ "type": "challenge", "token": hex::encode(token) }),
            Self::Response(token) => json!({ "type": "response", "token": hex::encode(token) }),
            Self::Reset(token) => json!({ "type": "reset", "token": hex::encode(token.0) }),
            Self::Pad(length) => json!({ "type": "pad", "length": length }),
        }
    }
}

/// The plaintext of these parts, which read back.
fn plaintext(parts: &[Said]) -> Vec<u8> {
    let mut bytes = Vec::new();
    parts.iter().for_each(|part| part.write(&mut bytes));
    let mut rest = &bytes[..];
    for said in parts {
        match next(rest).unwrap() {
            Some((part, after)) => {
                assert!(said.is(&part), "{part:?}");
                rest = after;
            }
            None => assert!(matches!(said, Said::Pad(_))),
        }
    }
    bytes
}

fn as_json(parts: &[Said]) -> Vec<Value> {
    parts.iter().map(Said::to_json).collect()
}

fn renewed(suite: Suite) -> Root {
    let secret = |bytes: [u8; 32]| Secret::take(&mut bytes.clone());
    let [initiator, responder] = RENEWED_SPLIT.map(secret);
    let kem = suite.post_quantum().then(|| secret(RENEWED_KEM));
    Root::new(&Split { initiator, responder }, kem.as_ref(), suite, RENEWED_HASH)
}

/// One direction, as its sender and its receiver have it.
struct Way {
    from: Label,
    to: ConnectionId,
    suite: Suite,
    sealer: PacketSealer,
    opener: PacketOpener,
    packets: Vec<Value>,
}

impl Way {
    /// Its key is replaced after four packets.
    fn new(suite: Suite, from: Label, to: ConnectionId) -> Self {
        let root = keys::root(suite);
        let sealer = PacketSealer::new(root.datagrams(from), Rekey::new(0, 4, 0), NOW);
        let opener = PacketOpener::new(root.datagrams(from), NOW);
        Self { from, to, suite, sealer, opener, packets: Vec::new() }
    }

    /// Seals a packet and opens it; `keys` says which handshake and phase of it must be in use.
    fn seal(&mut self, number: u64, flag: bool, keys: (&str, u64), parts: &[Said]) {
        let plaintext = plaintext(parts);
        let mut packet = [&[0; PACKET_HEADER_BYTES], &plaintext[..], &[0; TAG_BYTES]].concat();
        let number = PacketNumber(number);
        self.sealer.skip_to(number);
        assert_eq!(self.sealer.seal(self.to, &mut packet, NOW), Ok(number));
        let aad = PacketHeader { to: self.to, number, phase: flag }.encode();
        self.packets.push(json!({
            "direction": keys::name(self.from),
            "to": hex::encode(self.to.0),
            "number": number.0,
            "handshake": keys.0,
            "phase": keys.1,
            "parts": as_json(parts),
            "plaintext": hex::encode(&plaintext),
            "aad": hex::encode(aad),
            "packet": hex::encode(&packet),
        }));
        let opened = self.opener.open(&mut packet, NOW, |_| false).unwrap();
        assert_eq!((opened.number, opened.plaintext), (number, &plaintext[..]));
        assert!(packet.starts_with(&aad), "it was hidden in another way than it was sealed");
    }

    fn renew(&mut self) {
        let root = renewed(self.suite);
        self.opener.expect(root.datagrams(self.from));
        self.sealer.renew(root.datagrams(self.from), NOW);
    }
}

fn acknowledge(arrived: &[(u64, u64)]) -> Said {
    Said::Acknowledge { arrived: arrived.to_vec(), delay: 250, through: 131_080 }
}

fn packets(suite: Suite) -> Vec<Value> {
    let mut way = Way::new(suite, Label::Initiator, RESPONDER);
    let (first, new) = ("first", "renewed");
    way.seal(0, false, (first, 0), &[Said::Ping]);
    way.seal(1, false, (first, 0), &[Said::Bytes(0, READY)]);
    let told = acknowledge(&[(9, 12), (3, 6), (0, 0)]);
    way.seal(TURN - 1, false, (first, 0), &[told, Said::Bytes(8, READY)]);
    way.seal(TURN, false, (first, 0), &[Said::Challenge([0xc1; 8]), Said::Pad(31)]);
    way.sealer.acknowledged(PacketNumber(TURN));
    way.seal(TURN + 1, true, (first, 1), &[Said::Response([0xc2; 8]), Said::Ping]);
    way.renew();
    let told = acknowledge(&[(TURN, TURN + 7)]);
    way.seal(TURN + 2, false, (new, 0), &[told, Said::Bytes(16, RENEWED)]);
    assert_eq!(way.opener.confirm_renewal(), Ok(()));
    let mut back = Way::new(suite, Label::Responder, INITIATOR);
    back.seal(0, false, (first, 0), &[acknowledge(&[(0, 1)])]);
    // Straight from the first handshake into the new one: a renewal flips the phase as an update does.
    back.renew();
    back.seal(1, true, (new, 0), &[Said::Bytes(0, RENEWED)]);
    [way.packets, back.packets].concat()
}

fn case(suite: Suite) -> Value {
    let root = renewed(suite);
    json!({
        "suite": suite.code(),
        "keys": "the case of this suite in keys.json",
        "renewal": {
            "suite": suite.code(),
            "splitInitiator": hex::encode(RENEWED_SPLIT[0]),
            "splitResponder": hex::encode(RENEWED_SPLIT[1]),
            "kemSecret": suite.post_quantum().then(|| hex::encode(RENEWED_KEM)),
            "handshakeHash": hex::encode(RENEWED_HASH),
            "datagrams": [
                keys::datagrams(&root, Label::Initiator),
                keys::datagrams(&root, Label::Responder),
            ],
        },
        "packets": packets(suite),
    })
}

fn parts() -> Vec<Value> {
    let most: Vec<_> = (0..17).rev().map(|run| (run * 10, run * 10 + run % 3)).collect();
    let cases = [
        vec![acknowledge(&[(0, 0)])],
        vec![acknowledge(&[(0, 4_999)])],
        vec![acknowledge(&[(TURN + 3, TURN + 9), (TURN - 2, TURN + 1), (7, 7)])],
        vec![acknowledge(&most), Said::Ping],
        vec![Said::Bytes(u64::MAX - 8, READY)],
        vec![Said::Ping, Said::Ping],
        vec![Said::Challenge([0xc1; 8]), Said::Response([0xc2; 8]), acknowledge(&[(2, 2)])],
        vec![Said::Reset(reset_key().token(RESPONDER)), Said::Bytes(0, READY)],
        vec![Said::Pad(1)],
        vec![Said::Ping, Said::Pad(40)],
        vec![],
    ];
    let case =
        |parts: &Vec<Said>| json!({ "parts": as_json(parts), "encoded": hex::encode(plaintext(parts)) });
    cases.iter().map(case).collect()
}

fn malformed_parts() -> Vec<Value> {
    let told = |newest: &str, before: &str, runs: &str| {
        format!("01{newest:0>16}000000fa0000000000020008{before:0>8}{runs}")
    };
    let cases = [
        ("an unknown kind", "07".to_owned()),
        ("a token that is cut short", "060101010101010101".to_owned()),
        ("an unknown kind behind another part", "0307".to_owned()),
        ("padding that is not zero", "000001".to_owned()),
        ("bytes without an offset", "0200000000000000".to_owned()),
        ("bytes without bytes", "020000000000000000".to_owned()),
        ("bytes whose end has no offset", "02ffffffffffffffff01".to_owned()),
        ("a challenge that is cut short", "0401010101010101".to_owned()),
        ("a response that is cut short", "0501010101010101".to_owned()),
        ("an acknowledgement that is cut short", told("4", "0", "")),
        ("more before the newest than there can be", told("4", "5", "00")),
        ("a run without its numbers", told("9", "0", "0100000001000000")),
        ("nothing missing", told("9", "0", "010000000000000001")),
        ("nothing arrived", told("9", "0", "010000000100000000")),
        ("more missing than there can be", told("9", "0", "010000000a00000001")),
        ("more arrived than there can be", told("9", "0", "01000000010000000a")),
        ("a second run below zero", told("9", "0", "0200000001000000080000000100000001")),
        ("seventeen runs", told("ff", "0", &["11", &"0000000100000001".repeat(17)].concat())),
    ];
    let case = |(why, encoded): (&str, String)| {
        let bytes = hex::decode(&encoded).unwrap();
        let mut rest = &bytes[..];
        let refused = loop {
            match next(rest) {
                Ok(Some((_, after))) => rest = after,
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        assert!(refused, "{why}: {encoded}");
        json!({ "why": why, "encoded": encoded })
    };
    cases.into_iter().map(case).collect()
}

fn encoded(clear: &Clear<'_>) -> Vec<u8> {
    let mut space = [0xff; DATAGRAM_BYTES_MIN];
    let length = clear.put(&mut space).unwrap();
    assert_eq!(Clear::parse(&space[..length]), Some(*clear));
    space[..length].to_vec()
}

const COOKIE: Cookie = Cookie([0xcc; COOKIE_BYTES]);

const fn flight(index: u8, offset: u16, bytes: &[u8]) -> FlightPart<'_> {
    let (to, from, cookie) = match index {
        0 => (NOBODY, INITIATOR, Some(COOKIE)),
        1 => (INITIATOR, RESPONDER, None),
        _ => (RESPONDER, INITIATOR, None),
    };
    FlightPart { to, from, index, length: 1_407, offset, cookie, bytes }
}

fn clear() -> Vec<Value> {
    let case = |clear: Clear<'_>| {
        let fields = match clear {
            Clear::Ask { from } => json!({ "type": "ask", "initiator": hex::encode(from.0) }),
            Clear::Cookie { to, cookie } => json!({
                "type": "cookie", "initiator": hex::encode(to.0), "cookie": hex::encode(cookie.0),
            }),
            Clear::Flight(part) => json!({
                "type": "flight",
                "to": hex::encode(part.to.0),
                "from": hex::encode(part.from.0),
                "index": part.index,
                "length": part.length,
                "offset": part.offset,
                "cookie": part.cookie.map(|cookie| hex::encode(cookie.0)),
                "bytes": hex::encode(part.bytes),
            }),
            Clear::Reset { id, token } => {
                json!({ "type": "reset", "id": hex::encode(id.0), "token": hex::encode(token.0) })
            }
        };
        json!({ "datagram": fields, "encoded": hex::encode(encoded(&clear)) })
    };
    vec![
        case(Clear::Ask { from: INITIATOR }),
        case(Clear::Cookie { to: INITIATOR, cookie: COOKIE }),
        case(Clear::Flight(flight(0, 0, b"the first piece"))),
        case(Clear::Flight(flight(0, 1_400, b"the end"))),
        case(Clear::Flight(FlightPart { length: 6, ..flight(1, 0, &[2, 0, 0, 2, 0, 7]) })),
        case(Clear::Flight(flight(1, 1_157, b"a piece in the middle"))),
        case(Clear::Flight(FlightPart { length: 4_096, ..flight(2, 4_095, b"!") })),
        case(Clear::Reset { id: RESPONDER, token: reset_key().token(RESPONDER) }),
    ]
}

fn malformed_clear() -> Vec<Value> {
    let ask = encoded(&Clear::Ask { from: INITIATOR });
    let cookie = encoded(&Clear::Cookie { to: INITIATOR, cookie: COOKIE });
    let reset = encoded(&Clear::Reset { id: RESPONDER, token: reset_key().token(RESPONDER) });
    let [first, second] = [flight(0, 0, b"flight"), flight(1, 0, b"flight")];
    let piece = |part| {
        let mut space = [0; DATAGRAM_BYTES_MIN];
        let length = Clear::Flight(part).put(&mut space).unwrap();
        space[..length].to_vec()
    };
    let changed = |bytes: &[u8], at: usize, with: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = with;
        bytes
    };
    let cases = [
        ("nothing", vec![]),
        ("an unknown kind", changed(&reset, 0, 0x84)),
        ("another form", changed(&reset, 1, 2)),
        ("ask that is too short", ask[..DATAGRAM_BYTES_MIN - 1].to_vec()),
        ("ask that is too long", [&ask[..], &[0]].concat()),
        ("ask that is not zeros to its end", changed(&ask, DATAGRAM_BYTES_MIN - 1, 1)),
        ("cookie that is too short", cookie[..cookie.len() - 1].to_vec()),
        ("cookie that is too long", [&cookie[..], &[0]].concat()),
        ("reset without its whole token", reset[..reset.len() - 1].to_vec()),
        ("reset that is too long", [&reset[..], &[0]].concat()),
        ("flight 0 without its whole cookie", piece(first)[..42].to_vec()),
        ("flight 0 to somebody", piece(FlightPart { to: RESPONDER, ..first })),
        ("flight without bytes", piece(FlightPart { bytes: b"", ..second })),
        ("flight past its length", piece(FlightPart { offset: 1_402, ..second })),
        ("flight of more than 4,096 bytes", piece(FlightPart { length: 4_097, ..second })),
        ("flight 3", piece(FlightPart { index: 3, ..second })),
    ];
    let case = |(why, bytes): (&str, Vec<u8>)| {
        assert_eq!(Clear::parse(&bytes), None, "{why}");
        json!({ "why": why, "encoded": hex::encode(bytes) })
    };
    cases.into_iter().map(case).collect()
}

struct Fixed;

impl Random for Fixed {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed> {
        bytes.fill(0x5c);
        Ok(())
    }
}

fn cookies() -> Value {
    let cookies = Cookies::new(&mut Fixed).unwrap();
    // Milliseconds wrap around in 49 days.
    let cases = [
        ("192.0.2.7:14710", 0),
        ("192.0.2.7:40000", 5_000_999),
        ("[2001:db8::7]:14710", 5_000_999),
        ("[2001:db8::7]:14710", (u64::from(u32::MAX) + 2) * 1_000),
    ];
    let case = |(source, micros): (&str, u64)| {
        let (source, now): (SocketAddr, _) = (source.parse().unwrap(), Moment::from_micros(micros));
        let cookie = cookies.make(source, INITIATOR, now);
        assert!(cookies.is_good(cookie, source, INITIATOR, now));
        json!({
            "address": source.ip().to_string(),
            "port": source.port(),
            "initiator": hex::encode(INITIATOR.0),
            "micros": micros,
            "cookie": hex::encode(cookie.0),
        })
    };
    json!({ "key": "5c".repeat(32), "cases": cases.map(case) })
}

const RESET_PORT: u16 = 14_710;

fn reset_key() -> ResetKey {
    ResetKey::new(&Secret::take(&mut [0x6c; 32]), RESET_PORT)
}

fn resets() -> Value {
    let case =
        |id: ConnectionId| json!({ "id": hex::encode(id.0), "token": hex::encode(reset_key().token(id).0) });
    let cases = [INITIATOR, RESPONDER].map(case);
    json!({ "key": "6c".repeat(32), "port": RESET_PORT, "cases": cases })
}

#[test]
fn datagrams() {
    let cases: Vec<_> = Suite::offer(Cipher::ALL, true).into_iter().map(case).collect();
    let computed = json!({
        "cases": cases,
        "parts": parts(),
        "malformedParts": malformed_parts(),
        "clear": clear(),
        "malformedClear": malformed_clear(),
        "cookies": cookies(),
        "resets": resets(),
    });
    check("packets.json", &computed);
}
