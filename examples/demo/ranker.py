"""Pod B: takes the activations, runs the second half of the model, and checks it against the uncut model."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import sealane

from demo.model import first_half, second_half
from demo.report import say, sentences

SHOWN = 3


class Check:
    """Collects the parts of each batch; a complete batch is finished and compared, byte for byte."""

    def __init__(self) -> None:
        self.parts: dict[str, dict[str, Any]] = {}
        self.vectors: dict[int, Any] = {}
        self.mismatches = 0

    def take(self, name: str, array: Any) -> None:
        part, _, start = name.partition("/")
        batch = self.parts.setdefault(start, {})
        batch[part] = array
        if len(batch) == 3:
            del self.parts[start]
            self.finish(int(start), **batch)

    def finish(self, start: int, x: Any, mask: Any, tokens: Any) -> None:
        uncut = first_half(tokens, mask)
        vectors = second_half(x, mask)
        if x.tobytes() != uncut.tobytes() or vectors.tobytes() != second_half(uncut, mask).tobytes():
            self.mismatches += 1
        self.vectors[start] = vectors

    def neighbours(self) -> list[str]:
        """The closest pairs of different sentences, so that a person sees that it is a language model."""
        texts = sentences()
        vectors = np.concatenate([self.vectors[start] for start in sorted(self.vectors)])
        likeness = np.triu(vectors @ vectors.T, 1)
        best = np.argsort(likeness, axis=None)[::-1][:SHOWN]
        pairs = [np.unravel_index(index, likeness.shape) for index in best]
        return [f"{likeness[a, b]:.2f}  {texts[a][:60]} | {texts[b][:60]}" for a, b in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lane", default="activations", help="name of the TransferSession")
    options = parser.parse_args()

    check = Check()
    tensors = size = streamed = wrong = 0
    began = streaming = seconds = 0.0
    reference = None
    with sealane.connect(timeout=120) as door:
        for tensor in door.receiver(options.lane, timeout=120):
            began = began or time.perf_counter()
            array = tensor.numpy()
            tensors += 1
            size += array.nbytes
            if tensor.name.startswith("stream/"):
                streaming = streaming or time.perf_counter()
                streamed += array.nbytes
                # The last batch again, each of its bytes: as bits, since a NaN would not equal itself.
                wrong += reference is None or not np.array_equal(array.view(np.uint32), reference)
                if tensors % 50 == 0:
                    say("progress", tensors=tensors, bytes=size)
                continue
            if tensor.name.startswith("x/"):
                reference = array.view(np.uint32).copy()
            # The batch is finished after the next tensors arrive, so it needs memory of its own.
            check.take(tensor.name, array.copy())
            say("progress", tensors=tensors, bytes=size)
            seconds = time.perf_counter() - began
    ended = time.perf_counter()
    rate = streamed / (ended - streaming) if streaming else 0.0
    say(
        "done",
        tensors=tensors,
        bytes=size,
        seconds=seconds,
        sentences=sum(len(vectors) for vectors in check.vectors.values()),
        mismatches=check.mismatches + wrong + len(check.parts),
        model_bytes=size - streamed,
        stream={"bytes": streamed, "bytes_per_second": rate},
        neighbours=check.neighbours(),
    )


if __name__ == "__main__":
    main()
