"""Rank `rank` of two that meet in torch's TCPStore at 127.0.0.1:`port`, and know of nothing else; rank 0 has it."""

import datetime
import hashlib
import time

import torch
from torch.distributed import TCPStore

WORLD = 2
SECONDS = 120
ROUNDS = 50
LARGE_BYTES = 8 << 20


def connected(rank, port):
    """Refused until a replica is attested, reset until the store in it listens; then waits until all have joined."""
    until = time.monotonic() + SECONDS
    while True:
        try:
            return TCPStore("127.0.0.1", port, WORLD, rank == 0, datetime.timedelta(seconds=SECONDS))
        except RuntimeError:
            if rank == 0 or time.monotonic() > until:
                raise
            time.sleep(0.2)


def barrier(store, name):
    if store.add(f"{name}/arrived", 1) == WORLD:
        store.set(f"{name}/open", "")
    store.wait([f"{name}/open"])


def large(rank):
    return hashlib.sha256(bytes([rank])).digest() * (LARGE_BYTES // 32)


def main(rank, port):
    store = connected(rank, port)
    other = 1 - rank
    store.set(f"large/{rank}", large(rank))
    # Waits until the other rank has set it.
    assert store.get(f"large/{other}") == large(other), "a value came back changed"
    for number in range(ROUNDS):
        barrier(store, str(number))
        assert store.add("total", rank + 1) >= rank + 1
    barrier(store, "added")
    assert store.add("total", 0) == ROUNDS * 3, store.add("total", 0)
    try:
        store.wait(["never"], datetime.timedelta(milliseconds=300))
        raise AssertionError("a key that nobody sets was found")
    except RuntimeError as error:
        assert "timeout" in str(error).lower(), error
    assert store.compare_set("winner", "", str(rank)) in (b"0", b"1")
    barrier(store, "decided")
    assert store.get("winner") in (b"0", b"1")
    print(f"rank {rank} of {WORLD} met the other", flush=True)
    # The store lives in rank 0, which leaves last.
    if rank:
        store.set("left", "")
    else:
        store.wait(["left"])
