"""Pod A: tokenises real sentences, runs the first half of the model, streams what comes out.

The model computes into shared memory, so that what it made is sent from where it lies. Then the same activations are
streamed again and again without the model between, so that the ranker can say how fast the lane itself is.
"""

from __future__ import annotations

import argparse

import sealane

from demo.model import FEATURES, first_half, tokenize
from demo.report import say, sentences

#: Buffers that the stream uses in turn.
RING = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lane", default="activations", help="name of the TransferSession")
    parser.add_argument("--batch", type=int, default=16, help="sentences in a batch")
    parser.add_argument("--stream-mb", type=int, default=2000, help="megabytes to stream without the model")
    options = parser.parse_args()

    texts = sentences()
    tensors = size = 0
    with sealane.connect(timeout=120) as door:
        lane = door.sender(options.lane, timeout=120)
        for start in range(0, len(texts), options.batch):
            tokens, mask = tokenize(texts[start : start + options.batch])
            activations = first_half(tokens, mask, out=lane.empty((*tokens.shape, FEATURES), timeout=300))
            lane.put_many([activations, mask, tokens], names=[f"{part}/{start}" for part in ("x", "mask", "tokens")])
            tensors += 3
            size += activations.nbytes + mask.nbytes + tokens.nbytes
            say("progress", tensors=tensors, bytes=size)
        lane.flush(timeout=300)
        ring, filled = lane.ring(activations.shape, buffers=RING), {}
        for number in range(options.stream_mb * 1_000_000 // activations.nbytes):
            out = ring.next(timeout=300)
            # A sidecar that restarts brings memory of its own.
            if filled.get(number % RING) is not out:
                out[...] = activations
                filled[number % RING] = out
            lane.put(out, name=f"stream/{number}")
            tensors += 1
            size += activations.nbytes
        lane.close(timeout=300)
    say("done", tensors=tensors, bytes=size)


if __name__ == "__main__":
    main()
