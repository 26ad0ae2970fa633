"""What the applications of a fault test share: a ledger that outlives them, and tensors that can be recognised."""

import json
import os
import signal
import time

import numpy as np

PATH = "/ledger/ledger.jsonl"
#: The test asks for the end of the load by making this file.
STOP = "/ledger/stop"
#: Receivers that are to hold still, and senders that are to wait, go on when the test makes this file.
GO = "/ledger/go"


class Ledger:
    """One JSON object per line. A line is written with one call, so it is there whole or not at all, and the file lies
    on a volume of the pod, so it outlives the process and its container."""

    def __init__(self, role):
        self.file = os.open(PATH, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.run = os.urandom(8).hex()
        #: Whether no process of this pod has run before.
        self.first = os.fstat(self.file).st_size == 0
        self.write("run", role=role)

    def write(self, event, **fields):
        line = {"event": event, "run": self.run, "millis": time.monotonic_ns() // 1_000_000, **fields}
        os.write(self.file, json.dumps(line).encode() + b"\n")

    def error(self, during, error):
        reason = getattr(error, "reason", "")
        self.write("error", during=during, kind=type(error).__name__, reason=reason, message=str(error))


def plan():
    """What this program is to do, as the test wrote it."""
    return json.loads(os.environ.get("PLAN", "{}"))


def content(run, index, nbytes):
    """The bytes of a tensor: other ones for every process, index and size."""
    key = (int(run, 16) * 1_000_003 + index * 8191 + nbytes) % 2**64
    return np.frombuffer(np.random.Generator(np.random.Philox(key=key)).bytes(nbytes), np.uint8)


def name(run, index, nbytes):
    return f"{run}/{index}/{nbytes}"


def parse(text):
    run, index, nbytes = text.split("/")
    return run, int(index), int(nbytes)


def rest():
    """The ledger's volume lives as long as the pod runs, so the program stays."""
    while True:
        signal.pause()
