"""Memory shared with the sidecar: segments, and the places of tensors in them.

A place has no count of its users. Whoever writes there, or has bytes there that the sidecar reads, keeps the `Slot`; the
place is free again when the last of them has let go, whatever ended him: a return, a cancellation, a signal.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Optional

#: Slots start at multiples of this: a cache line, and what vector loads like.
SLOT_ALIGNMENT = 64
#: Segment sizes are rounded up to this.
SEGMENT_STEP_BYTES = 64 << 10
#: What an arena holds of tensors, unless TENSORS_HELD_WANTED of them are more. The sidecar drops a receiver that holds
#: a broadcast up while tensors wait for it, so an arena holds what may wait there and one more. What counts is what is
#: held: in segments of which no gap is large enough, a tensor would wait for ever.
ARENA_USUAL_BYTES_MAX = 64 << 20
#: How many tensors an arena tries to hold, so that one is on its way while another is written.
TENSORS_HELD_WANTED = 4
#: An arena that used nothing beyond one segment for this long gives the rest back.
IDLE_SECONDS = 2.0


def round_up(size: int, step: int) -> int:
    return -(-size // step) * step


@lru_cache(maxsize=256)
def _array_type(size: int) -> Any:
    # Making a ctypes array type takes longer than everything else here, and shapes repeat.
    return ctypes.c_char * size


class Segment:
    """A mapped memory file. The mapping lives as long as anything that views it."""

    def __init__(self, number: int, descriptor: int, size: int) -> None:
        try:
            self.memory = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        self.number = number
        self.size = size
        self._bytes = memoryview(self.memory)

    def window(self, offset: int, size: int) -> Any:
        """An object with the buffer protocol over part of the segment. Every array made from it keeps it alive, so a
        weak reference to it tells when the last view is gone."""
        return _array_type(size).from_buffer(self.memory, offset)

    def bytes(self, offset: int, size: int) -> memoryview:
        """Part of the segment, which nobody can watch."""
        return self._bytes[offset : offset + size]


class Extents:
    """Which parts of a segment are free: lowest address first, neighbours joined."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.free: list[tuple[int, int]] = [(0, size)]

    def all_free(self) -> bool:
        return self.free == [(0, self.size)]

    def held(self) -> int:
        return self.size - sum(length for _, length in self.free)

    def take(self, size: int) -> Optional[int]:
        for index, (offset, length) in enumerate(self.free):
            if length == size:
                del self.free[index]
                return offset
            if length > size:
                self.free[index] = (offset + size, length - size)
                return offset
        return None

    def give(self, offset: int, size: int) -> None:
        index = 0
        while index < len(self.free) and self.free[index][0] < offset:
            index += 1
        if index < len(self.free) and offset + size == self.free[index][0]:
            size += self.free.pop(index)[1]
        if index > 0 and sum(self.free[index - 1]) == offset:
            offset, before = self.free[index - 1][0], self.free[index - 1][1]
            self.free[index - 1] = (offset, before + size)
        else:
            self.free.insert(index, (offset, size))

    def keep(self, held: Iterable[tuple[int, int]]) -> None:
        """Everything is free but what is held, whatever was thought before."""
        free, end = [], 0
        for offset, size in sorted(held):
            if offset > end:
                free.append((end, offset - end))
            end = offset + size
        if end < self.size:
            free.append((end, self.size - end))
        self.free = free


class Slot:
    """A place in a put segment, for as long as this object lives."""

    __slots__ = ("__weakref__", "arena", "offset", "reservation", "reserved", "segment")

    def __init__(self, arena: PutArena, segment: Segment, offset: int, reserved: int) -> None:
        self.arena = arena
        self.segment = segment
        self.offset = offset
        self.reserved = reserved
        self.reservation: Reservation

    def bytes(self, size: int) -> memoryview:
        return self.segment.bytes(self.offset, size)


if TYPE_CHECKING:
    SlotReference = weakref.ref[Slot]
else:
    SlotReference = weakref.ref


class Reservation(SlotReference):
    """What is left of a slot that is gone: its place, which the arena has to free.

    Slots go anywhere, in any thread and inside the lock as well, so that is only noted then. Built-in code alone does it:
    where no byte code runs, no signal comes between."""

    __slots__ = ("extents", "offset", "reserved")

    extents: Extents
    offset: int
    reserved: int


def put_limit(most: int, largest: int) -> int:
    """What a pod may share for putting, at most `most`, while `largest` is the size of the largest segment for it
    (`DOOR.md`, Limits)."""
    quarter = most // 3
    return min(most, max(most + quarter - 2 * largest, largest + quarter))


