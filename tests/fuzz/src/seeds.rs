//! Where the corpus begins: genuine bytes, from the vectors that Rust and Python share, from the reports of real
//! hardware that their licence permits, and from handshakes made here. `cargo run --package sealane-fuzz --example seed`
//! writes them.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message as _;
use sealane_protocol::Moment;
use sealane_sidecar_api::control::{
    Configuration, EvidenceReport, Policy, PolicyReport, Register, Remote, Replica, Report, Session,
    SessionReport,
};
use sealane_support::ends::End;
use sealane_support::rehearsal::{rehearsed, rehearsed_local};
use sealane_support::rogue::{Opposed, RogueIs, close, confirm, evidence, handshake, hello, ready};
use sealane_support::world::{Counter, Who};
use serde_json::Value;

use crate::edit::encode;
use crate::targets::packets::{AGAIN, ELSEWHERE, FRAMES, SKIP, UPDATE, WAIT};
use crate::targets::{bundle, configuration as started_with, join, nitro, policy, tdx};

static FRAME: LazyLock<Value> = LazyLock::new(|| vectors(include_str!("../../vectors/frame.json")));
static POLICY: LazyLock<Value> = LazyLock::new(|| vectors(include_str!("../../vectors/policy.json")));
static EVIDENCE: LazyLock<Value> = LazyLock::new(|| vectors(include_str!("../../vectors/evidence.json")));
static HANDSHAKE: LazyLock<Value> = LazyLock::new(|| vectors(include_str!("../../vectors/handshake.json")));
static PACKETS: LazyLock<Value> = LazyLock::new(|| vectors(include_str!("../../vectors/packets.json")));
static DOOR: LazyLock<Value> = LazyLock::new(|| vectors(include_str!("../../vectors/door.json")));

fn vectors(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The first inputs of `target`.
///
/// # Panics
/// When there is no such target.
#[must_use]
pub fn of(target: &str) -> Vec<Vec<u8>> {
    match target {
        "hello" => hellos(),
        "reply" => replies(),
        "join" => join::seeds(),
        "flights" => flights(),
        "keyed" => keyed(),
        "frames" => frames(),
        "records" => records(),
        "datagrams" => datagrams(),
        "packets" => packets(),
        "inbound" => inbound(),
        "outbound" => outbound(),
        "pipes" => pipes(),
        "policy_document" => documents(),
        "policy_chain" => chains(),
        "evidence" => messages(),
        "report" => edits_behind(&[0, 1], 8),
        "collateral" => edits_behind(&[0], 3),
        "nitro" => nitro::seeds(),
        "tdx" => tdx::quotes(),
        "tdx_collateral" => tdx::collaterals(),
        "bundle" => bundle::seeds(),
        "door" => door(),
        "configuration" => vec![configuration().encode_to_vec(), Configuration::default().encode_to_vec()],
        "registration" => vec![register().encode_to_vec()],
        "report_message" => vec![report().encode_to_vec(), Report::default().encode_to_vec()],
        "environment" => environments(),
        "initdata" => started_with::initdata_seeds(),
        "file" => files(),
        other => panic!("no seeds for {other}"),
    }
}

fn cases<'a>(vectors: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    vectors[list].as_array().unwrap().iter()
}

fn hexed(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap()
}

fn hellos() -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = cases(&HANDSHAKE, "cases")
        .flat_map(|case| {
            let first = [hexed(&case["hello"]), handshake(&hexed(&case["message1"]))].concat();
            let whole = [first.clone(), handshake(&hexed(&case["message3"]))].concat();
            [first, whole]
        })
        .collect();
    let suites = sealane_protocol::handshake::Suite::offer(sealane_types::Cipher::ALL, true);
    seeds.extend([0, 1, 2, 3].map(|kind| hello(kind, &suites)));
    seeds.push(b"GET / HTTP/1.1\r\n\r\n".to_vec());
    seeds
}

