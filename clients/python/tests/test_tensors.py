"""Every element type, layout and library, from put to take."""

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy
import pytest
from lanes import core_of
from loopback import SECONDS
from seeds import generator

import sealane
from sealane import _dtypes

Pair = tuple[sealane.Sender, sealane.Receiver]
SOURCES = Path(sealane.__file__).parent.parent
NUMPY = [dtype.name for dtype in _dtypes.DTYPES]


def through(pair: Pair, value: Any, name: str = "") -> sealane.Tensor:
    sender, receiver = pair
    sequence = sender.put(value, name, timeout=SECONDS)
    tensor = receiver.take(timeout=SECONDS)
    assert tensor is not None
    assert (tensor.sequence, tensor.name) == (sequence, name)
    return tensor


def sample(dtype: str, shape: tuple[int, ...]) -> Any:
    raw = generator(5).integers(0, 120, size=shape)
    kind = _dtypes.numpy_dtype(_dtypes.BY_NAME[dtype])
    return (raw % 2).astype(kind) if dtype == "bool" else raw.astype(kind)


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 1, 3, 4), (0,), (4, 0, 2)], ids=str)
def test_every_dtype_and_shape(pair: Pair, dtype: str, shape: tuple[int, ...]) -> None:
    array = sample(dtype, shape)
    tensor = through(pair, array, "layer3")
    assert (tensor.dtype, tensor.shape, tensor.nbytes) == (dtype, shape, array.nbytes)
    back = tensor.numpy()
    assert back.dtype == array.dtype and back.shape == shape
    assert back.tobytes() == array.tobytes()
    assert tensor.buffer().tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "layout",
    [
        lambda a: a.T,
        lambda a: a[::2, 1::3],
        lambda a: a[::-1],
        lambda a: numpy.asfortranarray(a),
        lambda a: numpy.broadcast_to(a[0], a.shape),
        lambda a: a[:, None, :].swapaxes(0, 2),
    ],
    ids=["transposed", "strided", "reversed", "fortran", "broadcast", "swapped"],
)
def test_any_layout(pair: Pair, layout: Any) -> None:
    array = layout(numpy.arange(40 * 60, dtype=numpy.float32).reshape(40, 60))
    numpy.testing.assert_array_equal(through(pair, array).numpy(), array)


def test_big_endian_arrays_are_converted(pair: Pair) -> None:
    array = numpy.arange(10, dtype=">f8")
    back = through(pair, array).numpy()
    assert back.dtype == numpy.dtype("<f8")
    numpy.testing.assert_array_equal(back, array)


def test_bytes_lists_and_numbers(pair: Pair) -> None:
    assert through(pair, b"\x00\xff").buffer().tobytes() == b"\x00\xff"
    assert through(pair, bytearray(b"abc")).dtype == "uint8"
    assert through(pair, b"").shape == (0,)
    numpy.testing.assert_array_equal(through(pair, [[1, 2], [3, 4]]).numpy(), [[1, 2], [3, 4]])
    assert through(pair, 2.5).numpy() == 2.5


def test_a_memoryview_is_what_numpy_reads_it_as(pair: Pair) -> None:
    assert through(pair, memoryview(b"abc")).dtype == "uint8"
    numpy.testing.assert_array_equal(through(pair, memoryview(b"abcdef")[::2]).numpy(), list(b"ace"))
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    for view in (memoryview(array), memoryview(array.T)):
        tensor = through(pair, view)
        assert tensor.dtype == "float32"
        numpy.testing.assert_array_equal(tensor.numpy(), numpy.asarray(view))


def test_a_masked_array_without_masked_elements_is_an_array(pair: Pair) -> None:
    numpy.testing.assert_array_equal(through(pair, numpy.ma.array([1, 2])).numpy(), [1, 2])


def test_an_array_is_put_without_the_module_of_masked_arrays() -> None:
    """Its import takes as long as hundreds of puts, and a thread that forks meanwhile gives its child a held lock."""
    program = """
import sys
import numpy
from sealane import _arrays
before = set(sys.modules)
_arrays.source(numpy.zeros(3))
late = set(sys.modules) - before
assert not late, late
"""
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": str(SOURCES)})


def test_a_hundred_megabytes(pair: Pair) -> None:
    array = generator(1).integers(0, 256, size=100_000_000, dtype=numpy.uint8)
    for _ in range(3):
        assert numpy.array_equal(through(pair, array).numpy(), array)


