"""What a client does with its lanes, as operations for `Core.run` and its asyncio sibling."""

from __future__ import annotations

import ctypes
import re
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Optional

from . import _arrays, _runs, _wire
from ._arena import SEGMENT_STEP_BYTES, Slot, round_up
from ._arrays import Source
from ._core import RESUME_SECONDS, WAIT, Core, Expired, Operation, Work
from ._lanes import AnyLane, Pending, ReceivingLane, SendingLane
from ._link import Link, LinkLost
from ._runs import URGENT_BYTES, Described
from .errors import Interrupted, NotReady, Refused, Timeout
from .tensor import Tensor

#: How long to wait for the sidecar's own, more precise answer after a lane's timeout.
GRACE_SECONDS = 2.0
#: Without a timeout a lane is asked for again and again, this long each.
PATIENCE_SECONDS = 86_400.0
#: Pause before a lane is asked for again that could not be restored.
RETRY_SECONDS = 0.2
#: As Kubernetes names objects (RFC 1123 subdomain).
_SESSION = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


def open_lane(core: Core, lane: AnyLane, timeout: Optional[float]) -> Operation[None]:
    """Opens a lane; `NotReady` with the reason after `timeout` seconds."""
    core.add(lane)
    core.announce(lane, PATIENCE_SECONDS if timeout is None else max(0.0, timeout))
    try:
        while not lane.ready:
            lane.check()
            yield WAIT
    except Expired:
        why = lane.refusal or (core.problem if core.link is None else None)
        message = why.args[0] if why else "the sidecar did not answer"
        raise NotReady(
            f"`{lane.session}` did not open within {timeout} s: {message}",
            why.reason if why else "Unreachable",
        ) from None
    except NotReady as error:
        raise NotReady(f"`{lane.session}`: {error.args[0]}", error.reason) from None
    finally:
        if not lane.ready:
            abandon(core, lane)


def abandon(core: Core, lane: AnyLane) -> None:
    """Drops a lane without an end; its other side sees an interruption."""
    if lane not in core.lanes:
        return
    if lane.number:
        core.send(_wire.close(lane.number, abandon=True))
    lane.end()
    core.forget(lane)


# ---- putting ---------------------------------------------------------------------------------------------------


def put(core: Core, lane: SendingLane, described: Sequence[Described]) -> Operation[list[int]]:
    """Copies into shared memory, numbers and hands over; waits for window and memory."""
    lane.check()
    lane.raise_failure()
    sequences: list[int] = []
    prepared: deque[Pending] = deque()
    size = 0
    try:
        for source, name in described:
            pending = yield from _prepare(core, lane, source, name, prepared, sequences)
            prepared.append(pending)
            size += pending.entry_bytes
            if size > _wire.MESSAGE_BYTES_MAX // 2:
                yield from _submit(core, lane, prepared, sequences)
                size = 0
        yield from _submit(core, lane, prepared, sequences)
        return sequences
    except Expired:
        raise _slow(core, lane, tuple(sequences)) from None
    finally:
        for pending in prepared:
            pending.settle()


def put_now(core: Core, lane: SendingLane, described: Described) -> Optional[int]:
    """Puts one small tensor, or one run, if window and memory have room for it: its number, or None."""
    lane.check()
    lane.raise_failure()
    source, name = described
    nbytes = source.nbytes
    if not lane.ready or not 0 < nbytes <= URGENT_BYTES or lane.arena.lent:
        return None
    if lane.under_way + source.parts > lane.window:
        return None
    slot = lane.arena.take(nbytes)
    if slot is None:
        return None
    pending = Pending(source.dtype.code, source.shape, nbytes, name, source.parts)
    slot.flying = 1
    pending.slot = slot
    try:
        source.copy(slot.bytes(nbytes))
    except BaseException:
        pending.settle()
        raise
    sequence = lane.next
    core.send(_wire.put(lane.number, (lane.add(pending),)))
    return sequence


def _slow(core: Core, lane: SendingLane, sequences: tuple[int, ...]) -> Timeout:
    refusal = lane.arena.refusal
    if refusal is not None:
        return Timeout(f"no shared memory for the tensor: {refusal[0]}", refusal[1], sequences)
    if not lane.ready:
        error = core.timeout(f"`{lane.session}` is being restored after a restart of the sidecar")
        return Timeout(error.args[0], error.reason, sequences)
    waiting = lane.under_way
    return Timeout(f"the receivers of `{lane.session}` have not taken the last {waiting} tensors", "Stalled", sequences)


def _prepare(
    core: Core,
    lane: SendingLane,
    source: Source,
    name: bytes,
    prepared: deque[Pending],
    sequences: list[int],
) -> Operation[Pending]:
    pending = Pending(source.dtype.code, source.shape, source.nbytes, name, source.parts)
    if source.nbytes == 0:
        return pending
    slot = lane.arena.lent_at(source.address(), source.nbytes) if lane.arena.lent and source.address else None
    if slot is not None:
        slot.flying += 1
        pending.slot = slot
        return pending
    slot = lane.arena.take(source.nbytes) if lane.ready else None
    if slot is None:
        # What waits to be handed over may be what the memory is waiting for.
        yield from _submit(core, lane, prepared, sequences)
        slot = yield from _room(core, lane, source.nbytes)
    slot.flying = 1
    pending.slot = slot
    try:
        yield Work(lambda: source.copy(slot.bytes(source.nbytes)), source.nbytes)
    except BaseException:
        pending.settle()
        raise
    return pending


