"""One connection to a sidecar process: packets, descriptors, and what the application still holds of it."""

from __future__ import annotations

import array
import os
import select
import socket
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from typing import Any, Callable, NamedTuple, Optional

from . import _wire
from ._arena import Segment
from .errors import NotReady, SealaneError

#: A sidecar that reads nothing for this long is treated as lost.
STUCK_SECONDS = 10.0
#: Small deliveries are acknowledged in groups of this size, or when the application next waits.
OWED_BATCH = 64
OWED_PER_MESSAGE_MAX = 4096
_DESCRIPTOR_BYTES = array.array("i").itemsize
# Plain numbers: to join members of an enumeration takes as long as the call that they are for.
_SENDING = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
#: Arguments of one `recvmsg`.
_RECEIVE = (
    (_wire.MESSAGE_BYTES_MAX,),
    (socket.CMSG_SPACE(_DESCRIPTOR_BYTES),),
    (int(socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC),),
)


class LinkLost(Exception):
    """The connection is gone; what lay in it was read before."""


class Packet(NamedTuple):
    message: _wire.Message
    descriptor: Optional[int]


#: What a view keeps: the lane and number of a delivery, or 0 and the address of a lent array.
Key = tuple[int, int]
#: Numbers of deliveries.
ByLane = dict[int, list[int]]


