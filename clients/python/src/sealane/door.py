"""Doors and lanes for threads."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar, Union

from . import _arrays, _dtypes, _operations, _wire
from ._core import Core, Operation
from ._lanes import ReceivingLane, SendingLane
from ._runs import Described
from .errors import SealaneError
from .tensor import Tensor

L = TypeVar("L", SendingLane, ReceivingLane)
H = TypeVar("H", bound="Union[Sender, Receiver]")

#: Where the sidecar listens in every container of an injected pod.
DEFAULT_PATH = "/run/sealane/door.sock"
#: How long lanes wait to open, in seconds.
OPEN_SECONDS = 30.0
#: How many buffers a ring has: one is filled while another is sent and a third is on its way.
RING_BUFFERS = 4


def path_of(path: Optional[Union[str, os.PathLike[str]]]) -> str:
    return os.fspath(path) if path is not None else os.environ.get("SEALANE_DOOR", DEFAULT_PATH)


def connect(path: Optional[Union[str, os.PathLike[str]]] = None, *, timeout: Optional[float] = OPEN_SECONDS) -> Door:
    """Connects to the sidecar of this pod at `path`, `SEALANE_DOOR`, or the default path.

    Raises `NotReady` when none answers within `timeout` seconds.
    """
    core = Core(path_of(path))
    core.connect(timeout)
    return Door(core)


class Door:
    """A connection to the sidecar. Threads may share it; a process forked from this one may not."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._lanes: list[Union[Sender, Receiver]] = []

    def sender(self, session: str, *, timeout: Optional[float] = OPEN_SECONDS) -> Sender:
        """Opens a lane that sends, once an attested receiver is connected. `session` names a TransferSession.

        Raises `NotReady` with the reason after `timeout` seconds, `Refused` when policy forbids it.
        """
        return self._open(SendingLane(_operations.check_session(session)), Sender, timeout)

    def receiver(self, session: str, *, timeout: Optional[float] = OPEN_SECONDS) -> Receiver:
        """Opens a lane that receives; iterate over it. As `sender` otherwise. Several receivers of one session share
        its tensors: each goes to one of them."""
        return self._open(ReceivingLane(_operations.check_session(session)), Receiver, timeout)

    def _open(self, lane: L, handle: Callable[[Core, L], H], timeout: Optional[float]) -> H:
        self._lanes = [one for one in self._lanes if not one.closed or one._lane.owes_error]
        allowed = None if timeout is None else timeout + _operations.GRACE_SECONDS
        operation = _operations.open_lane(self._core, lane, timeout)
        try:
            self._core.run(operation, allowed, f"opening `{lane.session}`")
            opened = handle(self._core, lane)
            self._lanes.append(opened)
            return opened
        except BaseException:
            self._core.discard(lane)
            raise

    def close(self, *, timeout: Optional[float] = None) -> None:
        """Closes every lane, then the connection. Views stay valid. Raises what closing the first of them
        raises that fails, when it has tried all."""
        failed: Optional[SealaneError] = None
        try:
            for lane in self._lanes:
                try:
                    lane.close(timeout=timeout)
                except SealaneError as error:
                    failed = failed or error
        finally:
            self._core.close()
        if failed is not None:
            raise failed

    def __enter__(self) -> Door:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        """After an exception, senders end without an authenticated end: receivers see `Interrupted`."""
        if error is None:
            self.close()
        else:
            self._core.close()