def _room(core: Core, lane: SendingLane, size: int, link: Optional[Link] = None) -> Operation[Slot]:
    """A slot of `size` bytes, growing the arena or waiting for what is under way. For `link` only, when one is given:
    restoring a lane comes before putting new tensors into it."""
    while True:
        lane.check()
        if lane.ready or (link is not None and core.link is link and lane.opened):
            slot = lane.arena.take(size)
            if slot is not None:
                return slot
            _grow(core, lane, size)
        elif link is not None:
            raise Expired
        yield WAIT


def _grow(core: Core, lane: SendingLane, size: int) -> None:
    arena, link = lane.arena, core.link
    if link is None or arena.wanted is not None or time.monotonic() < arena.ask_again:
        return
    most, usual = link.welcome.put_bytes_max, link.welcome.segment_bytes
    if round_up(size, SEGMENT_STEP_BYTES) > most:
        raise Refused(
            f"a tensor of {size} bytes does not fit: this pod's sidecar shares at most {most} bytes for putting; "
            "raise SEALANE_ARENA_BYTES, or put it in parts",
            "LimitExceeded",
        )
    wish = arena.wish(size, usual, most)
    if wish is None:
        # Idle segments that are too small for this tensor may stand in its way.
        if arena.total + size > most or arena.refusal is not None:
            for number in arena.idle():
                core.send(_wire.drop(number))
        wish = arena.wish(size, usual, most)
    if wish is not None and core.link is link:
        arena.wanted = wish
        core.send(_wire.want(lane.number, wish))


def _submit(core: Core, lane: SendingLane, prepared: deque[Pending], sequences: list[int]) -> Operation[None]:
    """Numbers and hands over what is prepared, in one message as far as window and size allow."""
    while prepared:
        lane.check()
        if not lane.ready or not _fits(prepared[0], lane):
            yield WAIT
            continue
        if _is_stale(prepared[0], lane):
            yield from _move(core, lane, prepared[0])
            continue
        entries: list[bytes] = []
        room = _wire.MESSAGE_BYTES_MAX - _wire.HEADER_BYTES
        while prepared and _fits(prepared[0], lane) and not _is_stale(prepared[0], lane):
            room -= prepared[0].entry_bytes
            if room < 0:
                break
            pending = prepared.popleft()
            sequences.extend(range(lane.next, lane.next + pending.count))
            entries.append(lane.add(pending))
        core.send(_wire.put(lane.number, entries))


def _fits(pending: Pending, lane: SendingLane) -> bool:
    """Whether the window has room for it."""
    return lane.under_way + pending.count <= lane.window


def _is_stale(pending: Pending, lane: SendingLane) -> bool:
    """Whether its bytes lie in memory of an earlier sidecar process."""
    return pending.slot is not None and pending.slot.arena is not lane.arena


def _move(core: Core, lane: SendingLane, pending: Pending, link: Optional[Link] = None) -> Operation[None]:
    old = pending.slot
    if old is None:
        return
    slot = yield from _room(core, lane, pending.length, link)
    slot.flying = 1
    # Within the lock: nothing else can use the lane until this is done.
    slot.bytes(pending.length)[:] = pending.bytes()
    pending.slot, pending.offset = slot, 0


def empty(core: Core, lane: SendingLane, size: int) -> Operation[Any]:
    """A window of shared memory for the application to fill."""
    lane.check()
    lane.raise_failure()
    try:
        slot = yield from _room(core, lane, size)
    except Expired:
        raise _slow(core, lane, ()) from None
    window = lane.arena.lend(slot, size)
    link = core.link
    if link is not None:
        address = ctypes.addressof(window)
        link.watch(window, (0, address), urgent=False)
    return window


def flush(core: Core, lane: SendingLane) -> Operation[None]:
    """Waits until everything put before is taken."""
    target = lane.next
    try:
        while True:
            lane.raise_failure()
            if lane.error is not None:
                raise lane.error
            if next(iter(lane.untaken), target) >= target:
                return
            yield WAIT
    except Expired:
        raise _slow(core, lane, ()) from None


def close_sender(core: Core, lane: SendingLane) -> Operation[None]:
    """Flushes and ends the stream; closing again does nothing."""
    if lane.over and lane.error is None:
        return
    lane.check()
    yield from flush(core, lane)
    if lane.over:
        return
    lane.closing = True
    if lane.ready:
        core.send(_wire.close(lane.number))
    while not lane.over:
        yield WAIT
    lane.raise_failure()
    if lane.error is not None:
        raise lane.error


# ---- taking ----------------------------------------------------------------------------------------------------


