"""The examples of the gRPC door, in Python and Go, against two real sidecars, with each other and with this client."""

import os
import pathlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
from conftest import REPOSITORY, SECONDS

sidecars = pytest.importorskip("sidecars")

EXAMPLES = REPOSITORY / "examples/grpc"
COUNT = 16
Command = list[str]


@pytest.fixture
def pair(tmp_path: pathlib.Path) -> Iterator[Any]:
    pair = sidecars.Pair(tmp_path)
    yield pair
    pair.stop()


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The Python example with its generated modules, made as its README says."""
    folder = tmp_path_factory.mktemp("python")
    for source in (EXAMPLES / "python").glob("*.py"):
        shutil.copy(source, folder)
    generate = ["-m", "grpc_tools.protoc", "-I", REPOSITORY / "sidecar/api/proto", "--python_out=.", "--grpc_python_out=."]
    subprocess.run([sys.executable, *generate, "door.proto"], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The programs of the Go example, which `go vet` has nothing to say about."""
    folder = tmp_path_factory.mktemp("go")
    for arguments in (["vet", "./..."], ["build", "-o", str(folder), "./send", "./receive"]):
        subprocess.run(["go", *arguments], cwd=EXAMPLES / "go", check=True)
    return folder


def program(name: str, language: str, request: pytest.FixtureRequest) -> Command:
    folder: pathlib.Path = request.getfixturevalue(language)
    return [sys.executable, str(folder / f"{name}.py")] if language == "python" else [str(folder / name)]


def start(command: Command, grpc: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "SEALANE_GRPC": grpc}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> str:
    try:
        output, errors = process.communicate(timeout=3 * SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        raise AssertionError(f"{process.args} hangs:\n{output}\n{errors}") from None
    assert process.returncode == 0, f"{process.args}:\n{output}\n{errors}"
    return output


@pytest.mark.parametrize("receiving", ["python", "go"])
@pytest.mark.parametrize("sending", ["python", "go"])
def test_examples_exchange_tensors(pair: Any, sending: str, receiving: str, request: pytest.FixtureRequest) -> None:
    send = program("send", sending, request)
    receive = program("receive", receiving, request)
    receiver = start([*receive, "activations"], pair.ranker.grpc)
    sender = start([*send, "activations", str(COUNT)], pair.embedder.grpc)
    assert finish(sender) == f"put {COUNT} tensors: {COUNT} taken, 0 uncertain\n"
    assert finish(receiver).startswith(f"took {COUNT} tensors, ")


@pytest.fixture
def tensor(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES / "python")
    import tensors

    return tensors.tensor


def test_what_grpc_puts_this_client_takes(
    pair: Any, tensor: Any, request: pytest.FixtureRequest
) -> None:
    sender = start([*program("send", "python", request), "activations", str(COUNT)], pair.embedder.grpc)
    with pair.ranker.connect() as door:
        for number, came in enumerate(door.receiver("activations", timeout=SECONDS)):
            assert (came.sequence, came.name, came.sender) == (number, f"tensor {number}", "embedder/embedder-0")
            assert came.numpy().dtype == numpy.float32
            assert came.numpy().tobytes() == tensor(number).tobytes()
    assert number == COUNT - 1
    finish(sender)


def test_what_this_client_puts_grpc_takes(pair: Any, tensor: Any, request: pytest.FixtureRequest) -> None:
    receiver = start([*program("receive", "go", request), "activations"], pair.ranker.grpc)

    def put() -> None:
        with pair.embedder.connect() as door:
            lane = door.sender("activations", timeout=SECONDS)
            for number in range(COUNT):
                lane.put(tensor(number), timeout=SECONDS)
            lane.close(timeout=SECONDS)

    thread = threading.Thread(target=put)
    thread.start()
    assert finish(receiver).startswith(f"took {COUNT} tensors, ")
    thread.join()


@pytest.mark.parametrize("language", ["python", "go"])
def test_examples_tell_why_they_fail(pair: Any, language: str, request: pytest.FixtureRequest) -> None:
    receiver = start([*program("receive", language, request), "activations"], pair.embedder.grpc)
    output, errors = receiver.communicate(timeout=3 * SECONDS)
    assert receiver.returncode == 1, output
    assert "SessionNotInPolicy" in errors and "other side" in errors, errors
