"""A model of a lane: what was put, and what may and must arrive of it. Whatever became of a call, nothing arrives that was
not put, nothing twice, and what arrives is what was put, bit for bit."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import numpy
from loopback import SECONDS
from seeds import generator, python_random

import sealane

MIB = 1 << 20
#: From what is copied at once, beyond what the event loop hands to a thread. The largest finds room beside what `Taking`
#: holds, however that lies in the 16 MiB that a pod of 64 MiB always has for taking.
SIZES = (1, 1000, 70_000, 300_000, MIB, 3 * MIB)


class Ledger:
    """Names are numbers, and a number tells the bytes of its tensor."""

    def __init__(self, seed: int) -> None:
        self.random = python_random(seed)
        self.seed = seed
        self._lock = threading.Lock()
        self._last = 0
        #: What a call promised to have put.
        self.promised: set[int] = set()
        #: What a call began to put and did not say whether it did.
        self.open: set[int] = set()
        self.arrived: list[int] = []
        self.faults: list[str] = []

    def tensor(self, number: int) -> Any:
        # No two tensors are alike anywhere, so that a byte that lies where another's belongs is found.
        words = generator(self.seed, number).integers(0, 2**62, 512, dtype=numpy.int64)
        size = SIZES[int(words[0]) % len(SIZES)]
        return numpy.resize(words.view(numpy.uint8), size)

    def next(self) -> tuple[int, Any]:
        """A tensor to put; its number is its name."""
        with self._lock:
            self._last += 1
            self.open.add(self._last)
            return self._last, self.tensor(self._last)

    def promise(self, *numbers: int) -> None:
        """They were put: that is what the call said."""
        with self._lock:
            self.open.difference_update(numbers)
            self.promised.update(numbers)

    def withdraw(self, *numbers: int) -> None:
        """They were not put: that is what the call said."""
        with self._lock:
            self.open.difference_update(numbers)

    def take(self, tensor: sealane.Tensor) -> None:
        number = int(tensor.name)
        with self._lock:
            if number in self.arrived:
                self.faults.append(f"{number} came twice")
            if number not in self.promised | self.open:
                self.faults.append(f"{number} was never put")
            self.arrived.append(number)
        wrong = numpy.flatnonzero(tensor.numpy() != self.tensor(number))
        if len(wrong):
            self.faults.append(f"{number}: {len(wrong)} of {tensor.nbytes} bytes are wrong, from {wrong[0]} on")

    def check(self, whole: bool = True) -> None:
        """At the end; all that was promised has come when the stream was `whole`."""
        assert not self.faults, self.faults[:5]
        missing = self.promised.difference(self.arrived)
        assert not (whole and missing), f"{len(missing)} tensors are lost, the first is {min(missing)}"


class Taking:
    """A thread that takes all that comes, over streams that are cut off as well, and enters it."""

    def __init__(self, door: sealane.Door, session: str, ledger: Ledger) -> None:
        self.door, self.session, self.ledger = door, session, ledger
        self.failed: list[BaseException] = []
        self.receiver = door.receiver(session, timeout=SECONDS)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            held: list[Any] = []
            while True:
                with suppress(sealane.Interrupted):
                    tensor = self.receiver.take(timeout=SECONDS)
                    if tensor is None:
                        return
                    self.ledger.take(tensor)
                    # Views of some small ones, so that not every place comes back at once.
                    held = [*held[-2:], tensor.numpy()] if tensor.nbytes < MIB else held
                    del tensor
        except BaseException as error:
            self.failed.append(error)

    def join(self) -> None:
        self._thread.join()
        assert not self.failed, self.failed
