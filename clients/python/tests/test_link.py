"""What a client tells the sidecar of what it took and let go of."""

import gc
import os
import socket
import struct
import threading

import pytest
from loopback import SECONDS
from opcodes import interrupted_at
from seeds import python_random

from sealane import _link, _wire
from sealane._arena import Segment
from sealane._runs import Arrived

CLOSE, TOOK, RELEASE = 5, 6, 7
OPENED = 68


def said(packet: bytes) -> tuple[int, int, int, list[int]]:
    kind, flags, count, lane = struct.unpack_from("<BBHI", packet)
    return kind, flags, lane, list(struct.unpack_from(f"<{count}Q", packet, 8))


@pytest.mark.parametrize("case", range(100))
def test_each_delivery_is_taken_before_or_as_it_is_released(case: int) -> None:
    """Of each lane some were told of before, some are taken now, and of all of these some are released."""
    some = python_random(case)
    lanes = {lane: some.sample(range(2**40), some.randrange(20)) for lane in range(1, 1 + some.randrange(4))}
    taken: dict[int, list[int]] = {}
    released: dict[int, list[int]] = {}
    known: set[tuple[int, int]] = set()
    for lane, numbers in lanes.items():
        cut = some.randint(0, len(numbers))
        known.update((lane, number) for number in numbers[:cut])
        taken[lane] = numbers[cut:]
        released[lane] = some.sample(numbers, some.randint(0, len(numbers)))
    wanted = {(lane, number) for lane, numbers in released.items() for number in numbers}
    gone: set[tuple[int, int]] = set()
    for packet in _link._words(taken, {}, dict(released)):
        kind, flags, lane, numbers = said(packet)
        assert numbers and (kind, flags) in ((TOOK, 0), (RELEASE, 0), (RELEASE, 1))
        for number in numbers:
            delivery = lane, number
            assert (delivery not in known) == (kind == TOOK or flags == 1)
            known.add(delivery)
            if kind == RELEASE:
                assert delivery not in gone
                gone.add(delivery)
    assert gone == wanted
    assert known == {(lane, number) for lane, numbers in lanes.items() for number in numbers}


def test_what_was_taken_and_released_at_once_is_one_message() -> None:
    assert list(_link._words({1: [3, 4]}, {}, {1: [4, 3]})) == [_wire.release(1, [3, 4], taken=True)]


def test_a_run_that_was_taken_in_part_is_told_before_it_is_released() -> None:
    words = list(_link._words({}, {1: [3]}, {1: [3]}))
    assert words == [_wire.took(1, [3], partly=True), _wire.release(1, [3])]


def test_many_are_split_into_messages_of_legal_size() -> None:
    packets = list(_link._words({1: list(range(10_000))}, {}, {}))
    assert [len(said(packet)[3]) for packet in packets] == [4_096, 4_096, 1_808]
    assert all(len(packet) <= _wire.MESSAGE_BYTES_MAX for packet in packets)


def test_what_is_known_to_be_taken_was_not_taken_in_part() -> None:
    assert list(_link._words({1: [3]}, {1: [3]}, {})) == [_wire.took(1, [3])]


class Ends:
    """A link, and what the sidecar gets of it. The socket can be held up."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self.theirs.settimeout(SECONDS)
        self.link = _link.Link(ours)

    def heard(self, count: int) -> list[tuple[int, int, int, list[int]]]:
        return [said(self.theirs.recv(_wire.MESSAGE_BYTES_MAX)) for _ in range(count)]


def test_what_was_owed_has_been_told_although_another_thread_is_at_it() -> None:
    ends = Ends()
    held, go_on = threading.Event(), threading.Event()
    connection = ends.link.connection

    class Slow:
        def send(self, packet: bytes, flags: int) -> int:
            held.set()
            assert go_on.wait(SECONDS)
            return connection.send(packet, flags)

    ends.link.connection = Slow()  # type: ignore[assignment]
    ends.link.took((1, 2), urgent=False)
    flushing = threading.Thread(target=ends.link.flush)
    flushing.start()
    assert held.wait(SECONDS)
    ends.link.begun.add((1, 3))
    ends.link.took_partly((1, 3))

    def close() -> None:
        ends.link.tell()
        connection.send(_wire.close(1))

    closing = threading.Thread(target=close)
    closing.start()
    go_on.set()
    assert [kind for kind, _, _, _ in ends.heard(3)] == [TOOK, TOOK, CLOSE]
    flushing.join()
    closing.join()


def test_a_link_that_is_closed_while_it_waits_for_room_is_lost() -> None:
    ends = Ends()
    ends.link.connection.close()
    with pytest.raises(_link.LinkLost):
        ends.link._await_room(BlockingIOError())


def test_a_sidecar_that_reads_nothing_is_given_up_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_link, "STUCK_SECONDS", 0.01)
    ends = Ends()
    with pytest.raises(_link.LinkLost):
        while True:
            ends.link.send(bytes(60_000))
    with pytest.raises(_link.LinkLost):
        ends.link.receive()


def test_a_packet_that_was_read_is_kept_wherever_a_signal_comes() -> None:
    ends = Ends()
    for number in range(100):
        ends.theirs.send(struct.pack("<BBHII", OPENED, 0, 0, number, 0))
        interrupted = interrupted_at(number, ends.link.peek)
        packet = ends.link.receive()
        assert packet is not None and packet.message == _wire.Opened(number, 0)
        assert ends.link.receive() is None
        if not interrupted:
            break
    assert 3 < number < 99


def test_what_was_not_sent_is_sent_later() -> None:
    ends = Ends()
    connection = ends.link.connection

    class Interrupted:
        def send(self, packet: bytes, flags: int) -> int:
            raise KeyboardInterrupt

    ends.link.connection = Interrupted()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        ends.link.took((1, 2), urgent=True)
    ends.link.connection = connection
    ends.link.release((1, 2), urgent=True)
    assert ends.heard(2) == [(TOOK, 0, 1, [2]), (RELEASE, 0, 1, [2])]


def test_a_tensor_whose_take_was_interrupted_is_released_as_taken_in_part() -> None:
    """Nobody said that it was taken, and to release what was not is against the rules of the door."""
    ends = Ends()
    memory = os.memfd_create("segment")
    os.ftruncate(memory, 4096)
    entry = _wire.Entry(5, 0, 0, 8, 1, 0, 1, (8,), False, "")
    arrived = Arrived(ends.link, 1, entry, "peer/pod", Segment(1, memory, 4096))
    arrived.begin()
    del arrived
    gc.collect()
    ends.link.flush()
    assert ends.heard(2) == [(TOOK, 1, 1, [5]), (RELEASE, 0, 1, [5])]
