"""The same doors and lanes for asyncio.

    async with sealane.aio.connect() as door:
        lane = await door.sender("activations")
        await lane.put(array)
        await lane.close()
    async with sealane.aio.connect() as door:
        async for tensor in door.receiver("activations"):
            tensor.numpy()

A door belongs to the event loop that first used it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Generator, Sequence
from types import TracebackType
from typing import Any, Callable, Generic, Optional, TypeVar, Union

from . import _operations
from ._core import Core, Expired, Operation, Step, Work
from ._lanes import ReceivingLane, SendingLane
from ._link import Link
from ._runs import Described
from .door import OPEN_SECONDS, RING_BUFFERS, Buffers, array_over, layout, path_of, prepare
from .errors import SealaneError
from .tensor import Tensor

#: Copies shorter than this run in the loop's own thread: handing them to another takes longer.
INLINE_BYTES_MAX = 256 << 10
#: How often something is done at once before other tasks have their turn.
AT_ONCE_MAX = 16

T = TypeVar("T")
L = TypeVar("L", SendingLane, ReceivingLane)
H = TypeVar("H", bound="Union[Sender, Receiver]")
C = TypeVar("C", bound="_Closing")


class _Driver:
    """Drives operations in one event loop: the sibling of `Core.run`."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._registered: Optional[tuple[Link, int]] = None
        self._at_once = 0

    async def attempt(self, action: Callable[[], Optional[T]]) -> Optional[T]:
        """As `Core.attempt`. The other tasks of the loop have their turn now and then, however much can be done at
        once."""
        self._at_once += 1
        if self._at_once >= AT_ONCE_MAX:
            self._at_once = 0
            await asyncio.sleep(0)
        return self.core.attempt(action)

    async def run(self, operation: Operation[T], timeout: Optional[float], what: str) -> T:
        core = self.core
        core.check_usable()
        deadline = None if timeout is None else time.monotonic() + timeout
        step: Optional[Step] = None
        expired = False
        try:
            while True:
                with core.lock:
                    core.drain()
                    step = core.advance(operation, False, expired)
                    expired = False
                    news = None if isinstance(step, Work) else self._subscribe()
                if isinstance(step, Work):
                    if step.nbytes < INLINE_BYTES_MAX:
                        step.run()
                    else:
                        # A cancelled call ends here and its copy goes on: that has the place until it is done.
                        await asyncio.get_running_loop().run_in_executor(None, step.run)
                elif news is not None and not await self._await(news, deadline):
                    expired = True
        except StopIteration as stop:
            value: T = stop.value
            return value
        except Expired:
            raise core.timeout(what) from None
        finally:
            step = None
            operation.close()
            core.drop_unwanted()

    def _subscribe(self) -> tuple[asyncio.Future[None], Callable[[], None]]:
        """Under the lock: a future that the next news resolves, and what listens for it."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError("this door belongs to another event loop")
        self._register(loop)
        news: asyncio.Future[None] = loop.create_future()

        def listener() -> None:
            loop.call_soon_threadsafe(lambda: None if news.done() else news.set_result(None))

        self.core.listeners.add(listener)
        return news, listener

    async def _await(
        self, subscription: tuple[asyncio.Future[None], Callable[[], None]], deadline: Optional[float]
    ) -> bool:
        news, listener = subscription
        seconds = None if deadline is None else deadline - time.monotonic()
        try:
            await asyncio.wait((news,), timeout=seconds)
            return news.done()
        finally:
            with self.core.lock:
                self.core.listeners.discard(listener)

    def _register(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reads the present connection whenever the loop finds it readable."""
        link = self.core.link
        if self._registered is not None and self._registered[0] is not link:
            loop.remove_reader(self._registered[1])
            self._registered = None
        if self._registered is None and link is not None:
            loop.add_reader(link.fileno(), self._read)
            self._registered = (link, link.fileno())

    def _read(self) -> None:
        with self.core.lock:
            self.core.drain()
            if self._loop is not None:
                self._register(self._loop)

    async def close(self) -> None:
        if self._registered is not None and self._loop is not None:
            self._loop.remove_reader(self._registered[1])
            self._registered = None
        # Joining the watching thread may take a moment.
        await asyncio.get_running_loop().run_in_executor(None, self.core.close)


