"""The client behind a door: one lock, one connection, its lanes, and a thread that restores them after a restart.

Operations are generators that run under the lock: they yield `WAIT` when they need news from the sidecar, or a
function to run without the lock. `Core.run` drives them for threads, `aio` drives the same ones for asyncio.
Whoever waits reads the socket for everybody; the watching thread sleeps until the connection breaks.

A signal may raise between any two byte codes of the main thread. So the lock is held by `with` alone, what an operation
leaves behind is noted and not undone by it, and a change that was cut short (`torn`) ends the lanes: nothing is worse
than a sidecar that believes other things than its client.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Generator
from contextlib import suppress
from typing import Any, Callable, Final, NamedTuple, Optional, TypeVar, Union

from . import _dispatch, _wire
from ._arena import PutArena
from ._lanes import AnyLane, SendingLane
from ._link import STUCK_SECONDS, Link, LinkLost
from .errors import Closed, NotReady, Refused, SealaneError, Timeout

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
#: When the thread that sleeps at the socket does not count any more: it was interrupted before it could say so.
READING_SECONDS = 1.0
CONNECT_SECONDS = 5.0
#: Of one client (`DOOR.md`).
LANES_MAX = 64
#: How often something is done without a look at what the sidecar says.
UNLOOKED_MAX = 16
PAUSE_SECONDS = (0.02, 1.0)
#: How long a lane waits in the sidecar to be restored before it is asked for again.
RESUME_SECONDS = 30.0


class Expired(Exception):
    """Thrown into an operation whose time is over."""


class _Sleeper:
    """A thread that waits until another has news."""

    def __init__(self) -> None:
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def wake(self) -> None:
        """Under the door's lock."""
        if self._asleep.locked():
            self._asleep.release()

    def sleep(self, seconds: float) -> None:
        self._asleep.acquire(timeout=seconds)


