"""The ends of a gRPC call that streams, over TLS with certificates of both sides."""

import queue
import sys
from concurrent import futures

import grpc
from arrivals import Arrivals
from common import SECONDS, material, putting

METHOD = "/bench.Bench/Put"
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
#: Messages that wait for the call.
QUEUED = 8


def put(host, port, folder):
    certificate, key = material(folder)
    credentials = grpc.ssl_channel_credentials(certificate, key, certificate)
    options = [*UNLIMITED, ("grpc.ssl_target_name_override", "peer")]
    channel = grpc.secure_channel(f"{host}:{port}", credentials, options=options)
    grpc.channel_ready_future(channel).result(SECONDS)
    waiting = queue.Queue(QUEUED)
    call = channel.stream_unary(METHOD).future(iter(waiting.get, None))
    yield f"grpcio {grpc.__version__}"

    def said(call):
        if not call.cancelled() and call.exception():
            print("the call failed:", call.exception(), file=sys.stderr, flush=True)

    def send(message):
        if call.done():
            raise call.exception() or RuntimeError("the call is over")
        waiting.put(message, timeout=SECONDS)

    call.add_done_callback(said)
    yield from putting(send)


def take(host, folder):
    certificate, key = material(folder)
    arrivals = Arrivals()

    def arrive(requests, _):
        for request in requests:
            arrivals.arrive(memoryview(request))
        return b""

    methods = {"Put": grpc.stream_unary_rpc_method_handler(arrive)}
    server = grpc.server(futures.ThreadPoolExecutor(1), options=UNLIMITED)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Bench", methods),))
    credentials = grpc.ssl_server_credentials([(key, certificate)], certificate, require_client_auth=True)
    port = server.add_secure_port(f"{host}:0", credentials)
    server.start()
    yield str(port)
    yield from arrivals.tasks()
