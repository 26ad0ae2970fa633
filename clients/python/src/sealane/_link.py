"""One connection to a sidecar process: packets, descriptors, and what the application still holds of it."""

from __future__ import annotations

import array
import os
import select
import socket
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import NamedTuple, Optional

from . import _wire
from ._arena import Segment
from .errors import NotReady, SealaneError

#: A sidecar that reads nothing for this long is treated as lost.
STUCK_SECONDS = 10.0
#: Small deliveries are acknowledged in groups of this size, or when the application next waits.
OWED_BATCH = 64
OWED_PER_MESSAGE_MAX = 4096
#: In the order in which the sidecar must hear of them.
_TOOK, _TOOK_PARTLY, _RELEASE = 0, 1, 2
_DESCRIPTOR_BYTES = array.array("i").itemsize
# Plain numbers: to join members of an enumeration takes as long as the call that they are for.
_SENDING = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
_RECEIVING = int(socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
_ANCILLARY_BYTES = socket.CMSG_SPACE(_DESCRIPTOR_BYTES)


class LinkLost(Exception):
    """The connection is gone; what lay in it was read before."""


class Packet(NamedTuple):
    message: _wire.Message
    descriptor: Optional[int]


class Link:
    """Callers hold the door's lock, except for `released`, which finalizers call from anywhere."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.pid = os.getpid()
        self.alive = True
        self.leaving = False
        self.takes: dict[int, Segment] = {}
        #: What views keep: (lane, delivery) of tensors, (0, address) of lent arrays. The sidecar frees pages when the
        #: connection ends, so it stays while anything is in here.
        self.held: set[tuple[int, int]] = set()
        #: Runs of which the application has a part, as (lane, delivery).
        self.begun: set[tuple[int, int]] = set()
        #: What the sidecar has not been told: (TOOK, TOOK_PARTLY or RELEASE, lane, delivery).
        self._owed: deque[tuple[int, int, int]] = deque()
        self._flushing = threading.Lock()
        self._buffer = bytearray(_wire.MESSAGE_BYTES_MAX)
        self.welcome: _wire.Welcome

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
            detail = error.strerror if isinstance(error, OSError) and error.strerror else "no answer"
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
                if not self.poll(select.POLLIN, deadline - time.monotonic()):
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

    def poll(self, events: int, seconds: float) -> bool:
        """Waits for `events` on the socket; an error on it counts."""
        descriptor = self.connection.fileno()
        if descriptor < 0:
            return True
        poller = select.poll()
        poller.register(descriptor, events)
        return bool(poller.poll(max(0.0, seconds) * 1000))

    def send(self, packet: bytes) -> None:
        """Sends one packet. The sidecar always reads, so waiting is short; `LinkLost` when it does not."""
        while True:
            try:
                self.connection.send(packet, _SENDING)
                return
            except BlockingIOError:
                if not self.poll(select.POLLOUT, STUCK_SECONDS):
                    raise LinkLost from None
            except OSError as error:
                raise LinkLost from error

    def receive(self) -> Optional[Packet]:
        """The next packet if one waits; `LinkLost` after the last."""
        try:
            size, control, _, _ = self.connection.recvmsg_into([self._buffer], _ANCILLARY_BYTES, _RECEIVING)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            # The sidecar died with unread packets of ours; what it had said still follows.
            return self.receive()
        except OSError as error:
            raise LinkLost from error
        if size == 0:
            raise LinkLost
        if not control:
            return Packet(_wire.parse(bytes(self._buffer[:size])), None)
        descriptors = array.array("i")
        for level, kind, data in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % _DESCRIPTOR_BYTES])
        return Packet(_wire.parse(bytes(self._buffer[:size])), descriptors[0] if descriptors else None)

    # ---- what the application has and had ------------------------------------------------------------------

    def took(self, lane: int, delivery: int, urgent: bool) -> None:
        """The application has a delivery. Told at once when urgent, else with others."""
        self.begun.discard((lane, delivery))
        self._owed.append((_TOOK, lane, delivery))
        self._flush_some(urgent)

    def released(self, lane: int, number: int, urgent: bool) -> None:
        """A finalizer: the last view of a delivery (or of a lent array, lane 0) is gone. Takes no lock that it would
        have to wait for, because the collector may run it inside one, in any thread."""
        if os.getpid() != self.pid:
            return
        if lane and self.alive:
            if (lane, number) in self.begun:
                # Nobody is left to take the rest.
                self.begun.discard((lane, number))
                self._owed.append((_TOOK_PARTLY, lane, number))
            self._owed.append((_RELEASE, lane, number))
            with suppress(LinkLost):
                # Whoever reads next learns that the link is gone, and with it what was held.
                self._flush_some(urgent)
        self.held.discard((lane, number))
        if self.leaving and not self.held:
            self.close()

    def _flush_some(self, urgent: bool) -> None:
        if urgent or len(self._owed) >= OWED_BATCH:
            self.flush()

    def flush(self) -> None:
        """Tells what is owed. Whoever comes while another thread is at it leaves it to that one."""
        while self._owed and self._flushing.acquire(blocking=False):
            try:
                owed: dict[tuple[int, int], list[int]] = {}
                while self._owed:
                    kind, lane, number = self._owed.popleft()
                    owed.setdefault((kind, lane), []).append(number)
                for (kind, lane), numbers in sorted(owed.items()):
                    for start in range(0, len(numbers), OWED_PER_MESSAGE_MAX):
                        some = numbers[start : start + OWED_PER_MESSAGE_MAX]
                        partly = kind == _TOOK_PARTLY
                        self.send(_wire.release(lane, some) if kind == _RELEASE else _wire.took(lane, some, partly))
            finally:
                self._flushing.release()

    def leave(self) -> None:
        """Closes now, or when the last view is gone."""
        self.leaving = True
        if not self.held:
            self.close()

    def close(self) -> None:
        self.alive = False
        self.connection.close()
