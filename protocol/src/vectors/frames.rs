//! `frame.json`: every frame with its bytes, and bytes that are no frame.

use sealane_types::{Digest, Dtype, PeerName, PodIdentity, Reason, SessionName};
use serde_json::{Value, json};

use super::{check, trust};
use crate::frame::control::{Confirm, Control, Fragment};
use crate::frame::{
    ByteRange, Chunk, Credit, Decoded, End, Frame, Incarnation, Open, PipeId, Sequence, Sequences, Shape,
    StreamId, Taken, TensorHeader, decode, encode,
};
use crate::keys::TicketId;

fn data_case(frame: &Frame<'_>, fields: Value) -> Value {
    let mut bytes = [0; 1024];
    let used = encode(frame, &mut bytes).unwrap();
    assert_eq!(decode(&bytes[..used]).unwrap(), (Decoded::Data(*frame), &[][..]));
    json!({ "frame": fields, "encoded": hex::encode(&bytes[..used]) })
}

fn bulk_case(range: ByteRange, fields: Value) -> Value {
    let mut bytes = [0; 1024];
    let used = encode(range, &mut bytes).unwrap();
    assert_eq!(decode(&bytes[..used]).unwrap(), (Decoded::Bulk(range), &[][..]));
    json!({ "frame": fields, "encoded": hex::encode(&bytes[..used]) })
}

fn control_case(frame: &Control<'_>, fields: Value) -> Value {
    let mut bytes = [0; 1024];
    let used = encode(frame, &mut bytes).unwrap();
    assert_eq!(decode(&bytes[..used]).unwrap(), (Decoded::Control(frame.clone()), &[][..]));
    json!({ "frame": fields, "encoded": hex::encode(&bytes[..used]) })
}

fn control_cases() -> Vec<Value> {
    let confirm = Confirm {
        version: 1,
        peer: PeerName::new("embedder").unwrap(),
        expected: PeerName::new("ranker").unwrap(),
        session: SessionName::new("activations").unwrap(),
        pod: PodIdentity::new("demo", "embedder-0", "6f1c").unwrap(),
        epoch: 7,
        digest: Digest::new([0x99; 32]),
        trust: trust(),
    };
    let confirm_fields = json!({
        "type": "confirm", "version": 1, "peer": "embedder", "expected": "ranker", "session": "activations",
        "pod": "demo/embedder-0/6f1c", "epoch": 7, "digest": "99".repeat(32), "trust": hex::encode(trust().to_bytes()),
    });
    let part = Fragment { epoch: 7, total: 40_000, offset: 32_768, bytes: b"rest" };
    let part_fields = |name, epoch| json!({ "type": name, "epoch": epoch, "total": 40_000, "offset": 32_768, "bytes": hex::encode(b"rest") });
    vec![
        control_case(&Control::Confirm(confirm), confirm_fields),
        control_case(&Control::Policy(part), part_fields("policy", 7)),
        control_case(&Control::Evidence(Fragment { epoch: 0, ..part }), part_fields("evidence", 0)),
        control_case(&Control::Ready, json!({ "type": "ready" })),
        control_case(&Control::Ping(1), json!({ "type": "ping", "token": 1 })),
        control_case(&Control::Pong(1), json!({ "type": "pong", "token": 1 })),
        control_case(&Control::Pad, json!({ "type": "pad", "length": 0 })),
        control_case(
            &Control::Close(Reason::Draining),
            json!({ "type": "close", "reason": Reason::Draining.code() }),
        ),
        control_case(
            &Control::Ticket { id: TicketId([0xbb; 16]), seconds: 600 },
            json!({ "type": "ticket", "id": "bb".repeat(16), "seconds": 600 }),
        ),
        control_case(
            &Control::Renew { step: 2, message: b"message" },
            json!({ "type": "renew", "step": 2, "message": hex::encode(b"message") }),
        ),
    ]
}

