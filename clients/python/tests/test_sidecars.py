"""From `put` in one process to `take` in another, through two real sidecars: attested, encrypted, over TCP."""

import contextlib
import pathlib
import threading
from typing import Any

import numpy
import pytest
import sidecars
from lanes import uncertain_of, until_arrived, until_untaken
from loopback import SECONDS
from seeds import generator
from sidecars import Pair

import sealane
from sealane import _operations

MIB = 1 << 20


def taken(receiver: sealane.Receiver, count: int) -> list[tuple[int, Any]]:
    values = []
    for _ in range(count):
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None
        values.append((tensor.sequence, tensor.numpy().copy()))
    return values


def test_tensors_cross_and_the_stream_ends(peers: Pair) -> None:
    arrays = [generator(n).random((n % 7, 100, n)) for n in range(40)]
    arrays.append(generator(0).integers(0, 256, 100_000_000, dtype=numpy.uint8))

    def put() -> None:
        with peers.embedder.connect() as door:
            lane = door.sender("activations", timeout=SECONDS)
            for n, array in enumerate(arrays):
                assert lane.put(array, f"tensor {n}", timeout=SECONDS) == n
            lane.flush(timeout=SECONDS)
            assert lane.untaken == 0
            lane.close(timeout=SECONDS)

    thread = threading.Thread(target=put)
    thread.start()
    with peers.ranker.connect() as door:
        for n, tensor in enumerate(door.receiver("activations", timeout=SECONDS)):
            assert (tensor.sequence, tensor.name, tensor.sender) == (n, f"tensor {n}", "embedder/embedder-0")
            numpy.testing.assert_array_equal(tensor.numpy(), arrays[n])
        assert n == len(arrays) - 1
    thread.join()


def test_back_pressure_reaches_put(peers: Pair) -> None:
    with peers.embedder.connect() as putting, peers.ranker.connect() as taking:
        receiver = taking.receiver("activations", timeout=SECONDS)
        sender = putting.sender("activations", timeout=SECONDS)
        tensor = numpy.zeros(16 * MIB, dtype=numpy.uint8)
        accepted = arrived = 0
        while True:
            tensor[:] = accepted
            try:
                sender.put(tensor, timeout=0.5)
            except sealane.Timeout:
                # A slow machine is no back pressure: put has to wait although everything had arrived before.
                if arrived == accepted > 0:
                    break
                until_arrived(receiver, accepted)
                arrived = accepted
            else:
                accepted += 1
                assert accepted < 30
        for n, (sequence, array) in enumerate(taken(receiver, accepted)):
            assert sequence == n and (array == n).all()
        sender.close(timeout=SECONDS)


def test_the_sending_sidecar_restarts(peers: Pair) -> None:
    with peers.embedder.connect() as putting, peers.ranker.connect() as taking:
        receiver = taking.receiver("activations", timeout=SECONDS)
        sender = putting.sender("activations", timeout=SECONDS)
        arrays = [numpy.full(300_000, n) for n in range(60)]
        results: list[Any] = []

        def take() -> None:
            while len(results) < len(arrays):
                try:
                    results.extend(taken(receiver, 1))
                except sealane.Interrupted:
                    pass

        thread = threading.Thread(target=take)
        thread.start()
        for n, array in enumerate(arrays):
            if n in (20, 40):
                peers.embedder.kill()
                peers.embedder.start()
            assert sender.put(array, timeout=SECONDS) == n
        sender.flush(timeout=SECONDS)
        thread.join(SECONDS)
        assert sorted(sequence for sequence, _ in results) == list(range(60)), "nothing is lost, nothing comes twice"
        assert all((array == sequence).all() for sequence, array in results)
        sender.close(timeout=SECONDS)


