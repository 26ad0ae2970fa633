"""Small tensors that are put together travel as one, and nobody who takes them can tell."""

import gc
import threading
from typing import Any

import numpy
import pytest
from lanes import core_of, link_of, uncertain_of, under_lock, until_arrived, until_untaken
from loopback import SECONDS, Loopback
from seeds import generator
from test_hostile import Raw, raw  # noqa: F401

import sealane
from sealane import _runs, _wire

Pair = tuple[sealane.Sender, sealane.Receiver]


def taken(receiver: sealane.Receiver, count: int) -> list[sealane.Tensor]:
    tensors = []
    for _ in range(count):
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None
        tensors.append(tensor)
    return tensors


def entries(sender: sealane.Sender) -> list[int]:
    """How many tensors each entry that is under way counts."""
    return under_lock(sender, lambda: [pending.count for pending in sender._lane.untaken.values()])


def gaps(sender: sealane.Sender) -> int:
    """How many gaps the memory of the lane has."""
    return under_lock(sender, lambda: sum(len(part[1].free) for part in sender._lane.arena.parts.values()))


def arrays(dtype: str, shape: tuple[int, ...], count: int) -> list[Any]:
    random = generator(count)
    return [(100 * random.random(shape)).astype(dtype) for _ in range(count)]


ALIKE = {
    "vectors": arrays("float32", (384,), 100),
    "strided": [array.T for array in arrays("int16", (3, 5), 100)],
    "scalars": arrays("float64", (), 300),
    "big endian": arrays(">i4", (7,), 50),
    "one large side": arrays("uint8", (30_000,), 5),
    "numbers": [float(n) for n in range(300)],
    "deep": arrays("int8", (1,) * 30 + (2,), 10),
}


