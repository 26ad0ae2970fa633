"""Takes tensors out of a TransferSession: `python receive.py SESSION`, in a pod of one of its `to` Peers."""

from __future__ import annotations

import os
import queue
import sys
from collections.abc import Iterator

import door_pb2 as door
import grpc
import numpy
from door_pb2_grpc import DoorStub
from tensors import tensor

#: Without it, gRPC's C core makes an authority of the socket's path, which is not one and is refused.
OPTIONS = [("grpc.default_authority", "localhost")]


def received(answers: Iterator[door.TakeResponse]) -> Iterator[tuple[door.TakenTensor, bytes]]:
    """Whole tensors, put together from their messages."""
    for answer in answers:
        kind = answer.WhichOneof("message")
        if kind == "tensor":
            head, data = answer.tensor, bytearray(answer.tensor.data)
            while len(data) < head.length:
                data += next(answers).chunk.data
            yield head, bytes(data)
        elif kind == "interrupted":
            print(f"{answer.interrupted.sender} was lost; others may go on", file=sys.stderr)


def main() -> None:
    session = sys.argv[1]
    address = os.environ.get("SEALANE_GRPC", "/run/sealane/grpc.sock")
    asks: queue.SimpleQueue[door.TakeRequest | None] = queue.SimpleQueue()
    asks.put(door.TakeRequest(open=door.TakeOpen(session=session, timeout_ms=60_000)))
    count = size = 0
    with grpc.insecure_channel(f"unix://{address}", OPTIONS) as channel:
        try:
            for head, data in received(DoorStub(channel).Take(iter(asks.get, None))):
                array = numpy.frombuffer(data, numpy.float32).reshape(head.shape)
                if head.dtype != door.DTYPE_FLOAT32 or array.tobytes() != tensor(head.sequence).tobytes():
                    sys.exit(f"{head.name} of {head.sender} is not what was put")
                # The sender may forget it now, and its place here is free.
                asks.put(door.TakeRequest(taken=door.Taken(deliveries=[head.delivery])))
                count, size = count + 1, size + len(data)
        except grpc.RpcError as error:
            reason = dict(error.trailing_metadata() or ()).get("sealane-reason", "")
            sys.exit(f"{error.code().name}: {error.details()} ({reason})")
        finally:
            asks.put(None)
    print(f"took {count} tensors, {size} bytes, every byte as it was put")


if __name__ == "__main__":
    main()
