"""The ends of an Arrow Flight upload, over TLS with certificates of both sides."""

import threading

import pyarrow
from arrivals import Arrivals
from common import material, putting
from pyarrow import flight

SCHEMA = pyarrow.schema([("bytes", pyarrow.uint8())])


def batch(message):
    column = pyarrow.Array.from_buffers(pyarrow.uint8(), len(message), [None, pyarrow.py_buffer(message)])
    return pyarrow.record_batch([column], schema=SCHEMA)


def put(host, port, folder):
    certificate, key = material(folder)
    client = flight.FlightClient(
        f"grpc+tls://{host}:{port}",
        tls_root_certs=certificate,
        cert_chain=certificate,
        private_key=key,
        override_hostname="peer",
    )
    writer, _ = client.do_put(flight.FlightDescriptor.for_path("bytes"), SCHEMA)
    yield f"pyarrow {pyarrow.__version__}"
    yield from putting(writer.write_batch, lambda messages: list(map(batch, messages)))


def take(host, folder):
    certificate, key = material(folder)
    arrivals = Arrivals()

    class Server(flight.FlightServerBase):
        def do_put(self, context, descriptor, reader, writer):
            for chunk in reader:
                arrivals.arrive(memoryview(chunk.data.column(0).buffers()[1]).cast("B")[: chunk.data.num_rows])

    server = Server(
        f"grpc+tls://{host}:0",
        tls_certificates=[(certificate, key)],
        verify_client=True,
        root_certificates=certificate,
    )
    threading.Thread(target=server.serve, daemon=True).start()
    yield str(server.port)
    yield from arrivals.tasks()
