"""What each message from the sidecar changes. The caller holds the door's lock."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Optional

from . import _wire
from ._arena import Segment
from ._lanes import AnyLane, ReceivingLane, SendingLane
from ._link import Link, Packet
from ._runs import Arrived
from .errors import Closed, Interrupted, NotReady, Refused, SealaneError, Uncertain

if TYPE_CHECKING:
    from ._core import Core

_FAILURES: dict[int, type[SealaneError]] = {1: NotReady, 2: Refused, 3: Closed}
_NOT_READY = 1
#: Pause before asking again for memory that the pod did not have.
_MEMORY_PAUSE_SECONDS = 0.1


def dispatch(core: Core, link: Link, packet: Packet) -> None:
    """Applies one message. Messages for lanes that are over are dropped."""
    message, descriptor = packet
    if isinstance(message, _wire.SegmentMade):
        _segment(core, link, message, descriptor)
        return
    if descriptor is not None:
        os.close(descriptor)
    if isinstance(message, _wire.Failed):
        _failed(core, message)
    elif isinstance(message, _wire.Dropped):
        link.takes.pop(message.segment, None)
    elif isinstance(message, _wire.Welcome):
        raise _wire.WireError("a second WELCOME")
    else:
        lane = core.numbered.get(message.lane)
        if isinstance(lane, SendingLane):
            _sending(core, lane, message)
        elif isinstance(lane, ReceivingLane):
            _receiving(core, lane, link, message)


def _segment(core: Core, link: Link, message: _wire.SegmentMade, descriptor: Optional[int]) -> None:
    if descriptor is None:
        raise _wire.WireError("SEGMENT without a descriptor")
    segment = Segment(message.segment, descriptor, message.size)
    lane = core.numbered.get(message.lane)
    if message.take:
        link.takes[segment.number] = segment
    elif isinstance(lane, SendingLane):
        lane.arena.add(segment)
    else:
        core.send(_wire.drop(segment.number))


def _failed(core: Core, message: _wire.Failed) -> None:
    error = _FAILURES.get(message.failure, SealaneError)(message.message, message.reason)
    if message.lane == 0:
        core.fail(error)
        return
    lane = core.numbered.get(message.lane)
    if lane is None:
        return
    if lane.resuming and message.failure == _NOT_READY:
        del core.numbered[message.lane]
        lane.number = 0
        lane.refusal = error
        return
    lane.end(error)
    core.forget(lane)


def _opened(lane: AnyLane, message: _wire.Opened) -> None:
    lane.opened = True
    lane.window = message.window
    lane.refusal = None


def _sending(core: Core, lane: SendingLane, message: _wire.Message) -> None:
    if isinstance(message, _wire.Taken):
        lane.settle(message.ranges)
    elif isinstance(message, _wire.Assigned):
        for sequence, tensors, replicas in message.entries:
            lane.assign(sequence, tensors, replicas)
    elif isinstance(message, _wire.Opened):
        _opened(lane, message)
    elif isinstance(message, _wire.UncertainRanges):
        lane.settle(message.ranges)
        lane.failures.extend(Uncertain(first, last) for first, last in message.ranges)
    elif isinstance(message, _wire.NoSegment):
        lane.arena.wanted = None
        lane.arena.refusal = (message.message, message.reason)
        lane.arena.ask_again = time.monotonic() + _MEMORY_PAUSE_SECONDS
    elif isinstance(message, _wire.ClosedLane):
        lane.end()
        core.forget(lane)
    else:
        raise _wire.WireError(f"{type(message).__name__} on a lane that sends")


def _receiving(core: Core, lane: ReceivingLane, link: Link, message: _wire.Message) -> None:
    if isinstance(message, _wire.Deliver):
        for entry in message.entries:
            lane.ready_items.append(_arrived(lane, link, message.lane, entry))
    elif isinstance(message, _wire.SenderName):
        lane.senders[message.number] = message.name
    elif isinstance(message, _wire.Opened):
        _opened(lane, message)
    elif isinstance(message, _wire.InterruptedBy):
        lane.ready_items.append(Interrupted(message.sender))
    elif isinstance(message, _wire.Ended):
        lane.ended = True
    elif isinstance(message, _wire.ClosedLane):
        lane.end()
        core.forget(lane)
    else:
        raise _wire.WireError(f"{type(message).__name__} on a lane that receives")


def _arrived(lane: ReceivingLane, link: Link, number: int, entry: _wire.Entry) -> Arrived:
    segment = link.takes.get(entry.segment) if entry.length else None
    if entry.length and (segment is None or entry.offset + entry.length > segment.size):
        raise _wire.WireError("a delivery does not lie within a segment")
    sender = lane.senders.get(entry.sender)
    if sender is None:
        raise _wire.WireError("a delivery names an unknown sender")
    return Arrived(link, number, entry, sender, segment)
