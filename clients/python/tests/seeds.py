"""Random numbers of the tests, the same in each run unless `SEALANE_SEED` says otherwise."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy.random

SEED = int(os.environ.get("SEALANE_SEED", "1"))


def generator(*parts: int) -> Any:
    """numpy's generator for this seed and what tells one use of it from another."""
    return numpy.random.default_rng([SEED, *parts])


def python_random(*parts: int) -> random.Random:
    """As `generator`, of the standard library."""
    return random.Random(repr((SEED, *parts)))


def random_bytes(count: int, *parts: int) -> bytes:
    return python_random(*parts).randbytes(count)
