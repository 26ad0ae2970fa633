"""Messages that a library hands to a thread of its own."""

import queue
import time

from common import PAYLOADS, SECONDS, Payloads, differs, told


class Arrivals:
    def __init__(self):
        self.begun = queue.Queue()
        self.done = queue.Queue()
        self.payloads = Payloads()
        self.task = None
        self.number = 0
        self.wrong = None

    def arrive(self, found):
        """One message; the library's thread calls this."""
        if self.task is None:
            self.task, self.number, self.wrong = self.begun.get(timeout=SECONDS), 0, None
        expected = self.payloads.of(self.task["bytes"])[self.number % PAYLOADS]
        self.wrong = self.wrong or differs(found, expected, self.number, self.task["thorough"])
        self.number += 1
        if self.number == self.task["count"]:
            self.done.put(told(time.monotonic_ns(), self.wrong))
            self.task = None

    def tasks(self):
        """Answers each task when its last message has come."""
        task = yield
        while True:
            self.payloads.of(task["bytes"])
            self.begun.put(task)
            task = yield self.done.get(timeout=SECONDS)
