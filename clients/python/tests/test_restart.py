"""The sidecar dies and comes back; the client goes on."""

import threading
from typing import Any

import numpy
import pytest
from lanes import core_of, uncertain_of, until, until_arrived, until_readable, until_untaken
from loopback import SECONDS, Loopback
from seeds import generator

import sealane
from sealane import _core, _operations
from sealane._link import Link


def taken(receiver: sealane.Receiver, count: int) -> list[Any]:
    values = []
    for _ in range(count):
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None
        values.append((tensor.sequence, tensor.name, tensor.numpy().copy()))
    return values


def test_what_was_not_sent_is_put_again(own: Loopback, session: str) -> None:
    with own.connect() as putting, own.connect() as taking:
        sender = putting.sender(session, timeout=SECONDS)
        arrays = [generator(n).random(100_000 * n) for n in range(6)]
        for n, array in enumerate(arrays):
            sender.put(array, f"tensor {n}", timeout=SECONDS)
        own.kill()
        own.start()
        receiver = taking.receiver(session, timeout=SECONDS)
        for n, (sequence, name, array) in enumerate(taken(receiver, 6)):
            assert (sequence, name) == (n, f"tensor {n}")
            numpy.testing.assert_array_equal(array, arrays[n])
        sender.flush(timeout=SECONDS)
        assert sender.put(1, timeout=SECONDS) == 6
        assert taken(receiver, 1)[0][0] == 6
        sender.close(timeout=SECONDS)
        assert receiver.take(timeout=SECONDS) is None


def test_what_was_taken_or_may_have_been_is_never_put_again(own: Loopback, session: str) -> None:
    with own.connect() as putting, own.connect() as taking:
        receiver = taking.receiver(session, timeout=SECONDS)
        sender = putting.sender(session, timeout=SECONDS)
        for n in range(3):
            sender.put(numpy.full(1000, n), timeout=SECONDS)
        assert [sequence for sequence, _, _ in taken(receiver, 1)] == [0]
        until_untaken(sender, 2)
        until_arrived(receiver, 2)
        own.kill()
        # Whole tensors that had arrived are still the application's.
        assert [sequence for sequence, _, _ in taken(receiver, 2)] == [1, 2]
        own.start()
        # The sidecar that they were assigned to is gone: nobody can say whether they were taken.
        assert uncertain_of(sender, 2) == [1, 2]
        assert sender.put(9, timeout=SECONDS) == 3
        assert [(sequence, int(value)) for sequence, _, value in taken(receiver, 1)] == [(3, 9)]
        sender.close(timeout=SECONDS)


def test_what_the_sidecar_said_before_it_died_counts_whoever_notices(
    own: Loopback, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A door that sends and takes learns of the end by what it owes, with the news of where a tensor went unread."""
    monkeypatch.setattr(_core, "TICK_SECONDS", 10 * SECONDS)
    with own.connect() as door:
        receiver = door.receiver(session, timeout=SECONDS)
        sender = door.sender(session, timeout=SECONDS)
        core = core_of(receiver)
        sender.put(0, timeout=SECONDS)
        taken(receiver, 1)
        with core.lock:
            assert core.link is not None and core.link._owes()
        sender.put(1, timeout=SECONDS)
        # The watching thread would notice the end as well, and in another way.
        with core.lock:
            until_readable(core)
            own.kill()
            core.tell()
        own.start()
        assert uncertain_of(sender, 2) == [0, 1]
        assert sender.put(2, timeout=SECONDS) == 2
        first = taken(receiver, 1)[0][0]
        # It arrived before the end, or never.
        assert first == 2 or [first, taken(receiver, 1)[0][0]] == [1, 2]
        sender.close(timeout=SECONDS)


def until_alone(door: sealane.Door) -> None:
    """Waits until the client has noticed that its sidecar is gone and has found no other one."""
    core = core_of(door)
    until(door, lambda: core.link is None and core.problem is not None, "a lost connection")


def test_calls_wait_through_a_restart(own: Loopback, session: str) -> None:
    with own.connect() as putting, own.connect() as taking:
        sender = putting.sender(session, timeout=SECONDS)
        receiver = taking.receiver(session, timeout=SECONDS)
        sender.put(0, timeout=SECONDS)
        taken(receiver, 1)
        sender.flush(timeout=SECONDS)
        results: list[Any] = []
        waiting = threading.Thread(target=lambda: results.extend(taken(receiver, 1)))
        waiting.start()
        own.kill()
        sequences: list[int] = []
        putting_on = threading.Thread(
            target=lambda: sequences.append(sender.put(numpy.arange(10), "after", timeout=SECONDS))
        )
        putting_on.start()
        for door in (putting, taking):
            until_alone(door)
        own.start()
        putting_on.join()
        waiting.join()
        assert sequences == [1]
        assert [(sequence, name) for sequence, name, _ in results] == [(1, "after")]
        sender.flush(timeout=SECONDS)


def test_who_restores_the_connection_survives_its_loss_at_any_moment(
    own: Loopback, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may close the connection between any two looks at its descriptor."""
    looks = []

    def fileno(link: Link) -> int:
        looks.append(link)
        return link.connection.fileno() if len(looks) % 2 else -1

    monkeypatch.setattr(Link, "fileno", fileno)
    with own.connect() as door:
        core, sender = core_of(door), door.sender(session, timeout=SECONDS)
        for number in range(5):
            before = len(looks)
            with core.lock:
                core.wake_watcher()
            until(door, lambda: len(looks) > before, "another look")
            assert sender.put(number, timeout=SECONDS) == number
        assert core._watcher.is_alive()
        sender.abandon()


def test_without_a_sidecar_calls_time_out_and_say_why(
    own: Loopback, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing answers, so the client need not wait for a better answer.
    monkeypatch.setattr(_operations, "GRACE_SECONDS", 0.1)
    door = own.connect()
    sender = door.sender(session, timeout=SECONDS)
    own.kill()
    until_alone(door)
    with pytest.raises(sealane.Timeout, match="no sidecar answers") as raised:
        sender.put(1, timeout=0.3)
    assert raised.value.reason == "DoorUnreachable"
    with pytest.raises(sealane.NotReady, match="no sidecar answers"):
        door.sender("other", timeout=0.3)
    sender.abandon()
    door.close()


def test_restarts_in_a_row_lose_nothing(own: Loopback, session: str) -> None:
    """Nobody receives until the end, so everything has to survive each restart in the client's memory."""
    with own.connect() as putting, own.connect() as taking:
        sender = putting.sender(session, timeout=SECONDS)
        for n in range(4):
            sender.put_many([numpy.full(300_000, 2 * n), numpy.full(3, 2 * n + 1)], timeout=SECONDS)
            own.kill()
            own.start()
        shared = sender.empty(5, "int64", timeout=SECONDS)
        shared[:] = 8
        own.kill()
        own.start()
        sender.put(shared, timeout=SECONDS)
        receiver = taking.receiver(session, timeout=SECONDS)
        for n, (sequence, _, array) in enumerate(taken(receiver, 9)):
            assert sequence == n and (array == n).all()
        sender.close(timeout=SECONDS)
        assert receiver.take(timeout=SECONDS) is None
