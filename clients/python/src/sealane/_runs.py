"""Small tensors of one kind that are put together: they travel as one, a run (`DOOR.md`), and are told apart again when
they are taken. What a tensor costs on its way is then shared by all of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Optional

from . import _arrays, _dtypes, _wire
from ._arena import Segment
from ._arrays import Source
from ._link import Link
from .tensor import Tensor

RUN_TENSORS_MAX = 256
#: A view of one part keeps the memory of all.
RUN_BYTES_MAX = 64 << 10
#: Tensors of this size and more are acknowledged and released one by one: what they occupy is worth a message.
URGENT_BYTES = 64 << 10

#: What is put, and under which name.
Described = tuple[Source, bytes]


def describe(values: Sequence[Any], names: Optional[Sequence[bytes]]) -> Iterator[Described]:
    """Checks and describes what is put, in order: each by itself."""
    return zip(map(_arrays.source, values), names if names is not None else [b""] * len(values))


def describe_runs(values: Sequence[Any], names: Optional[Sequence[bytes]]) -> Iterator[Described]:
    """As `describe`, and makes runs of what may travel together."""
    made = _uniform(values) if names is None else None
    return ((source, b"") for source in made) if made is not None else _runs(describe(values, names))


def _parts_max(nbytes: int, rank: int) -> int:
    """How many such tensors a run holds, which has one dimension more."""
    if not nbytes or rank >= _wire.RANK_MAX:
        return 1
    return max(1, min(RUN_TENSORS_MAX, RUN_BYTES_MAX // nbytes))


def _uniform(values: Sequence[Any]) -> Optional[list[Source]]:
    """Runs of values of one type, size and shape, without a look at each; None when they are not alike."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return None
    kind = kinds.pop()
    if kind is bytes:
        return _uniform_bytes(values)
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return _uniform_arrays(values)
    return None


def _uniform_bytes(values: Sequence[bytes]) -> Optional[list[Source]]:
    if len(set(map(len, values))) != 1:
        return None
    size = len(values[0])
    parts = _parts_max(size, 1)
    if parts == 1:
        return None

    def run(chunk: Sequence[bytes]) -> Source:
        def copy(memory: memoryview) -> None:
            memory[:] = b"".join(chunk)

        return Source(_dtypes.BY_NAME["uint8"], (size,), size * len(chunk), None, copy, len(chunk))

    return [run(values[start : start + parts]) for start in range(0, len(values), parts)]


def _uniform_arrays(values: Sequence[Any]) -> Optional[list[Source]]:
    import numpy

    first = values[0]
    parts = _parts_max(first.nbytes, first.ndim)
    alike = len({(array.dtype, array.shape) for array in values}) == 1
    if parts == 1 or not alike or first.ndim == 0 or first.dtype != first.dtype.newbyteorder("<"):
        return None
    dtype, shape = _dtypes.of_array(first.dtype), first.shape

    def run(chunk: Sequence[Any]) -> Source:
        def copy(memory: memoryview) -> None:
            target = numpy.frombuffer(memory, dtype=first.dtype)
            numpy.concatenate(chunk, out=target.reshape((len(chunk) * shape[0], *shape[1:])))

        return Source(dtype, shape, first.nbytes * len(chunk), None, copy, len(chunk))

    return [run(values[start : start + parts]) for start in range(0, len(values), parts)]


def _runs(described: Iterator[Described]) -> Iterator[Described]:
    """Joins neighbours of one name, element type and shape."""

    def kind(one: Described) -> tuple[bytes, int, tuple[int, ...]]:
        source, name = one
        return name, source.dtype.code, source.shape

    for (name, _, _), alike in groupby(described, kind):
        sources = [source for source, _ in alike]
        parts = _parts_max(sources[0].nbytes, len(sources[0].shape))
        for start in range(0, len(sources), parts):
            yield _joined(sources[start : start + parts]), name


def _joined(sources: list[Source]) -> Source:
    first = sources[0]
    if len(sources) == 1:
        return first

    def copy(memory: memoryview) -> None:
        for index, source in enumerate(sources):
            source.copy(memory[index * first.nbytes : (index + 1) * first.nbytes])

    size = first.nbytes * len(sources)
    return Source(first.dtype, first.shape, size, None, copy, len(sources))


class Arrived:
    """A delivery on its way to the application: one whole tensor, or those of a run, one after the other."""

    __slots__ = (
        "_dtype",
        "_index",
        "_is_urgent",
        "_nbytes",
        "_shape",
        "_window",
        "count",
        "entry",
        "key",
        "link",
        "segment",
        "sender",
    )

    def __init__(self, link: Link, lane: int, entry: _wire.Entry, sender: str, segment: Optional[Segment]) -> None:
        self.link = link
        self.key = lane, entry.delivery
        self.entry = entry
        self.sender = sender
        self.segment = segment
        self._window: Any = None
        self.count = entry.shape[0] if entry.run else 1
        #: Whether what it occupies is worth a message.
        self._is_urgent = entry.length >= URGENT_BYTES

    def begin(self) -> None:
        """The application gets the first one now: the memory is its own until the last view is gone. Once more does
        nothing more."""
        entry, link = self.entry, self.link
        link.begun.add(self.key)
        self._index = 0
        self._nbytes = entry.length // self.count
        self._shape = entry.shape[1:] if entry.run else entry.shape
        self._dtype = _dtypes.by_code(entry.dtype)
        if self.segment is not None:
            self._window = self._window or self.segment.window(entry.offset, entry.length)
            link.watch(self._window, self.key, self._is_urgent)

    @property
    def over(self) -> bool:
        return self._index == self.count

    def next(self) -> Tensor:
        """The next one; there is one unless it is `over`. It stays the next until `advance`."""
        entry, index, nbytes = self.entry, self._index, self._nbytes
        place = self._window, index * nbytes
        return Tensor(entry.name, entry.sequence + index, self.sender, self._dtype, self._shape, nbytes, *place)

    def advance(self) -> None:
        self._index += 1

    def took(self) -> None:
        """The application has all of it."""
        self.link.took(self.key, self._is_urgent)
        if self.segment is None:
            self.link.release(self.key, urgent=False)
