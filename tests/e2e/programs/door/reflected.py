"""Puts tensors by gRPC into `lane`, and knows of the door only what it says of itself by reflection.

Each tensor has the SHA-256 of its bytes for a name.
"""

import hashlib
import os
import queue

import grpc
import numpy
from google.protobuf import descriptor_pool, message_factory

SECONDS = 120
DOOR = "sealane.door.v1.Door"
HEALTH = "grpc.health.v1.Health"
#: Tensor bytes in one message; odd, so that no border lies where an element ends.
CHUNK_BYTES = 1_000_003

reflection, reflection_services = grpc.protos_and_services("reflection.proto")


class Reflected:
    """Services and messages, learned from the server that has them."""

    def __init__(self, channel):
        self.channel = channel
        self.pool = descriptor_pool.DescriptorPool()
        self.stub = reflection_services.ServerReflectionStub(channel)
        listed = self.ask(list_services="*").list_services_response.service
        self.services = {service.name for service in listed}
        for service in (DOOR, HEALTH):
            assert service in self.services, self.services
            for file in self.ask(file_containing_symbol=service).file_descriptor_response.file_descriptor_proto:
                self.pool.AddSerializedFile(file)

    def ask(self, **what):
        (answer,) = self.stub.ServerReflectionInfo(iter([reflection.ServerReflectionRequest(**what)]), timeout=SECONDS)
        assert not answer.HasField("error_response"), answer.error_response
        return answer

    def message(self, name):
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(f"sealane.door.v1.{name}"))

    def dtype(self, name):
        return self.pool.FindEnumTypeByName("sealane.door.v1.DType").values_by_name[f"DTYPE_{name}"].number

    def call(self, service, method):
        described = self.pool.FindServiceByName(service).methods_by_name[method]
        ways = {
            (False, False): self.channel.unary_unary,
            (False, True): self.channel.unary_stream,
            (True, True): self.channel.stream_stream,
        }
        return ways[described.client_streaming, described.server_streaming](
            f"/{service}/{method}",
            request_serializer=message_factory.GetMessageClass(described.input_type).SerializeToString,
            response_deserializer=message_factory.GetMessageClass(described.output_type).FromString,
        )


def is_healthy(door):
    check = door.call(HEALTH, "Check")
    request = message_factory.GetMessageClass(door.pool.FindMessageTypeByName("grpc.health.v1.HealthCheckRequest"))
    for service in ("", DOOR):
        assert check(request(service=service), timeout=SECONDS).status == 1, f"{service!r} is not SERVING"
    own = door.call(DOOR, "Health")(door.message("HealthRequest")(), timeout=SECONDS)
    assert own.status == 1 and own.version and len(own.process) == 16, own


def becomes_ready(door):
    """Watches until the lane would open: what it waits for is told all the time."""
    for answer in door.call(DOOR, "Sessions")(door.message("SessionsRequest")(watch=True), timeout=SECONDS):
        for session in answer.sessions:
            assert (session.name, session.direction, session.kind) == ("lane", 1, 1), session
            if session.ready:
                return
            assert not session.refused and session.reason and session.message, session
    raise AssertionError("the door stopped telling about its sessions")


def tensors():
    """Sequence (or none), dtype, shape and bytes."""
    random = numpy.random.default_rng(11)
    yield None, "FLOAT32", (3, 5), random.bytes(60)
    yield None, "BFLOAT16", (7,), random.bytes(14)
    yield None, "INT64", (), random.bytes(8)
    yield None, "UINT8", (0, 4), b""
    yield None, "FLOAT32", (1024, 3000), random.bytes(1024 * 3000 * 4)
    yield 10, "BOOL", (9,), bytes(n % 2 for n in range(9))
    yield None, "UINT16", (2, 300_000), random.bytes(1_200_000)


def pieces(door, sequence, dtype, shape, data):
    head = door.message("PutTensor")(
        sequence=sequence,
        dtype=door.dtype(dtype),
        shape=shape,
        name=hashlib.sha256(data).hexdigest(),
        data=data[:CHUNK_BYTES],
    )
    yield door.message("PutRequest")(tensor=head)
    for offset in range(CHUNK_BYTES, len(data), CHUNK_BYTES):
        chunk = door.message("Chunk")(offset=offset, data=data[offset : offset + CHUNK_BYTES])
        yield door.message("PutRequest")(chunk=chunk)


class Putting:
    """One call of Put, and what it was told."""

    def __init__(self, door):
        self.door = door
        self.said = queue.SimpleQueue()
        self.told = {"accepted": [], "taken": [], "uncertain": []}
        self.answers = door.call(DOOR, "Put")(iter(self.said.get, None), timeout=SECONDS)

    def say(self, **what):
        self.said.put(self.door.message("PutRequest")(**what))

    def until(self, kind):
        """Notes what is told before the answer `kind`, and gives that."""
        for answer in self.answers:
            came = answer.WhichOneof("message")
            if came == kind:
                return getattr(answer, kind)
            for told in getattr(answer, came).ranges:
                self.told[came].extend(range(told.first, told.last + 1))
        raise AssertionError(f"the call ended without {kind}")


def main():
    options = [("grpc.default_authority", "localhost")]
    with grpc.insecure_channel(f"unix://{os.environ['SEALANE_GRPC']}", options) as channel:
        door = Reflected(channel)
        is_healthy(door)
        becomes_ready(door)
        put = Putting(door)
        put.say(open=door.message("PutOpen")(session="lane", timeout_ms=SECONDS * 1000))
        opened = put.until("opened")
        assert opened.next == 0 and opened.window > 0 and opened.message_bytes_max > CHUNK_BYTES, opened
        *before, last = tensors()
        for tensor in before:
            for piece in pieces(door, *tensor):
                put.said.put(piece)
        put.say(flush=door.message("Flush")(id=7))
        flushed = put.until("flushed")
        assert (flushed.id, flushed.uncertain) == (7, 0), flushed
        everything = [0, 1, 2, 3, 4, 10]
        assert put.told == {"accepted": everything, "taken": everything, "uncertain": []}, put.told
        for piece in pieces(door, *last):
            put.said.put(piece)
        put.say(close=door.message("Close")())
        assert put.until("closed").uncertain == 0
        assert put.told["taken"] == [*everything, 11], put.told
        assert next(put.answers, None) is None and put.answers.code() == grpc.StatusCode.OK, put.answers
        put.said.put(None)
    print("put, flushed and closed", flush=True)


if __name__ == "__main__":
    main()