class PutArena:
    """The put segments of one lane on one connection. Callers hold the door's lock."""

    def __init__(self) -> None:
        self.parts: dict[int, tuple[Segment, Extents]] = {}
        #: Of all slots that live, and of those that are gone and not freed yet.
        self.reservations: set[Reservation] = set()
        #: Windows that the application was lent, by address.
        self.lent: dict[int, weakref.ref[Any]] = {}
        #: Those that are gone.
        self.unlent: deque[weakref.ref[Any]] = deque()
        #: Of slots that are gone.
        self.returned: deque[Reservation] = deque()
        #: Segments in which nothing lay yet: somebody waits for them.
        self.fresh: set[int] = set()
        #: Size of the segment that was asked for and not answered yet.
        self.wanted: Optional[int] = None
        #: Why the last wish for a segment was refused, and the monotonic time when to ask again.
        self.refusal: Optional[tuple[str, str]] = None
        self.ask_again = 0.0
        #: Since when there was a surplus.
        self._surplus_since: Optional[float] = None
        #: A change of the books is under way, or was cut short.
        self._torn = False

    @property
    def total(self) -> int:
        return sum(segment.size for segment, _ in self.parts.values())

    def add(self, segment: Segment) -> None:
        self.wanted = None
        self.refusal = None
        self.fresh.add(segment.number)
        self.parts[segment.number] = (segment, Extents(segment.size))

    def take(self, size: int) -> Optional[Slot]:
        """A slot for `size` bytes (not 0), or None when no gap is large enough."""
        if self.returned or self.unlent or self._torn:
            self.collect()
        reserved = round_up(size, SLOT_ALIGNMENT)
        self._torn = True
        slot = self._reserve(reserved)
        self._torn = False
        return slot

    def _reserve(self, reserved: int) -> Optional[Slot]:
        for segment, extents in self.parts.values():
            offset = extents.take(reserved)
            if offset is not None:
                slot = Slot(self, segment, offset, reserved)
                reservation = slot.reservation = Reservation(slot, self.returned.append)
                reservation.extents, reservation.offset, reservation.reserved = extents, offset, reserved
                self.reservations.add(reservation)
                self.fresh.discard(segment.number)
                return slot
        return None

    def collect(self) -> None:
        """Frees the places of slots that are gone."""
        if self._torn:
            self._mend()
        self._torn = True
        while self.returned:
            reservation = self.returned.popleft()
            if reservation in self.reservations:
                self.reservations.discard(reservation)
                reservation.extents.give(reservation.offset, reservation.reserved)
        if self.unlent:
            self.unlent.clear()
            self.lent = {address: window for address, window in self.lent.items() if window() is not None}
        self._torn = False

    def _mend(self) -> None:
        """Does the books again from the slots that live."""
        # None of them goes while this runs.
        slots = [slot for slot in (reservation() for reservation in self.reservations) if slot is not None]
        self.returned.clear()
        self.reservations = {slot.reservation for slot in slots}
        for segment, extents in self.parts.values():
            extents.keep((slot.offset, slot.reserved) for slot in slots if slot.segment is segment)

    def lend(self, slot: Slot, size: int) -> Any:
        """A window for the application. Every array over it keeps it, and it keeps the slot."""
        window = slot.segment.window(slot.offset, size)
        window.slot = slot
        self.lent[ctypes.addressof(window)] = weakref.ref(window, self.unlent.append)
        return window

    def lent_at(self, address: int, size: int) -> Optional[Slot]:
        """The lent slot that begins at `address` and holds `size` bytes."""
        reference = self.lent.get(address)
        window = reference() if reference is not None else None
        slot: Optional[Slot] = window.slot if window is not None else None
        return slot if slot is not None and size <= slot.reserved else None

    def lent_sizes(self) -> list[int]:
        """Of what the application has, whether something was put from it or not."""
        windows = [reference() for reference in self.lent.values()]
        return [window.slot.reserved for window in windows if window is not None]

    def _idle(self) -> list[int]:
        self.collect()
        return [number for number, (_, extents) in self.parts.items() if extents.all_free()]

    def _remove(self, numbers: list[int]) -> None:
        for number in numbers:
            self.fresh.discard(number)
            del self.parts[number]

    def idle(self, fresh: bool = True) -> list[int]:
        """Takes out the segments that hold nothing, and names them; without `fresh`, only those that held something."""
        numbers = [number for number in self._idle() if fresh or number not in self.fresh]
        self._remove(numbers)
        return numbers

    def surplus(self, usual: int, now: float) -> list[int]:
        """Takes out idle segments beside one of usual size, once they have been idle for a while, and names them."""
        idle = self._idle()
        if len(idle) == len(self.parts):
            sizes = {number: self.parts[number][0].size for number in idle}
            keep = max((number for number in idle if sizes[number] <= usual), key=sizes.__getitem__, default=None)
            idle = [number for number in idle if number != keep]
        if not idle:
            self._surplus_since = None
            return []
        if self._surplus_since is None:
            self._surplus_since = now
        if now - self._surplus_since < IDLE_SECONDS:
            return []
        self._surplus_since = None
        self._remove(idle)
        return idle

    def wish(self, size: int, usual: int, most: int) -> Optional[int]:
        """The size of a further segment for a tensor of `size` bytes, or None when it has to wait for room."""
        total = self.total
        needed = round_up(size, SEGMENT_STEP_BYTES)
        # A large tensor has a segment of its own: the largest one tells what is held.
        largest = max((extents.size for _, extents in self.parts.values()), default=0)
        limit = max(ARENA_USUAL_BYTES_MAX, TENSORS_HELD_WANTED * max(largest, size))
        # What the application has is its own to bound: nothing gives it back but the application.
        held = sum(extents.held() for _, extents in self.parts.values()) - sum(self.lent_sizes())
        if needed <= largest and held + round_up(size, SLOT_ALIGNMENT) > limit:
            return None
        if total + needed > most:
            return None
        # After a refusal the smallest that serves; the usual size leaves room for more tensors.
        generous = max(needed, usual)
        return generous if self.refusal is None and total + generous <= most else needed
