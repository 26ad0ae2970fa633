"""Doors, lanes and names for the tests of this package."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator

import loopback
import pytest
import sidecars
from loopback import SECONDS, Loopback
from reports import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401

import sealane


@pytest.fixture(scope="session")
def loopback_program() -> None:
    loopback.build()


@pytest.fixture(scope="module")
def shared(loopback_program: None) -> Iterator[Loopback]:
    """One process for the tests of a module, which use sessions of different names. Each pytest worker has its own."""
    with tempfile.TemporaryDirectory() as directory:
        shared = Loopback(directory)
        yield shared
        shared.kill()


@pytest.fixture
def own(loopback_program: None) -> Iterator[Loopback]:
    """A process of the test's own, with 64 MiB of shared memory."""
    with tempfile.TemporaryDirectory() as directory:
        own = Loopback(directory, 64 << 20)
        yield own
        if own.process.poll() is None:
            own.kill()


@pytest.fixture
def directory() -> Iterator[pathlib.Path]:
    """A folder whose name is short, because the path of a socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="sealane-") as directory:
        yield pathlib.Path(directory)


@pytest.fixture
def peers(directory: pathlib.Path) -> Iterator[sidecars.Pair]:
    """Two real sidecars, an embedder's and a ranker's."""
    peers = sidecars.Pair(directory)
    yield peers
    peers.stop()


@pytest.fixture
def session(request: pytest.FixtureRequest) -> str:
    """A session's name that no other test of the module uses."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower())
    return name[:200].strip("-")


@pytest.fixture
def pair(shared: Loopback, session: str) -> Iterator[tuple[sealane.Sender, sealane.Receiver]]:
    """A lane with both ends, through two clients."""
    with shared.connect() as putting, shared.connect() as taking:
        receiver = taking.receiver(session, timeout=SECONDS)
        sender = putting.sender(session, timeout=SECONDS)
        yield sender, receiver
        sender.abandon()
        receiver.close(timeout=SECONDS)
