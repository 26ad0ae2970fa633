"""Shared memory: back-pressure, bounds, views that hold window, and memory that comes back."""

import gc
import os
import threading
from typing import Any, Callable

import numpy
import pytest
from lanes import core_of, link_of, next_unless_held_up, polls, round_trip, until
from loopback import SECONDS, Loopback

import sealane
from sealane import _arena

MIB = 1 << 20


def put_until_refused(sender: sealane.Sender, value: Callable[[int], Any], most: int) -> int:
    """Puts until the sidecar says that the pod has no memory left; how many tensors it accepted. A time-out for any
    other reason tells of a slow machine alone."""
    accepted = 0
    for _ in polls("a refusal of memory"):
        try:
            sender.put(value(accepted), timeout=0.5)
            accepted += 1
            assert accepted < most, "memory is not bounded"
        except sealane.Timeout as timeout:
            if timeout.reason == "LimitExceeded":
                assert "SEALANE_ARENA_BYTES" in str(timeout)
                return accepted
    raise AssertionError


def test_a_slow_receiver_blocks_put_and_memory_stays_bounded(own: Loopback, session: str) -> None:
    with own.connect() as taking, own.connect() as putting:
        receiver = taking.receiver(session, timeout=SECONDS)
        sender = putting.sender(session, timeout=SECONDS)
        accepted = put_until_refused(sender, lambda n: numpy.full(4 * MIB, n, dtype=numpy.uint8), 20)
        assert accepted >= 4
        assert own.resident_bytes() < 150 * MIB
        for n in range(accepted):
            taken = receiver.take(timeout=SECONDS)
            assert taken is not None and (taken.numpy() == n).all()
        del taken
        sender.put(numpy.zeros(4 * MIB, dtype=numpy.uint8), timeout=SECONDS)
        assert receiver.take(timeout=SECONDS) is not None


def test_views_hold_window(own: Loopback, session: str) -> None:
    with own.connect() as taking, own.connect() as putting:
        receiver = taking.receiver(session, timeout=SECONDS)
        sender = putting.sender(session, timeout=SECONDS)
        held: list[Any] = []
        while True:
            assert len(held) < 16
            sender.put(numpy.full(4 * MIB, len(held), dtype=numpy.uint8), timeout=SECONDS)
            tensor = next_unless_held_up(receiver, own)
            if tensor is None:
                break
            held.append(tensor.numpy()[1:].reshape(-1, 3))
            del tensor
        count = len(held)
        assert count >= 4
        assert all((view == n).all() for n, view in enumerate(held))
        held.pop(0)
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None and (tensor.numpy() == count).all()


def test_a_view_released_by_another_thread_lets_the_waiting_one_go_on(own: Loopback, session: str) -> None:
    with own.connect() as taking, own.connect() as putting:
        receiver = taking.receiver(session, timeout=SECONDS)
        sender = putting.sender(session, timeout=SECONDS)
        tensors = [numpy.full(11 * MIB, n, dtype=numpy.uint8) for n in range(4)]
        thread = threading.Thread(target=lambda: [sender.put(tensor, timeout=SECONDS) for tensor in tensors])
        thread.start()
        held = []
        while (tensor := next_unless_held_up(receiver, own)) is not None:
            held.append(tensor)
            assert len(held) < 4
        count = len(held)
        assert count >= 1
        core = core_of(receiver)

        def release() -> None:
            until(receiver, lambda: core._reading, "a thread that waits for a tensor")
            held.clear()

        releasing = threading.Thread(target=release)
        releasing.start()
        last = receiver.take(timeout=SECONDS)
        assert last is not None and (last.numpy() == count).all()
        releasing.join()
        for _ in range(count + 1, 4):
            last = receiver.take(timeout=SECONDS)
        thread.join()


def test_views_outlive_the_door(own: Loopback, session: str) -> None:
    with own.connect() as putting:
        taking = own.connect()
        receiver = taking.receiver(session, timeout=SECONDS)
        sender = putting.sender(session, timeout=SECONDS)
        sender.put(numpy.arange(MIB), timeout=SECONDS)
        shared = sender.empty(MIB, "int64", timeout=SECONDS)
        shared[:] = 7
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None
        view = tensor.numpy()
        del tensor
        link = link_of(taking)
        taking.close(timeout=SECONDS)
        assert link.alive
        # The sidecar has its turn, and its memory another use.
        overwrite(own, f"{session}-1")
        numpy.testing.assert_array_equal(view, numpy.arange(MIB))
        del view
        gc.collect()
        assert not link.alive
        sender.close(timeout=SECONDS)
    overwrite(own, f"{session}-2")
    assert (shared == 7).all()


def overwrite(own: Loopback, session: str) -> None:
    """Another client sends as much as fits beside what others hold."""
    round_trip(own)
    with own.connect() as door:
        receiver, sender = door.receiver(session, timeout=SECONDS), door.sender(session, timeout=SECONDS)
        for _ in range(4):
            sender.put(numpy.full(4 * MIB, 0xFF, dtype=numpy.uint8), timeout=SECONDS)
            tensor = receiver.take(timeout=SECONDS)
            assert tensor is not None
            del tensor
        sender.close(timeout=SECONDS)


def test_memory_goes_back_to_the_pod(own: Loopback, session: str) -> None:
    for n in range(8):
        with own.connect() as taking, own.connect() as putting:
            receiver = taking.receiver(f"{session}-{n}", timeout=SECONDS)
            sender = putting.sender(f"{session}-{n}", timeout=SECONDS)
            sender.put(numpy.full(20 * MIB, n, dtype=numpy.uint8), timeout=SECONDS)
            tensor = receiver.take(timeout=SECONDS)
            assert tensor is not None and (tensor.numpy() == n).all()
            del tensor
            sender.close(timeout=SECONDS)


