"""Messages of the door, version 1 (`sidecar/src/door/DOOR.md`). Pure: values to bytes and back."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, Union

VERSION = 1
MAGIC = b"SEALANE\n"
MESSAGE_BYTES_MAX = 65536
NAME_BYTES_MAX = 255
#: Of every sidecar of this version; the greeting says it as well.
RANK_MAX = 32
SESSION_BYTES_MAX = 253
TIMEOUT_MS_MAX = 0xFFFFFFFF

_HEADER = struct.Struct("<BBHI")
_PUT_ENTRY = struct.Struct("<QQQIBBBBHH")
_DELIVER_ENTRY = struct.Struct("<QQQQIIBBBB")
_ASSIGNED_ENTRY = struct.Struct("<QHH")
_RANGE = struct.Struct("<QQ")

HEADER_BYTES = _HEADER.size
PUT_ENTRY_BYTES = _PUT_ENTRY.size
#: By rank, which is a byte.
_DIMENSIONS = tuple(struct.Struct(f"<{rank}Q") for rank in range(256))
_REPLICA_BYTES = 16


class WireError(Exception):
    """A message that DOOR.md does not allow: the sidecar is of another kind or version."""


# ---- to the sidecar -------------------------------------------------------------------------------------------


def hello(name: str) -> bytes:
    text = name.encode()[:64]
    return _HEADER.pack(1, 0, 0, 0) + MAGIC + struct.pack("<HHB", VERSION, VERSION, len(text)) + text


def want(lane: int, size: int) -> bytes:
    return _HEADER.pack(2, 0, 0, lane) + struct.pack("<Q", size)


def open_sender(lane: int, session: str, incarnation: bytes, base: int, timeout_ms: int, resume: bool = False) -> bytes:
    return _open(lane, 2 if resume else 0, session, incarnation, base, timeout_ms)


def open_receiver(lane: int, session: str, timeout_ms: int, resume: bool = False) -> bytes:
    return _open(lane, 3 if resume else 1, session, bytes(16), 0, timeout_ms)


def _open(lane: int, flags: int, session: str, incarnation: bytes, base: int, timeout_ms: int) -> bytes:
    text = session.encode()
    body = struct.pack("<16sQIB", incarnation, base, timeout_ms, len(text))
    return _HEADER.pack(3, flags, 0, lane) + body + text


def put_entry(
    sequence: int,
    segment: int,
    offset: int,
    length: int,
    dtype: int,
    shape: Sequence[int],
    name: bytes = b"",
    assigned: bytes = b"",
    run: bool = False,
) -> bytes:
    """`assigned` is replicas as they were named, one after the other."""
    rank, replicas = len(shape), len(assigned) // _REPLICA_BYTES
    head = _PUT_ENTRY.pack(sequence, offset, length, segment, dtype, rank, len(name), run, replicas, 0)
    return head + _DIMENSIONS[rank].pack(*shape) + name + assigned


def put(lane: int, entries: Sequence[bytes]) -> bytes:
    return _HEADER.pack(4, 0, len(entries), lane) + b"".join(entries)


def close(lane: int, abandon: bool = False) -> bytes:
    return _HEADER.pack(5, int(abandon), 0, lane)


def took(lane: int, deliveries: Sequence[int], partly: bool = False) -> bytes:
    return _HEADER.pack(6, int(partly), len(deliveries), lane) + struct.pack(f"<{len(deliveries)}Q", *deliveries)


def release(lane: int, deliveries: Sequence[int], taken: bool = False) -> bytes:
    return _HEADER.pack(7, int(taken), len(deliveries), lane) + struct.pack(f"<{len(deliveries)}Q", *deliveries)


def drop(segment: int) -> bytes:
    return _HEADER.pack(8, 0, 0, 0) + struct.pack("<I", segment)


# ---- from the sidecar -----------------------------------------------------------------------------------------


class Welcome(NamedTuple):
    version: int
    rank_max: int
    message_bytes_max: int
    segment_bytes: int
    put_bytes_max: int
    process: bytes


class SegmentMade(NamedTuple):
    lane: int
    segment: int
    size: int
    take: bool


class NoSegment(NamedTuple):
    lane: int
    size: int
    reason: str
    message: str


class Opened(NamedTuple):
    lane: int
    window: int


class Failed(NamedTuple):
    lane: int
    failure: int
    reason: str
    message: str


class Assigned(NamedTuple):
    lane: int
    #: First number, how many tensors from there on, replicas one after the other.
    entries: tuple[tuple[int, int, bytes], ...]


class Taken(NamedTuple):
    lane: int
    ranges: tuple[tuple[int, int], ...]


class UncertainRanges(NamedTuple):
    lane: int
    ranges: tuple[tuple[int, int], ...]


class ClosedLane(NamedTuple):
    lane: int


class SenderName(NamedTuple):
    lane: int
    number: int
    name: str


class Entry(NamedTuple):
    delivery: int
    sequence: int
    offset: int
    length: int
    segment: int
    sender: int
    dtype: int
    shape: tuple[int, ...]
    #: The first dimension counts tensors, numbered from `sequence` on.
    run: bool
    name: str


class Deliver(NamedTuple):
    lane: int
    entries: tuple[Entry, ...]


class InterruptedBy(NamedTuple):
    lane: int
    sender: str


class Ended(NamedTuple):
    lane: int


class Dropped(NamedTuple):
    lane: int
    segment: int


Message = Union[
    Welcome,
    SegmentMade,
    NoSegment,
    Opened,
    Failed,
    Assigned,
    Taken,
    UncertainRanges,
    ClosedLane,
    SenderName,
    Deliver,
    InterruptedBy,
    Ended,
    Dropped,
]


class _Cursor:
    """Reads fields one after the other."""

    def __init__(self, packet: bytes) -> None:
        self.packet = packet
        self.at = 0

    def octets(self, count: int) -> bytes:
        part = self.packet[self.at : self.at + count]
        if len(part) != count:
            raise _cut_off()
        self.at += count
        return part

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        try:
            fields = layout.unpack_from(self.packet, self.at)
        except struct.error:
            raise _cut_off() from None
        self.at += layout.size
        return fields

    def number(self, layout: str) -> int:
        return self.unpack(struct.Struct(layout))[0]

    def text(self, layout: str = "<B") -> str:
        return self._utf8(self.number(layout))

    def _utf8(self, count: int) -> str:
        try:
            return self.octets(count).decode()
        except UnicodeDecodeError as error:
            raise WireError("a text is not UTF-8") from error

    def ranges(self, count: int) -> tuple[tuple[int, int], ...]:
        return tuple((first, last) for first, last in (self.unpack(_RANGE) for _ in range(count)))

    def entry(self) -> Entry:
        delivery, sequence, offset, length, segment, sender, dtype, rank, name, run = self.unpack(_DELIVER_ENTRY)
        shape = self.unpack(_DIMENSIONS[rank])
        if run and (run > 1 or not shape or not shape[0] or length % shape[0]):
            raise WireError("a delivery is neither one tensor nor a run")
        text = self._utf8(name) if name else ""
        return Entry(delivery, sequence, offset, length, segment, sender, dtype, shape, bool(run), text)

    def assigned(self) -> tuple[int, int, bytes]:
        sequence, tensors, count = self.unpack(_ASSIGNED_ENTRY)
        return sequence, tensors, self.octets(count * _REPLICA_BYTES)


def _cut_off() -> WireError:
    return WireError("the message ends before its last field")


def parse(packet: bytes) -> Message:
    """The message in one packet from the sidecar; `WireError` when it is not one."""
    cursor = _Cursor(packet)
    kind, flags, count, lane = cursor.unpack(_HEADER)
    message = _body(cursor, kind, flags, count, lane)
    if cursor.at != len(packet):
        raise WireError(f"{len(packet) - cursor.at} bytes follow the last field of message kind {kind}")
    return message


def _body(cursor: _Cursor, kind: int, flags: int, count: int, lane: int) -> Message:
    if kind == 75:
        return Deliver(lane, tuple(cursor.entry() for _ in range(count)))
    if kind == 71:
        return Taken(lane, cursor.ranges(count))
    if kind == 70:
        return Assigned(lane, tuple(cursor.assigned() for _ in range(count)))
    if kind == 72:
        return UncertainRanges(lane, cursor.ranges(count))
    if kind == 66:
        return SegmentMade(lane, cursor.number("<I"), cursor.number("<Q"), bool(flags & 1))
    if kind == 67:
        return NoSegment(lane, cursor.number("<Q"), cursor.text(), cursor.text("<H"))
    if kind == 68:
        return Opened(lane, cursor.number("<I"))
    if kind == 69:
        return Failed(lane, flags, cursor.text(), cursor.text("<H"))
    if kind == 73:
        return ClosedLane(lane)
    if kind == 74:
        return SenderName(lane, cursor.number("<I"), cursor.text("<H"))
    if kind == 76:
        return InterruptedBy(lane, cursor.text("<H"))
    if kind == 77:
        return Ended(lane)
    if kind == 78:
        return Dropped(lane, cursor.number("<I"))
    if kind == 65:
        version, rank, size = cursor.number("<H"), cursor.number("<H"), cursor.number("<I")
        return Welcome(version, rank, size, cursor.number("<Q"), cursor.number("<Q"), cursor.octets(16))
    raise WireError(f"message kind {kind} is unknown; this sidecar is newer than the package")
