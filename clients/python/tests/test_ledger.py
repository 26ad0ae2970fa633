"""Calls that are cancelled, time out, are interrupted or forked away from: what arrives is what was put."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from contextlib import suppress
from typing import Any

import numpy
import pytest
from ledger import Ledger, Taking
from loopback import SECONDS, Loopback
from opcodes import Signal

import sealane
import sealane.aio
from sealane import _core

ROUNDS = 150


def test_cancelled_calls(own: Loopback, session: str) -> None:
    """Each put is cancelled after some turns of the loop, if it takes so long."""
    ledger = Ledger(1)

    async def put(lane: sealane.aio.Sender) -> None:
        number, array = ledger.next()
        if ledger.random.random() < 0.2:
            buffer = await lane.empty(array.shape, "uint8", timeout=SECONDS)
            buffer[...] = array
            array = buffer
        await lane.put(array, str(number), timeout=SECONDS)
        ledger.promise(number)

    async def putting() -> None:
        async with sealane.aio.connect(own.path) as door:
            lane = await door.sender(session, timeout=SECONDS)
            for _ in range(ROUNDS):
                tasks = [asyncio.create_task(put(lane)) for _ in range(ledger.random.randint(1, 4))]
                for _ in range(ledger.random.randint(0, 30)):
                    await asyncio.sleep(0)
                for task in tasks:
                    if ledger.random.random() < 0.7:
                        task.cancel()
                for result in await asyncio.gather(*tasks, return_exceptions=True):
                    assert result is None or isinstance(result, asyncio.CancelledError), result
            await lane.close(timeout=SECONDS)

    with own.connect() as door:
        taking = Taking(door, session, ledger)
        asyncio.run(putting())
        taking.join()
    ledger.check()


def test_threads_timeouts_and_forks(own: Loopback, session: str) -> None:
    ledger = Ledger(2)
    with own.connect() as taking_door, own.connect() as door:
        taking = Taking(taking_door, session, ledger)
        sender = door.sender(session, timeout=SECONDS)

        def put() -> None:
            for _ in range(ROUNDS):
                some = [ledger.next() for _ in range(ledger.random.randint(1, 3))]
                timeout = ledger.random.choice((0.0, 0.001, SECONDS))
                arrays, names = [array for _, array in some], [str(number) for number, _ in some]
                put = len(some)
                try:
                    sender.put_many(arrays, names, timeout=timeout)
                except sealane.Timeout as error:
                    put = len(error.sequences)
                ledger.promise(*(number for number, _ in some[:put]))
                ledger.withdraw(*(number for number, _ in some[put:]))

        threads = [threading.Thread(target=put) for _ in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            fork_and_meddle(door, sender)
        sender.close(timeout=SECONDS)
        taking.join()
    ledger.check()


def test_readers_whose_time_is_over_disturb_nobody(
    own: Loopback, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads for the others counts as gone when the machine stands still for a second, and comes back."""
    monkeypatch.setattr(_core, "READING_SECONDS", 0.0)
    ledger = Ledger(5)
    with own.connect() as taking_door, own.connect() as door:
        taking = Taking(taking_door, session, ledger)
        sender = door.sender(session, timeout=SECONDS)

        def put() -> None:
            for _ in range(ROUNDS):
                number, array = ledger.next()
                sender.put(array, str(number), timeout=SECONDS)
                ledger.promise(number)

        threads = [threading.Thread(target=put) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sender.close(timeout=SECONDS)
        taking.join()
    ledger.check()


def test_a_reading_ends_itself_alone(own: Loopback) -> None:
    with own.connect() as door:
        core = door._core
        news: list[bool] = []
        with core.lock:
            core.listeners.add(lambda: news.append(True))
            core._reading = 2.0
            assert not core._end_reading(1.0) and core._reading == 2.0 and not news
            assert core._end_reading(2.0) and core._reading == 0.0 and news


def fork_and_meddle(door: sealane.Door, sender: sealane.Sender) -> None:
    """A child does with its parent's lane what it can."""
    child = os.fork()
    if child == 0:
        outcome = 1
        try:
            for call in (lambda: sender.put(numpy.zeros(1000), "0"), lambda: sender.empty(10), sender.flush):
                with suppress(sealane.Closed):
                    call()
            sender.abandon()
            with suppress(sealane.Closed):
                door.close()
            outcome = 0
        finally:
            os._exit(outcome)
    assert os.waitpid(child, 0)[1] == 0


def test_signals_at_any_time(own: Loopback, session: str) -> None:
    """A thread sends signals, whose handler raises in whatever the main thread does."""
    ledger = Ledger(3)
    # A handler may run in the midst of anything, so no locks.
    armed, stop = [False], threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def handle(*_: Any) -> None:
        if armed[0]:
            armed[0] = False
            raise Signal

    def send() -> None:
        while not stop.is_set():
            if armed[0]:
                signal.pthread_kill(main, signal.SIGUSR1)
            time.sleep(0.0001)

    def put() -> None:
        numbers = [ledger.next()[0] for _ in range(ledger.random.randint(1, 3))]
        arrays = [ledger.tensor(number) for number in numbers]
        armed[0] = True
        sender.put_many(arrays, [str(number) for number in numbers], timeout=SECONDS)
        armed[0] = False
        ledger.promise(*numbers)

    before = signal.signal(signal.SIGUSR1, handle)
    sending = threading.Thread(target=send)
    sending.start()
    lost = 0
    try:
        with own.connect() as taking_door:
            taking = Taking(taking_door, session, ledger)
            door = own.connect()
            sender = door.sender(session, timeout=SECONDS)
            for call in (*[put] * 2 * ROUNDS, lambda: sender.flush(timeout=SECONDS)):
                try:
                    with suppress(Signal):
                        call()
                    continue
                except sealane.Closed as error:
                    # The signal came where nobody can say any more what the sidecar knows.
                    assert error.reason == "CallInterrupted"
                finally:
                    armed[0] = False
                with pytest.raises(sealane.Closed):
                    door.close(timeout=SECONDS)
                lost += 1
                door = own.connect()
                sender = door.sender(session, timeout=SECONDS)
            sender.close(timeout=SECONDS)
            door.close(timeout=SECONDS)
            taking.join()
    finally:
        armed[0] = False
        stop.set()
        sending.join()
        signal.signal(signal.SIGUSR1, before)
    ledger.check(whole=lost == 0)
