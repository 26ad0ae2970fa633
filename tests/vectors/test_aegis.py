"""Recomputes the vectors of ``aegis.json``, which are those of the draft."""

import json
import pathlib

import aegis
import pytest

CASES = json.loads((pathlib.Path(__file__).parent / "aegis.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["example"])
def test_vectors_of_the_draft(case):
    key, nonce, additional, message = (bytes.fromhex(case[name]) for name in ("key", "nonce", "ad", "msg"))
    assert aegis.seal(key, nonce, message, additional).hex() == case["ct"] + case["tag"]
