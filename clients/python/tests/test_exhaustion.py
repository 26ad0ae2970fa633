"""Containers that use up, or change under way, what they share with their sidecar hurt nobody but themselves."""

from __future__ import annotations

import os
import resource
import socket
import threading
import time
from typing import Any

import numpy
from loopback import SECONDS
from sidecars import Pair

import sealane

MIB = 1 << 20


def test_memory_that_changes_while_it_is_sealed(peers: Pair) -> None:
    """The sidecar reads each byte once as it seals it: whatever it caught is authentic, and the connection stays."""
    with peers.embedder.connect() as putting, peers.ranker.connect() as taking:
        receiver = taking.receiver("activations", timeout=SECONDS)
        sender = putting.sender("activations", timeout=SECONDS)
        stop = threading.Event()
        arrays: list[Any] = []

        def change() -> None:
            value = 0
            while not stop.is_set():
                value ^= 0xFF
                for array in list(arrays):
                    array[:] = value

        changing = threading.Thread(target=change)
        changing.start()
        try:
            mixed, n = 0, 0
            deadline = time.monotonic() + SECONDS
            while n < 20 or (mixed == 0 and time.monotonic() < deadline):
                array = sender.empty(4 * MIB, "uint8", timeout=SECONDS)
                array[:] = 0
                arrays[:] = [*arrays[-3:], array]
                sender.put(array, timeout=SECONDS)
                tensor = receiver.take(timeout=SECONDS)
                assert tensor is not None and tensor.sequence == n and tensor.sender == "embedder/embedder-0"
                values = numpy.unique(tensor.numpy())
                assert set(values.tolist()) <= {0, 0xFF}
                mixed += len(values) == 2
                del tensor
                # Neither ciphertext nor anything else of the sidecar's lies in memory that a client puts from.
                assert set(numpy.unique(array).tolist()) <= {0, 0xFF}
                n += 1
            assert mixed > 0, "nothing changed under way: the test shows nothing"
        finally:
            stop.set()
            changing.join()
        whole = numpy.arange(MIB, dtype=numpy.uint8)
        sender.put(whole, timeout=SECONDS)
        tensor = receiver.take(timeout=SECONDS)
        assert tensor is not None
        numpy.testing.assert_array_equal(tensor.numpy(), whole)
        arrays.clear()


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_descriptors_run_out(peers: Pair) -> None:
    """A lane that stands goes on, newcomers are turned away or wait, and room that comes back is used."""
    pid = peers.embedder.process.pid
    with peers.embedder.connect() as putting, peers.ranker.connect() as taking:
        receiver = taking.receiver("activations", timeout=SECONDS)
        sender = putting.sender("activations", timeout=SECONDS)

        def cross(value: int) -> None:
            sender.put(numpy.full(1000, value), timeout=SECONDS)
            tensor = receiver.take(timeout=SECONDS)
            assert tensor is not None and (tensor.numpy() == value).all()

        cross(0)
        limit = descriptors(pid) + 6
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
        held: list[socket.socket] = []
        host, port = peers.embedder.listen.split(":")
        for n in range(40):
            door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            door.setblocking(False)
            # The backlog of a listener that cannot accept fills up.
            if door.connect_ex(peers.embedder.path) == 0:
                held.append(door)
            stranger = socket.create_connection((host, int(port)), timeout=SECONDS)
            held.append(stranger)
            cross(n)
        assert descriptors(pid) <= limit
        assert peers.embedder.process.poll() is None
        for one in held:
            one.close()
        with sealane.connect(peers.embedder.path, timeout=SECONDS) as another:
            second = another.sender("activations", timeout=SECONDS)
            second.put(b"room again", timeout=SECONDS)
            tensor = receiver.take(timeout=SECONDS)
            assert tensor is not None and tensor.buffer().tobytes() == b"room again"
            del tensor
        cross(100)
