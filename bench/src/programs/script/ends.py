"""The ends of a lane or of a plain TCP connection, as an application is written.

A line of JSON on standard input is a task; a line on standard output says how it went. Both ends make the same
payloads, and the taking one compares: every byte if asked, else the beginning, the end and a place that moves.
"""

import json
import random
import socket
import struct
import sys
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


def lane_put(path, session):
    import sealane

    door = sealane.connect(path, timeout=SECONDS)
    lane = door.sender(session, timeout=SECONDS)
    yield "ready"
    task = yield
    payloads = Payloads()
    while True:
        messages = payloads.of(task["bytes"])
        if task["rate"]:
            began = paced(lane, messages, task)
        else:
            began = time.monotonic_ns()
            for number in range(task["count"]):
                lane.put(messages[number % PAYLOADS], timeout=SECONDS)
        task = yield told(began)


def paced(lane, messages, task):
    """Puts at a steady rate. Each message begins with the time of its put."""
    began = time.monotonic_ns()
    step = 1_000_000_000 // task["rate"]
    for number in range(task["count"]):
        wait = began + number * step - time.monotonic_ns()
        if wait > 0:
            time.sleep(wait / 1e9)
        stamp = struct.pack("<Q", time.monotonic_ns())
        lane.put(stamp + messages[number % PAYLOADS][8:], timeout=SECONDS)
    return began


def lane_take(path, session):
    import sealane

    door = sealane.connect(path, timeout=SECONDS)
    tensors = iter(door.receiver(session, timeout=SECONDS))
    yield "ready"
    task = yield
    payloads = Payloads()
    while True:
        messages = payloads.of(task["bytes"])
        began, wrong, latencies = time.monotonic_ns(), None, []
        for number in range(task["count"]):
            tensor = next(tensors)
            taken = time.monotonic_ns()
            view = tensor.buffer()
            expected = messages[number % PAYLOADS]
            if task["rate"]:
                latencies.append((taken - struct.unpack_from("<Q", view)[0]) / 1e3)
                view, expected = view[8:], expected[8:]
            wrong = wrong or differs(view, expected, number, task["thorough"])
            del view, tensor
        task = yield told(began, wrong, latencies)


def plain_put(host, port):
    stream = socket.create_connection((host, int(port)), timeout=SECONDS)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    yield "ready"
    task = yield
    payloads = Payloads()
    while True:
        messages = [memoryview(message) for message in payloads.of(task["bytes"])]
        began = time.monotonic_ns()
        for number in range(task["count"]):
            stream.sendall(messages[number % PAYLOADS])
        task = yield told(began)


def plain_take(host):
    listener = socket.create_server((host, 0))
    listener.settimeout(SECONDS)
    yield str(listener.getsockname()[1])
    stream, _ = listener.accept()
    stream.settimeout(SECONDS)
    task = yield
    payloads = Payloads()
    memory = bytearray()
    while True:
        size = task["bytes"]
        messages = payloads.of(size)
        if len(memory) != PAYLOADS * size:
            memory = bytearray(PAYLOADS * size)
        view = memoryview(memory)
        began, wrong = time.monotonic_ns(), None
        for number in range(task["count"]):
            place = number % PAYLOADS
            whole = view[place * size : (place + 1) * size]
            filled = 0
            while filled < size:
                read = stream.recv_into(whole[filled:])
                if not read:
                    raise ConnectionError("the other end is gone")
                filled += read
            wrong = wrong or differs(whole, messages[place], number, task["thorough"])
        task = yield told(began, wrong)


def told(began, wrong=None, latencies=()):
    return json.dumps({"began": began, "ended": time.monotonic_ns(), "wrong": wrong, "latencies": list(latencies)})


def main():
    role, *arguments = sys.argv[1:]
    end = {"lane-put": lane_put, "lane-take": lane_take, "plain-put": plain_put, "plain-take": plain_take}[role](
        *arguments
    )
    print(next(end), flush=True)
    next(end)
    for line in sys.stdin:
        print(end.send(json.loads(line)), flush=True)


main()
