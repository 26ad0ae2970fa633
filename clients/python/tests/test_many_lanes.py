"""As many lanes as a client may have, with the memory that a pod has unless somebody changes it."""

from __future__ import annotations

import threading
from typing import Union

import numpy
import pytest
from loopback import SECONDS, Loopback

import sealane
from sealane import _arena, _core

MIB = 1 << 20
LANES = _core.LANES_MAX


def test_each_of_them_puts_and_takes(shared: Loopback, session: str) -> None:
    """Nothing is taken until the last has put, so none has idle memory to give."""
    with shared.connect() as putting, shared.connect() as taking:
        receivers = [taking.receiver(f"{session}-{n}", timeout=SECONDS) for n in range(LANES)]
        senders = [putting.sender(f"{session}-{n}", timeout=SECONDS) for n in range(LANES)]
        for n, sender in enumerate(senders):
            assert sender.put(numpy.full(10, n), timeout=SECONDS) == 0
        for n, receiver in enumerate(receivers):
            tensor = receiver.take(timeout=SECONDS)
            assert tensor is not None and (tensor.numpy() == n).all()
            del tensor
        for sender in senders:
            sender.close(timeout=SECONDS)


def test_all_of_them_begin_at_the_same_time(shared: Loopback, session: str) -> None:
    """More wishes for memory than a client may have unanswered."""
    with shared.connect() as door:
        senders = [door.sender(f"{session}-{n}", timeout=SECONDS) for n in range(LANES)]
        begin = threading.Barrier(LANES)
        sequences: list[Union[int, Exception]] = []

        def put(sender: sealane.Sender) -> None:
            try:
                begin.wait(SECONDS)
                sequences.append(sender.put(numpy.zeros(100), timeout=SECONDS))
            except Exception as error:
                sequences.append(error)

        threads = [threading.Thread(target=put, args=(sender,)) for sender in senders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sequences == [0] * LANES
        for sender in senders:
            sender.abandon()


def test_idle_lanes_give_their_memory_to_another(
    own: Loopback, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 64 MiB putting may have 48, and four lanes have used nearly all of it."""
    # They do not give it unasked.
    monkeypatch.setattr(_arena, "IDLE_SECONDS", 10 * SECONDS)
    with own.connect() as putting, own.connect() as taking:
        receivers = [taking.receiver(f"{session}-{n}", timeout=SECONDS) for n in range(5)]
        senders = [putting.sender(f"{session}-{n}", timeout=SECONDS) for n in range(5)]
        for size, lanes in ((11 * MIB, range(4)), (30 * MIB, range(4, 5)), (11 * MIB, range(4))):
            for n in lanes:
                senders[n].put(numpy.full(size, n, "uint8"), timeout=SECONDS)
                tensor = receivers[n].take(timeout=SECONDS)
                assert tensor is not None and (tensor.numpy() == n).all()
                del tensor
                senders[n].flush(timeout=SECONDS)
        for sender in senders:
            sender.close(timeout=SECONDS)


def test_memory_that_other_lanes_of_the_door_hold(own: Loopback, session: str) -> None:
    """Only the lane that gets none is told, what this user can do is said, and when there is some it goes on."""
    with own.connect() as putting, own.connect() as taking:
        receiver = taking.receiver(f"{session}-full", timeout=SECONDS)
        full, poor = (putting.sender(f"{session}-{name}", timeout=SECONDS) for name in ("full", "poor"))
        full.put(numpy.zeros(30 * MIB, "uint8"), timeout=SECONDS)
        with pytest.raises(sealane.Timeout, match="other lanes of this door.*sealane.dev/memory-limit") as raised:
            poor.put(numpy.zeros(30 * MIB, "uint8"), timeout=0.5)
        assert raised.value.reason == "LimitExceeded"
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None
        del tensor
        full.flush(timeout=SECONDS)
        assert poor.put(numpy.zeros(30 * MIB, "uint8"), timeout=SECONDS) == 0
        poor.abandon()
        full.close(timeout=SECONDS)


def test_idle_lanes_of_another_client_give_theirs(
    own: Loopback, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sidecar asks for it: each of two processes knows only its own."""
    monkeypatch.setattr(_arena, "IDLE_SECONDS", 10 * SECONDS)
    with own.connect() as first, own.connect() as second, own.connect() as taking:
        receivers = [taking.receiver(f"{session}-{n}", timeout=SECONDS) for n in range(2)]
        senders = [door.sender(f"{session}-{n}", timeout=SECONDS) for n, door in enumerate((first, second))]
        for n in (0, 1, 0, 1):
            # What one of them is left with does not fit beside what the other wants.
            for size in (10, 30 * MIB):
                senders[n].put(numpy.full(size, n, "uint8"), timeout=SECONDS)
                tensor = receivers[n].take(timeout=SECONDS)
                assert tensor is not None and (tensor.numpy() == n).all()
                del tensor
                senders[n].flush(timeout=SECONDS)
        for sender in senders:
            sender.close(timeout=SECONDS)
