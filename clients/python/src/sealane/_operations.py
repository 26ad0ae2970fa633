"""What a client does with its lanes, as operations for `Core.run` and its asyncio sibling."""

from __future__ import annotations

import ctypes
import re
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, Optional

from . import _arrays, _runs, _wire
from ._arena import SEGMENT_STEP_BYTES, Slot, put_limit, round_up
from ._arrays import Source
from ._core import RESUME_SECONDS, WAIT, Core, Expired, Operation, Work
from ._lanes import AnyLane, Pending, ReceivingLane, SendingLane
from ._link import Link, LinkLost
from ._runs import URGENT_BYTES, Described
from .errors import Interrupted, NotReady, Refused, SealaneError, Timeout
from .tensor import Tensor

#: How long to wait for the sidecar's own, more precise answer after a lane's timeout.
GRACE_SECONDS = 2.0
#: Without a timeout a lane is asked for again and again, this long each.
PATIENCE_SECONDS = 86_400.0
#: Pause before a lane is asked for again that could not be restored.
RETRY_SECONDS = 0.2
#: As Kubernetes names objects (RFC 1123 subdomain).
_SESSION = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
#: Wishes for memory that a client may have unanswered (`DOOR.md`).
WANTS_MAX = 16
#: The first segment of a lane, unless a tensor needs more: 64 lanes have room beside whatever a pod takes.
FIRST_SEGMENT_BYTES = 1 << 20
#: A segment takes one of so many parts of the memory that is left, unless a tensor needs more.
SHARES = 8
#: What there is to do when the pod's memory is too small. The containers of an injected pod cannot set it themselves.
MORE_MEMORY = (
    "annotate the pod with a larger sealane.dev/memory-limit, of which shared memory is a part (SEALANE_ARENA_BYTES where "
    "you start the sidecar yourself)"
)


def open_lane(core: Core, lane: AnyLane, timeout: Optional[float]) -> Operation[None]:
    """Opens a lane; `NotReady` with the reason after `timeout` seconds. Whoever runs this discards the lane unless it hands
    it on: it may be cancelled after the lane opened."""
    core.check_lanes()
    try:
        core.add(lane)
        core.announce(lane, PATIENCE_SECONDS if timeout is None else max(0.0, timeout))
        while not lane.ready:
            lane.check()
            yield WAIT
    except Expired:
        if lane.ready:
            return
        why = lane.refusal or (core.problem if core.link is None else None)
        message = why.args[0] if why else "the sidecar did not answer"
        raise NotReady(
            f"`{lane.session}` did not open within {timeout} s: {message}",
            why.reason if why else "Unreachable",
        ) from None
    except NotReady as error:
        raise NotReady(f"`{lane.session}`: {error.args[0]}", error.reason) from None


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
        # Who keeps an exception keeps what its frames hold.
        prepared.clear()


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
    pending.slot = slot
    try:
        source.copy(slot.bytes(nbytes))
    except BaseException:
        del slot, pending
        raise
    return _hand_over(core, lane, (pending,))


def _hand_over(core: Core, lane: SendingLane, pendings: Sequence[Pending]) -> int:
    """Numbers what was copied, and tells the sidecar; the first number."""
    first = number = lane.next
    entries = []
    for pending in pendings:
        entries.append(pending.entry(number))
        number += pending.count
    packet = _wire.put(lane.number, entries)
    core.torn = True
    for pending in pendings:
        lane.add(pending)
    core.send(packet)
    core.torn = False
    return first


def _slow(core: Core, lane: SendingLane, sequences: tuple[int, ...]) -> Timeout:
    refusal = lane.arena.refusal
    if refusal is not None:
        return Timeout(f"no shared memory for the tensor: {refusal[0]}", refusal[1], sequences)
    return _untaken(core, lane, sequences)


def _untaken(core: Core, lane: SendingLane, sequences: tuple[int, ...]) -> Timeout:
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
        pending.slot = slot
        return pending
    slot = lane.arena.take(source.nbytes) if lane.ready else None
    if slot is None:
        # What waits to be handed over may be what the memory is waiting for.
        yield from _submit(core, lane, prepared, sequences)
        slot = yield from _room(core, lane, source.nbytes)
    pending.slot = slot
    yield Work(partial(_write, source, slot), source.nbytes)
    return pending


def _write(source: Source, slot: Slot) -> None:
    """Whoever runs this has the slot until it is done, and nobody else gets the place before, whatever became of the call
    that wanted it."""
    try:
        source.copy(slot.bytes(source.nbytes))
    finally:
        # Who keeps an exception keeps what this frame holds.
        del slot


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
    most = link.welcome.put_bytes_max
    needed = round_up(size, SEGMENT_STEP_BYTES)
    if needed > most:
        raise Refused(
            f"a tensor of {size} bytes does not fit: this pod's sidecar shares at most {most} bytes for putting; put it in "
            f"parts, or {MORE_MEMORY}",
            "LimitExceeded",
        )
    if core.put_bytes() + needed > most or arena.refusal is not None:
        # Idle segments, of other lanes or too small for this tensor, may stand in its way.
        core.give_back_idle()
    lent = arena.lent_sizes()
    kept, limit = sum(lent), put_limit(most, max([needed, *lent]))
    if kept + needed > limit and not lane.untaken:
        # Nobody but this application can change that.
        raise Refused(
            f"no room for {size} bytes: arrays of `empty` and of rings that this application keeps for `{lane.session}` take "
            f"{kept} of the {limit} bytes that it may share for arrays as large; keep less, or {MORE_MEMORY}",
            "LimitExceeded",
        )
    others = core.put_bytes() - arena.total
    if others + needed > most:
        held = f"the other lanes of this door hold {others} of the {most} bytes that this pod may share for putting"
        arena.refusal = f"{held}; close what is not used, or {MORE_MEMORY}", "LimitExceeded"
    # A lane begins with a little, doubles it, and asks for a part of what is left, so that there is always some for the
    # next lane, and for what the pod takes.
    left = max(0, most - others - arena.total) // SHARES
    usual = min(link.welcome.segment_bytes, left - left % SEGMENT_STEP_BYTES, max(FIRST_SEGMENT_BYTES, arena.total))
    usual = max(SEGMENT_STEP_BYTES, usual)
    wish = arena.wish(size, usual, most - others)
    if wish is not None and len(core.wanting) < WANTS_MAX and core.link is link:
        core.torn = True
        arena.wanted = wish
        core.wanting.add(lane.number)
        core.send(_wire.want(lane.number, wish))
        core.torn = False


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
        together: list[Pending] = []
        room, tensors = _wire.MESSAGE_BYTES_MAX - _wire.HEADER_BYTES, 0
        while prepared and _fits(prepared[0], lane, tensors) and not _is_stale(prepared[0], lane):
            room -= prepared[0].entry_bytes
            if room < 0:
                break
            tensors += prepared[0].count
            together.append(prepared.popleft())
        first = _hand_over(core, lane, together)
        sequences.extend(range(first, first + tensors))


