"""The client's memory map, without a sidecar."""

import os
import random
from collections.abc import Iterator

import numpy
import pytest

from sealane._arena import Extents, PutArena, Segment, round_up

MIB = 1 << 20


def segment(number: int = 1, size: int = MIB) -> Segment:
    descriptor = os.memfd_create("test")
    os.ftruncate(descriptor, size)
    return Segment(number, descriptor, size)


@pytest.fixture
def arena() -> Iterator[PutArena]:
    arena = PutArena()
    arena.add(segment())
    yield arena


def test_slots_are_disjoint_and_join_again() -> None:
    random.seed(7)
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
    slot.flying = 1
    assert arena.take(64) is None
    slot.settle()
    assert arena.take(MIB) is not None


def test_a_lent_slot_waits_for_the_last_view(arena: PutArena) -> None:
    slot = arena.take(4096)
    assert slot is not None
    array = numpy.frombuffer(arena.lend(slot, 4096), dtype=numpy.float32)
    assert arena.lent_at(array.__array_interface__["data"][0], 4096) is slot
    assert arena.lent_at(array.__array_interface__["data"][0] + 4, 64) is None
    slot.flying = 1
    part = array[3:].reshape(-1, 1)
    del array
    arena.collect()
    slot.settle()
    assert arena.idle() == []
    del part
    arena.collect()
    assert arena.idle() == [1]


def test_an_arena_grows_only_for_tensors_that_it_could_not_hold(arena: PutArena) -> None:
    usual, most = 16 * MIB, 384 * MIB
    assert arena.wish(1000, usual, most) == usual
    for number in range(2, 6):
        arena.add(segment(number, 16 * MIB))
    assert arena.wish(1000, usual, most) is None
    assert arena.wish(100_000_000, usual, most) == round_up(100_000_000, 65_536)
    assert arena.wish(most - 64 * MIB, usual, most) is None