class Core:
    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.Lock()
        #: Called once, under the lock, with the next news.
        self.listeners: set[Callable[[], None]] = set()
        #: What client and sidecar know of each other changes, or did when an exception cut that short.
        self.torn = False
        #: Lanes that did not open and are to be dropped.
        self.unwanted: deque[AnyLane] = deque()
        #: Put segments of lanes that are over, in which something still lies.
        self.left: list[PutArena] = []
        self.link: Optional[Link] = None
        self.problem: Optional[SealaneError] = None
        self.fatal: Optional[SealaneError] = None
        self.closing = False
        self.forked = False
        self.lanes: set[AnyLane] = set()
        self.numbered: dict[int, AnyLane] = {}
        self.last_number = 0
        #: Lanes to which the sidecar owes an answer to their wish for memory.
        self.wanting: set[int] = set()
        #: Until when a thread sleeps at the socket at most; 0 when none does.
        self._reading = 0.0
        self._losing = False
        self._unlooked = 0
        self._wake_read, self._wake_write = os.pipe()
        self._watcher = threading.Thread(target=self._watch, name="sealane-door", daemon=True)
        _cores.add(self)

    def connect(self, timeout: Optional[float]) -> None:
        """Connects within `timeout` seconds and starts watching, unless the door is closed meanwhile."""
        link: Optional[Link] = None
        try:
            link = self._first_link(timeout)
            with self.lock:
                self.check_usable()
                self.link = link
                self._watcher.start()
        except BaseException:
            if self._watcher.is_alive():
                self.close()
                raise
            self.link = None
            if link is not None:
                link.close()
            with self.lock:
                self._close_pipe()
            raise

    def _first_link(self, timeout: Optional[float]) -> Link:
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = PAUSE_SECONDS[0]
        while True:
            self.check_usable()
            left = CONNECT_SECONDS if deadline is None else deadline - time.monotonic()
            try:
                return Link.connect(self.path, min(CONNECT_SECONDS, max(0.001, left)))
            except NotReady:
                if left <= pause:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS[1])

    # ---- driving operations ---------------------------------------------------------------------------------

    def attempt(self, action: Callable[[], Optional[T]]) -> Optional[T]:
        """Does at once, under the lock, what needs no news; None when it does. Looks for news now and then, because the
        sidecar sends nothing on once its news fit into the socket no more."""
        self.check_usable()
        with self.lock:
            if self.torn or self.unwanted:
                self.recover()
            self._unlooked += 1
            if self._unlooked >= UNLOOKED_MAX:
                self.look()
            return action()

    def run(self, operation: Operation[T], timeout: Optional[float], what: str, look_first: bool = True) -> T:
        """Runs an operation to its end in this thread; `Timeout` names `what` when it takes too long. Unless
        `look_first`, news is read only when the operation needs some."""
        self.check_usable()
        deadline = None if timeout is None else time.monotonic() + timeout
        step: Optional[Step] = None
        look, expired, late = look_first, False, False
        try:
            while True:
                with self.lock:
                    step = self.advance(operation, look, expired)
                look = expired = False
                if not isinstance(step, _Wait):
                    step.run()
                elif deadline is not None and time.monotonic() >= deadline:
                    # What lies unread may be what was waited for.
                    look, expired, late = not late, late, True
                else:
                    self.wait(deadline)
        except StopIteration as stop:
            value: T = stop.value
            return value
        except Expired:
            raise self.timeout(what) from None
        finally:
            # Who keeps an exception keeps what this frame holds, and with it a place in shared memory.
            step = None
            operation.close()
            self.drop_unwanted()

    def advance(self, operation: Operation[Any], look: bool, expired: bool) -> Step:
        """Under the lock: runs an operation until it needs something."""
        if self.torn or self.unwanted:
            self.recover()
        if look:
            self.look()
        return operation.throw(Expired()) if expired else operation.send(None)

    def recover(self) -> None:
        """Deals with what calls have left behind that an exception cut short."""
        if self.torn:
            self.fail(Closed("an exception cut a call of this door short; connect again", "CallInterrupted"))
            self.torn = False
        while self.unwanted:
            self.abandon(self.unwanted[0])
            self.unwanted.popleft()

    def discard(self, lane: AnyLane) -> None:
        """Drops a lane that its opener did not get, or not hand on: nobody could ever close it."""
        # Noted first: another exception may cut this short.
        self.unwanted.append(lane)
        self.drop_unwanted()

    def drop_unwanted(self) -> None:
        if self.unwanted:
            with self.lock:
                self.recover()

    def timeout(self, what: str) -> Timeout:
        if self.link is None and self.problem is not None:
            return Timeout(f"{what}: {self.problem.args[0]}", self.problem.reason)
        return Timeout(what)

    def check_usable(self) -> None:
        if self.fatal is not None:
            raise self.fatal
        if self.closing:
            raise Closed("the door is closed")

    def wait(self, deadline: Optional[float]) -> None:
        """Waits for news, for a slice of time at most. The first to come reads the socket, others wait for it."""
        now = time.monotonic()
        seconds = SLICE_SECONDS if deadline is None else min(SLICE_SECONDS, max(0.0, deadline - now))
        with self.lock:
            link = None if self._reading > now else self.link
            if link is not None:
                self.tell()
                if self._reading:
                    # Whose time is over may still be at the old one, or on its way there.
                    link.renew_poller()
                poller, until = link.poller, now + READING_SECONDS
                self._reading = until
        if link is None:
            self._sleep_until_news(seconds)
            return
        try:
            link.wait(seconds, poller)
        except BaseException:
            with self.lock:
                self._end_reading(until)
            raise
        with self.lock:
            if self._end_reading(until):
                # One packet: what it brought may be what was waited for, and to look for another costs as much as it.
                self.drain(1)
            else:
                self.look()

    def _end_reading(self, until: float) -> bool:
        """Another thread has to read now, whether or not there was news. False: one took this thread's place already,
        when its time was over."""
        if self._reading != until:
            return False
        self._reading = 0.0
        self.notify()
        return True

    def _sleep_until_news(self, seconds: float) -> None:
        sleeper = _Sleeper()
        with self.lock:
            if self._reading == 0.0 and self.link is not None:
                # Who read has ended meanwhile.
                return
            self.listeners.add(sleeper.wake)
        try:
            sleeper.sleep(seconds)
        finally:
            with self.lock:
                self.listeners.discard(sleeper.wake)

    def notify(self) -> None:
        while self.listeners:
            self.listeners.pop()()

    # ---- the connection ------------------------------------------------------------------------------------

    def look(self) -> None:
        """Takes in what the sidecar has said, but leaves it to a thread that waits for it: asleep at the socket, that
        would not notice that somebody else took it."""
        self._unlooked = 0
        if self._reading > time.monotonic():
            self.tell()
        else:
            self.drain()

    def drain(self, most: Optional[int] = None) -> None:
        """Takes in everything that the sidecar has said, and tells it what it is owed; or `most` packets alone."""
        if self.torn:
            self.recover()
        packets = 0
        try:
            while self.link is not None and packets != most:
                link = self.link
                packet = link.peek()
                if packet is None:
                    break
                packets += 1
                self.torn = True
                link.inbox.popleft()
                _dispatch.dispatch(self, link, packet)
                self.torn = False
        except LinkLost:
            self.torn = False
            self._detach()
        except _wire.WireError as error:
            self.torn = False
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
        # What a lost connection was told does not matter any more.
        torn, self.torn = self.torn, False
        try:
            self.drain(sys.maxsize)
        finally:
            self._losing = False
        self._detach()
        self.torn = torn

    def _detach(self) -> None:
        link = self.link
        if link is None:
            return
        if link.stuck:
            # It lives, and frees the memory from which another would get what was not taken.
            self.fail(Closed(f"the sidecar has read nothing for {STUCK_SECONDS:.0f} s; connect again", "Stalled"))
            return
        link.close()
        self._forget_link()
        for lane in self.lanes:
            lane.detach()
        self.wake_watcher()
        self.notify()

    def fail(self, error: SealaneError) -> None:
        """Nothing can be done with this door any more."""
        self.fatal = error
        for lane in self.lanes:
            lane.end(error)
        self._leave()
        self.wake_watcher()
        self.notify()

    def _leave(self) -> None:
        """Leaves the sidecar; the connection itself stays open until the last view is gone."""
        link = self.link
        if link is None:
            return
        if link.held and not link.stuck:
            # The connection outlives the lanes, so the sidecar has to be told of their end.
            with suppress(LinkLost):
                link.leave_lanes(self.numbered)
        link.leave()
        self._forget_link()

    def _forget_link(self) -> None:
        self.link = None
        self.numbered.clear()
        self.wanting.clear()
        self.left.clear()

    def add(self, lane: AnyLane) -> None:
        if not self.lanes:
            self.wake_watcher()
        self.lanes.add(lane)

    def check_lanes(self) -> None:
        """Raises when no further lane may be opened."""
        held = {lane for lane, _ in self.link.held} - {0} if self.link is not None else set()
        if len(held.union(self.numbered)) >= LANES_MAX:
            raise Refused(
                f"a door has at most {LANES_MAX} lanes, those counted that are over while views of their tensors are left; "
                "close some, or connect once more",
                "LimitExceeded",
            )

    def announce(self, lane: AnyLane, seconds: float) -> None:
        """Asks the sidecar for the lane, if there is a connection; else the watcher does once there is."""
        if self.link is None:
            lane.resuming = True
            return
        timeout_ms = int(min(seconds * 1000, _wire.TIMEOUT_MS_MAX))
        self.torn = True
        self.last_number += 1
        lane.number = self.last_number
        self.numbered[lane.number] = lane
        self.send(lane.open_packet(timeout_ms))
        self.torn = False

    def abandon(self, lane: AnyLane) -> None:
        """Drops a lane without an end; its other side sees an interruption."""
        if lane not in self.lanes:
            return
        if lane.number:
            self.send(_wire.close(lane.number, abandon=True))
        lane.end()
        self.forget(lane)

    def forget(self, lane: AnyLane) -> None:
        """The lane is over."""
        self.lanes.discard(lane)
        self.numbered.pop(lane.number, None)
        if isinstance(lane, SendingLane):
            self.give_back(lane.arena)
            if lane.arena.parts and self.link is not None:
                self.left.append(lane.arena)
        elif self.link is not None:
            self.link.forget_segments(lane.number)

    def give_back(self, arena: PutArena, fresh: bool = True) -> None:
        """Gives memory in which nothing lies back to the pod; segments that somebody waits for only when `fresh`."""
        torn, self.torn = self.torn, True
        for number in arena.idle(fresh):
            self.send(_wire.drop(number))
        self.torn = torn

    def give_back_idle(self) -> None:
        """Gives back what lies idle in any lane, but segments that somebody waits for."""
        for lane in self.lanes:
            if isinstance(lane, SendingLane):
                self.give_back(lane.arena, fresh=False)

    def put_bytes(self) -> int:
        """Bytes of all put segments of this door, those counted that it asked for."""
        arenas = [lane.arena for lane in self.lanes if isinstance(lane, SendingLane)]
        return sum(arena.total + (arena.wanted or 0) for arena in (*arenas, *self.left))

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
            # Asked for once: another thread that finds the connection lost closes it at any moment.
            descriptor = link.fileno()
            if descriptor >= 0:
                # No events: besides the wake-up only a hang-up ends the sleep.
                poller.register(descriptor, 0)
            tick = TICK_SECONDS * 1000 if self.lanes or link.held else None
            woken = [descriptor for descriptor, _ in poller.poll(tick)]
            if self._wake_read in woken:
                os.read(self._wake_read, 4096)
            with self.lock:
                self.recover()
                if self.link is link and not self.closing:
                    self.look()
                    self._trim()
        with self.lock:
            self._close_pipe()

    def _trim(self) -> None:
        """Gives back memory of lanes that are over, and of lanes that have been idle for a while all but one usual
        segment."""
        if self.link is None:
            return
        arenas = [lane.arena for lane in self.lanes if isinstance(lane, SendingLane)]
        if any(arena.returned or arena.refusal is not None for arena in arenas):
            # A place that became free by itself, and the time to ask for memory again, are news that nobody brings.
            self.notify()
        for arena in arenas:
            for number in arena.surplus(self.link.welcome.segment_bytes, time.monotonic()):
                self.send(_wire.drop(number))
        for arena in self.left:
            self.give_back(arena)
        self.left = [arena for arena in self.left if arena.parts]

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
            running = self._resume(link)
        while running and self.link is link and not self.closing:
            self.wait(None)
            with self.lock:
                running = [operation for operation in running if self._step(operation)]
                self.notify()

    def _resume(self, link: Link) -> list[Operation[None]]:
        """What restores the lanes, side by side: one that waits for its peer keeps no other waiting."""
        from . import _operations

        running = [_operations.resume(self, lane, link) for lane in self.lanes if not lane.over]
        # Before anybody else uses the lanes.
        running = [operation for operation in running if self._step(operation)]
        self.notify()
        return running

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
            return
        with self.lock:
            self.recover()
            self.closing = True
            # What was taken last would go to somebody else again.
            self.tell()
            self._leave()
            for lane in self.lanes:
                lane.end()
            self.wake_watcher()
            self.notify()
        if self._watcher.is_alive() and self._watcher is not threading.current_thread():
            self._watcher.join(CONNECT_SECONDS)


_cores: weakref.WeakSet[Core] = weakref.WeakSet()


def _after_fork() -> None:
    """A child has its parent's doors without the threads that watch them."""
    for core in tuple(_cores):
        core.forked = True
        # Whoever held it is in the parent.
        core.lock = threading.Lock()
        core.fatal = Closed("this door was opened before a fork; connect again in the new process", "UsedAfterFork")


os.register_at_fork(after_in_child=_after_fork)
