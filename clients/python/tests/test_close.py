"""`close` and `with` say when not everything was taken; `untaken` counts it."""

from __future__ import annotations

import asyncio
from typing import Any, Callable

import numpy
import pytest
from lanes import core_of, link_of, until_arrived
from loopback import SECONDS, Loopback
from sidecars import Pair

import sealane
import sealane.aio
from sealane import _dispatch, _wire
from sealane._link import Packet


def end_lane(sender: Any) -> None:
    """The sidecar says that the lane is over: its TransferSession was deleted, or a policy dropped it."""
    core, link = core_of(sender), link_of(sender)
    with core.lock:
        failed = _wire.Failed(sender._lane.number, 3, "SessionDeleted", "the session was deleted")
        _dispatch.dispatch(core, link, Packet(failed, None))


def leave_by_close(door: sealane.Door, sender: sealane.Sender) -> None:
    sender.close(timeout=SECONDS)


def leave_by_lane(door: sealane.Door, sender: sealane.Sender) -> None:
    with sender:
        pass


def leave_by_door(door: sealane.Door, sender: sealane.Sender) -> None:
    with door:
        pass


WAYS = [leave_by_close, leave_by_lane, leave_by_door]


@pytest.mark.parametrize("leave", WAYS)
@pytest.mark.parametrize("count", [0, 3])
def test_leaving_a_dead_lane_raises_what_flush_raises(
    shared: Loopback, session: str, leave: Callable[[sealane.Door, sealane.Sender], None], count: int
) -> None:
    with shared.connect() as door:
        sender = door.sender(session, timeout=SECONDS)
        for n in range(count):
            sender.put(n, timeout=SECONDS)
        end_lane(sender)
        assert sender.untaken == count
        with pytest.raises(sealane.Closed) as flushed:
            sender.flush(timeout=SECONDS)
        with pytest.raises(sealane.Closed) as left:
            leave(door, sender)
        assert left.value is flushed.value and left.value.reason == "SessionDeleted"
        assert sender.untaken == count
        # It was told: closing again does nothing, and neither does the end of the block.
        sender.close(timeout=SECONDS)


def test_another_lane_that_opens_does_not_hide_a_dead_one(shared: Loopback, session: str) -> None:
    door = shared.connect()
    sender = door.sender(session, timeout=SECONDS)
    sender.put(1, timeout=SECONDS)
    end_lane(sender)
    door.sender(f"{session}-other", timeout=SECONDS)
    with pytest.raises(sealane.Closed, match="deleted"):
        door.close(timeout=SECONDS)


def test_a_dead_lane_does_not_keep_the_door_from_closing_the_others(shared: Loopback, session: str) -> None:
    with shared.connect() as taking:
        receiver = taking.receiver(session, timeout=SECONDS)
        door = shared.connect()
        dead = door.sender(f"{session}-dead", timeout=SECONDS)
        sound = door.sender(session, timeout=SECONDS)
        sound.put(7, timeout=SECONDS)
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None and tensor.numpy() == 7
        end_lane(dead)
        with pytest.raises(sealane.Closed, match="deleted"):
            door.close(timeout=SECONDS)
        # An authenticated end, no interruption.
        assert receiver.take(timeout=SECONDS) is None


@pytest.mark.parametrize("leave", [leave_by_lane, leave_by_door])
def test_the_exception_of_the_block_comes_out(
    shared: Loopback, session: str, leave: Callable[[sealane.Door, sealane.Sender], None]
) -> None:
    door = shared.connect()
    sender = door.sender(session, timeout=SECONDS)
    sender.put(1, timeout=SECONDS)
    end_lane(sender)
    block = sender if leave is leave_by_lane else door
    with pytest.raises(ZeroDivisionError), block:
        sender.untaken / 0
    # Who gave the lane up was not told that it had ended.
    sender.abandon()
    door.close(timeout=SECONDS)


def test_a_lane_that_was_given_up_is_nothing_to_complain_about(shared: Loopback, session: str) -> None:
    with shared.connect() as door:
        sender = door.sender(session, timeout=SECONDS)
        for n in range(5):
            sender.put(n, timeout=SECONDS)
        sender.abandon()
        assert sender.untaken == 5
        with pytest.raises(sealane.Closed, match="5 tensors"):
            sender.flush(timeout=SECONDS)


def test_uncertain_tensors_are_told_by_close(shared: Loopback, session: str) -> None:
    with shared.connect() as putting:
        taking = shared.connect()
        receiver = taking.receiver(session, timeout=SECONDS)
        sender = putting.sender(session, timeout=SECONDS)
        sender.put(1, timeout=SECONDS)
        until_arrived(receiver, 1)
        taking.close(timeout=SECONDS)
        with pytest.raises(sealane.Uncertain) as raised:
            sender.close(timeout=SECONDS)
        assert (raised.value.first, raised.value.last) == (0, 0)
        sender.close(timeout=SECONDS)


def test_views_do_not_keep_the_lanes_of_a_door_that_an_exception_ended(shared: Loopback, session: str) -> None:
    """The connection stays for the views. The receivers hear of the interruption all the same."""
    with shared.connect() as other:
        receiver = other.receiver(session, timeout=SECONDS)
        views: list[Any] = []
        with pytest.raises(ZeroDivisionError), shared.connect() as door:
            back = door.receiver(f"{session}-back", timeout=SECONDS)
            own = door.sender(f"{session}-back", timeout=SECONDS)
            lost = door.sender(session, timeout=SECONDS)
            own.put(numpy.full(100_000, 7), timeout=SECONDS)
            tensor = back.take(timeout=SECONDS)
            assert tensor is not None
            views.append(tensor.numpy())
            del tensor
            lost.untaken / 0
        with pytest.raises(sealane.Interrupted):
            receiver.take(timeout=SECONDS)
        assert (views[0] == 7).all()


def test_asyncio_says_it_as_well(shared: Loopback, session: str) -> None:
    async def dead(door: sealane.aio.Door, number: int) -> sealane.aio.Sender:
        sender = await door.sender(f"{session}-{number}", timeout=SECONDS)
        await sender.put(1)
        end_lane(sender)
        assert sender.untaken == 1
        return sender

    async def test() -> None:
        async with sealane.aio.connect(shared.path) as door:
            sender = await dead(door, 0)
            with pytest.raises(sealane.Closed, match="deleted"):
                await sender.close(timeout=SECONDS)
            await sender.close(timeout=SECONDS)
            with pytest.raises(ZeroDivisionError):
                async with door.sender(f"{session}-1", timeout=SECONDS) as other:
                    other.untaken / 0
        with pytest.raises(sealane.Closed, match="deleted"):
            async with sealane.aio.connect(shared.path) as door:
                await dead(door, 2)

    asyncio.run(asyncio.wait_for(test(), 2 * SECONDS))


def test_a_sidecar_that_dies_for_good_is_told(peers: Pair) -> None:
    """A lane that cannot be restored has not been closed."""
    peers.ranker.connect().receiver("activations", timeout=SECONDS)
    door = peers.embedder.connect()
    sender = door.sender("activations", timeout=SECONDS)
    for n in range(50):
        sender.put(numpy.full(3, n), timeout=SECONDS)
    peers.embedder.kill()
    with pytest.raises(sealane.Timeout):
        sender.close(timeout=0.5)
    assert sender.untaken == 50
    with pytest.raises(sealane.SealaneError):
        door.close(timeout=0.5)
    assert sender.untaken == 50
