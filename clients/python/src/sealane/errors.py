"""What can go wrong, as exceptions. Each carries `reason`, the same word that conditions, events, metrics and logs
use for it."""

from __future__ import annotations


class SealaneError(Exception):
    """Anything that this package reports. `reason` is a word in CamelCase that can be searched for."""

    def __init__(self, message: str, reason: str = "Unspecified") -> None:
        super().__init__(message)
        self.reason = reason

    def __str__(self) -> str:
        message = super().__str__()
        return message if self.reason in ("", "Unspecified") else f"{message} ({self.reason})"


class NotReady(SealaneError):
    """The lane did not work before the timeout; asking again may succeed."""


class Refused(SealaneError):
    """Policy, evidence or a limit refuses it; asking again does not help until that changes."""


class Interrupted(SealaneError):
    """A sender was lost without closing its stream. Raised once; iterating goes on with the other senders."""

    def __init__(self, sender: str) -> None:
        super().__init__(f"{sender} was lost before it closed its stream; what it sent last may be missing", "LinkLost")
        self.sender = sender


class Uncertain(SealaneError):
    """It can no longer be known whether the tensors from `first` to `last` were taken. They are never sent again;
    the lane goes on."""

    def __init__(self, first: int, last: int) -> None:
        which = f"tensor {first}" if first == last else f"tensors {first} to {last}"
        super().__init__(
            f"{which}: the receiver was lost before it confirmed, so they may or may not have been taken",
            "LinkLost",
        )
        self.first = first
        self.last = last


class Closed(SealaneError):
    """The lane or the door is over."""


class Timeout(SealaneError, TimeoutError):
    """A call did not end in time. `sequences` are the tensors that it had put before."""

    def __init__(self, message: str, reason: str = "Unspecified", sequences: tuple[int, ...] = ()) -> None:
        super().__init__(message, reason)
        self.sequences = sequences
