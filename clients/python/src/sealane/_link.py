"""One connection to a sidecar process: packets, descriptors, and what the application still holds of it."""

from __future__ import annotations

import array
import os
import select
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from typing import NamedTuple, Optional

from . import _wire
from ._arena import Segment
from .errors import NotReady, SealaneError

#: A sidecar that reads nothing for this long is treated as lost.
STUCK_SECONDS = 10.0
_DESCRIPTOR_BYTES = array.array("i").itemsize
_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL


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
        #: Releases that did not fit into the socket at once.
        self.unsent: deque[bytes] = deque()
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
                self.connection.send(packet, _FLAGS)
                return
            except BlockingIOError:
                if not self.poll(select.POLLOUT, STUCK_SECONDS):
                    raise LinkLost from None
            except OSError as error:
                raise LinkLost from error

    def receive(self) -> Optional[Packet]:
        """The next packet if one waits; `LinkLost` after the last."""
        try:
            size, control, _, _ = self.connection.recvmsg_into(
                [self._buffer],
                socket.CMSG_SPACE(_DESCRIPTOR_BYTES),
                socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC,
            )
        except BlockingIOError:
            return None
        except ConnectionResetError:
            # The sidecar died with unread packets of ours; what it had said still follows.
            return self.receive()
        except OSError as error:
            raise LinkLost from error
        if size == 0:
            raise LinkLost
        descriptors = array.array("i")
        for level, kind, data in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % _DESCRIPTOR_BYTES])
        return Packet(_wire.parse(bytes(self._buffer[:size])), descriptors[0] if descriptors else None)

    def released(self, lane: int, number: int) -> None:
        """A finalizer: the last view of a delivery (or of a lent array, lane 0) is gone. Takes no lock, because the
        collector may run it inside one, in any thread."""
        if os.getpid() != self.pid:
            return
        if lane and self.alive:
            self._send_or_keep(_wire.release(lane, (number,)))
        self.held.discard((lane, number))
        if self.leaving and not self.held:
            self.close()

    def _send_or_keep(self, packet: bytes) -> None:
        try:
            self.connection.send(packet, _FLAGS)
        except BlockingIOError:
            self.unsent.append(packet)
        except OSError:
            # Whoever reads next learns that the link is gone, and with it what was held.
            pass

    def flush(self) -> None:
        """Sends releases that had to wait."""
        while self.unsent:
            self.send(self.unsent.popleft())

    def leave(self) -> None:
        """Closes now, or when the last view is gone."""
        self.leaving = True
        if not self.held:
            self.close()

    def close(self) -> None:
        self.alive = False
        self.connection.close()
