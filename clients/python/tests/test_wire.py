"""The messages of `tests/vectors/door.json`, from this package's side."""

import json
from typing import Any

import pytest
from loopback import REPOSITORY

from sealane import _wire

DOOR = json.loads((REPOSITORY / "tests/vectors/door.json").read_text())
DTYPES = (
    "Bool Uint8 Int8 Uint16 Int16 Uint32 Int32 Uint64 Int64 Float16 Bfloat16 Float32 Float64 "
    "Complex64 Complex128 Float8E4m3 Float8E5m2"
).split()
FAILURES = {1: "NotReady", 2: "Refused", 3: "Closed", 4: "Misuse"}


def encode(m: dict[str, Any]) -> bytes:
    kind = m["kind"]
    if kind == "HELLO":
        return _wire.hello(m["client"])
    if kind == "WANT":
        return _wire.want(m["lane"], m["bytes"])
    if kind == "OPEN" and m["receive"]:
        return _wire.open_receiver(m["lane"], m["session"], m["timeoutMs"], m["resume"])
    if kind == "OPEN":
        incarnation = bytes.fromhex(m["incarnation"])
        return _wire.open_sender(m["lane"], m["session"], incarnation, m["base"], m["timeoutMs"], m["resume"])
    if kind == "PUT":
        entries = [
            _wire.put_entry(
                e["sequence"],
                e["segment"],
                e["offset"],
                e["length"],
                DTYPES.index(e["dtype"]),
                e["shape"],
                e["name"].encode(),
                bytes.fromhex("".join(e["assigned"])),
                e["run"],
            )
            for e in m["entries"]
        ]
        return _wire.put(m["lane"], entries)
    if kind == "CLOSE":
        return _wire.close(m["lane"], m["abandon"])
    if kind == "TOOK":
        return _wire.took(m["lane"], m["deliveries"], m["partly"])
    if kind == "RELEASE":
        return _wire.release(m["lane"], m["deliveries"], m["taken"])
    assert kind == "DROP"
    return _wire.drop(m["segment"])


@pytest.mark.parametrize("message", DOOR["client"], ids=lambda m: m["example"])
def test_what_the_client_says(message: dict[str, Any]) -> None:
    assert encode(message).hex() == message["hex"]


def in_sixteens(replicas: bytes) -> list[bytes]:
    return [replicas[start : start + 16] for start in range(0, len(replicas), 16)]


def decoded(message: _wire.Message) -> dict[str, Any]:
    """The fields as the vectors name them."""
    fields = message._asdict()
    if isinstance(message, _wire.Deliver):
        fields["entries"] = [{**e._asdict(), "dtype": DTYPES[e.dtype], "shape": list(e.shape)} for e in message.entries]
    elif isinstance(message, _wire.Assigned):
        fields["entries"] = [
            {"sequence": sequence, "tensors": tensors, "replicas": [r.hex() for r in in_sixteens(replicas)]}
            for sequence, tensors, replicas in message.entries
        ]
    elif isinstance(message, (_wire.Taken, _wire.UncertainRanges)):
        fields["ranges"] = [list(span) for span in message.ranges]
    elif isinstance(message, _wire.Failed):
        fields["failure"] = FAILURES[message.failure]
    elif isinstance(message, _wire.Welcome):
        camel = {"rank_max": "rankMax", "message_bytes_max": "messageBytesMax", "segment_bytes": "segmentBytes"}
        camel["put_bytes_max"] = "putBytesMax"
        fields = {camel.get(name, name): value for name, value in fields.items()}
        fields["process"] = message.process.hex()
    if "size" in fields:
        fields["bytes"] = fields.pop("size")
    return fields


@pytest.mark.parametrize("message", DOOR["sidecar"], ids=lambda m: m["example"])
def test_what_the_sidecar_says(message: dict[str, Any]) -> None:
    expected = {name: value for name, value in message.items() if name not in ("kind", "example", "hex")}
    assert decoded(_wire.parse(bytes.fromhex(message["hex"]))) == expected


@pytest.mark.parametrize("message", DOOR["sidecar"], ids=lambda m: m["example"])
def test_a_message_cut_short_or_too_long_is_refused(message: dict[str, Any]) -> None:
    packet = bytes.fromhex(message["hex"])
    for cut in range(len(packet)):
        with pytest.raises((_wire.WireError, __import__("struct").error)):
            _wire.parse(packet[:cut])
    with pytest.raises(_wire.WireError):
        _wire.parse(packet + b"\0")
