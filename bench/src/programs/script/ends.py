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
#: Of messages up to here, only the ends are compared where time is taken: the rest would cost as much as the take.
SMALL = 4096


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
        elif task["batch"]:
            began = batched(lane, messages, task)
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


def batched(lane, messages, task):
    """Puts several at once."""
    size, left = task["batch"], task["count"]
    # A whole number of rounds of the payloads, so that one batch continues where the last one ended.
    batch = [messages[number % PAYLOADS] for number in range(size // PAYLOADS * PAYLOADS)]
    began = time.monotonic_ns()
    while left > 0:
        lane.put_many(batch[:left], timeout=SECONDS)
        left -= len(batch)
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
        if task["bytes"] <= SMALL and not task["thorough"] and not task["rate"]:
            task = yield told(time.monotonic_ns(), take_small(tensors, messages, task))
            continue
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


def lane_streams(path, session):
    """Every message on a lane of its own, which is opened for it, and closed when it was taken."""
    import sealane

    door = sealane.connect(path, timeout=SECONDS)
    # As long as one sender stays, the receiver's iteration goes on.
    door.sender(session, timeout=SECONDS)
    yield "ready"
    task = yield
    payloads = Payloads()
    while True:
        messages = payloads.of(task["bytes"])
        began = time.monotonic_ns()
        for number in range(task["count"]):
            with door.sender(session, timeout=SECONDS) as lane:
                lane.put(messages[number % PAYLOADS], timeout=SECONDS)
        task = yield told(began)


def take_small(tensors, messages, task):
    """Compares the length and the first and last eight bytes of each message."""
    ends = struct.Struct(f"<Q{task['bytes'] - 16}xQ")
    expected = [ends.unpack(message) for message in messages]
    wrong = None
    for number in range(task["count"]):
        view = next(tensors).buffer()
        if len(view) != ends.size or ends.unpack_from(view) != expected[number % PAYLOADS]:
            wrong = wrong or f"message {number}: its length or its ends are wrong"
        del view
    return wrong


def lane_ask(path, there, back):
    import sealane

    door = sealane.connect(path, timeout=SECONDS)
    lane = door.sender(there, timeout=SECONDS)
    tensors = iter(door.receiver(back, timeout=SECONDS))

    def exchange(message):
        lane.put(message, timeout=SECONDS)
        return next(tensors).buffer()

    yield "ready"
    yield from asking(exchange)


def lane_echo(path, there, back):
    import sealane

    door = sealane.connect(path, timeout=SECONDS)
    tensors = iter(door.receiver(there, timeout=SECONDS))
    lane = door.sender(back, timeout=SECONDS)
    yield "ready"
    task = yield
    while True:
        began = time.monotonic_ns()
        for _ in range(task["count"]):
            lane.put(next(tensors).buffer(), timeout=SECONDS)
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


def plain_ask(host, port):
    stream = socket.create_connection((host, int(port)), timeout=SECONDS)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(message):
        stream.sendall(message)
        memory = memoryview(bytearray(len(message)))
        fill(stream, memory)
        return memory

    yield "ready"
    yield from asking(exchange)


def plain_echo(host):
    listener = socket.create_server((host, 0))
    listener.settimeout(SECONDS)
    yield str(listener.getsockname()[1])
    stream, _ = listener.accept()
    stream.settimeout(SECONDS)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    task = yield
    while True:
        memory = memoryview(bytearray(task["bytes"]))
        began = time.monotonic_ns()
        for _ in range(task["count"]):
            fill(stream, memory)
            stream.sendall(memory)
        task = yield told(began)


def fill(stream, memory):
    filled = 0
    while filled < len(memory):
        read = stream.recv_into(memory[filled:])
        if not read:
            raise ConnectionError("the other end is gone")
        filled += read


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
            fill(stream, whole)
            wrong = wrong or differs(whole, messages[place], number, task["thorough"])
        task = yield told(began, wrong)


def told(began, wrong=None, latencies=()):
    return json.dumps({"began": began, "ended": time.monotonic_ns(), "wrong": wrong, "latencies": list(latencies)})


def main():
    role, *arguments = sys.argv[1:]
    ends = {
        "lane-put": lane_put,
        "lane-take": lane_take,
        "lane-ask": lane_ask,
        "lane-echo": lane_echo,
        "lane-streams": lane_streams,
        "plain-put": plain_put,
        "plain-take": plain_take,
        "plain-ask": plain_ask,
        "plain-echo": plain_echo,
    }
    end = ends[role](*arguments)
    print(next(end), flush=True)
    next(end)
    for line in sys.stdin:
        print(end.send(json.loads(line)), flush=True)


main()
