"""Memory shared with the sidecar: segments, and the places of tensors in them."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections import deque
from functools import lru_cache
from typing import Any, Optional

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


class Slot:
    """A place in a put segment. It is free again when no tensor in it is under way and the application, if it was lent
    the place as an array, has let go of it."""

    __slots__ = ("address", "arena", "flying", "lent", "offset", "reserved", "segment")

    def __init__(self, arena: PutArena, segment: Segment, offset: int, reserved: int) -> None:
        self.arena = arena
        self.segment = segment
        self.offset = offset
        self.reserved = reserved
        self.flying = 0
        self.lent = False
        self.address = 0

    def bytes(self, size: int) -> memoryview:
        return self.segment.bytes(self.offset, size)

    def settle(self) -> None:
        """One tensor in it is no longer under way."""
        self.flying -= 1
        self.free_if_idle()

    def free_if_idle(self) -> None:
        if self.flying == 0 and not self.lent:
            self.arena.give(self)


class PutArena:
    """The put segments of one lane on one connection. Callers hold the door's lock."""

    def __init__(self) -> None:
        self.parts: dict[int, tuple[Segment, Extents]] = {}
        self.lent: dict[int, Slot] = {}
        #: Lent slots whose last array is gone: finalizers run anywhere, even inside the lock, so they only note it.
        self.returned: deque[Slot] = deque()
        #: Size of the segment that was asked for and not answered yet.
        self.wanted: Optional[int] = None
        #: Why the last wish for a segment was refused, and the monotonic time when to ask again.
        self.refusal: Optional[tuple[str, str]] = None
        self.ask_again = 0.0
        #: Since when there was a surplus.
        self._surplus_since: Optional[float] = None

    @property
    def total(self) -> int:
        return sum(segment.size for segment, _ in self.parts.values())

    def add(self, segment: Segment) -> None:
        self.wanted = None
        self.refusal = None
        self.parts[segment.number] = (segment, Extents(segment.size))

    def take(self, size: int) -> Optional[Slot]:
        """A slot for `size` bytes (not 0), or None when no gap is large enough."""
        if self.returned:
            self.collect()
        reserved = round_up(size, SLOT_ALIGNMENT)
        for segment, extents in self.parts.values():
            offset = extents.take(reserved)
            if offset is not None:
                return Slot(self, segment, offset, reserved)
        return None

    def collect(self) -> None:
        while self.returned:
            slot = self.returned.popleft()
            slot.lent = False
            self.lent.pop(slot.address, None)
            slot.free_if_idle()

    def give(self, slot: Slot) -> None:
        part = self.parts.get(slot.segment.number)
        if part is not None and part[0] is slot.segment:
            part[1].give(slot.offset, slot.reserved)

    def lend(self, slot: Slot, size: int) -> Any:
        """A window for the application; the slot comes back when the last array over it is gone."""
        window = slot.segment.window(slot.offset, size)
        slot.lent = True
        slot.address = ctypes.addressof(window)
        self.lent[slot.address] = slot
        weakref.finalize(window, self.returned.append, slot).atexit = False
        return window

    def lent_at(self, address: int, size: int) -> Optional[Slot]:
        """The lent slot that begins at `address` and holds `size` bytes."""
        slot = self.lent.get(address)
        return slot if slot is not None and size <= slot.reserved else None

    def idle(self) -> list[int]:
        """Takes out the segments that hold nothing, and names them."""
        self.collect()
        numbers = [number for number, (_, extents) in self.parts.items() if extents.all_free()]
        for number in numbers:
            del self.parts[number]
        return numbers

    def surplus(self, usual: int, now: float) -> list[int]:
        """Takes out idle segments beside one of usual size, once they have been idle for a while, and names them."""
        self.collect()
        idle = [number for number, (_, extents) in self.parts.items() if extents.all_free()]
        if len(idle) == len(self.parts):
            keep = next((number for number in idle if self.parts[number][0].size <= usual), None)
            idle = [number for number in idle if number != keep]
        if not idle:
            self._surplus_since = None
            return []
        if self._surplus_since is None:
            self._surplus_since = now
        if now - self._surplus_since < IDLE_SECONDS:
            return []
        self._surplus_since = None
        for number in idle:
            del self.parts[number]
        return idle

    def wish(self, size: int, usual: int, most: int) -> Optional[int]:
        """The size of a further segment for a tensor of `size` bytes, or None when it has to wait for room."""
        total = self.total
        needed = round_up(size, SEGMENT_STEP_BYTES)
        # A large tensor has a segment of its own: the largest one tells what is held.
        largest = max((extents.size for _, extents in self.parts.values()), default=0)
        limit = max(ARENA_USUAL_BYTES_MAX, TENSORS_HELD_WANTED * max(largest, size))
        held = sum(extents.held() for _, extents in self.parts.values())
        if needed <= largest and held + round_up(size, SLOT_ALIGNMENT) > limit:
            return None
        if total + needed > most:
            return None
        # After a refusal the smallest that serves; the usual size leaves room for more tensors.
        generous = max(needed, usual)
        return generous if self.refusal is None and total + generous <= most else needed