fn replies() -> Vec<Vec<u8>> {
    let now = Moment::from_micros(1_000_000);
    let mut random = Counter(2);
    let mut dialler = End::dial(rehearsed_local(Who::Embedder), &mut random, now);
    let mut accepter = End::accept(rehearsed_local(Who::Ranker), &mut random, now);
    accepter.feed(now, &dialler.drain(now), &mut Silent);
    let genuine = accepter.drain(now);
    let mut seeds: Vec<_> =
        cases(&HANDSHAKE, "cases").map(|case| handshake(&hexed(&case["message2"]))).collect();
    seeds.extend([genuine, vec![2, 0, 0, 2, 0, 7], vec![2, 0, 0, 2, 0xff, 0xff], vec![3, 0, 0, 16]]);
    seeds
}

struct Silent;

impl sealane_protocol::connection::Sink for Silent {
    fn on_frame(&mut self, _: sealane_protocol::frame::Frame<'_>) -> Result<(), sealane_types::Reason> {
        Ok(())
    }
}

/// Nothing changed, and one change of each kind to each flight.
fn flights() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new()];
    for place in 0..8 {
        for kind in 0..7 {
            if (place + kind) % 3 == 0 {
                seeds.push(encode(place, kind, u16::from(place) * 97 + u16::from(kind) * 31, 5));
            }
        }
    }
    seeds
}

fn behind_length(part: &[u8]) -> Vec<u8> {
    [&(part.len() as u16).to_be_bytes()[..], part].concat()
}

fn keyed() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (role, rogue_is) in [(0, RogueIs::Initiator), (1, RogueIs::Responder)] {
        let claim = Opposed::keyed(rogue_is).claim();
        let who = if role == 0 { Who::Embedder } else { Who::Ranker };
        let proof = evidence(&rehearsed(who).evidence.encode().unwrap());
        let whole = [confirm(&claim), proof.clone()].concat();
        let begin = |part: &[u8]| [&[role][..], &behind_length(part)].concat();
        let mut behind = claim.clone();
        behind.epoch = 9;
        let newer = frames_named(&["policy"]);
        seeds.push(begin(&confirm(&claim)));
        seeds.push([begin(&whole), behind_length(&ready())].concat());
        seeds
            .push([begin(&confirm(&behind)), behind_length(&newer.concat()), behind_length(&proof)].concat());
        behind.epoch = 0;
        seeds.push([begin(&confirm(&behind)), behind_length(&proof)].concat());
        seeds.push([begin(&confirm(&claim)), vec![0xff, 0xff], behind_length(&proof)].concat());
        seeds.push(begin(&close(3)));
        let data = frames_named(&["open", "tensor", "chunk"]).concat();
        seeds.push([begin(&whole), behind_length(&[ready(), data].concat())].concat());
        seeds.extend(frames_named(&[]).iter().map(|frame| begin(frame)));
    }
    seeds
}

/// Frames of the vectors of these types; of all, when none is named.
fn frames_named(types: &[&str]) -> Vec<Vec<u8>> {
    cases(&FRAME, "cases")
        .filter(|case| types.is_empty() || types.contains(&case["frame"]["type"].as_str().unwrap()))
        .map(|case| hexed(&case["encoded"]))
        .collect()
}

fn frames() -> Vec<Vec<u8>> {
    let mut seeds = frames_named(&[]);
    let all: Vec<u8> = seeds.iter().filter(|frame| frame[0] >= 0x10).flatten().copied().collect();
    seeds.push(all);
    seeds.extend(cases(&FRAME, "malformed").map(|case| hexed(&case["encoded"])));
    seeds
}

fn records() -> Vec<Vec<u8>> {
    let mut seeds = vec![
        vec![0, 1, 2, 3, 4, 5],
        vec![0, 1, 1, 2, 3, 4],
        vec![0, 2, 1, 3, 4, 5],
        vec![0, 1, 3, 3, 4, 5],
        vec![0, 1, 2, 4, 5, 5],
        [&[0, 9, 1, 2, 3, 4][..], &[3, 0, 0, 16], &[0; 12]].concat(),
    ];
    for kind in 0..7 {
        let change = encode(kind, kind, 4 + u16::from(kind) * 9, 3);
        seeds.push([&[0, 1, 2, 3, 4, 5][..], &change].concat());
    }
    seeds
}

