"""The tensors of the examples: both sides know every byte."""

from __future__ import annotations

import numpy

#: Rows of 384 float32: from one row to 12 MB, which takes more than one message.
ROWS = [1, 2, 3, 5, 8, 100, 1000, 8000]
COLUMNS = 384


def tensor(number: int) -> numpy.ndarray:
    """Tensor `number`: byte `i` is a function of both, so that nothing can be missing, doubled or swapped."""
    rows = ROWS[number % len(ROWS)]
    index = numpy.arange(rows * COLUMNS * 4, dtype=numpy.uint64)
    data = (index * 31) ^ (index >> 8) ^ (number * 97)
    return data.astype(numpy.uint8).view(numpy.float32).reshape(rows, COLUMNS)