class Link:
    """Callers hold the door's lock, except for what the collector calls, from anywhere, when a view is gone."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.alive = True
        #: It read nothing for STUCK_SECONDS, and may read again.
        self.stuck = False
        self.leaving = False
        #: By number, with the lane that takes from it.
        self.takes: dict[int, tuple[int, Segment]] = {}
        #: What watches over the views. The sidecar frees pages when the connection ends, so it stays while anything is
        #: in here.
        self.held: dict[Key, weakref.ref[Any]] = {}
        #: Deliveries of which the application has a part, as far as the sidecar has been told.
        self.begun: set[Key] = set()
        #: What the sidecar has not been told.
        self._taken: deque[Key] = deque()
        self._taken_partly: deque[Key] = deque()
        self._released: deque[Key] = deque()
        #: The same in messages, which are here until they are sent.
        self._unsaid: deque[bytes] = deque()
        self._flushing = threading.Lock()
        #: Packets as `recvmsg` gives them.
        self.inbox: deque[tuple[bytes, Any, int, Any]] = deque()
        self.renew_poller()
        self.welcome: _wire.Welcome
        _links.add(self)

    @classmethod
    def connect(cls, path: str, timeout: float) -> Link:
        """Connects and greets; `NotReady` when nobody answers."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link = cls(connection)
        try:
            connection.settimeout(timeout)
            connection.connect(path)
            connection.setblocking(False)
            with suppress(LinkLost):
                # A sidecar that turns clients away has hung up by now; what it said is still to be read.
                link.send(_wire.hello(f"python {sys.version_info[0]}.{sys.version_info[1]} pid {os.getpid()}"))
            link.welcome = link._await_welcome(time.monotonic() + timeout)
        except (OSError, LinkLost) as error:
            connection.close()
            # Some have words and no number: a path that is too long for a socket.
            detail = error.strerror or str(error) if isinstance(error, OSError) else ""
            detail = detail or "no answer"
            raise NotReady(
                f"no sidecar answers at {path}: {detail}; is this pod injected (label sealane.dev/injected), or "
                "SEALANE_DOOR set?",
                "DoorUnreachable",
            ) from None
        except BaseException:
            connection.close()
            raise
        return link

    def _await_welcome(self, deadline: float) -> _wire.Welcome:
        while True:
            packet = self.receive()
            if packet is None:
                if not self.wait(deadline - time.monotonic(), self.poller):
                    raise LinkLost
                continue
            message = packet.message
            if isinstance(message, _wire.Welcome):
                return message
            if isinstance(message, _wire.Failed):
                kind = NotReady if message.failure == 1 else SealaneError
                raise kind(message.message, message.reason)
            raise _wire.WireError(f"the sidecar greets with {type(message).__name__}")

    def fileno(self) -> int:
        return self.connection.fileno()

    def renew_poller(self) -> None:
        """Whoever still waits keeps the poller that it has, which no other thread may use."""
        # In this order: a signal may come between the two.
        poller = select.poll()
        poller.register(self.connection, select.POLLIN)
        self.poller = poller

    def wait(self, seconds: float, poller: select.poll) -> bool:
        """Waits for a packet; an error on the socket counts. One thread at a time with each poller."""
        return not self.alive or bool(poller.poll(max(0.0, seconds) * 1000))

    def send(self, packet: bytes) -> None:
        """Sends one packet. The sidecar always reads, so waiting is short; `LinkLost` when it does not."""
        while not self.stuck:
            try:
                self.connection.send(packet, _SENDING)
                return
            except OSError as error:
                self._await_room(error)
        raise LinkLost

    def _send_unsaid(self) -> None:
        """As `send`, for the first of what is not said, which is dropped as it goes."""
        while not self.stuck:
            try:
                _together(partial(self.connection.send, self._unsaid[0], _SENDING), partial(self._unsaid.popleft))
                return
            except OSError as error:
                self._await_room(error)
        raise LinkLost

    def _await_room(self, error: OSError) -> None:
        if not isinstance(error, BlockingIOError):
            raise LinkLost from error
        try:
            poller = select.poll()
            poller.register(self.connection, select.POLLOUT)
            if poller.poll(STUCK_SECONDS * 1000):
                return
            # Whoever reads next learns it as well. The connection stays while there are views: a sidecar that reads again
            # would free their memory.
            self.stuck = True
        except (OSError, ValueError):
            # Another thread closed it meanwhile.
            pass
        raise LinkLost

    def receive(self) -> Optional[Packet]:
        """The next packet if one waits; `LinkLost` after the last."""
        packet = self.peek()
        if packet is not None:
            self.inbox.popleft()
        return packet

    def peek(self) -> Optional[Packet]:
        """As `receive`; it stays the first of the inbox, so an exception that comes now loses nothing."""
        if self.stuck:
            raise LinkLost
        try:
            if not self.inbox:
                # Built-in code from the socket into the inbox: no signal comes between.
                next(map(self.inbox.append, map(self.connection.recvmsg, *_RECEIVE)))
        except BlockingIOError:
            return None
        except ConnectionResetError:
            # The sidecar died with unread packets of ours; what it had said still follows.
            return self.peek()
        except OSError as error:
            raise LinkLost from error
        data, control, _, _ = self.inbox[0]
        if not data:
            raise LinkLost
        message = _wire.parse(data)
        if not control:
            return Packet(message, None)
        descriptors = array.array("i")
        for level, kind, data in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % _DESCRIPTOR_BYTES])
        return Packet(message, descriptors[0] if descriptors else None)

    # ---- what the application has and had ------------------------------------------------------------------

    def watch(self, window: Any, key: Key, urgent: bool) -> None:
        """Notices when the last view of `window` is gone."""
        self.held[key] = weakref.ref(window, partial(_gone, self, key, urgent))

    def took(self, key: Key, urgent: bool) -> None:
        """The application has a delivery. Told at once when urgent, else with others."""
        self._taken.append(key)
        if urgent or len(self._taken) >= OWED_BATCH:
            self.flush()

    def took_partly(self, key: Key) -> None:
        """The application has a part of a delivery, and nobody is left to take the rest."""
        if key in self.begun:
            self._taken_partly.append(key)

    def release(self, key: Key, urgent: bool) -> None:
        """The application has no view of a delivery. Takes no lock that its own thread has, because the collector may run
        it inside one, in any thread."""
        self.took_partly(key)
        self._released.append(key)
        if urgent or len(self._released) >= OWED_BATCH:
            self.flush()

    def flush(self) -> None:
        """Tells what is owed. Whoever comes while another is at it, in this thread or in one beside it, leaves it to that
        one; should one come between the look and the lock, it is waited for, which is short."""
        while self._owes() and not self._flushing.locked():
            with self._flushing:
                self._say()

    def tell(self) -> None:
        """As `flush`, and what was owed before has been told when it returns. Not for the collector, which may run
        inside of either."""
        with self._flushing:
            if self._owes():
                self._say()

    def _owes(self) -> bool:
        return bool(self._taken or self._taken_partly or self._released or self._unsaid)

    def _say(self) -> None:
        # In this order, because a delivery is taken before it is released.
        owed = self._released, self._taken_partly, self._taken
        keys = [tuple(some) for some in owed]
        self.begun.difference_update(keys[1], keys[2])
        released, partly, taken = map(_by_lane, keys)
        words = list(_words(taken, partly, released))
        said = [repeat(partial(some.popleft), len(known)) for some, known in zip(owed, keys)]
        _together(partial(self._unsaid.extend, words), *chain.from_iterable(said))
        while self._unsaid:
            self._send_unsaid()

    def leave_lanes(self, lanes: Iterable[int]) -> None:
        """The lanes end and the connection stays. What the application has of them is not the sidecar's to give away."""
        for key in tuple(self.begun):
            self.took_partly(key)
        self.tell()
        for lane in lanes:
            self.send(_wire.close(lane, abandon=True))

    def forget_segments(self, lane: int) -> None:
        """Nothing more comes in the segments of a lane. What lies in them keeps them."""
        for number in [number for number, (user, _) in self.takes.items() if user == lane]:
            del self.takes[number]

    def leave(self) -> None:
        """Closes now, or when the last view is gone."""
        self.leaving = True
        if self.held:
            _left.add(self)
            # The last one may have gone in between.
            self._close_if_idle()
        else:
            self.close()

    def _close_if_idle(self) -> None:
        if self.leaving and not self.held:
            self.close()

    def close(self) -> None:
        self.alive = False
        self.connection.close()
        _left.discard(self)


