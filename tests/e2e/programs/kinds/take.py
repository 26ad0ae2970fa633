"""Takes all of them, and holds each against what it should be."""

import numpy as np
import sealane
from tensors import tensors

expected = dict(tensors())
seen = []
with sealane.connect() as door:
    for tensor in door.receiver("lane", timeout=120):
        got = tensor.numpy()
        want = expected[tensor.name]
        assert got.dtype == want.dtype and got.shape == want.shape, (tensor.name, got.dtype, got.shape)
        assert got.tobytes() == np.ascontiguousarray(want).tobytes(), tensor.name
        assert tensor.sender.startswith("left/"), tensor.sender
        seen.append((tensor.sequence, tensor.name))
        del got, tensor
assert [name for _, name in seen] == list(expected), seen
assert [sequence for sequence, _ in seen] == sorted(sequence for sequence, _ in seen), seen
print("took", len(seen), "tensors", flush=True)
