"""A client of the inference server, which it has at `address`, that knows nothing of Sealane either."""

import time

import grpc
import numpy

SECONDS = 120
CHANNELS = 4
CALLS = 256
STREAMED = 64
SMALL = numpy.ones((1, 1), numpy.float32)

protos, services = grpc.protos_and_services("open_inference.proto")

OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Refused until a replica is attested, reset until the server in it listens.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A connection for every channel.
    ("grpc.use_local_subchannel_pool", 1),
]


def request(array, name="double", identity=""):
    given = protos.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=array.shape)
    return protos.ModelInferRequest(
        model_name=name, id=identity, inputs=[given], raw_input_contents=[array.tobytes()]
    )


def check(response, array, identity=""):
    (output,), (raw,) = response.outputs, response.raw_output_contents
    assert (response.id, output.name, output.datatype) == (identity, "y", "FP32"), response.id
    assert tuple(output.shape) == array.shape, output.shape
    assert raw == (array * numpy.float32(2) + numpy.float32(1)).tobytes(), f"{identity} came back changed"


def numbered(number, rows, columns):
    return numpy.random.default_rng(number).standard_normal((rows, columns), numpy.float32)


def describes_itself(stub):
    assert stub.ServerLive(protos.ServerLiveRequest(), timeout=SECONDS, wait_for_ready=True).live
    assert stub.ServerReady(protos.ServerReadyRequest(), timeout=SECONDS).ready
    assert stub.ModelReady(protos.ModelReadyRequest(name="double"), timeout=SECONDS).ready
    model = stub.ModelMetadata(protos.ModelMetadataRequest(name="double"), timeout=SECONDS)
    assert [(tensor.name, tensor.datatype, list(tensor.shape)) for tensor in model.inputs] == [("x", "FP32", [-1, -1])]
    try:
        stub.ModelMetadata(protos.ModelMetadataRequest(name="none"), timeout=SECONDS)
        raise AssertionError("a model that is not there was described")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND and "'none'" in error.details(), error


def infers_eight_mebibytes(stub):
    array = numbered(0, 1024, 2048)
    began = time.monotonic()
    check(stub.ModelInfer(request(array, identity="large"), timeout=SECONDS), array, "large")
    return time.monotonic() - began


def infers_at_the_same_time(stubs):
    """Calls of 4 to 260 KB, all begun before the first answer is looked at."""
    arrays = [numbered(number, 1 + number % 65, 1024) for number in range(CALLS)]
    calls = [
        stubs[number % len(stubs)].ModelInfer.future(request(array, identity=str(number)), timeout=SECONDS)
        for number, array in enumerate(arrays)
    ]
    for number, (call, array) in enumerate(zip(calls, arrays)):
        check(call.result(), array, str(number))


def streams(stub):
    arrays = [numbered(number, 64, 256) for number in range(STREAMED)]
    requests = (request(array, identity=str(number)) for number, array in enumerate(arrays))
    number = 0
    for number, response in enumerate(stub.ModelStreamInfer(requests, timeout=SECONDS), 1):
        assert not response.error_message, response.error_message
        check(response.infer_response, arrays[number - 1], str(number - 1))
    assert number == STREAMED, number


def patience(stub):
    """How many calls of `patient` the server has seen, and how many of them it saw given up."""
    response = stub.ModelInfer(request(SMALL, name="patience"), timeout=SECONDS)
    began, given_up = numpy.frombuffer(response.raw_output_contents[0], numpy.float32)
    return began, given_up


def gives_up(stub):
    """A deadline ends the call here and at the server, and nothing else on the same connection."""
    until = time.monotonic() + SECONDS
    # Again where the machine was so slow that the deadline passed before the server had the call.
    while patience(stub)[1] == 0:
        assert time.monotonic() < until, "the server never heard that its caller had given up"
        try:
            stub.ModelInfer(request(SMALL, name="patient"), timeout=0.5)
            raise AssertionError("a deadline passed unnoticed")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error


def outlives_a_cut(stub):
    """A call that the server has when the connection is cut fails, and the same channel finds its way again."""
    before = patience(stub)[0]
    standing = stub.ModelInfer.future(request(SMALL, name="patient"), timeout=SECONDS)
    while patience(stub)[0] == before:
        time.sleep(0.05)
    print("standing", flush=True)
    error = standing.exception()
    assert error.code() == grpc.StatusCode.UNAVAILABLE, error
    check(stub.ModelInfer(request(SMALL), timeout=SECONDS, wait_for_ready=True), SMALL)
    print("recovered", flush=True)


def main(address, cut=False):
    channels = [grpc.insecure_channel(address, OPTIONS) for _ in range(CHANNELS)]
    stubs = [services.GRPCInferenceServiceStub(channel) for channel in channels]
    describes_itself(stubs[0])
    seconds = infers_eight_mebibytes(stubs[0])
    print(f"8 MiB there and back in {seconds * 1000:.0f} ms", flush=True)
    infers_at_the_same_time(stubs)
    streams(stubs[1])
    gives_up(stubs[2])
    print(f"inferred {1 + CALLS + STREAMED} times", flush=True)
    if cut:
        outlives_a_cut(stubs[3])
    for channel in channels:
        channel.close()
