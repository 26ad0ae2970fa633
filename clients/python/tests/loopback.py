"""A door to test against: the real door of the sidecar with sessions that loop back (`examples/door_loopback`)."""

from __future__ import annotations

import os
import pathlib
import selectors
import signal
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "clients/python/src"))

import sealane  # noqa: E402

BINARIES = pathlib.Path(os.environ.get("SEALANE_TEST_BINARIES", REPOSITORY / "target/debug"))
PROGRAM = BINARIES / "examples/door_loopback"
#: Limit of every call and wait that has to succeed, as `LIMIT` of the Rust tests. A busy machine takes long, so no test
#: concludes anything from a shorter time.
SECONDS = 120.0


class Loopback:
    """One process behind a socket; it can be killed and started again."""

    def __init__(self, directory: str, arena_bytes: int = 512 << 20) -> None:
        self.path = f"{directory}/door.sock"
        self.arena_bytes = arena_bytes
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        command = [str(PROGRAM), self.path, str(self.arena_bytes)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as readable:
            readable.register(self.process.stdout, selectors.EVENT_READ)
            assert readable.select(SECONDS), f"{PROGRAM} says nothing"
        # The program writes the line at once.
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


def build() -> None:
    if not PROGRAM.exists():
        command = ["cargo", "build", "--quiet", "--package", "sealane-sidecar", "--example", "door_loopback"]
        subprocess.run(command, cwd=REPOSITORY, check=True)