@pytest.mark.parametrize("values", ALIKE.values(), ids=ALIKE.keys())
def test_what_is_alike_travels_together_and_is_taken_one_by_one(pair: Pair, values: list[Any]) -> None:
    sender, receiver = pair
    assert sender.put_many(values, timeout=SECONDS) == list(range(len(values)))
    assert len(entries(sender)) <= -(-len(values) // 2) and sum(entries(sender)) == len(values)
    assert sender.untaken == len(values)
    for n, tensor in enumerate(taken(receiver, len(values))):
        expected = numpy.asarray(values[n])
        assert (tensor.sequence, tensor.shape, tensor.nbytes) == (n, expected.shape, expected.nbytes)
        numpy.testing.assert_array_equal(tensor.numpy(), expected)
    sender.flush(timeout=SECONDS)
    assert sender.untaken == 0


def test_bytes_travel_together_and_read_back(pair: Pair) -> None:
    sender, receiver = pair
    values = [bytes([n]) * 1536 for n in range(256)]
    sender.put_many(values, timeout=SECONDS)
    assert max(entries(sender)) == _runs.RUN_BYTES_MAX // 1536
    for n, tensor in enumerate(taken(receiver, 256)):
        assert tensor.buffer() == values[n] and tensor.dtype == "uint8"
        tensor.release()
        with pytest.raises(sealane.Closed):
            tensor.buffer()


def test_what_differs_travels_by_itself(pair: Pair) -> None:
    sender, receiver = pair
    ones = numpy.ones(4, "float32")
    values = [ones, ones, ones, ones.astype("int32"), ones.reshape(2, 2), b"12", b"34", b"5", b"", b"", ones]
    names = ["a", "a", "b", *[""] * (len(values) - 3)]
    sender.put_many(values, names, timeout=SECONDS)
    assert entries(sender) == [2, 1, 1, 1, 2, 1, 1, 1, 1]
    for n, tensor in enumerate(taken(receiver, len(values))):
        expected = numpy.frombuffer(values[n], "uint8") if isinstance(values[n], bytes) else values[n]
        assert (tensor.sequence, tensor.name) == (n, names[n])
        assert tensor.dtype == str(expected.dtype) and tensor.shape == expected.shape
        numpy.testing.assert_array_equal(tensor.numpy(), expected)


def test_large_ones_and_those_of_full_rank_travel_by_themselves(pair: Pair) -> None:
    sender, receiver = pair
    sender.put_many([numpy.zeros(40_000, "uint8")] * 2 + [numpy.zeros((1,) * 32)] * 2, timeout=SECONDS)
    assert entries(sender) == [1, 1, 1, 1]
    assert [tensor.shape for tensor in taken(receiver, 4)] == [(40_000,)] * 2 + [(1,) * 32] * 2


def test_arrays_of_shared_memory_are_still_not_copied(pair: Pair) -> None:
    sender, receiver = pair
    shared = [sender.empty(16, "uint8", timeout=SECONDS) for _ in range(3)]
    for n, array in enumerate(shared):
        array[:] = n
    before = gaps(sender)
    sender.put_many(shared, timeout=SECONDS)
    assert entries(sender) == [1, 1, 1]
    assert gaps(sender) == before
    assert [int(tensor.numpy()[0]) for tensor in taken(receiver, 3)] == [0, 1, 2]


def test_receivers_share_what_was_put_together(shared: Loopback, session: str) -> None:
    with shared.connect() as one, shared.connect() as two, shared.connect() as putting:
        receivers = [one.receiver(session, timeout=SECONDS), two.receiver(session, timeout=SECONDS)]
        sender = putting.sender(session, timeout=SECONDS)
        found: list[list[int]] = [[], []]
        threads = [
            threading.Thread(target=lambda k=k: found[k].extend(int(tensor.numpy()[0]) for tensor in receivers[k]))
            for k in range(2)
        ]
        for thread in threads:
            thread.start()
        # The first time the client learns it, the second time it knows.
        for start in (0, 100):
            sender.put_many([numpy.full(10, n) for n in range(start, start + 100)], timeout=SECONDS)
            sender.flush(timeout=SECONDS)
        sender.put_many([numpy.full(10, n) for n in range(200, 210)], timeout=SECONDS)
        assert all(count == 1 for count in entries(sender))
        sender.close(timeout=SECONDS)
        for thread in threads:
            thread.join()
        assert sorted(found[0] + found[1]) == list(range(210))
        assert len(found[0]) == len(found[1])


def test_leaving_in_the_middle_keeps_what_was_taken_and_loses_the_run(shared: Loopback, session: str) -> None:
    with shared.connect() as putting, shared.connect() as taking:
        receiver = taking.receiver(session, timeout=SECONDS)
        sender = putting.sender(session, timeout=SECONDS)
        sender.put_many([numpy.full(1000, n) for n in range(3)], timeout=SECONDS)
        tensor = taken(receiver, 1)[0]
        view = tensor.numpy()
        del tensor
        receiver.close(timeout=SECONDS)
        assert uncertain_of(sender, 3) == [0, 1, 2]
        # What the closed lane still holds is not given to another one.
        again = taking.receiver(session, timeout=SECONDS)
        sender.put_many([numpy.full(1000, 9)] * 3, timeout=SECONDS)
        assert [int(tensor.numpy()[0]) for tensor in taken(again, 3)] == [9, 9, 9]
        assert (view == 0).all()
        link = link_of(taking)
        assert len(link.held) == 1
        del view
        gc.collect()
        assert not link.held
        sender.close(timeout=SECONDS)


def test_a_run_that_is_dropped_in_the_middle_breaks_no_rule(shared: Loopback, session: str) -> None:
    with shared.connect() as putting, shared.connect() as taking:
        receiver, other = (taking.receiver(f"{session}-{k}", timeout=SECONDS) for k in range(2))
        sender, beside = (putting.sender(f"{session}-{k}", timeout=SECONDS) for k in range(2))
        sender.put_many([numpy.full(1000, n) for n in range(3)], timeout=SECONDS)
        assert taken(receiver, 1)[0].sequence == 0
        # As when the session ends in the middle of it: nobody closes the lane, and the last view goes.
        core = core_of(taking)
        with core.lock:
            link = core.link
            receiver._lane.end(sealane.Closed("gone"))
            core.forget(receiver._lane)
            receiver._lane.begun = None
        gc.collect()
        under_lock(taking, core.tell)
        assert link is not None and not link.held and not link.begun
        beside.put(7, timeout=SECONDS)
        assert [int(tensor.numpy()) for tensor in taken(other, 1)] == [7]
        beside.flush(timeout=SECONDS)
        assert under_lock(taking, lambda: (core.link, core.fatal)) == (link, None), "the sidecar hung up"
        sender.abandon()
        beside.close(timeout=SECONDS)


def test_one_view_keeps_its_run_and_the_last_gives_it_back(own: Loopback, session: str) -> None:
    with own.connect() as putting, own.connect() as taking:
        receiver = taking.receiver(session, timeout=SECONDS)
        sender = putting.sender(session, timeout=SECONDS)
        sender.put_many([bytes([n]) * 100 for n in range(100)], timeout=SECONDS)
        kept = taken(receiver, 100)[50].buffer()
        link = link_of(taking)
        assert len(link.held) == 1
        sender.flush(timeout=SECONDS)
        assert kept == bytes([50]) * 100
        del kept
        gc.collect()
        assert not link.held
        sender.close(timeout=SECONDS)


def test_a_restart_puts_runs_again_as_they_were(own: Loopback, session: str) -> None:
    with own.connect() as putting, own.connect() as taking:
        sender = putting.sender(session, timeout=SECONDS)
        sender.put_many([numpy.full(1000, n) for n in range(20)], timeout=SECONDS)
        own.kill()
        own.start()
        receiver = taking.receiver(session, timeout=SECONDS)
        for n, tensor in enumerate(taken(receiver, 20)):
            assert tensor.sequence == n and (tensor.numpy() == n).all()
        sender.flush(timeout=SECONDS)
        assert sender.put_many([1, 2], timeout=SECONDS) == [20, 21]
        # Of these the sidecar knows where they went, so they stay whole.
        until_arrived(receiver, 1)
        del tensor
        own.kill()
        assert [int(tensor.numpy()) for tensor in taken(receiver, 2)] == [1, 2]
        own.start()
        assert uncertain_of(sender, 2) == [20, 21]
        sender.close(timeout=SECONDS)


def test_a_run_that_was_shared_out_is_put_again_by_its_parts(own: Loopback, session: str) -> None:
    with own.connect() as putting, own.connect() as one, own.connect() as two:
        receivers = [door.receiver(session, timeout=SECONDS) for door in (one, two)]
        sender = putting.sender(session, timeout=SECONDS)
        sender.put_many([numpy.full(10, n) for n in range(4)], timeout=SECONDS)
        for receiver in receivers:
            until_arrived(receiver, 2)
        assert sorted(tensor.sequence for tensor in taken(receivers[0], 2)) in ([0, 2], [1, 3])
        until_untaken(sender, 2)
        assert entries(sender) == [1, 1]
        own.kill()
        own.start()
        assert len(uncertain_of(sender, 2)) == 2
        for receiver in receivers:
            under_lock(receiver, receiver._lane.ready_items.clear)
        sender.close(timeout=SECONDS)


def run_entry(shape: tuple[int, ...], length: int, sequence: int = 0) -> bytes:
    return _wire.put_entry(sequence, 1, 0, length, 1, shape, run=True)


@pytest.mark.parametrize(
    ("packets", "words"),
    [
        ([run_entry((), 1)], "1 tensors of 1 bytes"),
        ([run_entry((1, 8), 8)], "1 tensors of 8 bytes"),
        ([run_entry((257,), 257)], "257 tensors of 257 bytes"),
        ([_wire.put_entry(0, 0, 0, 0, 1, (2, 0), run=True)], "2 tensors of 0 bytes"),
        ([run_entry((2, 131_073), 262_146)], "2 tensors of 262146 bytes"),
        ([run_entry((3,), 3, 2**64 - 3)], "3 tensors of 3 bytes"),
        ([run_entry((3,), 3), run_entry((3,), 3, 2)], "sequence 2 does not grow"),
        ([run_entry((256,), 256, 256 * n) for n in range(5)], "more tensors are under way than the window"),
    ],
    ids=["scalar", "one", "many", "empty", "large", "numbers", "overlap", "window"],
)
def test_runs_that_are_none(raw: Raw, session: str, packets: list[bytes], words: str) -> None:  # noqa: F811
    raw.sender(session)
    raw.say(_wire.put(1, packets))
    assert words in raw.refused().message
