"""Exceptions between byte codes, as signals bring them: a handler runs there, and may raise."""

from __future__ import annotations

import dis
import functools
import itertools
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, Callable, Optional

#: What the collector runs: an exception there is printed and changes nothing.
COLLECTED = {"_gone", "release", "took_partly"}
#: Behind these the interpreter looks for signals.
LOOKED_BEHIND = {"RESUME", "JUMP_BACKWARD", "CALL", "CALL_FUNCTION_EX", "CALL_KW"}


class Signal(BaseException):
    """What a handler raises."""


@functools.cache
def places(code: CodeType) -> frozenset[int]:
    """Offsets of byte codes before which a signal may come.

    It comes at the end of the one before, and that is what is looked up in the table of handlers. Tracing can raise no
    sooner than at the beginning of the next, so where a `with` or `try` ends between the two it raises nothing."""
    table = dis._parse_exception_table(code)  # type: ignore[attr-defined]

    def handler(offset: int) -> Optional[int]:
        return next((entry.target for entry in table if entry.start <= offset < entry.end), None)

    pairs = itertools.pairwise(dis.get_instructions(code))
    return frozenset(
        second.offset
        for first, second in pairs
        if first.opname in LOOKED_BEHIND and handler(first.offset) == handler(second.offset)
    )


def interrupted_at(count: int, action: Callable[[], Any], file: str = "/sealane/") -> bool:
    """Runs `action`, and raises `Signal` at the place of this number (from 0) that it comes to in files whose path contains
    `file`. Whether it came to that."""
    before = itertools.count()

    def trace(frame: FrameType, event: str, _: Any) -> Optional[Callable[..., Any]]:
        code = frame.f_code
        if file not in code.co_filename or code.co_name in COLLECTED:
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti in places(code) and next(before) == count:
            raise Signal
        return trace

    debugger = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except Signal:
        return True
    finally:
        sys.settrace(debugger)
    return False


def every(action: Callable[[], Any]) -> Iterator[bool]:
    """Runs `action` again and again, each time interrupted a place later, until it runs to its end."""
    for count in itertools.count():
        interrupted = interrupted_at(count, action)
        yield interrupted
        if not interrupted:
            return
