"""Element types: their codes on the wire, and what numpy and torch call them."""

from __future__ import annotations

from typing import Any, NamedTuple


class Dtype(NamedTuple):
    """`name` is numpy's name (ml_dtypes' for the last three kinds), `torch` the attribute of the torch module."""

    code: int
    name: str
    size: int
    torch: str

    @property
    def needs_ml_dtypes(self) -> bool:
        return self.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")


DTYPES = tuple(
    Dtype(code, name, size, torch)
    for code, (name, size, torch) in enumerate(
        (
            ("bool", 1, "bool"),
            ("uint8", 1, "uint8"),
            ("int8", 1, "int8"),
            ("uint16", 2, "uint16"),
            ("int16", 2, "int16"),
            ("uint32", 4, "uint32"),
            ("int32", 4, "int32"),
            ("uint64", 8, "uint64"),
            ("int64", 8, "int64"),
            ("float16", 2, "float16"),
            ("bfloat16", 2, "bfloat16"),
            ("float32", 4, "float32"),
            ("float64", 8, "float64"),
            ("complex64", 8, "complex64"),
            ("complex128", 16, "complex128"),
            ("float8_e4m3fn", 1, "float8_e4m3fn"),
            ("float8_e5m2", 1, "float8_e5m2"),
        )
    )
)
BY_NAME = {dtype.name: dtype for dtype in DTYPES}


def by_code(code: int) -> Dtype:
    if code >= len(DTYPES):
        raise ValueError(f"the sidecar delivered dtype {code}, which this package does not know; update it")
    return DTYPES[code]


#: numpy dtypes seen before: finding the name of one takes longer than putting a small tensor.
_seen: dict[Any, Dtype] = {}
_SEEN_MAX = 256


def of_array(dtype: Any) -> Dtype:
    """As `of`, for the dtype of a numpy array."""
    found = _seen.get(dtype)
    if found is None:
        found = of(dtype)
        if len(_seen) < _SEEN_MAX:
            _seen[dtype] = found
    return found


def of(dtype: Any) -> Dtype:
    """The element type that a numpy dtype, a torch dtype or a name means; TypeError when there is none."""
    name = str(dtype)
    if name.startswith("torch."):
        name = name[len("torch.") :]
    elif not isinstance(dtype, str) or name not in BY_NAME:
        name = _numpy_name(dtype)
    if name in BY_NAME:
        return BY_NAME[name]
    raise TypeError(_refusal(name))


def _numpy_name(dtype: Any) -> str:
    import numpy

    resolved = numpy.dtype(dtype)
    if resolved.names is not None:
        raise TypeError(
            f"a structured dtype has no place in a tensor; put its fields one by one: {', '.join(resolved.names)}"
        )
    return str(resolved.name)


def _refusal(name: str) -> str:
    if name.startswith(("datetime64", "timedelta64")):
        return f"{name} is no tensor element; put array.view('int64') and state the unit in the name"
    if name.startswith(("str", "bytes", "void", "object")):
        return f"{name} is no tensor element; encode it as numbers, for example uint8"
    return f"{name} is no tensor element here; known are {', '.join(BY_NAME)}"


def numpy_dtype(dtype: Dtype) -> Any:
    """numpy's dtype; TypeError naming `.torch()` when it needs ml_dtypes and that is missing."""
    import numpy

    if not dtype.needs_ml_dtypes:
        return numpy.dtype(dtype.name)
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            f"numpy has no {dtype.name}; use .torch(), or install ml_dtypes to get it as a numpy array"
        ) from None
    return numpy.dtype(getattr(ml_dtypes, dtype.name))


def torch_dtype(dtype: Dtype) -> Any:
    """torch's dtype; TypeError naming `.numpy()` when this torch has none."""
    import torch

    found = getattr(torch, dtype.torch, None)
    if found is None:
        raise TypeError(f"torch {torch.__version__} has no {dtype.torch}; use .numpy(), or a newer torch")
    return found
