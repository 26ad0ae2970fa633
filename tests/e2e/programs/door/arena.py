"""Takes what `reflected.py` puts, through the other door, and looks at every byte."""

import hashlib

import sealane

EXPECTED = [
    (0, "float32", (3, 5)),
    (1, "bfloat16", (7,)),
    (2, "int64", ()),
    (3, "uint8", (0, 4)),
    (4, "float32", (1024, 3000)),
    (10, "bool", (9,)),
    (11, "uint16", (2, 300_000)),
]

seen = []
with sealane.connect() as door:
    for tensor in door.receiver("lane", timeout=120):
        array = tensor.numpy()
        assert hashlib.sha256(array.tobytes()).hexdigest() == tensor.name, (tensor.sequence, tensor.name)
        assert tensor.sender == "left/left", tensor.sender
        seen.append((tensor.sequence, array.dtype.name, array.shape))
        del array, tensor
assert seen == EXPECTED, seen
print("took", len(seen), "tensors", flush=True)
