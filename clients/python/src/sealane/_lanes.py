"""What the client knows about its lanes. Callers hold the door's lock."""

from __future__ import annotations

import os
from collections import deque
from typing import NamedTuple, Optional, Union

from . import _wire
from ._arena import PutArena, Segment, Slot
from ._link import Link
from .errors import Closed, Interrupted, SealaneError, Uncertain


class Pending:
    """A tensor that was put, or is about to be, and is not known to be taken. Its bytes stay in `slot`."""

    __slots__ = ("assigned", "dtype", "length", "name", "shape", "slot")

    def __init__(self, dtype: int, shape: tuple[int, ...], length: int, name: bytes, slot: Optional[Slot]) -> None:
        self.dtype = dtype
        self.shape = shape
        self.length = length
        self.name = name
        self.slot = slot
        self.assigned: tuple[bytes, ...] = ()

    def entry(self, sequence: int) -> bytes:
        segment, offset = (self.slot.segment.number, self.slot.offset) if self.slot else (0, 0)
        return _wire.put_entry(sequence, segment, offset, self.length, self.dtype, self.shape, self.name, self.assigned)

    @property
    def entry_bytes(self) -> int:
        """Length of its entry as long as it was not assigned."""
        return _wire.PUT_ENTRY_BYTES + 8 * len(self.shape) + len(self.name)

    def settle(self) -> None:
        """It is not under way any more."""
        if self.slot is not None:
            self.slot.settle()
            self.slot = None


class Lane:
    """`number` names it on the present connection; 0 when it was not announced there."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.number = 0
        self.opened = False
        #: A restart interrupted it and the watcher has not restored it yet.
        self.resuming = False
        self.over = False
        self.error: Optional[SealaneError] = None
        #: Why it could not be restored so far.
        self.refusal: Optional[SealaneError] = None
        self.window = 0

    @property
    def ready(self) -> bool:
        return self.opened and not self.resuming

    def check(self) -> None:
        """Raises when nothing can be done with the lane any more."""
        if self.error is not None:
            raise self.error
        if self.over:
            raise Closed(f"the lane `{self.session}` is closed")

    def end(self, error: Optional[SealaneError] = None) -> None:
        self.over = True
        self.opened = False
        self.error = self.error or error

    def detach(self) -> None:
        """The connection is gone."""
        self.number = 0
        self.opened = False
        self.resuming = True


class SendingLane(Lane):
    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.incarnation = os.urandom(16)
        self.next = 0
        #: By sequence, in order.
        self.untaken: dict[int, Pending] = {}
        self.arena = PutArena()
        #: What to raise at the next call, once each.
        self.failures: deque[Uncertain] = deque()
        self.closing = False

    def open_packet(self, timeout_ms: int) -> bytes:
        base = next(iter(self.untaken), self.next)
        resume = self.next > 0
        return _wire.open_sender(self.number, self.session, self.incarnation, base, timeout_ms, resume)

    def raise_failure(self) -> None:
        if self.failures:
            raise self.failures.popleft()

    def detach(self) -> None:
        super().detach()
        # Slots of the old arena stay readable through their own segments until their tensors are put again.
        self.arena = PutArena()

    def end(self, error: Optional[SealaneError] = None) -> None:
        if self.untaken:
            count = len(self.untaken)
            error = error or Closed(f"the lane `{self.session}` was dropped before {count} tensors were taken")
        super().end(error)
        for pending in self.untaken.values():
            pending.settle()
        self.untaken.clear()

    def settle(self, ranges: tuple[tuple[int, int], ...]) -> None:
        for first, last in ranges:
            if last - first >= len(self.untaken):
                named = [sequence for sequence in self.untaken if first <= sequence <= last]
            else:
                named = list(range(first, last + 1))
            for sequence in named:
                pending = self.untaken.pop(sequence, None)
                if pending is not None:
                    pending.settle()


class Arrived(NamedTuple):
    """A whole tensor in a take segment of `link`."""

    link: Link
    lane: int
    entry: _wire.Entry
    sender: str
    segment: Optional[Segment]


class ReceivingLane(Lane):
    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.ready_items: deque[Union[Arrived, Interrupted]] = deque()
        self.senders: dict[int, str] = {}
        self.ended = False

    def open_packet(self, timeout_ms: int) -> bytes:
        return _wire.open_receiver(self.number, self.session, timeout_ms, self.resuming)

    def detach(self) -> None:
        super().detach()
        self.senders = {}


AnyLane = Union[SendingLane, ReceivingLane]