/// Nothing but the network's own; each kind of fate now and then; what the vectors have, invented by a stranger.
fn datagrams() -> Vec<Vec<u8>> {
    let (to_responder, to_initiator) = (1, 0);
    let carry: Vec<u8> = [to_responder, to_initiator].repeat(12);
    let mut seeds = vec![Vec::new(), carry.clone()];
    for fate in [2, 3, 4, 5] {
        for at in [0, 3, 6, 11, 14, 20] {
            let mut fates = carry.clone();
            fates[at] |= fate << 1;
            seeds.push(fates);
        }
    }
    for (kind, at) in (0..7).zip([0, 2, 4, 7, 9, 13, 17]) {
        let change = &encode(0, kind, 9 + u16::from(kind) * 11, 3)[..];
        seeds.push([&carry[..at], &[1 << 1 | (carry[at] & 1)], change, &carry[at..]].concat());
    }
    let listed = ["clear", "malformedClear"].iter().flat_map(|list| cases(&PACKETS, list));
    let packets =
        PACKETS["cases"][0]["packets"].as_array().unwrap().iter().map(|case| hexed(&case["packet"]));
    for (number, invented) in listed.map(|case| hexed(&case["encoded"])).chain(packets).enumerate() {
        let at = number % carry.len();
        seeds.push([&carry[..at], &[6 << 1 | (number as u8 & 1)], &behind_length(&invented)[..]].concat());
    }
    let wait = |micros: u16| [&[7 << 1][..], &(micros / 16).to_be_bytes()].concat();
    seeds.push([&carry[..1], &wait(60_000), &wait(60_000), &carry, &wait(60_000)].concat());
    seeds
}

/// Parts of the vectors, and what a side says that wants to be believed, in packets of a rogue.
fn packets() -> Vec<Vec<u8>> {
    let act = |operation: u16, rest: &[u8]| [&operation.to_be_bytes()[..], rest].concat();
    let bytes = |offset: u64, bytes: &[u8]| behind_length(&[&[2][..], &offset.to_be_bytes(), bytes].concat());
    let all = || {
        let listed = ["parts", "malformedParts"].iter().flat_map(|list| cases(&PACKETS, list));
        listed.map(|case| behind_length(&hexed(&case["encoded"])))
    };
    let mut seeds = Vec::new();
    for (role, rogue_is) in [(0, RogueIs::Initiator), (1, RogueIs::Responder)] {
        let claim = act(FRAMES, &behind_length(&confirm(&Opposed::keyed(rogue_is).claim())));
        let who = if role == 0 { Who::Embedder } else { Who::Ranker };
        let proof = act(FRAMES, &behind_length(&evidence(&rehearsed(who).evidence.encode().unwrap())));
        let data = act(FRAMES, &behind_length(&frames_named(&["open", "tensor", "chunk"]).concat()));
        let ping = behind_length(&[3]);
        let challenge = [&[4][..], &[9; 8]].concat();
        seeds.push([&[role][..], &claim, &proof, &act(FRAMES, &behind_length(&ready())), &data].concat());
        seeds.push([&[role | 2][..], &data, &act(UPDATE, &[]), &ping, &act(AGAIN, &[]), &data].concat());
        seeds.push([&[role | 2][..], &act(UPDATE, &[]), &act(UPDATE, &[]), &ping].concat());
        seeds.push([&[role | 2][..], &act(SKIP, &[0xff; 2]), &ping, &act(WAIT, &[0xff; 2])].concat());
        seeds.push([&[role][..], &act(ELSEWHERE, &behind_length(&challenge)), &data].concat());
        let apart =
            [bytes(1 << 16, &[3; 9]), bytes(131_000, &[5]), bytes(90, &[7; 40]), bytes(131_072, &[1])];
        seeds.push([&[role][..], &apart.concat()].concat());
        seeds.extend(all().map(|part| [&[role | 2][..], &part].concat()).filter(|_| role == 0));
        seeds.push([vec![role], all().take(10).flatten().collect()].concat());
    }
    seeds
}

