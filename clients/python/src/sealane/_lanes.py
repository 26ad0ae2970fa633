"""What the client knows about its lanes. Callers hold the door's lock."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Optional, Union

from . import _wire
from ._arena import PutArena, Slot
from .errors import Closed, Interrupted, SealaneError, Uncertain

if TYPE_CHECKING:
    from ._runs import Arrived


class Pending:
    """A tensor or a run that was put, or is about to be, and is not known to be taken. Its bytes stay in `slot`, from
    `offset` on."""

    __slots__ = ("assigned", "count", "dtype", "length", "name", "offset", "shape", "slot")

    def __init__(self, dtype: int, shape: tuple[int, ...], length: int, name: bytes, count: int = 1) -> None:
        self.dtype = dtype
        #: Of each tensor of a run, of which there are `count`.
        self.shape = shape
        self.count = count
        self.length = length
        self.name = name
        self.slot: Optional[Slot] = None
        self.offset = 0
        self.assigned = b""

    def entry(self, sequence: int) -> bytes:
        slot, run = self.slot, self.count > 1
        segment, offset = (slot.segment.number, slot.offset + self.offset) if slot is not None else (0, 0)
        shape = (self.count, *self.shape) if run else self.shape
        return _wire.put_entry(sequence, segment, offset, self.length, self.dtype, shape, self.name, self.assigned, run)

    @property
    def entry_bytes(self) -> int:
        """Length of its entry as long as it was not assigned."""
        return _wire.PUT_ENTRY_BYTES + 8 * (len(self.shape) + 1) + len(self.name)

    def parts(self) -> list[Pending]:
        """The tensors of a run, which share its slot from now on."""
        length = self.length // self.count
        parts = [Pending(self.dtype, self.shape, length, self.name) for _ in range(self.count)]
        for index, part in enumerate(parts):
            part.slot = self.slot
            part.offset = self.offset + index * length
        return parts

    def bytes(self) -> memoryview:
        assert self.slot is not None
        return self.slot.segment.bytes(self.slot.offset + self.offset, self.length)


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

    @property
    def owes_error(self) -> bool:
        """Closing has to tell the application that the lane ended otherwise."""
        return False

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
        #: By sequence, in order; a run under its first one.
        self.untaken: dict[int, Pending] = {}
        #: How many tensors `untaken` holds.
        self.under_way = 0
        #: The sidecar takes runs apart, so they are not worth making.
        self.shared_out = False
        self.arena = PutArena()
        #: What to raise at the next call, once each.
        self.failures: deque[Uncertain] = deque()
        self.closing = False
        #: The application gave it up, or was told by `close` what ended it.
        self.closed = False

    @property
    def owes_error(self) -> bool:
        return self.over and self.error is not None and not self.closed

    def close_ended(self) -> None:
        """Closes a lane that is over: raises what ended it, once."""
        self.raise_failure()
        owes, self.closed = self.owes_error, True
        if owes:
            self.check()

    def open_packet(self, timeout_ms: int) -> bytes:
        base = next(iter(self.untaken), self.next)
        resume = self.next > 0
        return _wire.open_sender(self.number, self.session, self.incarnation, base, timeout_ms, resume)

    def add(self, pending: Pending) -> None:
        """Numbers what is put next."""
        self.untaken[self.next] = pending
        self.under_way += pending.count
        self.next += pending.count

    def is_under_way(self, slot: Slot) -> bool:
        """Whether something that was put from there is not known to be taken."""
        return any(pending.slot is slot for pending in self.untaken.values())

    def assign(self, sequence: int, tensors: int, replicas: bytes) -> None:
        """Where the sidecar sends a tensor or a whole run. What it shares out among replicas it names by its parts."""
        pending = self.untaken.get(sequence)
        if pending is None or pending.count != tensors:
            self._take_apart(sequence)
            pending = self.untaken.get(sequence)
        if pending is not None and pending.count == tensors:
            pending.assigned = replicas

    def _take_apart(self, sequence: int) -> None:
        apart: dict[int, Pending] = {}
        for first, pending in self.untaken.items():
            if first <= sequence < first + pending.count and pending.count > 1:
                self.shared_out = True
                apart.update(enumerate(pending.parts(), first))
            else:
                apart[first] = pending
        self.untaken = apart

    def raise_failure(self) -> None:
        if self.failures:
            raise self.failures.popleft()

    def detach(self) -> None:
        super().detach()
        self.shared_out = False
        # Slots of the old arena stay readable through their own segments until their tensors are put again.
        self.arena = PutArena()

    def end(self, error: Optional[SealaneError] = None) -> None:
        if self.untaken:
            count = self.under_way
            error = error or Closed(f"the lane `{self.session}` was dropped before {count} tensors were taken")
        super().end(error)
        # What was not taken still counts as that.
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
                    self.under_way -= pending.count


class ReceivingLane(Lane):
    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.ready_items: deque[Union[Arrived, Interrupted]] = deque()
        #: Of which the application has the first ones.
        self.begun: Optional[Arrived] = None
        self.senders: dict[int, str] = {}
        self.ended = False

    def open_packet(self, timeout_ms: int) -> bytes:
        return _wire.open_receiver(self.number, self.session, timeout_ms, self.resuming)

    def detach(self) -> None:
        super().detach()
        self.senders = {}


AnyLane = Union[SendingLane, ReceivingLane]
