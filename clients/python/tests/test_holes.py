"""A client gives pages of its segments back while its tensors are sealed out of them and opened into them.

The seals of a segment do not forbid it. Whoever touches such a page next gets zeros, and is charged for it.
"""

import mmap
import os
import pathlib
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import numpy
import pytest
from lanes import core_of, polls, under_lock
from loopback import SECONDS
from sidecars import Sidecar, World, receiving, sending

import sealane

MIB = 1 << 20
#: Of each pod; a limit of memory leaves so much for the rest of the sidecar.
ARENA_BYTES = 64 * MIB
REST_BYTES = 96 * MIB
TENSORS = 60


@pytest.mark.parametrize("limited", [False, True])
def test_holes_in_shared_memory_hurt_their_maker_alone(directory: pathlib.Path, limited: bool) -> None:
    """In a pod as well, whose kernel kills a sidecar that takes more memory than it may."""
    sessions = ["activations", "others"]
    world = World(directory, [(name, "embedder", "ranker") for name in sessions])
    with ExitStack() as stack:
        ranker = Sidecar(world, "ranker", "ranker-0", [receiving(name, "embedder") for name in sessions], ARENA_BYTES)
        stack.callback(ranker.kill)
        towards = [sending(name, "ranker", ranker.listen) for name in sessions]
        embedder = Sidecar(world, "embedder", "embedder-0", towards, ARENA_BYTES)
        stack.callback(embedder.kill)
        if limited:
            stack.enter_context(caged(embedder))
            stack.enter_context(caged(ranker))
        holes(embedder, ranker)


def holes(embedder: Sidecar, ranker: Sidecar) -> None:
    with embedder.connect() as putting, ranker.connect() as taking:
        receiver = taking.receiver("activations", timeout=SECONDS)
        sender = putting.sender("activations", timeout=SECONDS)
        done = threading.Event()
        punching = [threading.Thread(target=punch, args=(lane, done)) for lane in (sender, receiver)]
        for thread in punching:
            thread.start()
        try:
            ring = sender.ring(3 * MIB, "uint8", buffers=3)
            for n in range(1, TENSORS):
                out = ring.next(timeout=SECONDS)
                out[:] = n
                sender.put(out, timeout=SECONDS)
                tensor = receiver.take(timeout=SECONDS)
                assert tensor is not None and tensor.sequence == n - 1
                assert set(numpy.unique(tensor.numpy())) <= {0, n}, "its own bytes, or none"
                del tensor
        finally:
            done.set()
            for thread in punching:
                thread.join()
    # Both sidecars live, and another client's tensors come as they were.
    with embedder.connect() as putting, ranker.connect() as taking:
        other, expected = taking.receiver("others", timeout=SECONDS), numpy.arange(2 * MIB, dtype=numpy.uint8)
        lane = putting.sender("others", timeout=SECONDS)
        lane.put(expected, timeout=SECONDS)
        tensor = other.take(timeout=SECONDS)
        assert tensor is not None and numpy.array_equal(tensor.numpy(), expected)
        del tensor
        lane.close(timeout=SECONDS)
    assert embedder.process.poll() is None and ranker.process.poll() is None


def punch(lane: "sealane.Sender | sealane.Receiver", done: threading.Event) -> None:
    """Gives all pages of the lane's segments back, again and again."""
    while not done.is_set():
        for memory in under_lock(lane, lambda: mapped(lane)):
            memory.madvise(mmap.MADV_REMOVE)


def mapped(lane: "sealane.Sender | sealane.Receiver") -> list[mmap.mmap]:
    if isinstance(lane, sealane.Sender):
        return [segment.memory for segment, _ in lane._lane.arena.parts.values()]
    link = core_of(lane).link
    assert link is not None
    return [segment.memory for _, segment in link.takes.values()]


@contextmanager
def caged(sidecar: Sidecar) -> Iterator[None]:
    """Limits the memory of a sidecar, with what it shares; ends it afterwards."""
    unified = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
    limits = ["memory.max", "memory.swap.max"] if unified else ["memory.limit_in_bytes"]
    parent = pathlib.Path("/sys/fs/cgroup" if unified else "/sys/fs/cgroup/memory")
    group = parent / f"sealane-test-{os.getpid()}-{sidecar.process.pid}"
    try:
        group.mkdir()
        (group / limits[0]).write_text(str(ARENA_BYTES + REST_BYTES))
        for swap in limits[1:]:
            with suppress(FileNotFoundError):
                (group / swap).write_text("0")
        (group / "cgroup.procs").write_text(str(sidecar.process.pid))
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield
    finally:
        sidecar.kill()
        for _ in polls("an empty control group"):
            with suppress(OSError):
                group.rmdir()
                break