fn stream_cases() -> Vec<Value> {
    let stream = StreamId(3);
    let sequences = [Sequence(4), Sequence(6)];
    let taken = Taken { stream, sequences: Sequences::new(&sequences) };
    let header = TensorHeader {
        stream,
        sequence: Sequence(4),
        dtype: Dtype::Bfloat16,
        shape: Shape::new(&[32, 102, 384]).unwrap(),
        run: false,
        name: "layer3",
        length: 32 * 102 * 384 * 2,
    };
    let run = TensorHeader {
        sequence: Sequence(5),
        dtype: Dtype::Float32,
        shape: Shape::new(&[40, 384]).unwrap(),
        run: true,
        name: "",
        length: 40 * 384 * 4,
        ..header
    };
    let open = Open { stream, incarnation: Incarnation([0xaa; 16]), base_sequence: Sequence(4) };
    vec![
        data_case(
            &Frame::Open(open),
            json!({ "type": "open", "stream": 3, "incarnation": "aa".repeat(16), "base": 4 }),
        ),
        data_case(
            &Frame::Tensor(header),
            json!({
                "type": "tensor", "stream": 3, "sequence": 4, "length": header.length,
                "dtype": Dtype::Bfloat16.code(), "shape": [32, 102, 384], "name": "layer3",
            }),
        ),
        data_case(
            &Frame::Striped(header),
            json!({
                "type": "striped", "stream": 3, "sequence": 4, "length": header.length,
                "dtype": Dtype::Bfloat16.code(), "shape": [32, 102, 384], "name": "layer3",
            }),
        ),
        data_case(
            &Frame::Placed { stream, sequence: Sequence(4) },
            json!({ "type": "placed", "stream": 3, "sequence": 4 }),
        ),
        data_case(
            &Frame::Tensor(run),
            json!({
                "type": "run", "stream": 3, "sequence": 5, "length": run.length,
                "dtype": Dtype::Float32.code(), "shape": [40, 384], "name": "",
            }),
        ),
        data_case(
            &Frame::Chunk(Chunk { stream, sequence: Sequence(4), offset: 65_512, bytes: b"chunk" }),
            json!({
                "type": "chunk", "stream": 3, "sequence": 4, "offset": 65_512, "bytes": hex::encode(b"chunk"),
            }),
        ),
        bulk_case(
            ByteRange { stream, sequence: Sequence(4), offset: 65_517, length: 196_608 },
            json!({ "type": "bulk", "stream": 3, "sequence": 4, "offset": 65_517, "length": 196_608 }),
        ),
        data_case(
            &Frame::Credit(Credit { stream, bytes_through: 1 << 20, tensors_through: 4096 }),
            json!({ "type": "credit", "stream": 3, "bytesThrough": 1 << 20, "tensorsThrough": 4096 }),
        ),
        data_case(&Frame::Taken(taken), json!({ "type": "taken", "stream": 3, "sequences": [4, 6] })),
        data_case(
            &Frame::End(End { stream, tensors: 2, bytes: 5_013_504 }),
            json!({ "type": "end", "stream": 3, "tensors": 2, "bytes": 5_013_504 }),
        ),
        data_case(&Frame::Ended(stream), json!({ "type": "ended", "stream": 3 })),
        data_case(&Frame::Abort(stream), json!({ "type": "abort", "stream": 3 })),
        data_case(&Frame::Lost(taken), json!({ "type": "lost", "stream": 3, "sequences": [4, 6] })),
    ]
}

fn pipe_cases() -> Vec<Value> {
    let pipe = PipeId(3);
    let reason = Reason::TargetUnreachable;
    vec![
        data_case(&Frame::PipeOpen(pipe), json!({ "type": "pipe open", "pipe": 3 })),
        data_case(
            &Frame::PipeData { pipe, bytes: b"bytes" },
            json!({ "type": "pipe data", "pipe": 3, "bytes": hex::encode(b"bytes") }),
        ),
        data_case(
            &Frame::PipeCredit { pipe, bytes_through: 1 << 19 },
            json!({ "type": "pipe credit", "pipe": 3, "bytesThrough": 1 << 19 }),
        ),
        data_case(
            &Frame::PipeEnd { pipe, bytes: 5_013_504 },
            json!({ "type": "pipe end", "pipe": 3, "bytes": 5_013_504 }),
        ),
        data_case(
            &Frame::PipeReset { pipe, reason },
            json!({ "type": "pipe reset", "pipe": 3, "reason": reason.code() }),
        ),
    ]
}

fn malformed() -> Vec<Value> {
    let cases: [(&str, &str); 27] = [
        ("unknown type", "00000000"),
        ("unknown type", "1d00000400000003"),
        (
            "a striped tensor of nothing",
            "1b0000200000000300000000000000040000000000000000050100000000000000000000",
        ),
        ("a place without its number", "1c00000400000003"),
        ("a place with something behind its number", "1c00000d00000003000000000000000400"),
        ("a bulk of nothing", "1a000017000000030000000000000004000000000000ffed000000"),
        ("a bulk of more than there may be", "1a000017000000030000000000000004000000000000ffed040001"),
        ("a bulk without its length", "1a000014000000030000000000000004000000000000ffed"),
        ("shorter than its header says", "0500000801"),
        ("longer than its fields", "0500000900000000000000010000"),
        ("shorter than its fields", "050000070000000000000001"),
        ("padding that is not zero", "0700000101"),
        ("an empty chunk", "1200001400000003000000000000000400000000000000aa"),
        ("an acknowledgement of nothing", "1400000400000003"),
        ("an acknowledgement that ends within a number", "140000050000000300"),
        ("a ticket that is over", "0a000014bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb00000000"),
        ("a ticket without its seconds", "0a000010bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"),
        ("a fragment without bytes", "0300001000000000000000000000000400000000"),
        ("unknown type", "2500000400000003"),
        ("a pipe opened with something after its number", "200000050000000300"),
        ("pipe data without bytes", "2100000400000003"),
        ("pipe credit that is too short", "2200000b0000000300000000000000"),
        ("a pipe's end without its total", "2300000400000003"),
        ("a pipe's end with something after its total", "2300000d00000003000000000000000500"),
        ("a pipe's reset without a reason", "2400000400000003"),
        ("an unknown element type", "11000018000000030000000000000004000000000000000163000000"),
        (
            "a length that is not shape times element",
            "1100001800000003000000000000000400000000000000050b000000",
        ),
    ];
    let case = |(why, encoded): (&str, &str)| {
        let bytes = hex::decode(encoded).unwrap();
        assert!(decode(&bytes).is_err(), "{why}: {encoded}");
        json!({ "why": why, "encoded": encoded })
    };
    cases.into_iter().map(case).collect()
}

#[test]
fn frames() {
    let cases = [control_cases(), stream_cases(), pipe_cases()].concat();
    check("frame.json", &json!({ "cases": cases, "malformed": malformed() }));
}