def test_a_sidecar_that_is_stopped_takes_nothing_with_it(peers: Pair) -> None:
    """It frees the pages of clients that left; these have not, and look at what they took."""
    # That nobody said what became of the other tensors is told when the door closes.
    untold = contextlib.suppress(sealane.Uncertain, sealane.Closed)
    with untold, peers.embedder.connect() as putting, peers.ranker.connect() as taking:
        receiver = taking.receiver("activations", timeout=SECONDS)
        sender = putting.sender("activations", timeout=SECONDS)
        arrays = [generator(n).integers(1, 256, 3 * MIB, dtype=numpy.uint8) for n in range(8)]
        for array in arrays:
            sender.put(array, timeout=SECONDS)
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None
        view, first = tensor.numpy(), tensor.sequence
        for one in (peers.ranker, peers.embedder):
            sidecars.stop(one)
        numpy.testing.assert_array_equal(view, arrays[first])
        for one in (peers.ranker, peers.embedder):
            one.start()


def test_the_receiving_sidecar_restarts(peers: Pair) -> None:
    with peers.embedder.connect() as putting, peers.ranker.connect() as taking:
        receiver = taking.receiver("activations", timeout=SECONDS)
        sender = putting.sender("activations", timeout=SECONDS)
        for value in (0, 1, 2):
            sender.put(value, timeout=SECONDS)
        assert [sequence for sequence, _ in taken(receiver, 1)] == [0]
        until_untaken(sender, 2)
        until_arrived(receiver, 2)
        peers.ranker.kill()
        peers.ranker.start()
        assert uncertain_of(sender, 2) == [1, 2]
        values = [sequence for sequence, _ in taken(receiver, 2)]
        assert values == [1, 2], "they had arrived whole"
        assert sender.put(3, timeout=SECONDS) == 3
        assert [sequence for sequence, _ in taken(receiver, 1)] == [3]
        sender.close(timeout=SECONDS)
        assert receiver.take(timeout=SECONDS) is None


def test_a_lost_client_is_an_interruption_at_the_other_side(peers: Pair) -> None:
    with peers.ranker.connect() as taking:
        receiver = taking.receiver("activations", timeout=SECONDS)
        door = peers.embedder.connect()
        sender = door.sender("activations", timeout=SECONDS)
        sender.put(1, timeout=SECONDS)
        taken(receiver, 1)
        sender.flush(timeout=SECONDS)
        sender.abandon()
        door.close()
        with pytest.raises(sealane.Interrupted) as raised:
            receiver.take(timeout=SECONDS)
        assert raised.value.sender == "embedder/embedder-0"


def test_what_the_policy_does_not_name_is_refused_or_not_ready(peers: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    # The reason is the sidecar's, however late it comes.
    monkeypatch.setattr(_operations, "GRACE_SECONDS", SECONDS)
    with peers.embedder.connect() as door:
        for opening, session in ((door.sender, "nowhere"), (door.receiver, "activations")):
            with pytest.raises((sealane.Refused, sealane.NotReady)) as raised:
                opening(session, timeout=0.3)
            assert raised.value.reason not in ("", "Unspecified", "Unreachable")


def test_without_the_other_side_lanes_are_not_ready(directory: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_operations, "GRACE_SECONDS", SECONDS)
    world = sidecars.World(directory, [("activations", "embedder", "ranker")])
    nobody = sidecars.free_address()
    embedder = sidecars.Sidecar(world, "embedder", "embedder-0", [sidecars.sending("activations", "ranker", nobody)])
    try:
        with embedder.connect() as door, pytest.raises(sealane.NotReady) as raised:
            door.sender("activations", timeout=0.3)
        assert raised.value.reason not in ("", "Unspecified")
    finally:
        sidecars.stop(embedder)


def test_an_impostor_gets_nothing(directory: pathlib.Path) -> None:
    """The ranker's evidence is for another workload: no lane opens on either side."""
    world = sidecars.World(directory, [("activations", "embedder", "ranker")])
    ranker = sidecars.Sidecar(
        world, "ranker", "ranker-0", [sidecars.receiving("activations", "embedder")], proves="other"
    )
    to_ranker = sidecars.sending("activations", "ranker", ranker.listen)
    embedder = sidecars.Sidecar(world, "embedder", "embedder-0", [to_ranker])
    try:
        with embedder.connect() as door, pytest.raises(sealane.SealaneError) as raised:
            door.sender("activations", timeout=SECONDS)
        assert raised.value.reason == "HostDataMismatch", raised.value
    finally:
        sidecars.stop(embedder, ranker)