/// Announce, write, take and end; in order and not.
fn inbound() -> Vec<Vec<u8>> {
    let attach = [5, 0];
    let announce = |sequence: u8, length: u16| [&[0, sequence][..], &length.to_be_bytes()].concat();
    let chunk = |sequence: u8, offset: u16, length: u8| {
        [&[2, sequence][..], &offset.to_be_bytes(), &[length - 1]].concat()
    };
    let take = |sequence: u8| vec![3, sequence];
    let end = |tensors: u8, bytes: u16| [&[7, 0, tensors][..], &bytes.to_be_bytes()].concat();
    let whole = [announce(0, 100), chunk(0, 0, 60), chunk(0, 60, 40), take(0)].concat();
    vec![
        [&attach[..], &whole, &end(1, 100), &[6, 0]].concat(),
        [&attach[..], &announce(0, 100), &chunk(0, 0, 50), &attach, &whole, &end(1, 100)].concat(),
        [&attach[..], &announce(0, 0), &announce(1, 0), &take(1), &attach, &announce(0, 0)].concat(),
        [&attach[..], &announce(0, 2_000), &[4, 0], &chunk(0, 0, 200), &chunk(0, 200, 200)].concat(),
        [&attach[..], &whole, &end(1, 100), &[6, 0], &attach, &whole].concat(),
        [&attach[..], &announce(3, 10), &[5, 3], &announce(3, 10), &chunk(3, 0, 10)].concat(),
        // A stream that has ended, and goes on.
        [&attach[..], &end(0, 0), &[6, 0], &attach, &announce(0, 0), &end(1, 0)].concat(),
    ]
}

fn outbound() -> Vec<Vec<u8>> {
    let act = |kind: u8, value: u16| [&[kind][..], &value.to_be_bytes()].concat();
    let (push, step, credit) = (|length| act(0, length), act(1, 4_000), act(3, 60_000 / 64 * 64 + 32));
    let taken = |first: u16, second: u16| act(4, second * 64 + first);
    let begin = [push(100), act(5, 0), credit.clone(), step.clone(), step.clone()].concat();
    vec![
        [begin.clone(), taken(0, 0), act(7, 0), step.clone(), act(6, 0)].concat(),
        [begin.clone(), act(5, 0), credit.clone(), step.clone(), taken(0, 0), step.clone()].concat(),
        [push(0), push(0), act(5, 0), credit.clone(), step.clone(), step.clone(), taken(0, 1)].concat(),
        [push(4_000), act(5, 0), act(3, 33), step.clone(), step.clone(), taken(0, 0)].concat(),
        [begin, act(6, 0), act(7, 0), act(7, 0), push(3)].concat(),
    ]
}

fn pipes() -> Vec<Vec<u8>> {
    let act = |kind: u8, id: u8, amount: u16| [&[kind, id][..], &amount.to_be_bytes()].concat();
    let whole = |kind: u8| {
        [
            vec![kind],
            act(kind, 0, 0),
            act(3, 0, 9_000),
            act(4, 0, 9_000),
            act(7, 0, 9_000),
            act(6, 0, 40),
            act(7, 0, 9_000),
            act(5, 0, 9_000),
            act(2, 0, 0),
            act(3, 0, 1),
        ]
        .concat()
    };
    vec![whole(0), whole(1), [vec![1], act(1, 4, 0), act(1, 3, 0)].concat(), act(3, 0, 0)]
}

fn documents() -> Vec<Vec<u8>> {
    let whole = cases(&POLICY, "documents").map(|case| case["bytes"].as_str().unwrap());
    let signed = cases(&POLICY, "chains").filter_map(|case| case["chain"]["document"].as_str());
    let mut seeds: Vec<_> = whole.chain(signed).filter_map(|text| STANDARD.decode(text).ok()).collect();
    seeds.push(sealane_support::world::policy(1).bytes().to_vec());
    seeds.push(b"{\"a\": [1, true, {\"b\": \"x\\u0041\"}]}".to_vec());
    seeds.sort();
    seeds.dedup();
    seeds
}

fn chains() -> Vec<Vec<u8>> {
    let count = policy::chains() as u8;
    let mut seeds: Vec<_> = (0..count).map(|index| vec![index]).collect();
    for (place, kind) in (0..8).zip(0..) {
        seeds.push([vec![place % count], encode(place, kind, 200, 1)].concat());
    }
    seeds.push([&[0xff][..], chain().as_bytes()].concat());
    seeds
}

fn messages() -> Vec<Vec<u8>> {
    let good = cases(&EVIDENCE, "messages").map(|case| hexed(&case["encoded"]));
    let mut seeds: Vec<_> =
        good.chain(cases(&EVIDENCE, "malformed").map(|case| hexed(&case["encoded"]))).collect();
    seeds.push(vec![1, 0, 0, 0, 2, 7, 7, 1, 0, 0, 0, 1, 9]);
    seeds
}

