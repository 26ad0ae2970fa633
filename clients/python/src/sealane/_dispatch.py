"""What each message from the sidecar changes. The caller holds the door's lock."""

from __future__ import annotations

import errno
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
    elif isinstance(message, _wire.NoSegment):
        _no_segment(core, message)
    elif isinstance(message, _wire.Welcome):
        raise _wire.WireError("a second WELCOME")
    else:
        lane = core.numbered.get(message.lane)
        if isinstance(lane, SendingLane):
            _sending(core, lane, message)
        elif isinstance(lane, ReceivingLane):
            _receiving(core, lane, link, message)


def _segment(core: Core, link: Link, message: _wire.SegmentMade, descriptor: Optional[int]) -> None:
    lane = core.numbered.get(message.lane)
    if not message.take:
        core.wanting.discard(message.lane)
    if lane is None or isinstance(lane, ReceivingLane) is not message.take:
        # The lane is over.
        if descriptor is not None:
            os.close(descriptor)
        if not message.take:
            core.send(_wire.drop(message.segment))
        return
    try:
        segment = _mapped(message, descriptor)
    except OSError as error:
        _unmapped(core, lane, message, error)
        return
    if isinstance(lane, SendingLane):
        lane.arena.add(segment)
    else:
        link.takes[segment.number] = message.lane, segment


def _mapped(message: _wire.SegmentMade, descriptor: Optional[int]) -> Segment:
    if descriptor is None:
        # The kernel drops what a process has no room for.
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return Segment(message.segment, descriptor, message.size)


def _unmapped(core: Core, lane: AnyLane, message: _wire.SegmentMade, error: OSError) -> None:
    """This process has no room for more descriptors or mappings. A lane that puts can wait for some."""
    why = f"{message.size} bytes of shared memory cannot be mapped into this process: {error.strerror}"
    if isinstance(lane, SendingLane):
        core.send(_wire.drop(message.segment))
        _refuse_memory(lane, why, "LimitExceeded")
        return
    lane.error = Closed(why, "LimitExceeded")
    core.abandon(lane)


def _no_segment(core: Core, message: _wire.NoSegment) -> None:
    if message.lane == 0:
        # Other clients of the pod want memory.
        core.give_back_idle()
        return
    core.wanting.discard(message.lane)
    lane = core.numbered.get(message.lane)
    if isinstance(lane, SendingLane):
        _refuse_memory(lane, message.message, message.reason)


def _refuse_memory(lane: SendingLane, why: str, reason: str) -> None:
    lane.arena.wanted = None
    lane.arena.refusal = why, reason
    lane.arena.ask_again = time.monotonic() + _MEMORY_PAUSE_SECONDS


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
        link.forget_segments(message.lane)
    elif isinstance(message, _wire.ClosedLane):
        lane.end()
        core.forget(lane)
    else:
        raise _wire.WireError(f"{type(message).__name__} on a lane that receives")


def _arrived(lane: ReceivingLane, link: Link, number: int, entry: _wire.Entry) -> Arrived:
    _, segment = link.takes.get(entry.segment, (0, None)) if entry.length else (0, None)
    if entry.length and (segment is None or entry.offset + entry.length > segment.size):
        raise _wire.WireError("a delivery does not lie within a segment")
    sender = lane.senders.get(entry.sender)
    if sender is None:
        raise _wire.WireError("a delivery names an unknown sender")
    return Arrived(link, number, entry, sender, segment)
