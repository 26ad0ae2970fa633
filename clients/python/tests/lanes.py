"""Waiting for a state of a lane, and looking at it under the lock of its door."""

from __future__ import annotations

import itertools
import select
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Callable, TypeVar, Union

import pytest
from loopback import SECONDS, Loopback

import sealane
import sealane.aio
from sealane._core import Core
from sealane._link import Link

T = TypeVar("T")
ROUND_TRIPS = itertools.count()
#: What has a door: the door itself or a lane, of threads or of asyncio.
Client = Union[
    sealane.Door, sealane.Sender, sealane.Receiver, sealane.aio.Door, sealane.aio.Sender, sealane.aio.Receiver
]


def core_of(client: Client) -> Core:
    driver = getattr(client, "_driver", None)
    core: Core = client._core if driver is None else driver.core  # type: ignore[union-attr]
    return core


def under_lock(client: Client, look: Callable[[], T]) -> T:
    """What `look` finds or changes of a door and its lanes. The thread that watches the door changes their fields at
    any time, so tests touch them here, or under `core_of(client).lock`, and nowhere else."""
    with core_of(client).lock:
        return look()


def polls(what: str) -> Iterator[None]:
    """Turns of a loop that waits for a state which nobody announces; fails after `SECONDS`."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        yield
        time.sleep(0.001)
    raise AssertionError(f"waited for {SECONDS:.0f} s: {what}")


def until(client: Client, state: Callable[[], Any], what: str) -> None:
    """Waits for a state of the door or of a lane."""
    for _ in polls(what):
        if under_lock(client, state):
            return


def link_of(client: Client) -> Link:
    """The present connection of the door."""
    link = under_lock(client, lambda: core_of(client).link)
    assert link is not None
    return link


def until_untaken(sender: sealane.Sender, count: int) -> None:
    """Waits until so many are left of what was put and is not known to be taken."""
    for _ in polls(f"{count} untaken tensors"):
        if sender.untaken <= count:
            break
        # Who flushes reads what the sidecar says.
        with suppress(sealane.Timeout):
            sender.flush(timeout=0.05)
    assert sender.untaken == count


def until_arrived(receiver: sealane.Receiver, count: int) -> None:
    """Waits until so many tensors lie in the client, whole, and the application has not taken them."""

    def arrived() -> bool:
        core_of(receiver).look()
        return len(receiver._lane.ready_items) >= count

    for _ in polls(f"{count} tensors in the client"):
        if under_lock(receiver, arrived):
            return


def until_readable(core: Core) -> None:
    """Waits until something lies unread in the socket."""
    assert core.link is not None
    readable = select.poll()
    readable.register(core.link, select.POLLIN)
    assert readable.poll(SECONDS * 1000)


def uncertain_of(sender: sealane.Sender, count: int) -> list[int]:
    """The sequences that flushing reports as uncertain, in as many exceptions as it takes."""
    sequences: list[int] = []
    while len(sequences) < count:
        with pytest.raises(sealane.Uncertain) as raised:
            sender.flush(timeout=SECONDS)
        sequences += range(raised.value.first, raised.value.last + 1)
    return sorted(sequences)


def round_trip(loopback: Loopback) -> None:
    """One more client puts and takes. Its tensor is empty, so it needs no memory of the pod."""
    session = f"round-trip-{next(ROUND_TRIPS)}"
    with loopback.connect() as door:
        receiver, sender = door.receiver(session, timeout=SECONDS), door.sender(session, timeout=SECONDS)
        sender.put(b"", timeout=SECONDS)
        assert receiver.take(timeout=SECONDS) is not None
        sender.abandon()


def next_unless_held_up(receiver: sealane.Receiver, loopback: Loopback) -> sealane.Tensor | None:
    """The next tensor, or None when the sidecar keeps it back. That it does is shown by what it does meanwhile, however
    slow the machine is: it serves another client, several times."""
    for _ in range(5):
        with suppress(sealane.Timeout):
            return receiver.take(timeout=0.2)
        round_trip(loopback)
    return None
