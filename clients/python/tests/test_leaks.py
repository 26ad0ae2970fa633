"""Streams one after another through one door leave nothing behind, in the client or in the sidecar."""

from __future__ import annotations

import os
import pathlib
import re
import threading

import numpy
from lanes import core_of, polls, under_lock
from loopback import SECONDS, Loopback

import sealane

FULL = os.environ.get("FULL") == "1"
STREAMS = 10_000 if FULL else 300
#: A sidecar keeps what is over until as many lanes have been opened as a client may have.
WARM = 80
MIB = 1 << 20
#: Segments of lanes that take stay as long as nobody else needs memory; of usual ones so many fit (`DOOR.md`, Limits).
SEGMENTS_KEPT = 8


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def segments(pid: int) -> int:
    """Mappings of shared memory."""
    return len(re.findall("/memfd:", pathlib.Path(f"/proc/{pid}/maps").read_text()))


def resident_bytes(pid: int) -> int:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"RssAnon:\s+(\d+) kB", status)[0]) << 10


def stream(putting: sealane.Door, taking: sealane.Door, session: str, number: int) -> None:
    sender = putting.sender(session, timeout=SECONDS)
    receiver = taking.receiver(session, timeout=SECONDS)

    def put() -> None:
        sender.put(numpy.full(1000, number), timeout=SECONDS)
        sender.close(timeout=SECONDS)

    thread = threading.Thread(target=put)
    thread.start()
    assert [int(tensor.numpy()[0]) for tensor in receiver] == [number]
    thread.join()


def settled(putting: sealane.Door, taking: sealane.Door) -> bool:
    """Whether nothing of a lane is left at either door."""
    cores = core_of(putting), core_of(taking)
    return all(
        under_lock(door, lambda core=core: not (core.lanes or core.numbered or core.left or core.link.takes))
        for door, core in zip((putting, taking), cores)
    )


def test_streams_leave_nothing_behind(own: Loopback, session: str) -> None:
    ours, theirs = os.getpid(), own.process.pid
    with own.connect() as putting, own.connect() as taking:
        their_descriptors = descriptors(theirs) + SEGMENTS_KEPT
        for number in range(WARM):
            stream(putting, taking, f"{session}-{number}", number)
        for _ in polls("the end of the first streams"):
            if settled(putting, taking):
                break
        before = descriptors(ours), segments(ours)
        memory = {process: resident_bytes(process) for process in (ours, theirs)}
        for number in range(WARM, WARM + STREAMS):
            stream(putting, taking, f"{session}-{number}", number)
        for _ in polls(f"{before} descriptors and mappings, as before"):
            if settled(putting, taking) and (descriptors(ours), segments(ours)) == before:
                break
        assert len(putting._lanes) <= 1 and len(taking._lanes) <= 1
        for _ in polls(f"{their_descriptors} descriptors of the sidecar"):
            if descriptors(theirs) <= their_descriptors and segments(theirs) <= SEGMENTS_KEPT:
                break
        for process, whose in ((ours, "the client"), (theirs, "the sidecar")):
            grown = resident_bytes(process) - memory[process]
            assert grown < 16 * MIB, f"{grown} bytes more in {whose} after {STREAMS} streams"


def test_a_buffer_that_outlives_its_lane_goes_back(own: Loopback, session: str) -> None:
    """Its segment is dropped when the last array over it is gone, not never."""
    with own.connect() as door:
        before = segments(os.getpid())
        sender = door.sender(session, timeout=SECONDS)
        buffer = sender.empty(1000, timeout=SECONDS)
        sender.close(timeout=SECONDS)
        buffer[:] = 7
        assert under_lock(door, lambda: len(core_of(door).left)) == 1
        del buffer
        for _ in polls("a dropped segment"):
            if under_lock(door, lambda: not core_of(door).left) and segments(os.getpid()) == before:
                break


def test_lanes_that_are_given_up_leave_nothing_behind(own: Loopback, session: str) -> None:
    with own.connect() as putting, own.connect() as taking:
        before = descriptors(os.getpid()), segments(os.getpid())
        for number in range(20):
            receiver = taking.receiver(f"{session}-{number}", timeout=SECONDS)
            sender = putting.sender(f"{session}-{number}", timeout=SECONDS)
            sender.put(numpy.full(1000, number), timeout=SECONDS)
            if number % 2:
                assert receiver.take(timeout=SECONDS) is not None
            sender.abandon()
            receiver.close(timeout=SECONDS)
        for _ in polls(f"{before} descriptors and mappings, as before"):
            if settled(putting, taking) and (descriptors(os.getpid()), segments(os.getpid())) == before:
                break