fn edits_behind(firsts: &[u8], places: u8) -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = firsts.iter().map(|first| vec![*first]).collect();
    for first in firsts {
        for place in 0..places {
            let at = 0x50 + u16::from(place) * 131;
            seeds.push([vec![*first], encode(place, place % 7, at, 1)].concat());
        }
    }
    seeds
}

fn door() -> Vec<Vec<u8>> {
    let good = cases(&DOOR, "client").map(|case| hexed(&case["hex"]));
    good.chain(cases(&DOOR, "refused").map(|case| hexed(&case["hex"]))).collect()
}

fn configuration() -> Configuration {
    let replica = Replica {
        pod: "ranker-0".to_owned(),
        uid: "77".to_owned(),
        addresses: vec!["10.0.0.9".to_owned(), "fd00::9".to_owned()],
        port: 14710,
        incarnation: vec![5; 16],
        ordinal: Some(1),
    };
    let session = Session {
        name: "activations".to_owned(),
        uid: "u".to_owned(),
        sending: true,
        delivery: "RoundRobin".to_owned(),
        fanout: 16,
        carrier: "Auto".to_owned(),
        cipher: "Aes256Gcm".to_owned(),
        remotes: vec![Remote { peer: "ranker".to_owned(), replicas: vec![replica] }],
        ..Session::default()
    };
    let mut forward = session.clone();
    forward.name = "triton".to_owned();
    (forward.delivery, forward.fanout) = (String::new(), 0);
    forward.forward =
        Some(sealane_sidecar_api::control::Forward { listen: 18_001, target: 8_001, per_replica: true });
    Configuration {
        generation: 3,
        peer: "embedder".to_owned(),
        provider: "Simulated".to_owned(),
        policy: Some(Policy { name: "demo".to_owned(), chain: chain(), roots: roots() }),
        sessions: vec![session, forward],
        ..Configuration::default()
    }
}

fn register() -> Register {
    Register {
        version: "0.1.0".to_owned(),
        namespace: "demo".to_owned(),
        pod: "embedder-0".to_owned(),
        uid: "6b5e".to_owned(),
        node: "node-1".to_owned(),
        addresses: vec!["10.0.0.7".to_owned(), "fd00::7".to_owned()],
        data_port: 14710,
        static_key: vec![1; 32],
        incarnation: vec![2; 16],
        features: Vec::new(),
    }
}

fn report() -> Report {
    let session = SessionReport {
        name: "activations".to_owned(),
        uid: "u".to_owned(),
        cipher: "Aes256Gcm".to_owned(),
        degraded: vec!["ClassicalKeys".to_owned()],
        message: "ä".repeat(600),
        ..SessionReport::default()
    };
    Report {
        generation: 3,
        policy: Some(PolicyReport { digest: "99".repeat(32), ..PolicyReport::default() }),
        evidence: Some(EvidenceReport { platform: "Simulated".to_owned(), ..EvidenceReport::default() }),
        sessions: vec![session],
        ..Report::default()
    }
}

/// The roots of the vectors, as JSON.
pub(crate) fn roots() -> String {
    POLICY["roots"].to_string()
}

/// A chain of the vectors, as JSON.
pub(crate) fn chain() -> String {
    POLICY["chains"][0]["chain"].to_string()
}

fn environments() -> Vec<Vec<u8>> {
    let whole = [
        "demo",
        "embedder-0",
        "6b5e",
        "https://sealane-control.sealane-system.svc:14712",
        "-----BEGIN CERTIFICATE-----",
        "/var/run/secrets/sealane.dev/token",
        "10.0.0.7,fd00::7",
    ];
    let roots = format!("[{}]", roots());
    let more = [&whole[..], &[&roots, "14710", "14711", "1048576", "25", "node-1", "{}"]].concat();
    vec![whole.join("\n").into_bytes(), more.join("\n").into_bytes(), b"\n\n\n".to_vec()]
}

fn files() -> Vec<Vec<u8>> {
    let sender = include_bytes!("../../../sidecar/examples/loopback/embedder.yaml").to_vec();
    let receiver = include_bytes!("../../../sidecar/examples/loopback/ranker.yaml").to_vec();
    vec![sender, receiver, b"{}".to_vec(), b"a: &a [*a]".to_vec()]
}
