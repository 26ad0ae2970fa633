"""Takes until every sender has closed; notes each tensor before and after it is taken."""

import os
import signal
import time

import ledger
import sealane

plan = ledger.plan()
PAUSE = plan.get("pause", 0.0)
#: After this many tensors the first process of the pod ends without a word: at "before" a take, or "after" it.
DIES = plan.get("dies")
DIES_AT = plan.get("dies_at", 50)
#: After this many tensors nothing is taken until the test says go.
HOLDS_STILL_AT = plan.get("holds_still_at")
#: Views of this many tensors are kept until the test says go, or for good.
KEEPS = plan.get("keeps", 0)

book = ledger.Ledger("receiver")
stopping = False


class Leaving(Exception):
    """The pod is going away."""


def stop(*_):
    global stopping
    stopping = True


def die(step, taken):
    if book.first and DIES == step and taken >= DIES_AT:
        # Not SIGKILL: the first process of a container cannot send it to itself.
        os._exit(1)


def hold_still(taken):
    if HOLDS_STILL_AT is not None and taken == HOLDS_STILL_AT:
        book.write("still")
        while not os.path.exists(ledger.GO) and not stopping:
            time.sleep(0.05)
        book.write("moves")


def note(tensor):
    """Whether this is the very tensor that was put shows in its bytes."""
    run, index, nbytes = ledger.parse(tensor.name)
    same = tensor.nbytes == nbytes and bytes(tensor.buffer()) == ledger.content(run, index, nbytes).tobytes()
    book.write("took", of=run, index=index, sequence=tensor.sequence, sender=tensor.sender, whole=same)


def take(lane, kept):
    """The next tensor; None at the end. Looks up now and then whether the pod is going away, and lets go of `kept` when
    the test says so."""
    while True:
        if stopping:
            raise Leaving
        if kept and os.path.exists(ledger.GO):
            kept.clear()
        try:
            return lane.take(timeout=0.5)
        except sealane.Interrupted as error:
            book.write("interrupted", sender=error.sender)
        except sealane.Timeout:
            continue


def work(door):
    lane = door.receiver(plan.get("lane", "lane"), timeout=120)
    book.write("opened")
    taken, kept = 0, []
    while True:
        hold_still(taken)
        book.write("taking")
        die("before", taken)
        tensor = take(lane, kept)
        if tensor is None:
            book.write("ended")
            return
        note(tensor)
        taken += 1
        die("after", taken)
        if len(kept) < KEEPS and not os.path.exists(ledger.GO):
            kept.append(tensor)
        else:
            tensor.release()
        del tensor
        if PAUSE:
            time.sleep(PAUSE)


signal.signal(signal.SIGTERM, stop)
try:
    with sealane.connect(timeout=60) as door:
        try:
            work(door)
        except Leaving:
            door.close(timeout=3)
            book.write("left")
except sealane.SealaneError as error:
    book.error("taking", error)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if not stopping:
    ledger.rest()
