"""An inference server as Triton is one, at `address`, that knows nothing of Sealane. Its models:

double   y = 2x + 1 for every FP32, in the shape of the input
patient  answers nothing until its caller gives up
patience how many callers `patient` had, and how many of them gave up
"""

import concurrent.futures
import os
import threading
import time

import grpc
import numpy

PATIENT_SECONDS = 600

protos, services = grpc.protos_and_services("open_inference.proto")


class Inference(services.GRPCInferenceServiceServicer):
    def __init__(self):
        self.lock = threading.Lock()
        self.began = self.given_up = 0

    def ServerLive(self, request, context):
        return protos.ServerLiveResponse(live=True)

    def ServerReady(self, request, context):
        return protos.ServerReadyResponse(ready=True)

    def ModelReady(self, request, context):
        return protos.ModelReadyResponse(ready=request.name in ("double", "patient", "patience"))

    def ModelMetadata(self, request, context):
        if request.name != "double":
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no model {request.name!r}")
        tensor = protos.ModelMetadataResponse.TensorMetadata
        return protos.ModelMetadataResponse(
            name="double",
            versions=["1"],
            platform="numpy",
            inputs=[tensor(name="x", datatype="FP32", shape=[-1, -1])],
            outputs=[tensor(name="y", datatype="FP32", shape=[-1, -1])],
        )

    def ModelInfer(self, request, context):
        if request.model_name == "patient":
            return self.patient(context)
        if request.model_name == "patience":
            with self.lock:
                return answer(request, numpy.array([[self.began, self.given_up]], numpy.float32))
        return answer(request, doubled(request))

    def ModelStreamInfer(self, requests, context):
        for request in requests:
            yield protos.ModelStreamInferResponse(infer_response=answer(request, doubled(request)))

    def patient(self, context):
        """Counts itself when the call ends before the answer, which is what a deadline of the caller does."""
        with self.lock:
            self.began += 1
        over = threading.Event()
        if context.add_callback(over.set):
            over.wait(PATIENT_SECONDS)
        with self.lock:
            self.given_up += 1
        context.abort(grpc.StatusCode.CANCELLED, "the caller gave up")


def doubled(request):
    (given,), (raw,) = request.inputs, request.raw_input_contents
    assert (request.model_name, given.name, given.datatype) == ("double", "x", "FP32"), request.model_name
    return numpy.frombuffer(raw, numpy.float32).reshape(given.shape) * numpy.float32(2) + numpy.float32(1)


def answer(request, array):
    output = protos.ModelInferResponse.InferOutputTensor(name="y", datatype="FP32", shape=array.shape)
    return protos.ModelInferResponse(
        model_name=request.model_name,
        model_version="1",
        id=request.id,
        outputs=[output],
        raw_output_contents=[array.tobytes()],
    )


def main(address):
    # The sidecar, which connects to a socket, is another user than this program.
    os.umask(0)
    pool = concurrent.futures.ThreadPoolExecutor(16)
    sizes = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(pool, options=sizes)
    services.add_GRPCInferenceServiceServicer_to_server(Inference(), server)
    server.add_insecure_port(address)
    server.start()
    print("serving", flush=True)
    time.sleep(3600)