def test_idle_memory_of_one_lane_serves_another(
    own: Loopback, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_arena, "IDLE_SECONDS", 0.1)
    with own.connect() as door:
        receiver, sender = door.receiver(session, timeout=SECONDS), door.sender(session, timeout=SECONDS)
        other_receiver = door.receiver(f"{session}-other", timeout=SECONDS)
        other = door.sender(f"{session}-other", timeout=SECONDS)
        large = numpy.ones(25 * MIB, dtype=numpy.uint8)
        for lane, end in ((sender, receiver), (other, other_receiver), (sender, receiver)):
            lane.put(large, timeout=SECONDS)
            tensor = end.take(timeout=SECONDS)
            assert tensor is not None and tensor.nbytes == 25 * MIB
            del tensor


def test_a_tensor_larger_than_the_pod_shares_is_refused(own: Loopback, session: str) -> None:
    with own.connect() as putting:
        sender = putting.sender(session, timeout=SECONDS)
        with pytest.raises(sealane.Refused, match="SEALANE_ARENA_BYTES") as raised:
            sender.put(numpy.zeros(49 * MIB, dtype=numpy.uint8), timeout=SECONDS)
        assert raised.value.reason == "LimitExceeded"
        sender.abandon()


def test_memory_that_others_hold_is_a_timeout_that_says_so(own: Loopback, session: str) -> None:
    with own.connect() as first, own.connect() as second:
        hog = first.sender(f"{session}-hog", timeout=SECONDS)
        hog.put(numpy.zeros(40 * MIB, dtype=numpy.uint8), timeout=SECONDS)
        sender = second.sender(session, timeout=SECONDS)
        assert put_until_refused(sender, lambda _: numpy.zeros(20 * MIB, dtype=numpy.uint8), 1) == 0
        hog.abandon()
        sender.put(numpy.zeros(20 * MIB, dtype=numpy.uint8), timeout=SECONDS)
        sender.abandon()


def test_tensors_of_many_sizes_do_not_get_stuck_on_fragments(shared: Loopback, session: str) -> None:
    sizes = [1, 70_000, 5 * MIB, 20 * MIB, 3, 17 * MIB, 120 * MIB, 100, 9 * MIB, 90 * MIB] * 2
    with shared.connect() as taking, shared.connect() as putting:
        receiver = taking.receiver(session, timeout=SECONDS)
        sender = putting.sender(session, timeout=SECONDS)

        def put() -> None:
            for n, size in enumerate(sizes):
                sender.put(numpy.full(size, n, dtype=numpy.uint8), timeout=SECONDS)
            sender.close(timeout=SECONDS)

        thread = threading.Thread(target=put)
        thread.start()
        for n, size in enumerate(sizes):
            # The tensor before is held until the next one is there, as by everybody who counts with `enumerate(receiver)`.
            tensor = receiver.take(timeout=SECONDS)
            assert tensor is not None and tensor.nbytes == size and (tensor.numpy() == n).all()
        assert receiver.take(timeout=SECONDS) is None
        thread.join()


def test_large_tensors_that_are_put_leave_room_to_take_as_large_ones(own: Loopback, session: str) -> None:
    """Two pods that send each other such tensors would else wait for each other for ever."""
    with own.connect() as taking, own.connect() as putting:
        receiver = taking.receiver(session, timeout=SECONDS)
        sender = putting.sender(session, timeout=SECONDS)
        first = sender.empty(22 * MIB, numpy.uint8, timeout=SECONDS)
        with pytest.raises(sealane.Refused, match="keep less"):
            sender.empty(22 * MIB, numpy.uint8, timeout=SECONDS)
        sender.put(first, timeout=SECONDS)
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None and tensor.nbytes == 22 * MIB
        sender.abandon()


def test_several_lanes_of_a_door_do_not_hold_each_other(shared: Loopback, session: str) -> None:
    with shared.connect() as door:
        stuck = door.sender(f"{session}-stuck", timeout=SECONDS)
        with pytest.raises(sealane.Timeout):
            while True:
                stuck.put(numpy.zeros(8 * MIB, dtype=numpy.uint8), timeout=0.3)
        receiver, sender = door.receiver(session, timeout=SECONDS), door.sender(session, timeout=SECONDS)
        sender.put(1, timeout=SECONDS)
        assert receiver.take(timeout=SECONDS) is not None
        stuck.abandon()
        sender.close(timeout=SECONDS)


def test_a_view_that_outlives_its_door_keeps_its_memory(own: Loopback, session: str) -> None:
    """The sidecar frees pages when a client leaves, so the connection stays as long as the last view, and no longer."""
    putting = own.connect()
    taking = own.connect()
    receiver = taking.receiver(session, timeout=SECONDS)
    sender = putting.sender(session, timeout=SECONDS)
    sender.put(numpy.full(1000, 7), timeout=SECONDS)
    tensor = receiver.take(timeout=SECONDS)
    assert tensor is not None
    view = tensor.numpy()[10:]
    descriptor = link_of(taking).fileno()
    del tensor
    sender.close(timeout=SECONDS)
    taking.close(timeout=SECONDS)
    del receiver, taking
    gc.collect()
    assert socket_is_open(descriptor), "nothing but the view needs the connection"
    assert (view == 7).all()
    child = os.fork()
    if child == 0:
        os._exit(int(socket_is_open(descriptor)))
    assert os.waitpid(child, 0)[1] == 0, "a child must not keep its parent's connection open"
    del view
    gc.collect()
    assert not socket_is_open(descriptor)
    putting.close(timeout=SECONDS)


def socket_is_open(descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    except FileNotFoundError:
        return False
