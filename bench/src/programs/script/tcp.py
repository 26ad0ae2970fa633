"""The ends of a TCP connection: as it is, or with something around its socket."""

import socket
import time

from common import PAYLOADS, SECONDS, Payloads, asking, differs, putting, told


def connect(host, port):
    stream = socket.create_connection((host, int(port)), timeout=SECONDS)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def listen(host):
    listener = socket.create_server((host, 0))
    listener.settimeout(SECONDS)
    return listener


def accept(listener):
    stream, _ = listener.accept()
    stream.settimeout(SECONDS)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def ask(host, port):
    stream = connect(host, port)

    def exchange(message):
        stream.sendall(message)
        memory = memoryview(bytearray(len(message)))
        fill(stream, memory)
        return memory

    yield "ready"
    yield from asking(exchange)


def echo(host):
    listener = listen(host)
    yield str(listener.getsockname()[1])
    stream = accept(listener)
    task = yield
    while True:
        memory = memoryview(bytearray(task["bytes"]))
        began = time.monotonic_ns()
        for _ in range(task["count"]):
            fill(stream, memory)
            stream.sendall(memory)
        task = yield told(began)


def fill(stream, memory):
    filled = 0
    while filled < len(memory):
        read = stream.recv_into(memory[filled:])
        if not read:
            raise ConnectionError("the other end is gone")
        filled += read


def put(host, port, around=lambda stream: (stream, "")):
    stream, words = around(connect(host, port))
    yield words
    yield from putting(stream.sendall, lambda messages: list(map(memoryview, messages)))


def take(host, around=lambda stream: stream):
    listener = listen(host)
    yield str(listener.getsockname()[1])
    stream = around(accept(listener))
    task = yield
    payloads = Payloads()
    memory = bytearray()
    while True:
        size = task["bytes"]
        messages = payloads.of(size)
        if len(memory) != PAYLOADS * size:
            memory = bytearray(PAYLOADS * size)
        view = memoryview(memory)
        began, wrong = time.monotonic_ns(), None
        for number in range(task["count"]):
            place = number % PAYLOADS
            whole = view[place * size : (place + 1) * size]
            fill(stream, whole)
            wrong = wrong or differs(whole, messages[place], number, task["thorough"])
        task = yield told(began, wrong)
