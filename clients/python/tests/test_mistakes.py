"""A call that cannot be right is an error of that call: the lane, the door and the other lanes go on."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
from loopback import SECONDS, Loopback

import sealane
import sealane.aio
from sealane import _core

NO_SESSIONS = ["", "Activations", "demo/activations", "a_b", "-a", "a-", "a.", "größe", "x" * 254, "a b", "a\n"]


@pytest.fixture
def lane(shared: Loopback, session: str) -> Iterator[sealane.Sender]:
    """A lane beside which mistakes are made. Afterwards it still carries."""
    with shared.connect() as taking, shared.connect() as door:
        receiver, sender = taking.receiver(session, timeout=SECONDS), door.sender(session, timeout=SECONDS)
        yield sender
        for size in (1, 10, 100_000):
            sender.put(numpy.full(size, size), timeout=SECONDS)
            tensor = receiver.take(timeout=SECONDS)
            assert tensor is not None and (tensor.numpy() == size).all() and tensor.shape == (size,)
            del tensor
        sender.close(timeout=SECONDS)


def door_of(sender: sealane.Sender) -> sealane.Door:
    return sealane.Door(sender._core)


@pytest.mark.parametrize("name", NO_SESSIONS, ids=range(len(NO_SESSIONS)))
def test_what_names_no_session(lane: sealane.Sender, name: str) -> None:
    door = door_of(lane)
    for opening in (door.sender, door.receiver):
        with pytest.raises(ValueError, match="cannot name a session"):
            opening(name, timeout=SECONDS)


@pytest.mark.parametrize("name", NO_SESSIONS, ids=range(len(NO_SESSIONS)))
def test_what_names_no_session_for_asyncio(shared: Loopback, session: str, name: str) -> None:
    async def test() -> None:
        async with sealane.aio.connect(shared.path) as door:
            sender = await door.sender(session, timeout=SECONDS)
            for opening in (door.sender, door.receiver):
                with pytest.raises(ValueError, match="cannot name a session"):
                    await opening(name, timeout=SECONDS)
            assert await sender.put(1, timeout=SECONDS) == 0
            await sender.abandon()

    asyncio.run(asyncio.wait_for(test(), 2 * SECONDS))


def test_longest_and_shortest_names(shared: Loopback) -> None:
    with shared.connect() as door:
        for name in ("a", "0", "x" * 253, "a-b.c-d"):
            door.sender(name, timeout=SECONDS).abandon()


@pytest.mark.parametrize(
    ("shape", "error", "words"),
    [
        ((2.5, 4), TypeError, "dimension 0 is 2.5"),
        ((2, 4.0), TypeError, "dimension 1 is 4.0"),
        (3.0, TypeError, "dimension 0 is 3.0"),
        ((2, "4"), TypeError, "dimension 1 is '4'"),
        ((2, None), TypeError, "dimension 1 is None"),
        ((numpy.float64(2), 4), TypeError, "dimension 0"),
        ((2, -4), ValueError, "negative"),
        ((1,) * 33, ValueError, "32 dimensions"),
    ],
    ids=range(8),
)
def test_what_is_no_shape(lane: sealane.Sender, shape: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        lane.empty(shape, timeout=SECONDS)


def test_integers_of_any_kind_make_a_shape(lane: sealane.Sender) -> None:
    for shape in (numpy.int64(3), (numpy.int32(3),), numpy.array([3]), [numpy.uint8(3)], range(3, 4)):
        assert lane.empty(shape, timeout=SECONDS).shape == (3,)
    assert lane.empty((), timeout=SECONDS).shape == ()
    assert lane.empty((numpy.int64(2), 0), timeout=SECONDS).shape == (2, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda lane: lane.put(object(), timeout=SECONDS),
        lambda lane: lane.put(numpy.zeros(2), name="x" * 256, timeout=SECONDS),
        lambda lane: lane.put(numpy.zeros(2), name=7, timeout=SECONDS),
        lambda lane: lane.put(numpy.zeros((1,) * 33), timeout=SECONDS),
        lambda lane: lane.put(numpy.zeros(300_000), timeout="soon"),
        lambda lane: lane.put_many([1, 2], names=["one"], timeout=SECONDS),
        lambda lane: lane.put_many([1, object()], timeout=SECONDS),
        lambda lane: lane.empty(3, "float31", timeout=SECONDS),
        lambda lane: door_of(lane).sender("other", timeout="soon"),
        lambda lane: door_of(lane).sender(7),
        lambda lane: door_of(lane).receiver(b"other"),
        lambda lane: lane.put(numpy.zeros(2), name=None, timeout=SECONDS),
        lambda lane: lane.put_many([1, 2], names=["one", b"two"], timeout=SECONDS),
    ],
    ids=range(13),
)
def test_what_cannot_be_put_or_opened(lane: sealane.Sender, call: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        call(lane)


def test_a_wait_without_an_end(lane: sealane.Sender) -> None:
    lane.flush(timeout=math.inf)
    with door_of(lane).sender("without-an-end", timeout=math.inf) as other:
        other.put(b"", timeout=math.inf)
        other.abandon()


def test_a_path_that_is_too_long_is_called_that() -> None:
    with pytest.raises(sealane.NotReady, match="too long"):
        sealane.connect("/tmp/" + "x" * 200, timeout=0)


def test_a_tensor_that_is_too_large(lane: sealane.Sender) -> None:
    with pytest.raises(sealane.Refused, match="in parts, or .*sealane.dev/memory-limit") as raised:
        lane.empty((1 << 20, 1 << 20), timeout=SECONDS)
    assert raised.value.reason == "LimitExceeded"


def test_one_lane_too_many(shared: Loopback, session: str) -> None:
    with shared.connect() as door:
        lanes = [door.sender(f"{session}-{n}", timeout=SECONDS) for n in range(_core.LANES_MAX)]
        for opening in (door.sender, door.receiver):
            with pytest.raises(sealane.Refused, match="at most 64 lanes") as raised:
                opening(session, timeout=SECONDS)
            assert raised.value.reason == "LimitExceeded"
        for n, lane in enumerate(lanes):
            assert lane.put(n, timeout=SECONDS) == 0
        lanes.pop().abandon()
        for lane in lanes:
            lane.abandon()


def test_lanes_of_which_views_are_left_count(shared: Loopback, session: str) -> None:
    """The sidecar counts them as well, and would otherwise have to say so."""
    with shared.connect() as putting, shared.connect() as door:
        views = []
        for n in range(3):
            receiver = door.receiver(f"{session}-{n}", timeout=SECONDS)
            sender = putting.sender(f"{session}-{n}", timeout=SECONDS)
            sender.put(n, timeout=SECONDS)
            tensor = receiver.take(timeout=SECONDS)
            assert tensor is not None
            views.append(tensor.numpy())
            del tensor
            receiver.close(timeout=SECONDS)
            sender.abandon()
        lanes = [door.sender(f"{session}-x{n}", timeout=SECONDS) for n in range(_core.LANES_MAX - 3)]
        with pytest.raises(sealane.Refused, match="views"):
            door.sender(session, timeout=SECONDS)
        assert [int(view) for view in views] == [0, 1, 2]
        for lane in lanes:
            lane.abandon()
