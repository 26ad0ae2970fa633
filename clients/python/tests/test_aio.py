"""The asyncio mirror, on the same operations."""

import asyncio
import os
import pathlib
import threading
from collections.abc import Coroutine
from typing import Any, Callable

import numpy
import pytest
from lanes import core_of, polls, under_lock
from loopback import SECONDS, Loopback

import sealane
import sealane.aio
from sealane import _operations
from sealane._core import Expired
from sealane._lanes import ReceivingLane


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 2 * SECONDS))


async def until(state: Callable[[], Any]) -> None:
    """Waits for a state that nobody announces; `run` ends it."""
    while not state():
        await asyncio.sleep(0.001)


def test_put_take_flush_close(shared: Loopback, session: str) -> None:
    async def put(door: sealane.aio.Door) -> None:
        async with door.sender(session) as lane:
            assert await lane.put(numpy.arange(5), "x") == 0
            assert await lane.put_many([1, 2, 3]) == [1, 2, 3]
            big = await lane.empty((1000, 1000))
            big[...] = 7
            assert await lane.put(big) == 4
            assert await lane.put(numpy.zeros((1024, 1024))) == 5
            await lane.flush(timeout=SECONDS)
            assert lane.untaken == 0

    async def test() -> None:
        async with sealane.aio.connect(shared.path) as putting, sealane.aio.connect(shared.path) as taking:
            receiver = await taking.receiver(session)
            sending = asyncio.create_task(put(putting))
            tensors = [(tensor.sequence, tensor.nbytes) async for tensor in receiver]
            await sending
            assert [sequence for sequence, _ in tensors] == list(range(6))
            assert await receiver.take() is None

    run(test())


def test_others_have_their_turn_however_much_is_done_at_once(shared: Loopback, session: str) -> None:
    async def test() -> None:
        async with sealane.aio.connect(shared.path) as putting, sealane.aio.connect(shared.path) as taking:
            receiver = await taking.receiver(session)
            sender = await putting.sender(session)
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            beside = asyncio.create_task(other())
            # Fewer than the window, so that no put has to wait.
            for n in range(200):
                await sender.put(n)
            of_puts = turns

            def all_arrived() -> bool:
                core = core_of(taking)
                with core.lock:
                    core.drain()
                    return len(receiver._lane.ready_items) == 200

            await until(all_arrived)
            before = turns
            for _ in range(200):
                await receiver.take()
            assert of_puts >= 10 and turns - before >= 10, (of_puts, turns - before)
            beside.cancel()
            await sender.close(timeout=SECONDS)

    run(test())


def test_many_tasks_share_a_door(shared: Loopback, session: str) -> None:
    async def test() -> None:
        async with sealane.aio.connect(shared.path) as door:
            receivers = [await door.receiver(f"{session}-{n}") for n in range(5)]
            senders = [await door.sender(f"{session}-{n}") for n in range(5)]

            async def put(n: int) -> None:
                for k in range(100):
                    await senders[n].put(numpy.full(100, k), timeout=SECONDS)
                await senders[n].close(timeout=SECONDS)

            async def take(n: int) -> list[int]:
                return [int(tensor.numpy()[0]) async for tensor in receivers[n]]

            results = await asyncio.gather(*(put(n) for n in range(5)), *(take(n) for n in range(5)))
            assert results[5:] == [list(range(100))] * 5

    run(test())


def test_async_for_over_an_opening(shared: Loopback, session: str) -> None:
    async def test() -> None:
        async with sealane.aio.connect(shared.path) as door:
            sender = await door.sender(session)
            await sender.put(3)
            closing = asyncio.create_task(sender.close(timeout=SECONDS))
            values = [int(tensor.numpy()) async for tensor in door.receiver(session)]
            await closing
            assert values == [3]

    run(test())


