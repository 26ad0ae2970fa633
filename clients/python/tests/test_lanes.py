"""What lanes promise: order, flush, ends, errors, sharing."""

import multiprocessing
import os
import threading
import time
from typing import Any

import numpy
import pytest
from lanes import core_of, polls, uncertain_of, until_arrived, until_readable, until_untaken
from loopback import SECONDS, Loopback

import sealane
from sealane import _operations

Pair = tuple[sealane.Sender, sealane.Receiver]
MIB = 1 << 20


def test_sequences_grow_and_order_holds(pair: Pair) -> None:
    sender, receiver = pair
    assert sender.put_many([numpy.full(10, n) for n in range(300)], timeout=SECONDS) == list(range(300))
    assert sender.put(numpy.full(10, 300), timeout=SECONDS) == 300
    for n in range(301):
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None
        assert tensor.sequence == n and (tensor.numpy() == n).all()
        assert tensor.sender.startswith("loopback/")
    sender.flush(timeout=SECONDS)
    assert sender.untaken == 0


def test_many_more_than_the_window_of_small_and_empty_ones(pair: Pair) -> None:
    sender, receiver = pair
    count = 5_000

    def put() -> None:
        for n in range(0, count, 50):
            values = [numpy.arange(k % 3) for k in range(n, n + 50)]
            sender.put_many(values, names=[str(k) for k in range(n, n + 50)], timeout=SECONDS)
        sender.close(timeout=SECONDS)

    thread = threading.Thread(target=put)
    thread.start()
    for n, tensor in enumerate(receiver):
        assert tensor.name == str(n) and tensor.shape == (n % 3,)
    assert n == count - 1
    thread.join()


def test_flush_waits_until_the_application_has_taken(pair: Pair) -> None:
    sender, receiver = pair
    for value in (1, 2):
        sender.put(value, timeout=SECONDS)
    with pytest.raises(sealane.Timeout) as raised:
        sender.flush(timeout=0.1)
    assert raised.value.reason == "Stalled" and "last 2 tensors" in str(raised.value)
    receiver.take(timeout=SECONDS)
    until_untaken(sender, 1)
    with pytest.raises(sealane.Timeout, match="last 1 tensors"):
        sender.flush(timeout=0.1)
    receiver.take(timeout=SECONDS)
    sender.flush(timeout=SECONDS)


def test_close_ends_iteration(pair: Pair) -> None:
    sender, receiver = pair
    sender.put(1, timeout=SECONDS)
    thread = threading.Thread(target=sender.close, kwargs={"timeout": SECONDS})
    thread.start()
    assert [tensor.sequence for tensor in receiver] == [0]
    thread.join()
    assert receiver.take() is None and list(receiver) == []
    sender.close()
    sender.flush()
    for call in (lambda: sender.put(1), lambda: sender.empty(3)):
        with pytest.raises(sealane.Closed):
            call()


def test_a_lost_sender_interrupts_once_and_others_go_on(shared: Loopback, session: str) -> None:
    with shared.connect() as taking, shared.connect() as first, shared.connect() as second:
        receiver = taking.receiver(session, timeout=SECONDS)
        lost, stays = first.sender(session, timeout=SECONDS), second.sender(session, timeout=SECONDS)
        lost.put(1, timeout=SECONDS)
        assert receiver.take(timeout=SECONDS) is not None
        lost.abandon()
        with pytest.raises(sealane.Interrupted) as raised:
            receiver.take(timeout=SECONDS)
        assert raised.value.sender.startswith("loopback/") and raised.value.reason == "LinkLost"
        stays.put(2, timeout=SECONDS)
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None and tensor.numpy() == 2
        stays.close(timeout=SECONDS)
        assert receiver.take(timeout=SECONDS) is None


def test_an_exception_in_the_block_is_an_interruption(shared: Loopback, session: str) -> None:
    with shared.connect() as taking:
        receiver = taking.receiver(session, timeout=SECONDS)
        with pytest.raises(ZeroDivisionError), shared.connect() as putting:
            putting.sender(session, timeout=SECONDS).put(1 / 0)
        with pytest.raises(sealane.Interrupted):
            receiver.take(timeout=SECONDS)


def test_a_lost_receiver_makes_what_it_held_uncertain(shared: Loopback, session: str) -> None:
    with shared.connect() as putting:
        taking = shared.connect()
        receiver = taking.receiver(session, timeout=SECONDS)
        sender = putting.sender(session, timeout=SECONDS)
        for value in (1, 2, 3):
            sender.put(value, timeout=SECONDS)
        assert receiver.take(timeout=SECONDS) is not None
        until_untaken(sender, 2)
        until_arrived(receiver, 2)
        receiver.close(timeout=SECONDS)
        assert uncertain_of(sender, 2) == [1, 2]
        again = taking.receiver(session, timeout=SECONDS)
        assert sender.put(4, timeout=SECONDS) == 3
        tensor = again.take(timeout=SECONDS)
        assert tensor is not None and tensor.sequence == 3
        sender.flush(timeout=SECONDS)
        taking.close()


