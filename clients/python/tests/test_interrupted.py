"""Calls that a signal cuts short, at every place in turn: no place in shared memory is used twice, no lock stays held, and
what nobody can know any more ends the lanes."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Callable, Optional

import numpy
import pytest
from lanes import Client, core_of, polls
from loopback import SECONDS, Loopback
from opcodes import Signal, every, interrupted_at

import sealane
from sealane import _core

KIB = 1 << 10


def assert_unlocked(client: Client) -> None:
    """The watching thread has the lock now and then, and gives it back."""
    lock = core_of(client).lock
    assert lock.acquire(timeout=SECONDS), "a lock stayed held"
    lock.release()


class Ends:
    """A lane with both ends, made again when a call that was cut short has ended it."""

    def __init__(self, loopback: Loopback, session: str) -> None:
        self.loopback, self.session = loopback, session
        self.taking = loopback.connect()
        self.receiver = self.taking.receiver(session, timeout=SECONDS)
        self.putting: Optional[sealane.Door] = None
        self.made = 0
        self.make()

    def make(self) -> None:
        self.putting = self.loopback.connect()
        self.sender = self.putting.sender(self.session, timeout=SECONDS)
        self.made += 1

    def take_anew(self) -> None:
        self.taking.close(timeout=SECONDS)
        self.taking = self.loopback.connect()
        self.receiver = self.taking.receiver(self.session, timeout=SECONDS)

    def usable(self, call: Callable[[], Any]) -> Any:
        """What the call gives, or None when the lane has ended and says why."""
        assert_unlocked(self.sender)
        try:
            return call()
        except sealane.Closed as error:
            assert error.reason == "CallInterrupted"
            with pytest.raises(sealane.Closed):
                self.sender.close(timeout=SECONDS)
            self.make()
        return None

    def arrives(self) -> sealane.Tensor:
        while True:
            try:
                tensor = self.receiver.take(timeout=SECONDS)
                assert tensor is not None
                return tensor
            except sealane.Interrupted:
                pass

    def close(self) -> None:
        self.sender.abandon()
        assert self.putting is not None
        self.putting.close(timeout=SECONDS)
        self.taking.close(timeout=SECONDS)


def small(sender: sealane.Sender, value: int) -> None:
    sender.put(numpy.full(10 * KIB, value, "uint8"), str(value), timeout=SECONDS)


def large(sender: sealane.Sender, value: int) -> None:
    sender.put(numpy.full(700 * KIB, value, "uint8"), str(value), timeout=SECONDS)


def many(sender: sealane.Sender, value: int) -> None:
    arrays = [numpy.full(100 * KIB, value, "uint8"), numpy.full(5, value, "uint8"), numpy.full(5, value, "uint8")]
    sender.put_many(arrays, [str(value)] * 3, timeout=SECONDS)


def in_place(sender: sealane.Sender, value: int) -> None:
    array = sender.empty(300 * KIB, "uint8", timeout=SECONDS)
    array[:] = value
    sender.put(array, str(value), timeout=SECONDS)


@pytest.mark.parametrize("put", [small, large, many, in_place])
def test_a_put_that_is_cut_short_spoils_no_other(
    shared: Loopback, session: str, put: Callable[[sealane.Sender, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each time the same byte codes, news or none.
    monkeypatch.setattr(_core, "UNLOOKED_MAX", 1)
    ends = Ends(shared, session)
    for number, _ in enumerate(every(lambda: put(ends.sender, 1))):
        # Places that came back too early would be used now.
        last = ends.usable(lambda: [small(ends.sender, 2), large(ends.sender, 3)])
        if last is None:
            [small(ends.sender, 2), large(ends.sender, 3)]
        while True:
            tensor = ends.arrives()
            assert (tensor.numpy() == int(tensor.name)).all(), f"after place {number}"
            if tensor.name == "3":
                break
        del tensor
    assert number > 50
    assert ends.made < number / 2, f"{ends.made} of {number} ended the lane: most of what is cut short ends nothing"
    ends.sender.flush(timeout=SECONDS)
    ends.close()


def test_a_take_that_is_cut_short_spoils_no_other(shared: Loopback, session: str) -> None:
    """The tensor may be lost, and its sender hears that nobody knows; a view that is held keeps its bytes."""
    ends = Ends(shared, session)
    views: list[tuple[Any, int]] = []
    number = 0
    for number in range(300):
        put_surely(ends.sender, number % 200)
        tensors: list[Any] = []
        interrupted = interrupted_at(number, lambda: tensors.append(ends.receiver.take(timeout=SECONDS)))
        assert_unlocked(ends.receiver)
        if not interrupted:
            break
        tensors += taken_until_settled(ends)
        for tensor in tensors:
            assert tensor.name == str(number % 200) and (tensor.numpy() == int(tensor.name)).all()
        assert len(tensors) <= 1, "it came twice"
        # Of the places of these nothing else may be made.
        views = [*views[-3:], *((tensor.numpy(), int(tensor.name)) for tensor in tensors)]
        assert all((view == value).all() for view, value in views), "a view has other bytes than before"
    assert 20 < number < 299
    ends.close()


def put_surely(sender: sealane.Sender, value: int) -> None:
    """Nothing of a call is put that tells of earlier tensors."""
    while True:
        try:
            sender.put(numpy.full(100 * KIB, value, "uint8"), str(value), timeout=SECONDS)
            return
        except sealane.Uncertain:
            pass


def taken_until_settled(ends: Ends) -> list[sealane.Tensor]:
    """What comes until it is known of each tensor what became of it. Of one that was lost on its last step to the
    application nobody hears before the receiver leaves."""
    tensors = []
    for turn, _ in enumerate(polls("the last word about each tensor")):
        try:
            tensor = ends.receiver.take(timeout=0.01)
            assert tensor is not None
            tensors.append(tensor)
        except sealane.Timeout:
            pass
        except sealane.Closed as error:
            assert error.reason == "CallInterrupted"
            ends.take_anew()
        if turn % 20 == 19:
            ends.take_anew()
        with suppress(sealane.Timeout, sealane.Uncertain):
            ends.sender.flush(timeout=0.01)
            return tensors
    raise AssertionError


def test_a_wait_that_is_cut_short_leaves_the_door_to_others(shared: Loopback, session: str) -> None:
    """The thread that slept at the socket for all is gone: another takes its place."""
    with shared.connect() as door:
        receiver, sender = door.receiver(session, timeout=SECONDS), door.sender(session, timeout=SECONDS)
        for number in range(60):
            interrupted_at(number, lambda: receiver_waits(receiver))
            assert_unlocked(receiver)
            taken: list[Any] = []
            thread = threading.Thread(target=lambda: taken.append(receiver.take(timeout=SECONDS)))
            thread.start()
            sender.put(number, timeout=SECONDS)
            thread.join()
            assert int(taken[0].numpy()) == number
        sender.close(timeout=SECONDS)


def receiver_waits(receiver: sealane.Receiver) -> None:
    with pytest.raises(sealane.Timeout):
        receiver.take(timeout=0.0)


def test_a_copy_that_fails_gives_its_place_back(shared: Loopback, session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while somebody keeps the exception."""
    copyto = numpy.copyto

    def fails(*_: Any) -> None:
        raise Signal

    with shared.connect() as door:
        sender = door.sender(session, timeout=SECONDS)
        kept = []
        for size in (KIB, 700 * KIB):
            sender.put(numpy.zeros(size), timeout=SECONDS)
            with core_of(sender).lock:
                before = len(sender._lane.arena.reservations)
            monkeypatch.setattr(numpy, "copyto", fails)
            with pytest.raises(Signal) as raised:
                sender.put(numpy.zeros(size), timeout=SECONDS)
            kept.append(raised)
            monkeypatch.setattr(numpy, "copyto", copyto)
            with core_of(sender).lock:
                sender._lane.arena.collect()
                assert len(sender._lane.arena.reservations) == before
        sender.abandon()
