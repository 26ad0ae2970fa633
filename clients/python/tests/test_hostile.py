"""Clients that break the rules of DOOR.md hurt nobody but themselves."""

import os
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from lanes import polls
from loopback import SECONDS, Loopback
from seeds import random_bytes

import sealane
from sealane import _wire
from sealane._link import Link, LinkLost

MIB = 1 << 20
TIMEOUT_MS = int(1000 * SECONDS)


class Raw:
    """A client that says whatever it is told to."""

    def __init__(self, loopback: Loopback, greet: bool = True) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(loopback.path)
        connection.setblocking(False)
        self.link = Link(connection)
        if greet:
            self.say(_wire.hello("raw"))
            assert isinstance(self.hear(), _wire.Welcome)

    def say(self, packet: bytes) -> None:
        self.link.send(packet)

    def hear(self) -> Any:
        """The next message that is not the request for idle memory, which others may cause at any time."""
        while True:
            packet = self.link.receive()
            if packet is None:
                assert self.link.wait(SECONDS, self.link.poller)
            elif not (isinstance(packet.message, _wire.NoSegment) and packet.message.lane == 0):
                return packet.message

    def refused(self) -> _wire.Failed:
        """The last word; then nothing more."""
        message = self.hear()
        while not (isinstance(message, _wire.Failed) and message.lane == 0):
            message = self.hear()
        with pytest.raises(LinkLost):
            self.hear()
        assert message.failure == 4
        return message

    def sender(self, session: str) -> int:
        """Opens lane 1 with a segment; returns the segment's number."""
        self.say(_wire.open_sender(1, session, random_bytes(16, 1), 0, TIMEOUT_MS))
        assert isinstance(self.hear(), _wire.Opened)
        self.say(_wire.want(1, MIB))
        segment = self.hear()
        assert isinstance(segment, _wire.SegmentMade) and segment.size == MIB
        return segment.segment


@pytest.fixture
def raw(shared: Loopback, session: str) -> Iterator[Raw]:
    """A hostile client beside an honest one, which must not notice."""
    with shared.connect() as door:
        receiver, sender = door.receiver(f"{session}-x", timeout=SECONDS), door.sender(f"{session}-x", timeout=SECONDS)
        raw = Raw(shared)
        yield raw
        raw.link.close()
        sender.put(b"honest", timeout=SECONDS)
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None and tensor.buffer().tobytes() == b"honest"
        del tensor
        sender.close(timeout=SECONDS)


def entry(
    sequence: int = 0, segment: int = 1, offset: int = 0, length: int = 4, dtype: int = 1, shape: Any = (4,)
) -> bytes:
    return _wire.put_entry(sequence, segment, offset, length, dtype, shape)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([entry(segment=77)], "segment 77 is not"),
        ([entry(offset=MIB - 3)], "do not lie within"),
        ([entry(offset=2**64 - 2)], "do not lie within"),
        ([entry(length=2 * MIB, shape=(2 * MIB,))], "do not lie within"),
        ([entry(length=5)], "do not make the length"),
        ([entry(shape=(2**63, 2**63))], "do not make the length"),
        ([entry(dtype=99)], "dtype 99"),
        ([entry(1), entry(1)], "sequence 1 does not grow"),
        ([entry(2**64 - 1), entry(0)], "does not grow"),
        ([entry(length=0, shape=(0,), segment=1)], "must be zero"),
    ],
    ids=["segment", "end", "overflow", "length", "mismatch", "product", "dtype", "sequence", "last", "empty"],
)
def test_lying_descriptors(raw: Raw, session: str, entries: list[bytes], words: str) -> None:
    raw.sender(session)
    raw.say(_wire.put(1, entries))
    assert words in raw.refused().message


def test_more_than_the_window(raw: Raw, session: str) -> None:
    raw.sender(session)
    for start in range(0, 1500, 500):
        raw.say(_wire.put(1, [entry(n) for n in range(start, start + 500)]))
    refused = raw.refused()
    assert refused.reason == "LimitExceeded" and "window" in refused.message


@pytest.mark.parametrize(
    ("packet", "words"),
    [
        (b"", None),
        (b"\x01", "before its last field"),
        (_wire.hello("again"), "once"),
        (_wire.put(1, []), "lane 1 is not open"),
        (_wire.took(9, [1]), "lane 9 is not open"),
        (_wire.open_receiver(0, "a", 10), "number is 0"),
        (_wire.want(1, 0), "at least one byte"),
        (_wire.drop(5), "segment 5"),
        (struct.pack("<BBHI", 4, 0, 65535, 1), "before its last field"),
    ],
    ids=["leave", "short", "hello", "put", "took", "lane 0", "want 0", "drop", "count"],
)
def test_messages_out_of_place(raw: Raw, packet: bytes, words: Any) -> None:
    if not packet:
        return
    raw.say(packet)
    assert (words or "") in raw.refused().message