def _gone(link: Link, key: Key, urgent: bool, _view: weakref.ref[Any]) -> None:
    """The last view of something is gone."""
    lane, _ = key
    try:
        if lane and link.alive and not link.stuck:
            with suppress(LinkLost):
                # Whoever reads next learns that the link is gone, and with it what was held.
                link.release(key, urgent)
    finally:
        link.held.pop(key, None)
        link._close_if_idle()


def _together(*calls: partial[Any]) -> None:
    """Makes calls of built-in functions with no byte code between them: either the first raises, or no signal comes before
    the last is made."""
    deque(map(_CALL, calls), maxlen=0)


#: Only these are called with it.
_CALL = partial.__call__


def _by_lane(keys: Iterable[Key]) -> ByLane:
    lanes: ByLane = {}
    for lane, number in keys:
        lanes.setdefault(lane, []).append(number)
    return lanes


def _words(taken: ByLane, partly: ByLane, released: ByLane) -> Iterator[bytes]:
    """What the sidecar hears: of each delivery that it was taken, before or as it is released."""
    for lane, numbers in partly.items():
        # An interruption may have come before it was known here that the application has all of it.
        only = set(numbers).difference(taken.get(lane, ()))
        yield from _split(partial(_wire.took, partly=True), lane, sorted(only))
    for lane, numbers in taken.items():
        both = set(numbers).intersection(released.get(lane, ()))
        if both:
            yield from _split(partial(_wire.release, taken=True), lane, [one for one in numbers if one in both])
            numbers = [one for one in numbers if one not in both]
            released[lane] = [one for one in released[lane] if one not in both]
        yield from _split(_wire.took, lane, numbers)
    for lane, numbers in released.items():
        yield from _split(_wire.release, lane, numbers)


def _split(message: Callable[[int, list[int]], bytes], lane: int, numbers: list[int]) -> Iterator[bytes]:
    """Into messages of legal size."""
    for start in range(0, len(numbers), OWED_PER_MESSAGE_MAX):
        yield message(lane, numbers[start : start + OWED_PER_MESSAGE_MAX])


_links: weakref.WeakSet[Link] = weakref.WeakSet()
#: Links that were left while views of their memory were about: these alone keep them open.
_left: set[Link] = set()


def _after_fork() -> None:
    """A child must not keep its parent's connections open: the sidecar would not see the parent go."""
    for link in tuple(_links):
        link.close()


os.register_at_fork(after_in_child=_after_fork)
