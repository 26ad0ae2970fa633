"""What all ends have in common: the payloads, how they are compared, and what an end says of a task."""

import json
import pathlib
import random
import time

PAYLOADS = 4
PROBE = 64
STEP = 9973
SECONDS = 60.0


class Payloads:
    def __init__(self):
        self.bytes = 0
        self.messages = []

    def of(self, size):
        if self.bytes != size:
            source = random.Random(size)
            self.messages = [source.randbytes(size) for _ in range(PAYLOADS)]
            self.bytes = size
        return self.messages


def differs(found, expected, number, thorough):
    if len(found) != len(expected):
        return f"message {number}: its length is wrong"
    if thorough:
        return None if found == expected else f"message {number}: its bytes are wrong"
    probe = min(PROBE, len(expected))
    last = len(expected) - probe
    for start in (0, last, number * STEP % (last + 1)):
        if found[start : start + probe] != expected[start : start + probe]:
            return f"message {number}: its bytes are wrong"
    return None


def putting(send, prepare=lambda messages: messages):
    """Sends one message after the other, each as `prepare` made it."""
    task = yield
    payloads = Payloads()
    while True:
        messages = prepare(payloads.of(task["bytes"]))
        began = time.monotonic_ns()
        for number in range(task["count"]):
            send(messages[number % PAYLOADS])
        task = yield told(began)


def asking(exchange):
    """Round trips, one after the other."""
    task = yield
    payloads = Payloads()
    while True:
        messages = payloads.of(task["bytes"])
        began, wrong, latencies = time.monotonic_ns(), None, []
        for number in range(task["count"]):
            message = messages[number % PAYLOADS]
            asked = time.monotonic_ns()
            found = exchange(message)
            latencies.append((time.monotonic_ns() - asked) / 1e3)
            wrong = wrong or differs(found, message, number, task["thorough"])
            del found
        task = yield told(began, wrong, latencies)


def material(folder):
    """The certificate and the key that both ends have."""
    return [pathlib.Path(folder, name).read_bytes() for name in ("cert.pem", "key.pem")]


def told(began, wrong=None, latencies=(), shares=()):
    ended, lists = time.monotonic_ns(), {"latencies": list(latencies), "shares": list(shares)}
    return json.dumps({"began": began, "ended": ended, "wrong": wrong, **lists})