def test_noise(raw: Raw, shared: Loopback) -> None:
    for octet in range(256):
        noisy = Raw(shared)
        noisy.say(bytes([octet]) * 1000)
        noisy.refused()
        noisy.link.close()


def test_a_message_that_is_too_long(raw: Raw) -> None:
    raw.say(_wire.hello("x") + bytes(70_000))
    assert "at most 65536 bytes" in raw.refused().message


def test_a_client_that_does_not_greet(shared: Loopback) -> None:
    raw = Raw(shared, greet=False)
    raw.say(_wire.want(1, 100))
    assert "HELLO" in raw.refused().message
    other = Raw(shared, greet=False)
    other.say(b"GET / HTTP/1.1\r\n\r\n")
    assert other.refused().reason == "FrameMalformed"


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (lambda one: [_wire.release(1, [one])], "wrong state"),
        (lambda one: [_wire.took(1, [one]), _wire.took(1, [one])], "wrong state"),
        (lambda one: [_wire.took(1, [one]), _wire.release(1, [one], taken=True)], "wrong state"),
        (lambda one: [_wire.release(1, [one, one], taken=True)], "wrong state"),
        (lambda one: [_wire.release(1, [one], taken=True), _wire.release(1, [one])], "wrong state"),
        (lambda one: [struct.pack("<BBHIQ", 7, 2, 1, 1, one)], "flags 0x02"),
    ],
    ids=["released first", "taken twice", "taken twice at last", "named twice", "released twice", "flag"],
)
def test_deliveries_out_of_order(raw: Raw, shared: Loopback, session: str, words: Any, refused: str) -> None:
    raw.say(_wire.open_receiver(1, session, TIMEOUT_MS))
    assert isinstance(raw.hear(), _wire.Opened)
    with shared.connect() as door:
        sender = door.sender(session, timeout=SECONDS)
        sender.put(b"x", timeout=SECONDS)
        message = raw.hear()
        while not isinstance(message, _wire.Deliver):
            message = raw.hear()
        for packet in words(message.entries[0].delivery):
            raw.say(packet)
        assert refused in raw.refused().message
        sender.abandon()


def test_too_many_lanes_and_segments(raw: Raw, session: str) -> None:
    for lane in range(1, 65):
        raw.say(_wire.open_sender(lane, session, random_bytes(16, lane), 0, TIMEOUT_MS))
    for _ in range(64):
        assert isinstance(raw.hear(), _wire.Opened)
    raw.say(_wire.open_sender(65, session, random_bytes(16, 65), 0, TIMEOUT_MS))
    failed = raw.hear()
    assert isinstance(failed, _wire.Failed) and failed.lane == 65 and "64 lanes" in failed.message
    # The others go on.
    raw.say(_wire.want(64, MIB))
    assert isinstance(raw.hear(), _wire.SegmentMade)


def test_memory_is_bounded_and_comes_back(own: Loopback) -> None:
    for _ in range(3):
        raw = Raw(own)
        made = 0
        for _ in polls("12 segments"):
            if made == 12:
                break
            # The client before may still be on its way out.
            raw.say(_wire.want(1, 4 * MIB))
            made += isinstance(raw.hear(), _wire.SegmentMade)
        raw.say(_wire.want(1, 4 * MIB))
        message = raw.hear()
        assert isinstance(message, _wire.NoSegment) and message.reason == "LimitExceeded"
        assert own.resident_bytes() < 150 * MIB
        raw.link.close()
    with own.connect() as door:
        assert door.sender("after", timeout=SECONDS).empty(20 * MIB, "uint8", timeout=SECONDS).nbytes == 20 * MIB


def test_descriptors_of_a_client_are_closed(raw: Raw, shared: Loopback) -> None:
    def count() -> int:
        return len(os.listdir(f"/proc/{shared.process.pid}/fd"))

    before = count()
    for _ in range(20):
        socket.send_fds(raw.link.connection, [_wire.want(1, 1)], [0, 1, 2])
        raw.hear()
    assert count() <= before + 20, "20 segments and none of the 60 that were passed"


def test_too_many_clients(own: Loopback) -> None:
    clients = [Raw(own) for _ in range(64)]
    with pytest.raises(sealane.NotReady, match="64 clients") as raised:
        Link.connect(own.path, SECONDS)
    assert raised.value.reason == "LimitExceeded"
    clients.pop().link.close()
    sealane.connect(own.path, timeout=SECONDS).close()