def _fits(pending: Pending, lane: SendingLane, before: int = 0) -> bool:
    """Whether the window has room for it, behind so many others."""
    return lane.under_way + before + pending.count <= lane.window


def _is_stale(pending: Pending, lane: SendingLane) -> bool:
    """Whether its bytes lie in memory of an earlier sidecar process."""
    return pending.slot is not None and pending.slot.arena is not lane.arena


def _move(core: Core, lane: SendingLane, pending: Pending, link: Optional[Link] = None) -> Operation[None]:
    old = pending.slot
    if old is None:
        return
    slot = yield from _room(core, lane, pending.length, link)
    # Within the lock: nothing else can use the lane until this is done.
    slot.bytes(pending.length)[:] = pending.bytes()
    pending.slot, pending.offset = slot, 0


def empty(core: Core, lane: SendingLane, size: int) -> Operation[Any]:
    """A window of shared memory for the application to fill; none for no bytes."""
    lane.check()
    lane.raise_failure()
    if size == 0:
        return None
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


def reuse(core: Core, lane: SendingLane, window: Optional[Any], size: int) -> Operation[Any]:
    """`window` once more, as soon as the sidecar reads nothing there any more. Another one where there is none yet, or where it
    lies in memory that a restarted sidecar does not know: what is put from there is copied."""
    try:
        while window is not None and window.slot.arena is lane.arena:
            lane.check()
            lane.raise_failure()
            if not lane.is_under_way(window.slot):
                return window
            yield WAIT
    except Expired:
        raise _untaken(core, lane, ()) from None
    return (yield from empty(core, lane, size))


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
        raise _untaken(core, lane, ()) from None


def close_sender(core: Core, lane: SendingLane) -> Operation[None]:
    """Flushes and ends the stream; closing again does nothing."""
    try:
        yield from flush(core, lane)
    except SealaneError:
        lane.closed = lane.over
        raise
    if not lane.over:
        lane.closing = True
        if lane.ready:
            core.send(_wire.close(lane.number))
    while not lane.over:
        yield WAIT
    lane.close_ended()


# ---- taking ----------------------------------------------------------------------------------------------------


def take(core: Core, lane: ReceivingLane) -> Operation[Optional[Tensor]]:
    """The next tensor; None when every sender has closed."""
    while True:
        tensor = take_ready(core, lane)
        if tensor is not None:
            return tensor
        if lane.ended:
            lane.end()
            core.forget(lane)
            return None
        lane.check()
        yield WAIT


def take_ready(core: Core, lane: ReceivingLane) -> Optional[Tensor]:
    """The next tensor if one is here."""
    arrived, waiting = lane.begun, lane.ready_items
    if arrived is not None and arrived.over:
        # An exception took the last of it from the application.
        _break_off(core, lane)
        arrived = None
    if arrived is None:
        if not waiting:
            return None
        if isinstance(waiting[0], Interrupted):
            raise waiting.popleft()  # type: ignore[misc]
        waiting[0].begin()
        lane.begun = arrived = waiting[0]
    if waiting and waiting[0] is arrived:
        waiting.popleft()
    tensor = arrived.next()
    arrived.advance()
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


def check_name(name: str) -> bytes:
    """The bytes of a tensor's name; TypeError when it is no text, ValueError when it is too long."""
    if not isinstance(name, str):
        raise TypeError(f"a tensor's name is a str, not {name!r:.64}, a {type(name).__name__}")
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
    # First: to look at a value may import a module, and in a forked child that waits for ever for a thread it lacks.
    core.check_usable()
    source = _arrays.source(value)
    _check_rank(core, source)
    return source, check_name(name)


def describe(core: Core, lane: SendingLane, values: Sequence[Any], names: Optional[Sequence[bytes]]) -> list[Described]:
    """As `describe_one`, and makes runs where nothing speaks against that."""
    core.check_usable()
    # What lies in lent memory already is put from where it lies.
    alone = len(values) == 1 or lane.shared_out or bool(lane.arena.lent)
    described = list((_runs.describe if alone else _runs.describe_runs)(values, names))
    for source, _ in described:
        _check_rank(core, source)
    return described


def _check_rank(core: Core, source: Source) -> None:
    # Without the lock: the connection may go meanwhile.
    link = core.link
    most = link.welcome.rank_max if link is not None else _wire.RANK_MAX
    if len(source.shape) > most:
        raise ValueError(f"a tensor has at most {most} dimensions here, this one {len(source.shape)}")
