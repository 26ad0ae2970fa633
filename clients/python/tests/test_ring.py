"""Buffers of a lane that are used again and again."""

import asyncio
import threading
from typing import Any

import numpy
import pytest
from lanes import core_of, until
from loopback import SECONDS, Loopback

import sealane
import sealane.aio
from sealane._arena import PutArena

Pair = tuple[sealane.Sender, sealane.Receiver]
MIB = 1 << 20


def forbid_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing gets a place in shared memory, as whatever is copied there needs one."""

    def take(*_: Any) -> None:
        raise AssertionError("a buffer of the ring was copied")

    monkeypatch.setattr(PutArena, "take", take)


def take(receiver: sealane.Receiver, wanted: int) -> None:
    tensor = receiver.take(timeout=SECONDS)
    assert tensor is not None and (tensor.numpy() == wanted).all()


def test_buffers_have_their_turn_and_are_not_copied(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    sender, receiver = pair
    ring = sender.ring((1000, 3), "int32", buffers=2)
    seen = []
    for n in range(7):
        out = ring.next(timeout=SECONDS)
        if n == 1:
            forbid_copies(monkeypatch)
        assert out.shape == (1000, 3) and out.dtype == numpy.int32
        out[...] = n
        sender.put(out, timeout=SECONDS)
        take(receiver, n)
        seen.append(out)
    assert seen[0] is not seen[1]
    assert all(array is seen[n % 2] for n, array in enumerate(seen))


def test_a_buffer_waits_until_what_was_put_from_it_is_taken(pair: Pair) -> None:
    sender, receiver = pair
    ring = sender.ring(5, "int64", buffers=1)
    out = ring.next(timeout=SECONDS)
    out[:] = 1
    sender.put(out, timeout=SECONDS)
    with pytest.raises(sealane.Timeout) as raised:
        ring.next(timeout=0.1)
    assert raised.value.reason == "Stalled"
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(ring.next(timeout=SECONDS)))
    thread.start()
    core = core_of(sender)
    until(sender, lambda: core._reading, "a thread that waits for a buffer")
    take(receiver, 1)
    thread.join()
    assert got[0] is out


def test_what_was_not_put_is_no_hindrance(pair: Pair) -> None:
    ring = pair[0].ring(5, buffers=1)
    assert ring.next(timeout=SECONDS) is ring.next(timeout=SECONDS)


def test_a_part_of_a_buffer_is_sent_from_its_place_as_well(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    sender, receiver = pair
    ring = sender.ring((8, 8), "uint8", buffers=1)
    for rows in (8, 3):
        out = ring.next(timeout=SECONDS)
        forbid_copies(monkeypatch)
        out[:rows] = rows
        sender.put(out[:rows], timeout=SECONDS)
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None and tensor.numpy().shape == (rows, 8) and (tensor.numpy() == rows).all()


def test_a_ring_goes_on_after_a_restart_of_the_sidecar(own: Loopback, session: str) -> None:
    with own.connect() as putting, own.connect() as taking:
        sender = putting.sender(session, timeout=SECONDS)
        ring = sender.ring(100, "int64", buffers=2)
        before = []
        for n in range(2):
            out = ring.next(timeout=SECONDS)
            out[:] = n
            sender.put(out, timeout=SECONDS)
            before.append(out)
        own.kill()
        own.start()
        receiver = taking.receiver(session, timeout=SECONDS)
        for n in range(2, 6):
            take(receiver, n - 2)
            out = ring.next(timeout=SECONDS)
            assert all(out is not array for array in before), "that memory is gone for the sidecar"
            out[:] = n
            sender.put(out, timeout=SECONDS)
        take(receiver, 4)
        take(receiver, 5)


@pytest.mark.parametrize(("buffers", "size"), [(4, 16 * MIB), (8, 12 * MIB), (8, 16 * MIB)])
def test_what_a_ring_holds_leaves_room_for_other_tensors(shared: Loopback, session: str, buffers: int, size: int) -> None:
    """An arena bounds what receivers may lag behind; what the application keeps is none of that."""
    with shared.connect() as putting, shared.connect() as taking:
        sender, receiver = putting.sender(session, timeout=SECONDS), taking.receiver(session, timeout=SECONDS)
        ring = sender.ring(size, "uint8", buffers=buffers)
        kept = [ring.next(timeout=SECONDS) for _ in range(buffers)]
        for other in (numpy.full(1_000, 1), numpy.full(size, 2, dtype=numpy.uint8)):
            sender.put(other, timeout=SECONDS)
            take(receiver, other.flat[0])
        assert len({id(array) for array in kept}) == buffers


def test_a_ring_that_the_pod_has_no_memory_for_is_refused(own: Loopback, session: str) -> None:
    with own.connect() as door:
        door.receiver(session, timeout=SECONDS)
        sender = door.sender(session, timeout=SECONDS)
        ring = sender.ring(16 * MIB, "uint8", buffers=8)
        with pytest.raises(sealane.Refused, match="keep less") as raised:
            for _ in range(8):
                ring.next(timeout=SECONDS)
        assert raised.value.reason == "LimitExceeded"
        sender.abandon()


def test_a_ring_of_nothing(pair: Pair) -> None:
    sender, receiver = pair
    ring = sender.ring((0, 3), buffers=1)
    for _ in range(3):
        sender.put(ring.next(timeout=SECONDS), timeout=SECONDS)
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None and tensor.numpy().shape == (0, 3)


def test_mistakes_are_told_at_once(pair: Pair) -> None:
    sender, receiver = pair
    with pytest.raises(ValueError, match="at least one buffer"):
        sender.ring(5, buffers=0)
    with pytest.raises(TypeError):
        sender.ring(5, buffers=1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="dimensions are integers"):
        sender.ring(5.0)  # type: ignore[arg-type]
    ring = sender.ring(5)
    ring.next(timeout=SECONDS)
    sender.close(timeout=SECONDS)
    with pytest.raises(sealane.Closed):
        ring.next(timeout=SECONDS)
    receiver.close(timeout=SECONDS)


def test_asyncio_has_rings_too(shared: Loopback, session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def put(lane: sealane.aio.Sender) -> None:
        ring = lane.ring(100_000, "uint8", buffers=2)
        for n in range(20):
            out = await ring.next(timeout=SECONDS)
            if n == 1:
                forbid_copies(monkeypatch)
            out[:] = n
            await lane.put(out, timeout=SECONDS)
        await lane.close(timeout=SECONDS)

    async def test() -> None:
        async with sealane.aio.connect(shared.path) as putting, sealane.aio.connect(shared.path) as taking:
            receiver = await taking.receiver(session, timeout=SECONDS)
            sending = asyncio.create_task(put(await putting.sender(session, timeout=SECONDS)))
            wanted = 0
            async for tensor in receiver:
                assert (tensor.numpy() == wanted).all()
                wanted += 1
            await sending
            assert wanted == 20

    asyncio.run(asyncio.wait_for(test(), 2 * SECONDS))