class _Closing:
    async def close(self, *, timeout: Optional[float] = None) -> None:
        raise NotImplementedError

    async def _leave(self, error: Optional[BaseException]) -> None:
        await self.close()


class Opening(Generic[C]):
    """What `connect`, `sender` and `receiver` return: await it, or use it with `async with`."""

    def __init__(self, opening: Callable[[], Awaitable[C]]) -> None:
        self._opening = opening
        self._opened: Optional[C] = None

    def __await__(self) -> Generator[Any, None, C]:
        return self._opening().__await__()

    async def __aenter__(self) -> C:
        self._opened = await self._opening()
        return self._opened

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._opened is not None:
            await self._opened._leave(error)


class ReceiverOpening(Opening["Receiver"]):
    """Also iterates: `async for tensor in door.receiver(...)`."""

    async def __aiter__(self) -> AsyncIterator[Tensor]:
        receiver = await self._opening()
        async for tensor in receiver:
            yield tensor


def connect(
    path: Optional[Union[str, os.PathLike[str]]] = None, *, timeout: Optional[float] = OPEN_SECONDS
) -> Opening[Door]:
    """As `sealane.connect`."""

    async def opening() -> Door:
        core = Core(path_of(path))
        connecting = asyncio.get_running_loop().run_in_executor(None, core.connect, timeout)
        try:
            # The thread cannot be cancelled. It ends with its present attempt, and closes what it opened.
            await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(lambda done: None if done.cancelled() else done.exception())
            core.close()
            raise
        return Door(_Driver(core))

    return Opening(opening)


class Door(_Closing):
    """As `sealane.Door`."""

    def __init__(self, driver: _Driver) -> None:
        self._driver = driver
        self._lanes: list[Union[Sender, Receiver]] = []

    def sender(self, session: str, *, timeout: Optional[float] = OPEN_SECONDS) -> Opening[Sender]:
        """As `sealane.Door.sender`."""

        async def opening() -> Sender:
            return await self._open(SendingLane(_operations.check_session(session)), Sender, timeout)

        return Opening(opening)

    def receiver(self, session: str, *, timeout: Optional[float] = OPEN_SECONDS) -> ReceiverOpening:
        """As `sealane.Door.receiver`."""

        async def opening() -> Receiver:
            return await self._open(ReceivingLane(_operations.check_session(session)), Receiver, timeout)

        return ReceiverOpening(opening)

    async def _open(self, lane: L, handle: Callable[[_Driver, L], H], timeout: Optional[float]) -> H:
        self._lanes = [one for one in self._lanes if not one.closed or one._lane.owes_error]
        allowed = None if timeout is None else timeout + _operations.GRACE_SECONDS
        operation = _operations.open_lane(self._driver.core, lane, timeout)
        try:
            await self._driver.run(operation, allowed, f"opening `{lane.session}`")
            opened = handle(self._driver, lane)
            self._lanes.append(opened)
            return opened
        except BaseException:
            self._driver.core.discard(lane)
            raise

    async def close(self, *, timeout: Optional[float] = None) -> None:
        """As `sealane.Door.close`."""
        failed: Optional[SealaneError] = None
        try:
            for lane in self._lanes:
                try:
                    await lane.close(timeout=timeout)
                except SealaneError as error:
                    failed = failed or error
        finally:
            await self._driver.close()
        if failed is not None:
            raise failed

    async def _leave(self, error: Optional[BaseException]) -> None:
        if error is None:
            await self.close()
        else:
            await self._driver.close()


