"""The ends of a ZeroMQ socket with CURVE. Its keys lie in the folder of the run."""

import json
import pathlib
import time

import zmq
from common import PAYLOADS, SECONDS, Payloads, differs, putting, told

#: Messages that wait on either side.
HIGH_WATER = 16


def endpoint(kind):
    made = zmq.Context().socket(kind)
    made.set_hwm(HIGH_WATER)
    made.setsockopt(zmq.RCVTIMEO, int(SECONDS * 1000))
    made.setsockopt(zmq.SNDTIMEO, int(SECONDS * 1000))
    return made


def put(host, port, folder):
    keys = json.loads(pathlib.Path(folder, "curve.json").read_text())
    pushing = endpoint(zmq.PUSH)
    pushing.curve_serverkey = keys["server"].encode()
    pushing.curve_publickey, pushing.curve_secretkey = zmq.curve_keypair()
    pushing.connect(f"tcp://{host}:{port}")
    yield f"pyzmq {zmq.__version__}, libzmq {zmq.zmq_version()}"
    yield from putting(lambda message: pushing.send(message, copy=False))


def take(host, folder):
    pulling = endpoint(zmq.PULL)
    public, secret = zmq.curve_keypair()
    pathlib.Path(folder, "curve.json").write_text(json.dumps({"server": public.decode()}))
    pulling.curve_server = True
    pulling.curve_publickey, pulling.curve_secretkey = public, secret
    yield str(pulling.bind_to_random_port(f"tcp://{host}"))
    task = yield
    payloads = Payloads()
    while True:
        messages = payloads.of(task["bytes"])
        began, wrong = time.monotonic_ns(), None
        for number in range(task["count"]):
            found = pulling.recv(copy=False).buffer
            wrong = wrong or differs(found, messages[number % PAYLOADS], number, task["thorough"])
        task = yield told(began, wrong)
