"""Recomputes every message of ``door.json`` with struct alone, from the text of ``sidecar/src/door/DOOR.md``.

The Rust tests of ``sidecar/src/door/codec`` parse what a client says and encode what the sidecar says; the tests of
``clients/python`` do the reverse.
"""

import json
import pathlib
import struct

import pytest

HERE = pathlib.Path(__file__).parent
DOOR = json.loads((HERE / "door.json").read_text())

DTYPES = (
    "Bool Uint8 Int8 Uint16 Int16 Uint32 Int32 Uint64 Int64 Float16 Bfloat16 Float32 Float64 "
    "Complex64 Complex128 Float8E4m3 Float8E5m2"
).split()
FAILURES = {"NotReady": 1, "Refused": 2, "Closed": 3, "Misuse": 4}


def header(kind: int, flags: int = 0, count: int = 0, lane: int = 0) -> bytes:
    return struct.pack("<BBHI", kind, flags, count, lane)


def text(words: str) -> bytes:
    data = words.encode()
    return bytes([len(data)]) + data


def text16(words: str) -> bytes:
    data = words.encode()
    return struct.pack("<H", len(data)) + data


def put_entry(e: dict) -> bytes:
    name = e["name"].encode()
    numbers = struct.pack("<QQQI", e["sequence"], e["offset"], e["length"], e["segment"])
    counts = bytes([DTYPES.index(e["dtype"]), len(e["shape"]), len(name), e["run"]])
    replicas = struct.pack("<HH", len(e["assigned"]), 0)
    dimensions = b"".join(struct.pack("<Q", d) for d in e["shape"])
    return numbers + counts + replicas + dimensions + name + b"".join(map(bytes.fromhex, e["assigned"]))


def deliver_entry(e: dict) -> bytes:
    name = e["name"].encode()
    numbers = struct.pack("<QQQQ", e["delivery"], e["sequence"], e["offset"], e["length"])
    numbers += struct.pack("<II", e["segment"], e["sender"])
    counts = bytes([DTYPES.index(e["dtype"]), len(e["shape"]), len(name), e["run"]])
    return numbers + counts + b"".join(struct.pack("<Q", d) for d in e["shape"]) + name


def spans(m: dict) -> bytes:
    return b"".join(struct.pack("<QQ", *span) for span in m["ranges"])


def deliveries(m: dict) -> bytes:
    return b"".join(struct.pack("<Q", number) for number in m["deliveries"])


def assigned_entry(e: dict) -> bytes:
    replicas = b"".join(map(bytes.fromhex, e["replicas"]))
    return struct.pack("<QHH", e["sequence"], e["tensors"], len(e["replicas"])) + replicas


ENCODERS = {
    "HELLO": lambda m: header(1) + b"SEALANE\n" + struct.pack("<HH", m["oldest"], m["newest"]) + text(m["client"]),
    "WANT": lambda m: header(2, lane=m["lane"]) + struct.pack("<Q", m["bytes"]),
    "OPEN": lambda m: header(3, m["receive"] | m["resume"] << 1, lane=m["lane"])
    + bytes.fromhex(m["incarnation"])
    + struct.pack("<QI", m["base"], m["timeoutMs"])
    + text(m["session"]),
    "PUT": lambda m: header(4, 0, len(m["entries"]), m["lane"]) + b"".join(map(put_entry, m["entries"])),
    "CLOSE": lambda m: header(5, m["abandon"], lane=m["lane"]),
    "TOOK": lambda m: header(6, m["partly"], len(m["deliveries"]), m["lane"]) + deliveries(m),
    "RELEASE": lambda m: header(7, int(m["taken"]), len(m["deliveries"]), m["lane"]) + deliveries(m),
    "DROP": lambda m: header(8) + struct.pack("<I", m["segment"]),
    "WELCOME": lambda m: header(65)
    + struct.pack("<HHIQQ", m["version"], m["rankMax"], m["messageBytesMax"], m["segmentBytes"], m["putBytesMax"])
    + bytes.fromhex(m["process"]),
    "SEGMENT": lambda m: header(66, m["take"], lane=m["lane"]) + struct.pack("<IQ", m["segment"], m["bytes"]),
    "NO_SEGMENT": lambda m: header(67, lane=m["lane"])
    + struct.pack("<Q", m["bytes"])
    + text(m["reason"])
    + text16(m["message"]),
    "OPENED": lambda m: header(68, lane=m["lane"]) + struct.pack("<I", m["window"]),
    "FAILED": lambda m: header(69, FAILURES[m["failure"]], lane=m["lane"]) + text(m["reason"]) + text16(m["message"]),
    "ASSIGNED": lambda m: header(70, 0, len(m["entries"]), m["lane"]) + b"".join(map(assigned_entry, m["entries"])),
    "TAKEN": lambda m: header(71, 0, len(m["ranges"]), m["lane"]) + spans(m),
    "UNCERTAIN": lambda m: header(72, 0, len(m["ranges"]), m["lane"]) + spans(m),
    "CLOSED": lambda m: header(73, lane=m["lane"]),
    "SENDER": lambda m: header(74, lane=m["lane"]) + struct.pack("<I", m["number"]) + text16(m["name"]),
    "DELIVER": lambda m: header(75, 0, len(m["entries"]), m["lane"]) + b"".join(map(deliver_entry, m["entries"])),
    "INTERRUPTED": lambda m: header(76, lane=m["lane"]) + text16(m["sender"]),
    "ENDED": lambda m: header(77, lane=m["lane"]),
    "DROPPED": lambda m: header(78, lane=m["lane"]) + struct.pack("<I", m["segment"]),
}


def encode(message: dict) -> bytes:
    return ENCODERS[message["kind"]](message)


@pytest.mark.parametrize("message", DOOR["client"] + DOOR["sidecar"], ids=lambda message: message["example"])
def test_bytes_follow_from_the_page(message):
    assert encode(message).hex() == message["hex"]
    assert len(encode(message)) <= 65536


def test_every_kind_has_an_example():
    assert {message["kind"] for message in DOOR["client"] + DOOR["sidecar"]} == set(ENCODERS)


@pytest.mark.parametrize("case", DOOR["limits"], ids=lambda case: case["example"])
def test_limits_follow_from_the_page(case):
    memory, largest = case["arenaBytes"], case["largest"]
    three_quarters = memory * 3 // 4
    assert case["putBytesMax"] == three_quarters
    # Two of that size for the other side, or that one and a quarter.
    leaves_two, goes_alone = memory - 2 * largest, largest + memory // 4
    assert case["limit"] == min(three_quarters, max(leaves_two, goes_alone))
    assert largest > memory // 8 or case["limit"] == three_quarters
