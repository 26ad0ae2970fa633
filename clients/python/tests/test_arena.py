"""The client's memory map, without a sidecar."""

import json
import os
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
from loopback import REPOSITORY
from opcodes import interrupted_at
from seeds import python_random

from sealane._arena import ARENA_USUAL_BYTES_MAX, Extents, PutArena, Segment, Slot, put_limit, round_up

MIB = 1 << 20
LIMITS = json.loads((REPOSITORY / "tests/vectors/door.json").read_text())["limits"]


def segment(number: int = 1, size: int = MIB) -> Segment:
    descriptor = os.memfd_create("test")
    os.ftruncate(descriptor, size)
    return Segment(number, descriptor, size)


@pytest.fixture
def arena() -> Iterator[PutArena]:
    arena = PutArena()
    arena.add(segment())
    yield arena


@pytest.mark.parametrize("case", LIMITS, ids=lambda case: case["example"])
def test_a_pod_shares_for_putting_what_the_sidecar_lets_it(case: dict[str, Any]) -> None:
    assert put_limit(case["putBytesMax"], case["largest"]) == case["limit"]


def test_slots_are_disjoint_and_join_again() -> None:
    random = python_random(7)
    extents = Extents(MIB)
    held: list[tuple[int, int]] = []
    for _ in range(5_000):
        if held and random.random() < 0.5:
            extents.give(*held.pop(random.randrange(len(held))))
        size = round_up(random.randint(1, 60_000), 64)
        offset = extents.take(size)
        if offset is not None:
            assert offset + size <= MIB
            assert all(offset + size <= other or other + length <= offset for other, length in held)
            held.append((offset, size))
    for offset, size in held:
        extents.give(offset, size)
    assert extents.all_free()


def test_a_slot_is_free_when_its_tensor_is_taken(arena: PutArena) -> None:
    slot = arena.take(MIB)
    assert slot is not None
    assert arena.take(64) is None
    del slot
    assert arena.take(MIB) is not None


def test_a_lent_slot_waits_for_the_last_view(arena: PutArena) -> None:
    slot = arena.take(4096)
    assert slot is not None
    array = numpy.frombuffer(arena.lend(slot, 4096), dtype=numpy.float32)
    assert arena.lent_at(array.__array_interface__["data"][0], 4096) is slot
    assert arena.lent_at(array.__array_interface__["data"][0] + 4, 64) is None
    part = array[3:].reshape(-1, 1)
    del array, slot
    assert arena.idle() == []
    del part
    assert arena.idle() == [1]
    assert not arena.lent


def test_a_slot_waits_for_the_last_tensor_in_it(arena: PutArena) -> None:
    slot = arena.take(4096)
    assert slot is not None
    array = numpy.frombuffer(arena.lend(slot, 4096), dtype=numpy.float32)
    del array
    assert arena.idle() == []
    del slot
    assert arena.idle() == [1]


def test_an_arena_grows_only_for_tensors_that_it_could_not_hold(arena: PutArena) -> None:
    usual, most = 16 * MIB, 384 * MIB
    assert arena.wish(1000, usual, most) == usual
    held = []
    for number in range(2, 6):
        arena.add(segment(number, 16 * MIB))
        held.append(arena.take(16 * MIB))
    assert None not in held
    assert arena.wish(1000, usual, most) is None
    assert arena.wish(100_000_000, usual, most) == round_up(100_000_000, 65_536)
    assert arena.wish(most - 64 * MIB, usual, most) is None


def test_gaps_that_are_too_small_hold_nothing_up() -> None:
    """As many tensors as an arena is to hold find a place, whatever stands between them."""
    random = python_random(11)
    arena, held = PutArena(), deque[Slot]()
    usual, most, large = 16 * MIB, 512 * MIB, 8_000_000

    def place(size: int) -> None:
        slot = arena.take(size)
        if slot is None:
            wish = arena.wish(size, usual, most)
            assert wish is not None
            arena.add(segment(1 + len(arena.parts), wish))
            slot = arena.take(size)
        assert slot is not None
        held.append(slot)

    for _ in range(300):
        while sum(slot.reserved for slot in held) + large < ARENA_USUAL_BYTES_MAX:
            place(large if random.random() < 0.3 else random.randint(1, 20_000))
        assert arena.total <= 2 * ARENA_USUAL_BYTES_MAX
        for _ in range(random.randint(1, len(held))):
            held.popleft()


def test_a_large_tensor_on_its_way_leaves_room_for_small_ones(arena: PutArena) -> None:
    usual, most = 16 * MIB, 512 * MIB
    arena.add(segment(2, 90 * MIB))
    held = arena.take(90 * MIB), arena.take(MIB)
    assert None not in held
    assert arena.wish(1000, usual, most) == usual
    del held


def test_books_that_were_cut_short_are_done_again() -> None:
    """Wherever an exception comes while a place is given or freed, no place is given twice, and none is lost."""
    random = python_random(13)
    arena = PutArena()
    arena.add(segment())
    held: list[Slot] = []

    def change() -> None:
        if held and random.random() < 0.5:
            del held[random.randrange(len(held))]
            arena.collect()
        slot = arena.take(random.randint(1, 40_000))
        if slot is not None:
            held.append(slot)

    for step in range(2_000):
        interrupted_at(step % 90, change, "_arena.py")
        places = sorted((slot.offset, slot.reserved) for slot in held)
        assert all(offset + size <= after for (offset, size), (after, _) in zip(places, places[1:]))
    held.clear()
    assert arena.idle() == [1]
