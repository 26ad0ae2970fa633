"""What an application may put: numpy arrays, torch tensors and buffers, of any layout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

from . import _dtypes
from ._dtypes import Dtype

_BYTES = _dtypes.BY_NAME["uint8"]


class Source(NamedTuple):
    """A tensor to send. `copy` writes it, little-endian and row-major, into memory of `nbytes`; `address` tells where
    it already lies that way, if it does."""

    dtype: Dtype
    shape: tuple[int, ...]
    nbytes: int
    address: Optional[Callable[[], int]]
    copy: Callable[[memoryview], None]
    #: Of a run, whose tensors have this `shape` each and `nbytes` together.
    parts: int = 1


def source(value: Any) -> Source:
    """Checks and describes what was put; TypeError says what to do when it cannot be sent."""
    if isinstance(value, (bytes, bytearray)) or (isinstance(value, memoryview) and _is_bytes(value)):
        return _buffer(memoryview(value))
    module = type(value).__module__
    if module.split(".")[0] == "torch" and hasattr(value, "data_ptr"):
        return _torch(value)
    if module != "numpy":
        _refuse_devices(value)
    return _numpy(value)


def nbytes(dtype: Dtype, shape: Sequence[int]) -> int:
    size = dtype.size
    for dimension in shape:
        size *= dimension
    return size


def _numpy(value: Any) -> Source:
    try:
        import numpy
    except ImportError:
        raise TypeError(
            f"{type(value).__name__} cannot be put without numpy; install it, or put a torch tensor"
        ) from None
    if _is_masked(value):
        raise TypeError("a tensor has no mask: put array.filled(value), or array.data and array.mask")
    array = numpy.asarray(value)
    dtype = _dtypes.of_array(array.dtype)
    native = array.dtype.newbyteorder("<")

    def copy(memory: memoryview) -> None:
        target = numpy.frombuffer(memory, dtype=native, count=array.size).reshape(array.shape)
        numpy.copyto(target, array)

    in_order = array.flags.c_contiguous and array.dtype == native
    address = (lambda: int(array.__array_interface__["data"][0])) if in_order else None
    return Source(dtype, array.shape, array.nbytes, address, copy)


def _is_masked(value: Any) -> bool:
    """Without an import: who has a masked array has imported `numpy.ma`, which numpy leaves to its users."""
    masked = sys.modules.get("numpy.ma")
    try:
        return masked is not None and isinstance(value, masked.MaskedArray) and bool(masked.is_masked(value))
    except AttributeError:
        # It is being imported by another thread, so that nobody has such an array yet.
        return False


def _is_bytes(view: memoryview) -> bool:
    """Of another format or shape a view is what numpy reads it as."""
    return view.format in ("B", "c") and view.ndim == 1 and view.c_contiguous


def _buffer(view: memoryview) -> Source:
    nbytes = view.nbytes
    flat = view.cast("B") if nbytes else memoryview(b"")

    def copy(memory: memoryview) -> None:
        memory[:] = flat

    return Source(_BYTES, (nbytes,), nbytes, None, copy)


def _torch(tensor: Any) -> Source:
    import torch

    if tensor.device.type != "cpu":
        raise TypeError(f"the tensor is on {tensor.device}; call .cpu() first")
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise TypeError("only dense tensors can be put; call .to_dense() or .dequantize() first")
    tensor = tensor.detach()
    dtype = _dtypes.of(tensor.dtype)
    shape = tuple(tensor.shape)

    def copy(memory: memoryview) -> None:
        target = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel()).reshape(shape)
        target.copy_(tensor)

    lazy = tensor.is_conj() or tensor.is_neg()
    address = tensor.data_ptr if tensor.is_contiguous() and not lazy else None
    return Source(dtype, shape, nbytes(dtype, shape), address, copy)


def _refuse_devices(value: Any) -> None:
    """DLPack names the device of arrays from other libraries; 1 is the CPU, 3 and 11 pinned host memory."""
    if hasattr(value, "__dlpack_device__") and int(value.__dlpack_device__()[0]) not in (1, 3, 11):
        raise TypeError(f"this {type(value).__name__} is on a device; call .cpu() (or its library's word) first")