def test_thirty_two_dimensions_and_no_more(pair: Pair) -> None:
    array = numpy.arange(4, dtype=numpy.int8).reshape((1,) * 30 + (2, 2))
    assert through(pair, array).shape == array.shape
    with pytest.raises(ValueError, match="at most 32 dimensions"):
        pair[0].put(array[None], timeout=SECONDS)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (numpy.zeros(3, dtype=[("a", "f4"), ("b", "i4")]), "one by one: a, b"),
        (numpy.array([object()]), "object"),
        (numpy.array(["text"]), "encode it as numbers"),
        (numpy.array(["2026-01-01"], dtype="datetime64[D]"), "int64"),
        (numpy.zeros(2, dtype=numpy.longdouble), "no tensor element"),
        (numpy.zeros(2, dtype=ml_dtypes.float8_e4m3b11fnuz), "no tensor element"),
        (numpy.ma.masked_equal([1, 2, 3], 2), "filled"),
    ],
    ids=["structured", "object", "text", "date", "longdouble", "other float8", "masked"],
)
def test_what_is_no_tensor_is_a_type_error_that_helps(pair: Pair, value: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        pair[0].put(value, timeout=SECONDS)
    assert pair[0].put(1, timeout=SECONDS) == 0, "nothing was numbered"


class OnDevice:
    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


def test_device_arrays_name_cpu(pair: Pair) -> None:
    with pytest.raises(TypeError, match=r"\.cpu\(\)"):
        pair[0].put(OnDevice(), timeout=SECONDS)


def test_names(pair: Pair) -> None:
    assert through(pair, 1, "größe/ß").name == "größe/ß"
    assert through(pair, 1, "n" * 255).name == "n" * 255
    with pytest.raises(ValueError, match="at most 255 bytes"):
        pair[0].put(1, "ß" * 128, timeout=SECONDS)


def test_bfloat16_without_ml_dtypes_names_torch(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    array = numpy.arange(6).astype(ml_dtypes.bfloat16)
    tensor = through(pair, array)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match=r"use \.torch\(\)"):
        tensor.numpy()


def test_arrays_in_shared_memory_are_not_copied(pair: Pair) -> None:
    sender, _ = pair

    def lent() -> int:
        with core_of(sender).lock:
            # The array of the round before is gone, and the client notes that now and then.
            sender._lane.arena.collect()
            return len(sender._lane.arena.lent)

    for dtype in ("float32", numpy.int16, ml_dtypes.bfloat16):
        array = sender.empty((16, 4), dtype, timeout=SECONDS)
        array[...] = numpy.arange(64).reshape(16, 4)
        assert lent() == 1
        tensor = through(pair, array)
        assert lent() == 1
        numpy.testing.assert_array_equal(tensor.numpy(), array)
    assert sender.empty((0, 3), timeout=SECONDS).shape == (0, 3)
    assert sender.empty(5, timeout=SECONDS).shape == (5,)


def test_a_view_of_a_shared_array_is_sent_as_it_is(pair: Pair) -> None:
    array = pair[0].empty((8, 8), timeout=SECONDS)
    array[...] = numpy.arange(64).reshape(8, 8)
    numpy.testing.assert_array_equal(through(pair, array[2:4, ::2]).numpy(), array[2:4, ::2])
    numpy.testing.assert_array_equal(through(pair, array[:2]).numpy(), array[:2])


def test_the_sender_may_change_its_array_after_put(pair: Pair) -> None:
    array = numpy.ones(1000)
    pair[0].put(array, timeout=SECONDS)
    array[...] = 2
    tensor = pair[1].take(timeout=SECONDS)
    assert tensor is not None and (tensor.numpy() == 1).all()


def test_a_tensor_reads_like_an_array(pair: Pair) -> None:
    tensor = through(pair, numpy.arange(4, dtype=numpy.float32), "x")
    assert numpy.asarray(tensor, dtype=numpy.float64).tolist() == [0, 1, 2, 3]
    assert repr(tensor).startswith("<Tensor 'x' float32[4] sequence 0 of loopback/")
    tensor.release()
    with pytest.raises(sealane.Closed):
        tensor.numpy()


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
class TestTorch:
    @pytest.fixture(autouse=True)
    def load(self) -> None:
        self.torch: Any = importlib.import_module("torch")

    def octets(self, tensor: Any) -> list[int]:
        octets: list[int] = tensor.contiguous().reshape(-1).view(self.torch.uint8).tolist()
        return octets

    @pytest.mark.parametrize("dtype", [dtype for dtype in _dtypes.DTYPES], ids=lambda dtype: dtype.name)
    def test_every_dtype(self, pair: Pair, dtype: _dtypes.Dtype) -> None:
        torch = self.torch
        if not hasattr(torch, dtype.torch):
            pytest.skip(f"this torch has no {dtype.torch}")
        wanted = getattr(torch, dtype.torch)
        value = torch.arange(24).reshape(2, 3, 4).to(wanted)
        for layout in (value, value.transpose(0, 2), value[:, ::2], value[0, 0, 0], value[:0]):
            tensor = through(pair, layout)
            assert tensor.dtype == dtype.name and tensor.shape == tuple(layout.shape)
            back = tensor.torch()
            assert back.dtype == wanted
            assert self.octets(back) == self.octets(layout)

    def test_torch_copies_unless_asked(self, pair: Pair) -> None:
        torch = self.torch
        tensor = through(pair, torch.ones(8, dtype=torch.bfloat16))
        view, copy = tensor.torch(view=True), tensor.torch()
        view[0] = 5
        assert tensor.torch()[0] == 5 and copy[0] == 1

    def test_shared_memory_and_gradients(self, pair: Pair) -> None:
        torch = self.torch
        shared = pair[0].empty((4, 4), torch.bfloat16, timeout=SECONDS)
        shared.fill_(3)
        assert torch.equal(through(pair, shared).torch(), shared)
        weights = torch.ones(3, requires_grad=True)
        assert through(pair, weights * 2).torch().tolist() == [2, 2, 2]

    def test_a_ring_is_computed_into(self, pair: Pair) -> None:
        torch = self.torch
        out = pair[0].ring((2, 2), torch.float32).next(timeout=SECONDS)
        torch.add(torch.ones(2, 2), 1, out=out)
        assert through(pair, out).torch().tolist() == [[2, 2], [2, 2]]

    def test_what_cannot_be_sent(self, pair: Pair) -> None:
        torch = self.torch
        with pytest.raises(TypeError, match=r"\.cpu\(\)"):
            pair[0].put(torch.ones(2, device="meta"), timeout=SECONDS)
        with pytest.raises(TypeError, match="to_dense"):
            pair[0].put(torch.eye(3).to_sparse(), timeout=SECONDS)
