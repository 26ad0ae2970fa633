"""The ends of a lane."""

import struct
import time

import sealane
from common import PAYLOADS, SECONDS, Payloads, asking, differs, putting, told

#: Of messages up to here, only the ends are compared where time is taken: the rest would cost as much as the take.
SMALL = 4096
#: Of the ring that is put from: whole rounds of the payloads.
BUFFERS = 2 * PAYLOADS


def put(path, session):
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


def empty(path, session):
    """Puts what lies in the lane's memory already."""
    door = sealane.connect(path, timeout=SECONDS)
    lane = door.sender(session, timeout=SECONDS)
    yield "ready"
    task = yield
    payloads = Payloads()
    ring = None
    while True:
        size = task["bytes"]
        if ring is None or payloads.bytes != size:
            ring = lane.ring(size, "uint8", buffers=BUFFERS)
            for message in payloads.of(size) * (BUFFERS // PAYLOADS):
                ring.next(timeout=SECONDS)[:] = memoryview(message)
        began = time.monotonic_ns()
        for _ in range(task["count"]):
            lane.put(ring.next(timeout=SECONDS), timeout=SECONDS)
        answer = told(began)
        # The next task begins with the first payload again.
        for _ in range(-task["count"] % BUFFERS):
            ring.next(timeout=SECONDS)
        task = yield answer


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


def take(path, session):
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


def streams(path, session):
    """Every message on a lane of its own, which is opened for it, and closed when it was taken."""
    door = sealane.connect(path, timeout=SECONDS)
    # As long as one sender stays, the receiver's iteration goes on.
    door.sender(session, timeout=SECONDS)
    yield "ready"

    def send(message):
        with door.sender(session, timeout=SECONDS) as lane:
            lane.put(message, timeout=SECONDS)

    yield from putting(send)


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


def ask(path, there, back):
    door = sealane.connect(path, timeout=SECONDS)
    lane = door.sender(there, timeout=SECONDS)
    tensors = iter(door.receiver(back, timeout=SECONDS))

    def exchange(message):
        lane.put(message, timeout=SECONDS)
        return next(tensors).buffer()

    yield "ready"
    yield from asking(exchange)


def echo(path, there, back):
    yield from answering(path, there, back, lambda _: lambda tensor: tensor.buffer())


def answering(path, there, back, answer):
    """Puts what `answer`, made anew for each task, makes of each tensor."""
    door = sealane.connect(path, timeout=SECONDS)
    tensors = iter(door.receiver(there, timeout=SECONDS))
    lane = door.sender(back, timeout=SECONDS)
    yield "ready"
    task = yield
    while True:
        answered, began = answer(task), time.monotonic_ns()
        for _ in range(task["count"]):
            lane.put(answered(next(tensors)), timeout=SECONDS)
        task = yield told(began)