def test_errors_and_timeouts(shared: Loopback, session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The reason is the sidecar's, however late it comes.
    monkeypatch.setattr(_operations, "GRACE_SECONDS", SECONDS)

    async def test() -> None:
        async with sealane.aio.connect(shared.path) as door:
            with pytest.raises(sealane.NotReady, match="no replica"):
                await door.sender("never-ready", timeout=0.2)
            with pytest.raises(sealane.Refused):
                await door.receiver("refused", timeout=SECONDS)
            receiver, sender = await door.receiver(session), await door.sender(session)
            with pytest.raises(sealane.Timeout):
                await receiver.take(timeout=0.1)
            await sender.put(1)
            with pytest.raises(sealane.Timeout):
                await sender.flush(timeout=0.1)
            with pytest.raises(TypeError):
                await sender.put(object())
            await sender.abandon()

    run(test())


def test_a_cancelled_put_keeps_its_place_until_its_copy_is_done(
    shared: Loopback, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that copies cannot be cancelled: what is put meanwhile lies elsewhere."""
    copying, go_on, done = threading.Event(), threading.Event(), threading.Event()
    copyto = numpy.copyto

    def slowly(target: Any, array: Any) -> None:
        if array.flat[0] != 1:
            copyto(target, array)
            return
        copying.set()
        assert go_on.wait(SECONDS)
        copyto(target, array)
        done.set()

    monkeypatch.setattr(numpy, "copyto", slowly)
    size = 2 * sealane.aio.INLINE_BYTES_MAX

    async def test() -> None:
        loop = asyncio.get_running_loop()
        async with sealane.aio.connect(shared.path) as door:
            sender = await door.sender(session)
            first = asyncio.create_task(sender.put(numpy.full(size, 1, "u1"), "first"))
            assert await loop.run_in_executor(None, copying.wait, SECONDS)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            assert first.cancelled()
            await sender.put(numpy.full(size, 2, "u1"), "second")
            go_on.set()
            assert await loop.run_in_executor(None, done.wait, SECONDS)
            # Only now does anything read what was put.
            receiver = await door.receiver(session)
            tensor = await receiver.take(timeout=SECONDS)
            assert tensor is not None and tensor.name == "second"
            assert (tensor.numpy() == 2).all(), "the copy of a cancelled put overwrote another tensor"
            await sender.put(numpy.full(size, 3, "u1"))
            tensor = await receiver.take(timeout=SECONDS)
            assert tensor is not None and (tensor.numpy() == 3).all()
            await sender.close(timeout=SECONDS)

            def free() -> bool:
                sender._lane.arena.collect()
                return not sender._lane.arena.reservations

            await until(lambda: under_lock(sender, free))

    run(test())


def test_a_cancelled_call_takes_nothing(shared: Loopback, session: str) -> None:
    async def test() -> None:
        async with sealane.aio.connect(shared.path) as door:
            receiver, sender = await door.receiver(session), await door.sender(session)
            waiting = asyncio.create_task(receiver.take())
            await until(lambda: under_lock(receiver, lambda: core_of(receiver).listeners))
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert waiting.cancelled()
            await sender.put(1)
            tensor = await receiver.take(timeout=SECONDS)
            assert tensor is not None and tensor.sequence == 0
            await sender.abandon()

    run(test())


@pytest.mark.parametrize("kind", ["sender", "receiver"])
def test_an_opening_that_is_cancelled_as_it_opens_leaves_no_lane(shared: Loopback, session: str, kind: str) -> None:
    """Nobody could ever close it."""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        async with sealane.aio.connect(shared.path) as door:
            core = core_of(door)
            others = under_lock(door, lambda: set(core.lanes))
            opened: list[bool] = []

            async def opening() -> None:
                lane = await (door.receiver(session) if kind == "receiver" else door.sender(session))
                await lane._leave(RuntimeError())

            def listener(task: asyncio.Task[None]) -> Callable[[], None]:
                """Cancels with the next news, and notes whether this was the lane."""

                def cancel() -> None:
                    opened.append(any(lane.ready for lane in core.lanes - others))
                    loop.call_soon_threadsafe(task.cancel)

                return cancel

            while opened.count(True) < 3:
                task = asyncio.create_task(opening())
                # Its first turn ends where it waits for the lane.
                await asyncio.sleep(0)
                with core.lock:
                    core.listeners.add(listener(task))
                await asyncio.gather(task, return_exceptions=True)
                assert under_lock(door, lambda: core.lanes == others), "a lane is left"

    run(test())


def test_an_opening_that_expires_as_it_opens_opens(shared: Loopback, session: str) -> None:
    with shared.connect() as door:
        core = core_of(door)
        lane = ReceivingLane(session)
        operation = _operations.open_lane(core, lane, 0.0)
        with core.lock:
            operation.send(None)
        for _ in polls("the lane"):
            with core.lock:
                core.drain()
                if lane.ready:
                    break
        with core.lock, pytest.raises(StopIteration):
            operation.throw(Expired())
        core.discard(lane)
        assert under_lock(door, lambda: not core.lanes)


def test_connecting_that_is_cancelled_ends(directory: pathlib.Path) -> None:
    def held() -> int:
        return len(os.listdir("/proc/self/fd"))

    async def test() -> None:
        before = held()
        connecting = asyncio.ensure_future(connect())
        await asyncio.sleep(0)
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)
        assert connecting.cancelled()
        await until(lambda: held() <= before)

    async def connect() -> None:
        await sealane.aio.connect(directory / "nobody", timeout=None)

    # It would wait for the thread that connects, for ever.
    run(test())


def test_the_loop_is_never_blocked(shared: Loopback, session: str) -> None:
    async def test() -> None:
        async def opening(door: sealane.aio.Door) -> sealane.aio.Sender:
            return await door.sender("never-ready", timeout=SECONDS)

        async with sealane.aio.connect(shared.path) as door:
            receiver = await door.receiver(session)
            for call in (opening(door), receiver.take(timeout=SECONDS)):
                waiting = asyncio.create_task(call)
                # Of a loop that is blocked this task has its turn once the call has ended.
                for _ in range(20):
                    await asyncio.sleep(0.005)
                    assert not waiting.done(), "the loop stood still until the call had ended"
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                assert waiting.cancelled()

    run(test())


def test_a_restart(own: Loopback, session: str) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        async with sealane.aio.connect(own.path) as door:
            receiver, sender = await door.receiver(session), await door.sender(session)
            await sender.put(0)
            assert await receiver.take(timeout=SECONDS) is not None
            await sender.flush(timeout=SECONDS)
            waiting = asyncio.create_task(receiver.take(timeout=SECONDS))
            await loop.run_in_executor(None, own.kill)
            await loop.run_in_executor(None, own.start)
            assert await sender.put(1, timeout=SECONDS) == 1
            tensor = await waiting
            assert tensor is not None and tensor.sequence == 1
            await sender.close(timeout=SECONDS)

    run(test())
