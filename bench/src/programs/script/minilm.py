"""Inference in two processes: one runs the first half of all-MiniLM-L6-v2 and sends what comes out, the other the rest.

The model is the one of `examples/demo`, here in one thread.
"""

import os
import struct
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import lane  # noqa: E402
import model  # noqa: E402
import numpy  # noqa: E402
import sealane  # noqa: E402
import tcp  # noqa: E402
from common import SECONDS, told  # noqa: E402

#: Each of a request, as often as a task says.
SENTENCES = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "A cheetah is running behind its prey.",
]
#: How far embeddings may be from those of the uncut model.
TOLERANCE = 1e-4
#: Before the embeddings: nanoseconds that were spent on them.
SPENT = struct.Struct("<Q")


def inferring(exchange):
    """Requests, one after the other. `exchange` sends hidden states and gives embeddings with what was spent on them.
    Tells the percentage of each request that was no inference."""
    task = yield
    while True:
        ids, mask = model.tokenize(SENTENCES * task["repeated"])
        expected = model.second_half(model.first_half(ids, mask), mask)
        began, wrong, shares = time.monotonic_ns(), nonsense(expected), []
        for _ in range(task["count"]):
            asked = time.monotonic_ns()
            hidden = model.first_half(ids, mask)
            spent = time.monotonic_ns() - asked
            answer = exchange(hidden, expected.nbytes)
            took = time.monotonic_ns() - asked
            spent += SPENT.unpack_from(answer)[0]
            found = numpy.frombuffer(answer, expected.dtype, offset=SPENT.size).reshape(expected.shape)
            if not numpy.allclose(found, expected, atol=TOLERANCE):
                wrong = wrong or "the embeddings are not those of the uncut model"
            shares.append(100 * (took - spent) / took)
        task = yield told(began, wrong, shares=shares)


def nonsense(embeddings):
    """Two sentences about a man who eats are closer to each other than to one about a cheetah, unless the model is
    broken."""
    food, bread, _, cheetah = embeddings[:4]
    return None if food @ bread > 0.7 > 0.3 > food @ cheetah else "the model makes no sense"


def answer(hidden, mask):
    """What goes back."""
    began = time.monotonic_ns()
    embeddings = model.second_half(hidden, mask)
    return SPENT.pack(time.monotonic_ns() - began) + embeddings.tobytes()


def mask_of(task):
    return model.tokenize(SENTENCES * task["repeated"])[1]


def lane_ask(path, there, back):
    door = sealane.connect(path, timeout=SECONDS)
    sender = door.sender(there, timeout=SECONDS)
    tensors = iter(door.receiver(back, timeout=SECONDS))

    def exchange(hidden, _):
        sender.put(hidden, timeout=SECONDS)
        return next(tensors).buffer()

    yield "ready"
    yield from inferring(exchange)


def lane_answer(path, there, back):
    def embed(task):
        mask = mask_of(task)
        return lambda tensor: answer(tensor.numpy(), mask)

    yield from lane.answering(path, there, back, embed)


def tcp_ask(host, port):
    stream = tcp.connect(host, port)

    def exchange(hidden, answer_bytes):
        stream.sendall(numpy.ascontiguousarray(hidden).data.cast("B"))
        memory = memoryview(bytearray(SPENT.size + answer_bytes))
        tcp.fill(stream, memory)
        return memory

    yield "ready"
    yield from inferring(exchange)


def tcp_answer(host):
    listener = tcp.listen(host)
    yield str(listener.getsockname()[1])
    stream = tcp.accept(listener)
    task = yield
    while True:
        mask, began = mask_of(task), time.monotonic_ns()
        hidden = numpy.empty((*mask.shape, model.FEATURES), numpy.float32)
        for _ in range(task["count"]):
            tcp.fill(stream, hidden.data.cast("B"))
            stream.sendall(answer(hidden, mask))
        task = yield told(began)
