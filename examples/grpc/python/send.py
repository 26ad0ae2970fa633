"""Puts tensors into a TransferSession: `python send.py SESSION [COUNT]`, in a pod of its `from` Peer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import door_pb2 as door
import grpc
import numpy
from door_pb2_grpc import DoorStub
from tensors import tensor

#: Without it, gRPC's C core makes an authority of the socket's path, which is not one and is refused.
OPTIONS = [("grpc.default_authority", "localhost")]
#: Tensor bytes in one message. Up to 4 MiB always find room.
CHUNK_BYTES = 4 << 20


def pieces(array: numpy.ndarray, name: str) -> Iterator[door.PutRequest]:
    """One tensor: its head with the first bytes, then the rest in chunks."""
    data = array.tobytes()
    head = door.PutTensor(dtype=door.DTYPE_FLOAT32, shape=array.shape, name=name, data=data[:CHUNK_BYTES])
    yield door.PutRequest(tensor=head)
    for offset in range(CHUNK_BYTES, len(data), CHUNK_BYTES):
        yield door.PutRequest(chunk=door.Chunk(offset=offset, data=data[offset : offset + CHUNK_BYTES]))


def requests(session: str, count: int) -> Iterator[door.PutRequest]:
    """What is said, in order. gRPC asks for the next one in a thread of its own, and not while the receivers are slow."""
    yield door.PutRequest(open=door.PutOpen(session=session, timeout_ms=60_000))
    for number in range(count):
        yield from pieces(tensor(number), f"tensor {number}")
    yield door.PutRequest(close=door.Close())


def main() -> None:
    session = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 16
    address = os.environ.get("SEALANE_GRPC", "/run/sealane/grpc.sock")
    taken = uncertain = 0
    with grpc.insecure_channel(f"unix://{address}", OPTIONS) as channel:
        try:
            for news in DoorStub(channel).Put(requests(session, count)):
                taken += sum(one.last - one.first + 1 for one in news.taken.ranges)
                uncertain += sum(one.last - one.first + 1 for one in news.uncertain.ranges)
        except grpc.RpcError as error:
            reason = dict(error.trailing_metadata() or ()).get("sealane-reason", "")
            sys.exit(f"{error.code().name}: {error.details()} ({reason})")
    print(f"put {count} tensors: {taken} taken, {uncertain} uncertain")
    if taken != count:
        sys.exit(1)


if __name__ == "__main__":
    main()
