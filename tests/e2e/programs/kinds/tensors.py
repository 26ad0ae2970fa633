"""Odd shapes and dtypes, empty, non-contiguous and large: whoever takes them makes each again by its name."""

import ml_dtypes
import numpy as np

DTYPES = ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]


def tensors():
    random = np.random.default_rng(7)
    for dtype in DTYPES:
        array = random.integers(0, 2 if dtype == "bool" else 100, (3, 5, 7)).astype(dtype)
        yield f"plain-{dtype}", array
    yield "bf16", random.standard_normal((5, 3)).astype(ml_dtypes.bfloat16)
    yield "scalar", np.float32(3.5).reshape(())
    yield "empty", np.zeros((0, 4), np.float32)
    yield "empty-inside", np.zeros((3, 0, 2), np.int64)
    yield "transposed", random.standard_normal((64, 33)).T
    yield "strided", random.standard_normal((100, 100))[::3, ::-2]
    yield "fortran", np.asfortranarray(random.standard_normal((17, 19)))
    yield "thirty-two-dimensions", np.ones((1,) * 32, np.uint8)
    yield "large", random.integers(0, 255, 100_000_000, dtype=np.uint8)