class Sender:
    """A lane that sends."""

    def __init__(self, core: Core, lane: SendingLane) -> None:
        self._core = core
        self._lane = lane

    @property
    def session(self) -> str:
        return self._lane.session

    @property
    def closed(self) -> bool:
        return self._lane.over

    @property
    def untaken(self) -> int:
        """How many tensors were put and are not known to be taken."""
        return self._lane.under_way

    def put(self, array: Any, name: str = "", *, timeout: Optional[float] = None) -> int:
        """Puts one tensor and returns its sequence. Waits while the receivers are slow, `timeout` seconds at most.

        `array` is a numpy array, a torch tensor on the CPU or anything that numpy reads, of any layout; bytes are
        uint8. It is copied once, so it may change afterwards, unless it comes from `empty` or a ring.
        Raises `Timeout`, `Refused` or `Closed`, TypeError or ValueError when it is no tensor, and `Uncertain` about
        earlier tensors, before anything of this call is put.
        """
        core, lane = self._core, self._lane
        described = _operations.describe_one(core, array, name)
        sequence = core.attempt(lambda: _operations.put_now(core, lane, described))
        return self._put([described], timeout)[0] if sequence is None else sequence

    def put_many(
        self, arrays: Sequence[Any], names: Optional[Sequence[str]] = None, *, timeout: Optional[float] = None
    ) -> list[int]:
        """Puts several tensors with as few messages as possible; otherwise as `put`. Small ones of one name, element
        type and shape travel together, up to 64 KiB of them: to one replica, and taken when all of them are."""
        return self._put(prepare(self._core, self._lane, arrays, names), timeout)

    def _put(self, described: list[Described], timeout: Optional[float]) -> list[int]:
        operation = _operations.put(self._core, self._lane, described)
        return self._core.run(operation, timeout, f"putting into `{self.session}`")

    def empty(
        self, shape: Union[int, Sequence[int]], dtype: Any = "float32", *, timeout: Optional[float] = None
    ) -> Any:
        """An uninitialized array in shared memory: putting it copies nothing. A torch tensor when `dtype` is torch's,
        else a numpy array. Do not write to it between `put` and `flush`; do not keep many. For tensors of one shape, one
        after the other, see `ring`."""
        dimensions, element, size = layout(shape, dtype)
        operation = _operations.empty(self._core, self._lane, size)
        window = self._core.run(operation, timeout, f"shared memory for `{self.session}`")
        return array_over(window, dimensions, dtype, element)

    def ring(self, shape: Union[int, Sequence[int]], dtype: Any = "float32", *, buffers: int = RING_BUFFERS) -> BufferRing:
        """As many arrays as `empty` gives, used again and again, for whoever computes one tensor of this shape after the
        other. More of them let the receivers lag further behind."""
        return BufferRing(self._core, self._lane, Buffers(shape, dtype, buffers))

    def flush(self, *, timeout: Optional[float] = None) -> None:
        """Returns when the receivers' applications have taken everything put so far."""
        self._core.run(_operations.flush(self._core, self._lane), timeout, f"flushing `{self.session}`")

    def close(self, *, timeout: Optional[float] = None) -> None:
        """Flushes, then ends the stream with an authenticated end. Closing again does nothing.

        Raises what `flush` raises, for a lane that ended otherwise as well: when this returns, the receivers have taken
        everything and know that it was all."""
        if self._lane.over:
            self._lane.close_ended()
            return
        operation = _operations.close_sender(self._core, self._lane)
        self._core.run(operation, timeout, f"closing `{self.session}`")

    def abandon(self) -> None:
        """Drops the lane without an end: receivers see `Interrupted`."""
        core, lane = self._core, self._lane
        with core.lock:
            lane.closed = True
            core.recover()
            core.abandon(lane)

    def __enter__(self) -> Sender:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()


class BufferRing:
    """Arrays in shared memory that are used in turn. A ring belongs to one thread, which puts each before its turn comes
    again.

        ring = lane.ring((32, 384))
        for batch in batches:
            out = ring.next()
            numpy.matmul(batch, weights, out=out)
            lane.put(out)
    """

    def __init__(self, core: Core, lane: SendingLane, buffers: Buffers) -> None:
        self._core = core
        self._lane = lane
        self._buffers = buffers

    def next(self, *, timeout: Optional[float] = None) -> Any:
        """The array whose turn it is, with what was written there last, or uninitialized. Waits until the receivers have
        taken what was put from it, `timeout` seconds at most; raises what `put` raises."""
        operation = self._buffers.next(self._core, self._lane)
        return self._core.run(operation, timeout, f"a buffer of `{self._lane.session}`")


