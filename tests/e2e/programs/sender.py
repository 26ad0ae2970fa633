"""Sends until the test says stop; notes what was put, numbered, refused, confirmed and uncertain."""

import os
import signal
import time

import ledger
import sealane

plan = ledger.plan()
SMALL = plan.get("small", 2000)
LARGE = plan.get("large", 3_000_000)
LARGE_EVERY = plan.get("large_every", 37)
MANY_EVERY = plan.get("many_every", 10)
PAUSE = plan.get("pause", 0.02)
PUT_SECONDS = plan.get("put_seconds", 60)
END_SECONDS = plan.get("end_seconds", 100)
#: Nothing is put until the test says go.
WAITS = plan.get("waits", False)
#: After so many tensors it stops by itself, and with "exits" it ends, as an init container has to.
PUTS = plan.get("puts")
EXITS = plan.get("exits", False)

book = ledger.Ledger("sender")
stopping = False


def stop(*_):
    global stopping
    stopping = True


def wanted():
    return not stopping and not os.path.exists(ledger.STOP)


def size(index):
    if LARGE_EVERY and index % LARGE_EVERY == LARGE_EVERY - 1:
        return LARGE + index
    return SMALL + index % 97


def put(lane, indexes):
    """Puts tensors with these indexes. False: not all of them were accepted in time."""
    while True:
        tensors = [ledger.content(book.run, index, size(index)) for index in indexes]
        names = [ledger.name(book.run, index, size(index)) for index in indexes]
        book.write("putting", indexes=indexes)
        began = time.monotonic()
        try:
            if len(indexes) == 1:
                sequences = [lane.put(tensors[0], name=names[0], timeout=PUT_SECONDS)]
            else:
                sequences = lane.put_many(tensors, names, timeout=PUT_SECONDS)
        except sealane.Uncertain as error:
            # It speaks of earlier tensors; nothing of this call was put.
            book.write("uncertain", first=error.first, last=error.last)
            continue
        except sealane.Timeout as error:
            sequences = list(error.sequences)
            book.write("put", indexes=indexes[: len(sequences)], sequences=sequences, waited=time.monotonic() - began)
            book.write("refused", indexes=indexes[len(sequences) :], kind="Timeout", reason=error.reason)
            return False
        book.write("put", indexes=indexes, sequences=sequences, waited=time.monotonic() - began)
        return True


def confirm(lane, how, through):
    """Flushes or closes; what is uncertain is told first, piece by piece."""
    while True:
        try:
            getattr(lane, how)(timeout=END_SECONDS)
        except sealane.Uncertain as error:
            book.write("uncertain", first=error.first, last=error.last)
            continue
        book.write("flushed" if how == "flush" else "closed", through=through)
        return


def work(door):
    lane = door.sender(plan.get("lane", "lane"), timeout=120)
    book.write("opened")
    while WAITS and wanted() and not os.path.exists(ledger.GO):
        time.sleep(0.05)
    index = through = 0
    while wanted() and (PUTS is None or index < PUTS):
        count = 5 if MANY_EVERY and index % MANY_EVERY == 0 else 1
        indexes = list(range(index, index + count))
        put(lane, indexes)
        index += count
        time.sleep(PAUSE)
        flush_every = plan.get("flush_every", 100)
        if flush_every and index // flush_every > through:
            through = index // flush_every
            confirm(lane, "flush", index)
    confirm(lane, "flush", index)
    confirm(lane, "close", index)


signal.signal(signal.SIGTERM, stop)
try:
    with sealane.connect(timeout=60) as door:
        work(door)
except sealane.SealaneError as error:
    book.error("sending", error)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if not stopping and not EXITS:
    ledger.rest()