def take(core: Core, lane: ReceivingLane) -> Operation[Optional[Tensor]]:
    """The next tensor; None when every sender has closed."""
    while True:
        if lane.begun is not None or lane.ready_items:
            return take_ready(core, lane)
        if lane.ended:
            lane.end()
            core.forget(lane)
            return None
        lane.check()
        yield WAIT


def take_ready(core: Core, lane: ReceivingLane) -> Optional[Tensor]:
    """The next tensor if one is here."""
    arrived = lane.begun
    if arrived is None:
        if not lane.ready_items:
            return None
        item = lane.ready_items.popleft()
        if isinstance(item, Interrupted):
            raise item
        item.begin()
        lane.begun = arrived = item
    tensor = arrived.next()
    if arrived.over:
        lane.begun = None
        if core.link is arrived.link:
            try:
                arrived.took()
            except LinkLost:
                core.lost()
    return tensor


def close_receiver(core: Core, lane: ReceivingLane) -> Operation[None]:
    """Leaves the stream. What was not taken is not taken."""
    if lane.over:
        return
    _break_off(core, lane)
    lane.ready_items.clear()
    # What was taken is not the sidecar's to give away, so it hears of that before it hears that the lane is over.
    core.tell()
    if lane.number:
        core.send(_wire.close(lane.number))
        while not (lane.over or lane.ended) and lane.number:
            yield WAIT
    lane.end()
    core.forget(lane)


def _break_off(core: Core, lane: ReceivingLane) -> None:
    """Of a run that the application took a part of, the views stay valid, and to the sender it is lost."""
    arrived, lane.begun = lane.begun, None
    if arrived is not None and core.link is arrived.link:
        arrived.link.took_partly(arrived.key)


# ---- after a restart -------------------------------------------------------------------------------------------


def resume(core: Core, lane: AnyLane, link: Link) -> Operation[None]:
    """Restores a lane on a new connection: opens it again and puts again what was not taken."""
    if isinstance(lane, ReceivingLane) and lane.ended:
        # Only what the application has not looked at yet is left of it.
        return
    lane.resuming = True
    while not lane.opened:
        if lane.over or core.link is not link:
            return
        if lane.number == 0:
            if lane.refusal is not None:
                yield from _pause(core, link)
            core.announce(lane, RESUME_SECONDS)
        yield WAIT
    if isinstance(lane, SendingLane):
        try:
            yield from _put_again(core, lane, link)
        except Expired:
            return
    if lane.over or core.link is not link:
        return
    lane.resuming = False
    if isinstance(lane, SendingLane) and lane.closing:
        core.send(_wire.close(lane.number))


def _pause(core: Core, link: Link) -> Operation[None]:
    until = time.monotonic() + RETRY_SECONDS
    while time.monotonic() < until and core.link is link:
        yield WAIT


def _put_again(core: Core, lane: SendingLane, link: Link) -> Operation[None]:
    for sequence, pending in sorted(lane.untaken.items()):
        if lane.untaken.get(sequence) is not pending:
            continue
        if _is_stale(pending, lane):
            yield from _move(core, lane, pending, link)
        if core.link is not link:
            return
        if lane.untaken.get(sequence) is pending:
            core.send(_wire.put(lane.number, [pending.entry(sequence)]))
        else:
            pending.settle()


def check_name(name: str) -> bytes:
    """The bytes of a tensor's name; ValueError when it is too long."""
    data = name.encode()
    if len(data) > _wire.NAME_BYTES_MAX:
        raise ValueError(f"a tensor's name has at most {_wire.NAME_BYTES_MAX} bytes, this one {len(data)}")
    return data


def check_session(session: str) -> str:
    """The name of a TransferSession; TypeError or ValueError when it cannot be one."""
    if not isinstance(session, str):
        raise TypeError(f"a session's name is a str, not {session!r:.64}, a {type(session).__name__}")
    if len(session) > _wire.SESSION_BYTES_MAX or not _SESSION.fullmatch(session):
        raise ValueError(
            f"`{session[:64]}` cannot name a session: give the metadata.name of a TransferSession of this namespace, 1 to "
            f"{_wire.SESSION_BYTES_MAX} lower-case letters, digits, `-` and `.`"
        )
    return session


def describe_one(core: Core, value: Any, name: str) -> Described:
    """Checks what is put before anything of it is sent."""
    source = _arrays.source(value)
    _check_rank(core, source)
    return source, check_name(name)


def describe(core: Core, lane: SendingLane, values: Sequence[Any], names: Optional[Sequence[bytes]]) -> list[Described]:
    """As `describe_one`, and makes runs where nothing speaks against that."""
    # What lies in lent memory already is put from where it lies.
    alone = len(values) == 1 or lane.shared_out or bool(lane.arena.lent)
    described = list((_runs.describe if alone else _runs.describe_runs)(values, names))
    for source, _ in described:
        _check_rank(core, source)
    return described


def _check_rank(core: Core, source: Source) -> None:
    most = core.link.welcome.rank_max if core.link is not None else _wire.RANK_MAX
    if len(source.shape) > most:
        raise ValueError(f"a tensor has at most {most} dimensions here, this one {len(source.shape)}")
