"""The client behind a door: one lock, one connection, its lanes, and a thread that restores them after a restart.

Operations are generators that run under the lock: they yield `WAIT` when they need news from the sidecar, or a
function to run without the lock. `Core.run` drives them for threads, `aio` drives the same ones for asyncio.
Whoever waits reads the socket for everybody; the watching thread sleeps until the connection breaks.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
import weakref
from collections.abc import Generator
from typing import Any, Callable, Final, NamedTuple, Optional, TypeVar, Union

from . import _dispatch, _wire
from ._lanes import AnyLane, SendingLane
from ._link import Link, LinkLost
from .errors import Closed, NotReady, SealaneError, Timeout

T = TypeVar("T")


class _Wait:
    """Asks the driver for news."""


class Work(NamedTuple):
    """Asks the driver to run something without the lock; `nbytes` says how long that may take."""

    run: Callable[[], Any]
    nbytes: int


WAIT: Final = _Wait()
Step = Union[_Wait, Work]
Operation = Generator[Step, None, T]

#: How often the watcher looks after a door that nobody waits at.
TICK_SECONDS = 0.1
#: Longest sleep of a thread that waits for news: another may have taken them in before it fell asleep.
SLICE_SECONDS = 0.1
CONNECT_SECONDS = 5.0
#: How often something is done without a look at what the sidecar says.
UNLOOKED_MAX = 16
PAUSE_SECONDS = (0.02, 1.0)
#: How long a lane waits in the sidecar to be restored before it is asked for again.
RESUME_SECONDS = 30.0


class Expired(Exception):
    """Thrown into an operation whose time is over."""


class Core:
    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        #: Called under the lock with every news; asyncio waits through these.
        self.listeners: set[Callable[[], None]] = set()
        self.link: Optional[Link] = None
        self.problem: Optional[SealaneError] = None
        self.fatal: Optional[SealaneError] = None
        self.closing = False
        self.forked = False
        self.lanes: set[AnyLane] = set()
        self.numbered: dict[int, AnyLane] = {}
        self.last_number = 0
        self._reading = False
        self._losing = False
        self._unlooked = 0
        self._wake_read, self._wake_write = os.pipe()
        self._watcher = threading.Thread(target=self._watch, name="sealane-door", daemon=True)
        _cores.add(self)

    def connect(self, timeout: Optional[float]) -> None:
        """Connects within `timeout` seconds and starts watching."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = PAUSE_SECONDS[0]
        while True:
            left = CONNECT_SECONDS if deadline is None else deadline - time.monotonic()
            try:
                self.link = Link.connect(self.path, min(CONNECT_SECONDS, max(0.001, left)))
                break
            except NotReady:
                if left <= pause:
                    self._close_pipe()
                    raise
            except BaseException:
                self._close_pipe()
                raise
            time.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS[1])
        self._watcher.start()

    # ---- driving operations ---------------------------------------------------------------------------------

    def attempt(self, action: Callable[[], Optional[T]]) -> Optional[T]:
        """Does at once, under the lock, what needs no news; None when it does. Looks for news now and then, because the
        sidecar sends nothing on once its news fit into the socket no more."""
        self.check_usable()
        with self.lock:
            self._unlooked += 1
            if self._unlooked >= UNLOOKED_MAX:
                self.look()
            return action()

    def run(self, operation: Operation[T], timeout: Optional[float], what: str, look_first: bool = True) -> T:
        """Runs an operation to its end in this thread; `Timeout` names `what` when it takes too long. Unless
        `look_first`, news is read only when the operation needs some."""
        self.check_usable()
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.lock:
            try:
                if look_first:
                    self.look()
                step, expired = operation.send(None), False
                while True:
                    if not isinstance(step, _Wait):
                        self._unlocked(step.run)
                    elif deadline is not None and time.monotonic() >= deadline:
                        if expired:
                            step = operation.throw(Expired())
                            continue
                        # What lies unread may be what was waited for.
                        expired = True
                        self.look()
                    else:
                        self.wait(deadline)
                    step = operation.send(None)
            except StopIteration as stop:
                value: T = stop.value
                return value
            except Expired:
                raise self.timeout(what) from None
            finally:
                operation.close()

    def timeout(self, what: str) -> Timeout:
        if self.link is None and self.problem is not None:
            return Timeout(f"{what}: {self.problem.args[0]}", self.problem.reason)
        return Timeout(what)

    def check_usable(self) -> None:
        if self.fatal is not None:
            raise self.fatal
        if self.closing:
            raise Closed("the door is closed")

    def _unlocked(self, work: Callable[[], Any]) -> None:
        self.lock.release()
        try:
            work()
        finally:
            self.lock.acquire()

    def wait(self, deadline: Optional[float]) -> None:
        """Waits for news, for a slice of time at most. The first to come reads the socket, others wait for it."""
        seconds = SLICE_SECONDS
        if deadline is not None:
            seconds = min(seconds, max(0.0, deadline - time.monotonic()))
        link = self.link
        if link is None or self._reading:
            self.changed.wait(seconds)
            return
        self.tell()
        try:
            self._reading = True
            self._unlocked(lambda: link.wait(seconds))
        finally:
            self._reading = False
            # Somebody else has to read now, whether or not there was news.
            self.changed.notify_all()
        # One packet: what it brought may be what was waited for, and to look for another costs as much as it.
        self.drain(1)

    def notify(self) -> None:
        self.changed.notify_all()
        for listener in tuple(self.listeners):
            listener()

    # ---- the connection ------------------------------------------------------------------------------------

    def look(self) -> None:
        """Takes in what the sidecar has said, but leaves it to a thread that waits for it: asleep at the socket, that
        would not notice that somebody else took it."""
        self._unlooked = 0
        if self._reading:
            self.tell()
        else:
            self.drain()

    def drain(self, most: Optional[int] = None) -> None:
        """Takes in everything that the sidecar has said, and tells it what it is owed; or `most` packets alone."""
        packets = 0
        try:
            while self.link is not None and packets != most:
                packet = self.link.receive()
                if packet is None:
                    break
                packets += 1
                _dispatch.dispatch(self, self.link, packet)
        except LinkLost:
            self._detach()
        except _wire.WireError as error:
            self.fail(SealaneError(f"the sidecar speaks another language: {error}", "FrameMalformed"))
        if packets:
            self.notify()
        if most is None:
            self.tell()

    def tell(self) -> None:
        """Tells the sidecar what it is owed."""
        try:
            if self.link is not None:
                self.link.tell()
        except LinkLost:
            self.lost()

    def send(self, packet: bytes) -> None:
        """Sends, if there is a connection; what gets lost with one is restored with the next."""
        if self.link is None:
            return
        try:
            self.link.send(packet)
        except LinkLost:
            self.lost()

    def lost(self) -> None:
        """The connection is gone. What the sidecar said before it died is still to be read: where tensors went to."""
        if self._losing:
            return
        self._losing = True
        try:
            self.drain(sys.maxsize)
        finally:
            self._losing = False
        self._detach()

    def _detach(self) -> None:
        if self.link is None:
            return
        self.link.close()
        self.link = None
        self.numbered.clear()
        for lane in self.lanes:
            lane.detach()
        self.wake_watcher()
        self.notify()

    def fail(self, error: SealaneError) -> None:
        """The sidecar wants nothing to do with this client."""
        self.fatal = error
        for lane in self.lanes:
            lane.end(error)
        self._detach()

    def add(self, lane: AnyLane) -> None:
        if not self.lanes:
            self.wake_watcher()
        self.lanes.add(lane)

    def announce(self, lane: AnyLane, seconds: float) -> None:
        """Asks the sidecar for the lane, if there is a connection; else the watcher does once there is."""
        if self.link is None:
            lane.resuming = True
            return
        self.last_number += 1
        lane.number = self.last_number
        self.numbered[lane.number] = lane
        self.send(lane.open_packet(min(int(seconds * 1000), _wire.TIMEOUT_MS_MAX)))

    def forget(self, lane: AnyLane) -> None:
        """The lane is over."""
        self.lanes.discard(lane)
        self.numbered.pop(lane.number, None)
        if isinstance(lane, SendingLane):
            for number in lane.arena.idle():
                self.send(_wire.drop(number))

    # ---- watching ------------------------------------------------------------------------------------------

    def wake_watcher(self) -> None:
        """Under the lock, as everything that uses or closes the pipe."""
        if self._wake_write >= 0:
            os.write(self._wake_write, b"x")

    def _watch(self) -> None:
        """Restores the connection and its lanes when it breaks. Reads while nobody waits at the door, because
        the sidecar sends a tensor only after its news about it fitted into the socket; gives idle memory back."""
        while not self.closing and self.fatal is None:
            link = self.link
            if link is None:
                self._reconnect()
                continue
            poller = select.poll()
            poller.register(self._wake_read, select.POLLIN)
            if link.fileno() >= 0:
                # No events: besides the wake-up only a hang-up ends the sleep.
                poller.register(link.fileno(), 0)
            tick = TICK_SECONDS * 1000 if self.lanes or link.held else None
            woken = [descriptor for descriptor, _ in poller.poll(tick)]
            if self._wake_read in woken:
                os.read(self._wake_read, 4096)
            with self.lock:
                if self.link is link and not self.closing:
                    self.look()
                    self._trim()
        with self.lock:
            self._close_pipe()

    def _trim(self) -> None:
        """Gives back memory of lanes that have been idle for a while, all but one usual segment."""
        if self.link is None:
            return
        for lane in self.lanes:
            if isinstance(lane, SendingLane):
                for number in lane.arena.surplus(self.link.welcome.segment_bytes, time.monotonic()):
                    self.send(_wire.drop(number))

    def _close_pipe(self) -> None:
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)
        self._wake_read = self._wake_write = -1

    def _sleep(self, seconds: float) -> None:
        """The watcher's sleep between attempts; closing the door ends it."""
        poller = select.poll()
        poller.register(self._wake_read, select.POLLIN)
        if poller.poll(seconds * 1000):
            os.read(self._wake_read, 4096)

    def _reconnect(self) -> None:
        pause = PAUSE_SECONDS[0]
        while not self.closing and self.fatal is None:
            try:
                link = Link.connect(self.path, CONNECT_SECONDS)
                break
            except NotReady as problem:
                self.problem = problem
            except (SealaneError, _wire.WireError) as error:
                with self.lock:
                    self.fail(error if isinstance(error, SealaneError) else SealaneError(str(error), "FrameMalformed"))
                    self.notify()
                return
            self._sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS[1])
        else:
            return
        with self.lock:
            if self.closing:
                link.close()
                return
            self.link = link
            self._resume(link)

    def _resume(self, link: Link) -> None:
        """Restores every lane, side by side: one that waits for its peer keeps no other waiting."""
        from . import _operations

        running = [_operations.resume(self, lane, link) for lane in self.lanes if not lane.over]
        self.notify()
        while running and self.link is link and not self.closing:
            running = [operation for operation in running if self._step(operation)]
            self.notify()
            if running:
                self.wait(None)

    def _step(self, operation: Operation[None]) -> bool:
        try:
            while True:
                step = operation.send(None)
                if isinstance(step, _Wait):
                    return True
                step.run()
        except StopIteration:
            return False
        except SealaneError:
            # The lane carries its error.
            return False

    # ---- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Leaves the sidecar; the connection itself stays open until the last view is gone."""
        if self.forked:
            # Whoever held the lock is in the parent.
            return
        with self.lock:
            if self.closing:
                return
            self.closing = True
            # What was taken last would go to somebody else again.
            self.tell()
            if self.link is not None:
                self.link.leave()
            for lane in self.lanes:
                lane.end()
            self.wake_watcher()
            self.notify()
        if self._watcher is not threading.current_thread():
            self._watcher.join(CONNECT_SECONDS)


_cores: weakref.WeakSet[Core] = weakref.WeakSet()


def _after_fork() -> None:
    """A child has its parent's doors without the threads that watch them."""
    for core in tuple(_cores):
        core.forked = True
        core.fatal = Closed("this door was opened before a fork; connect again in the new process", "UsedAfterFork")


os.register_at_fork(after_in_child=_after_fork)