def test_not_ready_says_why(shared: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    # The reason is the sidecar's, however late it comes.
    monkeypatch.setattr(_operations, "GRACE_SECONDS", SECONDS)
    with shared.connect() as door:
        for opening in (door.sender, door.receiver):
            began = time.monotonic()
            with pytest.raises(sealane.NotReady, match="no replica") as raised:
                opening("never-ready", timeout=0.3)
            assert raised.value.reason == "NoReplicas"
            # The sidecar goes by whole milliseconds.
            assert time.monotonic() - began > 0.29, "it gave up too early"


def test_refused_says_why(shared: Loopback) -> None:
    with shared.connect() as door:
        with pytest.raises(sealane.Refused, match="policy") as raised:
            door.sender("refused", timeout=SECONDS)
        assert raised.value.reason == "PeerNotInPolicy"


def test_no_sidecar_is_not_ready(tmp_path: Any) -> None:
    with pytest.raises(sealane.NotReady, match="injected") as raised:
        sealane.connect(tmp_path / "door.sock", timeout=0.2)
    assert raised.value.reason == "DoorUnreachable"


def test_bad_session_names(shared: Loopback) -> None:
    with shared.connect() as door, pytest.raises(ValueError):
        door.sender("x" * 300)
    with shared.connect() as door, pytest.raises(ValueError, match="cannot name a session"):
        door.sender("No_Name", timeout=SECONDS)


def test_threads_share_a_lane(pair: Pair) -> None:
    sender, receiver = pair

    def put(base: int) -> None:
        for n in range(200):
            sender.put(numpy.full(50, base + n), timeout=SECONDS)

    threads = [threading.Thread(target=put, args=(1000 * k,)) for k in range(4)]
    values: list[int] = []
    lock = threading.Lock()

    def take() -> None:
        for _ in range(400):
            tensor = receiver.take(timeout=SECONDS)
            assert tensor is not None
            with lock:
                values.append(int(tensor.numpy()[0]))

    threads += [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(values) == [1000 * k + n for k in range(4) for n in range(200)]


def test_news_are_left_to_the_thread_that_sleeps_for_them(pair: Pair) -> None:
    """Who sleeps at the socket is woken by what it finds there, and not by what another thread took out of it."""
    sender, receiver = pair
    core = core_of(receiver)
    taken: list[int] = []

    def take() -> None:
        tensor = receiver.take(timeout=SECONDS)
        taken.append(-1 if tensor is None else int(tensor.numpy()))

    taking = threading.Thread(target=take)
    taking.start()
    for _ in polls("a thread that sleeps at the socket"):
        # Who sleeps cannot come back before this lock is free.
        with core.lock:
            if core._reading:
                sender.put(7, timeout=SECONDS)
                until_readable(core)
                core.look()
                assert not receiver._lane.ready_items, "it was taken from under the thread that sleeps for it"
                break
    taking.join()
    assert taken == [7]


def test_two_receivers_share_the_tensors(shared: Loopback, session: str) -> None:
    with shared.connect() as one, shared.connect() as two, shared.connect() as putting:
        receivers = [one.receiver(session, timeout=SECONDS), two.receiver(session, timeout=SECONDS)]
        sender = putting.sender(session, timeout=SECONDS)
        taken: list[list[int]] = [[], []]
        threads = [
            threading.Thread(target=lambda k=k: taken[k].extend(tensor.sequence for tensor in receivers[k]))
            for k in range(2)
        ]
        for thread in threads:
            thread.start()
        for n in range(100):
            sender.put(n, timeout=SECONDS)
        sender.close(timeout=SECONDS)
        for thread in threads:
            thread.join()
        assert sorted(taken[0] + taken[1]) == list(range(100))
        assert taken[0] == sorted(taken[0]) and taken[1] == sorted(taken[1])
        assert taken[0] and taken[1]


def _child(door: sealane.Door, sender: sealane.Sender, outcome: Any) -> None:
    try:
        sender.put(1, timeout=SECONDS)
    except sealane.Closed as error:
        outcome.put(error.reason)


def test_a_forked_process_cannot_use_the_door(pair: Pair, shared: Loopback, session: str) -> None:
    sender, receiver = pair
    sender.put(1, timeout=SECONDS)
    held = receiver.take(timeout=SECONDS)
    fork = multiprocessing.get_context("fork")
    outcome = fork.Queue()
    process = fork.Process(target=_child, args=(None, sender, outcome))
    process.start()
    assert outcome.get(timeout=SECONDS) == "UsedAfterFork"
    process.join()
    sender.put(2, timeout=SECONDS)
    assert held is not None and held.numpy() == 1
    assert receiver.take(timeout=SECONDS) is not None
    sender.flush(timeout=SECONDS)


class Curious:
    """What is put, and does not want to be looked at."""

    def __array__(self, *_: object, **__: object) -> numpy.ndarray:
        raise RuntimeError("looked at")


def test_a_forked_process_is_refused_before_its_tensor_is_looked_at(pair: Pair) -> None:
    """To look may import a module, and the thread of the parent that holds the lock of that is not in the child."""
    sender, _ = pair
    child = os.fork()
    if child == 0:
        outcome = 1
        try:
            for put in (lambda: sender.put(Curious()), lambda: sender.put_many([Curious(), Curious()])):
                with pytest.raises(sealane.Closed, match="fork"):
                    put()
            outcome = 0
        finally:
            os._exit(outcome)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(RuntimeError, match="looked at"):
        sender.put(Curious(), timeout=SECONDS)


def test_a_client_that_dies_is_an_interruption(shared: Loopback, session: str) -> None:
    with shared.connect() as taking:
        receiver = taking.receiver(session, timeout=SECONDS)
        child = os.fork()
        if child == 0:
            try:
                door = shared.connect()
                sender = door.sender(session, timeout=SECONDS)
                sender.put(5, timeout=SECONDS)
                sender.flush(timeout=SECONDS)
            finally:
                os._exit(0)
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None and tensor.numpy() == 5
        with pytest.raises(sealane.Interrupted):
            receiver.take(timeout=SECONDS)
        os.waitpid(child, 0)