class Receiver:
    """A lane that receives: an iterator of `Tensor`s that ends when every sender has closed.

    `Interrupted` is raised once for each sender that is lost; go on iterating for the others.
    """

    def __init__(self, core: Core, lane: ReceivingLane) -> None:
        self._core = core
        self._lane = lane

    @property
    def session(self) -> str:
        return self._lane.session

    @property
    def closed(self) -> bool:
        return self._lane.over

    def take(self, *, timeout: Optional[float] = None) -> Optional[Tensor]:
        """The next tensor, or None when every sender has closed. Raises `Timeout` after `timeout` seconds."""
        core, lane = self._core, self._lane
        tensor = core.attempt(lambda: _operations.take_ready(core, lane))
        if tensor is not None:
            return tensor
        if lane.over and lane.ended:
            return None
        operation = _operations.take(core, lane)
        return core.run(operation, timeout, f"no tensor came from `{self.session}`", look_first=False)

    def __iter__(self) -> Iterator[Tensor]:
        return self

    def __next__(self) -> Tensor:
        tensor = self.take()
        if tensor is None:
            raise StopIteration
        return tensor

    def close(self, *, timeout: Optional[float] = None) -> None:
        """Leaves the stream. Tensors that were taken stay valid."""
        if not self._lane.over:
            operation = _operations.close_receiver(self._core, self._lane)
            self._core.run(operation, timeout, f"leaving `{self.session}`")

    def __enter__(self) -> Receiver:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            self.close()
        except SealaneError:
            if error is None:
                raise


# ---- shared with aio -------------------------------------------------------------------------------------------


def prepare(core: Core, lane: SendingLane, arrays: Sequence[Any], names: Optional[Sequence[str]]) -> list[Described]:
    """Checks tensors and names before anything of them is sent."""
    if names is not None and len(names) != len(arrays):
        raise ValueError(f"{len(arrays)} tensors and {len(names)} names")
    labels = None if names is None else [_operations.check_name(name) for name in names]
    return _operations.describe(core, lane, arrays, labels)


def layout(shape: Union[int, Sequence[int]], dtype: Any) -> tuple[tuple[int, ...], _dtypes.Dtype, int]:
    """Dimensions, element type and bytes of an array to be made."""
    dimensions = _dimensions(shape)
    if any(dimension < 0 for dimension in dimensions):
        raise ValueError(f"a dimension of {dimensions} is negative")
    if len(dimensions) > _wire.RANK_MAX:
        raise ValueError(f"a tensor has at most {_wire.RANK_MAX} dimensions, this one {len(dimensions)}")
    element = _dtypes.of(dtype)
    return dimensions, element, _arrays.nbytes(element, dimensions)


class Buffers:
    """The arrays of a ring."""

    def __init__(self, shape: Union[int, Sequence[int]], dtype: Any, count: int) -> None:
        self._dimensions, self._element, self._size = layout(shape, dtype)
        self._dtype = dtype
        if operator.index(count) < 1:
            raise ValueError(f"a ring has at least one buffer, not {count}")
        #: Each with what it is an array over; none until it is wanted.
        self._arrays: list[tuple[Optional[Any], Any]] = [(None, None)] * operator.index(count)
        self._turn = 0

    def next(self, core: Core, lane: SendingLane) -> Operation[Any]:
        window, array = self._arrays[self._turn]
        wanted = yield from _operations.reuse(core, lane, window, self._size)
        if array is None or wanted is not window:
            array = array_over(wanted, self._dimensions, self._dtype, self._element)
            self._arrays[self._turn] = wanted, array
        self._turn = (self._turn + 1) % len(self._arrays)
        return array


def _dimensions(shape: Union[int, Sequence[int]]) -> tuple[int, ...]:
    """Integers of any kind, numpy's as well. A float is none, however round: it would be a slip."""
    try:
        given: tuple[Any, ...] = tuple(shape)  # type: ignore[arg-type]
    except TypeError:
        given = (shape,)
    dimensions = []
    for number, dimension in enumerate(given):
        try:
            dimensions.append(operator.index(dimension))
        except TypeError:
            what = f"dimension {number} is {dimension!r}, a {type(dimension).__name__}"
            raise TypeError(f"{what}: dimensions are integers (n // 2, not n / 2)") from None
    return tuple(dimensions)


def array_over(window: Any, dimensions: tuple[int, ...], dtype: Any, element: _dtypes.Dtype) -> Any:
    """An array over `window`, in the library that `dtype` belongs to."""
    if str(dtype).startswith("torch."):
        import torch

        if window is None:
            return torch.empty(dimensions, dtype=dtype)
        return torch.frombuffer(window, dtype=dtype).reshape(dimensions)
    import numpy

    wanted = _dtypes.numpy_dtype(element)
    if window is None:
        return numpy.empty(dimensions, wanted)
    return numpy.frombuffer(window, dtype=wanted).reshape(dimensions)