class Sender(_Closing):
    """As `sealane.Sender`."""

    def __init__(self, driver: _Driver, lane: SendingLane) -> None:
        self._driver = driver
        self._lane = lane

    @property
    def session(self) -> str:
        return self._lane.session

    @property
    def closed(self) -> bool:
        return self._lane.over

    @property
    def untaken(self) -> int:
        return self._lane.under_way

    async def put(self, array: Any, name: str = "", *, timeout: Optional[float] = None) -> int:
        """As `sealane.Sender.put`. Copies run in the loop's executor: leave `array` alone until this returns."""
        core, lane = self._driver.core, self._lane
        described = _operations.describe_one(core, array, name)
        sequence = await self._driver.attempt(lambda: _operations.put_now(core, lane, described))
        return (await self._put([described], timeout))[0] if sequence is None else sequence

    async def put_many(
        self, arrays: Sequence[Any], names: Optional[Sequence[str]] = None, *, timeout: Optional[float] = None
    ) -> list[int]:
        """As `sealane.Sender.put_many`."""
        return await self._put(prepare(self._driver.core, self._lane, arrays, names), timeout)

    async def _put(self, described: list[Described], timeout: Optional[float]) -> list[int]:
        operation = _operations.put(self._driver.core, self._lane, described)
        return await self._driver.run(operation, timeout, f"putting into `{self.session}`")

    async def empty(
        self, shape: Union[int, Sequence[int]], dtype: Any = "float32", *, timeout: Optional[float] = None
    ) -> Any:
        """As `sealane.Sender.empty`."""
        dimensions, element, size = layout(shape, dtype)
        operation = _operations.empty(self._driver.core, self._lane, size)
        window = await self._driver.run(operation, timeout, f"shared memory for `{self.session}`")
        return array_over(window, dimensions, dtype, element)

    def ring(self, shape: Union[int, Sequence[int]], dtype: Any = "float32", *, buffers: int = RING_BUFFERS) -> BufferRing:
        """As `sealane.Sender.ring`."""
        return BufferRing(self._driver, self._lane, Buffers(shape, dtype, buffers))

    async def flush(self, *, timeout: Optional[float] = None) -> None:
        """As `sealane.Sender.flush`."""
        operation = _operations.flush(self._driver.core, self._lane)
        await self._driver.run(operation, timeout, f"flushing `{self.session}`")

    async def close(self, *, timeout: Optional[float] = None) -> None:
        """As `sealane.Sender.close`."""
        if self._lane.over:
            self._lane.close_ended()
            return
        operation = _operations.close_sender(self._driver.core, self._lane)
        await self._driver.run(operation, timeout, f"closing `{self.session}`")

    async def abandon(self) -> None:
        """As `sealane.Sender.abandon`."""
        core, lane = self._driver.core, self._lane
        with core.lock:
            lane.closed = True
            core.recover()
            core.abandon(lane)

    async def _leave(self, error: Optional[BaseException]) -> None:
        if error is None:
            await self.close()
        else:
            await self.abandon()


class BufferRing:
    """As `sealane.BufferRing`. A ring belongs to one task."""

    def __init__(self, driver: _Driver, lane: SendingLane, buffers: Buffers) -> None:
        self._driver = driver
        self._lane = lane
        self._buffers = buffers

    async def next(self, *, timeout: Optional[float] = None) -> Any:
        """As `sealane.BufferRing.next`."""
        operation = self._buffers.next(self._driver.core, self._lane)
        return await self._driver.run(operation, timeout, f"a buffer of `{self._lane.session}`")


class Receiver(_Closing):
    """As `sealane.Receiver`."""

    def __init__(self, driver: _Driver, lane: ReceivingLane) -> None:
        self._driver = driver
        self._lane = lane

    @property
    def session(self) -> str:
        return self._lane.session

    @property
    def closed(self) -> bool:
        return self._lane.over

    async def take(self, *, timeout: Optional[float] = None) -> Optional[Tensor]:
        """As `sealane.Receiver.take`."""
        core, lane = self._driver.core, self._lane
        tensor = await self._driver.attempt(lambda: _operations.take_ready(core, lane))
        if tensor is not None:
            return tensor
        if lane.over and lane.ended:
            return None
        operation = _operations.take(core, lane)
        return await self._driver.run(operation, timeout, f"no tensor came from `{self.session}`")

    def __aiter__(self) -> AsyncIterator[Tensor]:
        return self

    async def __anext__(self) -> Tensor:
        tensor = await self.take()
        if tensor is None:
            raise StopAsyncIteration
        return tensor

    async def close(self, *, timeout: Optional[float] = None) -> None:
        """As `sealane.Receiver.close`."""
        if not self._lane.over:
            operation = _operations.close_receiver(self._driver.core, self._lane)
            await self._driver.run(operation, timeout, f"leaving `{self.session}`")

    async def _leave(self, error: Optional[BaseException]) -> None:
        try:
            await self.close()
        except SealaneError:
            if error is None:
                raise
