"""A tensor that was taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from . import _dtypes
from ._dtypes import Dtype
from .errors import Closed

if TYPE_CHECKING:
    import torch
    from numpy import ndarray


class Tensor:
    """One tensor of a stream. Its bytes lie in memory shared with the sidecar; that place is free for new tensors when
    this object and every view made from it are gone. Small tensors that were put together share a place of 64 KiB at
    most: copy what you keep for long.

    `name` is what the sender called it, `sequence` its number at that sender, `sender` the attested `peer/pod`,
    `shape` its dimensions, `nbytes` its size in bytes.
    """

    __slots__ = ("__weakref__", "_dtype", "_offset", "_window", "name", "nbytes", "sender", "sequence", "shape")

    def __init__(
        self,
        name: str,
        sequence: int,
        sender: str,
        dtype: Dtype,
        shape: tuple[int, ...],
        nbytes: int,
        window: Any,
        offset: int = 0,
    ) -> None:
        self.name = name
        self.sequence = sequence
        self.sender = sender
        self.shape = shape
        self.nbytes = nbytes
        self._dtype = dtype
        #: None when it has no bytes, False once released.
        self._window = window
        #: Where it begins there: others of its run lie before it.
        self._offset = offset

    @property
    def dtype(self) -> str:
        """The element type by numpy's name, for example `float32` or `bfloat16`."""
        return self._dtype.name

    def numpy(self) -> ndarray[Any, Any]:
        """A writable view, without a copy. bfloat16 and float8 need `ml_dtypes`; without it TypeError."""
        import numpy

        dtype = _dtypes.numpy_dtype(self._dtype)
        window = self._memory()
        if window is None:
            return numpy.empty(self.shape, dtype)
        count = self.nbytes // self._dtype.size
        return numpy.frombuffer(window, dtype, count, self._offset).reshape(self.shape)

    def torch(self, *, view: bool = False) -> torch.Tensor:
        """A torch tensor of its own, or with `view=True` one that shares this tensor's memory."""
        import torch

        dtype = _dtypes.torch_dtype(self._dtype)
        window = self._memory()
        if window is None:
            return torch.empty(self.shape, dtype=dtype)
        count = self.nbytes // self._dtype.size
        shared = torch.frombuffer(window, dtype=dtype, count=count, offset=self._offset).reshape(self.shape)
        return shared if view else shared.clone()

    def buffer(self) -> memoryview:
        """The bytes, little-endian and row-major, as a view without numpy."""
        window = self._memory()
        if window is None:
            return memoryview(b"")
        return memoryview(window).cast("B")[self._offset : self._offset + self.nbytes]

    def release(self) -> None:
        """Lets go of the memory now instead of with this object. Views made before keep it."""
        if self._window is not None:
            self._window = False

    def _memory(self) -> Optional[Any]:
        if self._window is False:
            raise Closed(f"tensor {self.sequence} was released")
        return self._window

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> ndarray[Any, Any]:
        import numpy

        array = self.numpy()
        if dtype is not None and array.dtype != numpy.dtype(dtype):
            if copy is False:
                raise ValueError(f"{self.dtype} becomes {numpy.dtype(dtype)} only by a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<Tensor{name} {self.dtype}{list(self.shape)} sequence {self.sequence} of {self.sender}>"
