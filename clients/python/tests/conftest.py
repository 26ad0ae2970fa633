"""A door to test against: the real door of the sidecar with sessions that loop back (`examples/door_loopback`)."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "clients/python/src"))

import sealane  # noqa: E402

BINARIES = pathlib.Path(os.environ.get("SEALANE_TEST_BINARIES", REPOSITORY / "target/debug"))
LOOPBACK = BINARIES / "examples/door_loopback"
#: No call of a test takes longer; a test that hangs fails with the call's name.
SECONDS = 20.0


class Loopback:
    """One process behind a socket; it can be killed and started again."""

    def __init__(self, directory: str, arena_bytes: int = 512 << 20) -> None:
        self.path = f"{directory}/door.sock"
        self.arena_bytes = arena_bytes
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        command = [str(LOOPBACK), self.path, str(self.arena_bytes)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def connect(self) -> sealane.Door:
        return sealane.connect(self.path, timeout=SECONDS)

    def resident_bytes(self) -> int:
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
        raise AssertionError("no VmRSS")


@pytest.fixture(scope="session")
def loopback_program() -> None:
    if not LOOPBACK.exists():
        build = ["cargo", "build", "--quiet", "--package", "sealane-sidecar", "--example", "door_loopback"]
        subprocess.run(build, cwd=REPOSITORY, check=True)


@pytest.fixture(scope="module")
def shared(loopback_program: None) -> Iterator[Loopback]:
    """One process for the tests of a module, which use sessions of different names."""
    with tempfile.TemporaryDirectory() as directory:
        loopback = Loopback(directory)
        yield loopback
        loopback.kill()


@pytest.fixture
def own(loopback_program: None) -> Iterator[Loopback]:
    """A process of the test's own, with 64 MiB of shared memory."""
    with tempfile.TemporaryDirectory() as directory:
        loopback = Loopback(directory, 64 << 20)
        yield loopback
        if loopback.process.poll() is None:
            loopback.kill()


@pytest.fixture
def session(request: pytest.FixtureRequest) -> str:
    """A session's name that no other test uses."""
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
