"""The examples of the gRPC door, in Python and Go, against two real sidecars, with each other and with this client."""

import os
import pathlib
import shutil
import subprocess
import sys
import threading
from typing import Any

import numpy
import pytest
from loopback import REPOSITORY, SECONDS
from sidecars import Pair

EXAMPLES = REPOSITORY / "examples/grpc"
COUNT = 16
Command = list[str]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The Python example with its generated modules, made as its README says."""
    folder = tmp_path_factory.mktemp("python")
    for source in (EXAMPLES / "python").glob("*.py"):
        shutil.copy(source, folder)
    generate = ["-m", "grpc_tools.protoc", "-I", str(REPOSITORY / "sidecar/api/proto")]
    generate += ["--python_out=.", "--grpc_python_out=.", "door.proto"]
    subprocess.run([sys.executable, *generate], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of the Go example's programs `send` and `receive`. Their first build takes a minute, so whoever runs
    the tests may have done that before: `SEALANE_TEST_GO_EXAMPLE`."""
    if built := os.environ.get("SEALANE_TEST_GO_EXAMPLE"):
        return pathlib.Path(built)
    folder = tmp_path_factory.mktemp("go")
    subprocess.run(["go", "build", "-o", str(folder), "./send", "./receive"], cwd=EXAMPLES / "go", check=True)
    return folder


def test_go_vet_has_nothing_to_say() -> None:
    subprocess.run(["go", "vet", "./..."], cwd=EXAMPLES / "go", check=True)


def program(name: str, language: str, request: pytest.FixtureRequest) -> Command:
    folder: pathlib.Path = request.getfixturevalue(language)
    return [sys.executable, str(folder / f"{name}.py")] if language == "python" else [str(folder / name)]


def start(command: Command, grpc: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "SEALANE_GRPC": grpc}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> str:
    try:
        output, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        raise AssertionError(f"{process.args} hangs:\n{output}\n{errors}") from None
    assert process.returncode == 0, f"{process.args}:\n{output}\n{errors}"
    return output


@pytest.mark.parametrize("receiving", ["python", "go"])
@pytest.mark.parametrize("sending", ["python", "go"])
def test_examples_exchange_tensors(peers: Pair, sending: str, receiving: str, request: pytest.FixtureRequest) -> None:
    send = program("send", sending, request)
    receive = program("receive", receiving, request)
    receiver = start([*receive, "activations"], peers.ranker.grpc)
    sender = start([*send, "activations", str(COUNT)], peers.embedder.grpc)
    assert finish(sender) == f"put {COUNT} tensors: {COUNT} taken, 0 uncertain\n"
    assert finish(receiver).startswith(f"took {COUNT} tensors, ")


@pytest.fixture
def tensor(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES / "python")
    import tensors

    return tensors.tensor


def test_what_grpc_puts_this_client_takes(peers: Pair, tensor: Any, request: pytest.FixtureRequest) -> None:
    sender = start([*program("send", "python", request), "activations", str(COUNT)], peers.embedder.grpc)
    with peers.ranker.connect() as door:
        for number, came in enumerate(door.receiver("activations", timeout=SECONDS)):
            assert (came.sequence, came.name, came.sender) == (number, f"tensor {number}", "embedder/embedder-0")
            assert came.numpy().dtype == numpy.float32
            assert came.numpy().tobytes() == tensor(number).tobytes()
    assert number == COUNT - 1
    finish(sender)


def test_what_this_client_puts_grpc_takes(peers: Pair, tensor: Any, request: pytest.FixtureRequest) -> None:
    receiver = start([*program("receive", "go", request), "activations"], peers.ranker.grpc)

    def put() -> None:
        with peers.embedder.connect() as door:
            lane = door.sender("activations", timeout=SECONDS)
            for number in range(COUNT):
                lane.put(tensor(number), timeout=SECONDS)
            lane.close(timeout=SECONDS)

    thread = threading.Thread(target=put)
    thread.start()
    assert finish(receiver).startswith(f"took {COUNT} tensors, ")
    thread.join()


@pytest.mark.parametrize("language", ["python", "go"])
def test_examples_tell_why_they_fail(peers: Pair, language: str, request: pytest.FixtureRequest) -> None:
    receiver = start([*program("receive", language, request), "activations"], peers.embedder.grpc)
    output, errors = receiver.communicate(timeout=SECONDS)
    assert receiver.returncode == 1, output
    assert "SessionNotInPolicy" in errors and "other side" in errors, errors
