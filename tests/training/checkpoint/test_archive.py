"""Trees go into an archive and come out the same, bit for bit; what cannot is refused with the place it stands at."""

import os
import random
import sys
from collections import Counter, OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from sterna.training.checkpoint.archive import ArchiveReader, Draft
from sterna.training.checkpoint.checkpoint_problems import CheckpointProblem
from tests.needs import needs
from tests.training.checkpoint.trees import alike, trees


def written(tree: object) -> bytes:
    draft = Draft({"tree": tree})
    return b"".join([draft.head(), *draft.body()])


def read(data: bytes) -> Any:
    fd = os.memfd_create("archive")
    try:
        os.write(fd, data)
        return ArchiveReader(fd, name="archive", files=Path("nowhere")).tree("tree")
    finally:
        os.close(fd)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tree=trees)
def test_any_tree_of_plain_values_comes_back_bit_for_bit(tree):
    assert alike(read(written(tree)), tree)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tree=trees)
def test_equal_trees_make_equal_archives(tree):
    assert written(tree) == written(tree)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(random.Random(3).getstate(), id="the state of Python's random numbers"),
        pytest.param({1: "a", "1": "b", (1, None): "c", 1.5: "d"}, id="keys that JSON would mix up"),
        pytest.param(Counter({30: 1, 60: 1}), id="the milestones of a learning rate schedule stay a Counter"),
        pytest.param(10**5000, id="an integer longer than Python likes to print"),
        pytest.param({"nested": [[[[[[[[]]]]]]]]}, id="nesting"),
        pytest.param(b"x" * 1_000_000, id="bytes that go to a buffer"),
        pytest.param([bytearray(b"y" * 1000)] * 3, id="bytearrays that go to buffers"),
    ],
)
def test_plain_values_come_back(value):
    assert alike(read(written(value)), value)


Point = namedtuple("Point", "x y")


class Stateful:
    def state_dict(self) -> dict[str, int]:
        return {}


def loop() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        pytest.param({"a": [1, Point(1, 2)]}, ["['a'][1]", "NamedTuple", "_asdict"], id="a named tuple"),
        pytest.param({"m": Stateful()}, ["['m']", "state_dict()"], id="an object that has a state_dict"),
        pytest.param({"f": print}, ["['f']", "builtin"], id="a function"),
        pytest.param({3: {"x": object()}}, ["[3]['x']", "object"], id="a bare object"),
        pytest.param(loop(), ["nested deeper", "holds itself"], id="a list that holds itself"),
        pytest.param({"c": type("Sub", (dict,), {})()}, ["['c']", "Sub"], id="a subclass of dict"),
    ],
)
def test_what_cannot_be_restored_is_refused_with_its_place(tree, words):
    with pytest.raises(CheckpointProblem) as problem:
        written(tree)
    for word in words:
        assert word in str(problem.value)


def test_a_skeleton_longer_than_a_reader_would_accept_is_refused_when_saving(monkeypatch):
    monkeypatch.setattr("sterna.training.checkpoint.archive.HEADER_BYTES_MAX", 5000)
    with pytest.raises(CheckpointProblem, match="keep long sequences of numbers as arrays"):
        written(list(range(5000)))
    assert read(written(list(range(100)))) == list(range(100))


def test_the_tree_may_change_as_soon_as_the_draft_is_made():
    tree: dict[str, Any] = {"lr": [0.1], "b": bytearray(b"z" * 1000)}
    draft = Draft({"tree": tree})
    tree["lr"][0], tree["b"][:] = 0.2, b"y" * 1000
    assert read(b"".join([draft.head(), *draft.body()])) == {"lr": [0.1], "b": bytearray(b"z" * 1000)}


def test_long_bytes_of_a_bytearray_do_not_alias_what_was_loaded():
    loaded = read(written([bytearray(b"q" * 500)]))
    loaded[0][0] = 0
    assert loaded[0][1:] == b"q" * 499


class TestNumpy:
    @pytest.fixture(autouse=True)
    def _numpy(self) -> None:
        needs("numpy")

    @pytest.mark.parametrize(
        "dtype",
        ["bool", "i1", "<i8", ">i4", "u2", "f2", "f4", ">f8", "longdouble", "c8", "c16", "S5", "<U7", "M8[ns]", "m8[s]",
         "V3", "i4,f8", [("a", "i2"), ("b", [("c", "f4", (2, 3))])]],
    )  # fmt: skip
    @pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (4, 5, 6)])
    def test_every_dtype_and_shape_comes_back(self, dtype, shape):
        import numpy as np

        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        raw = np.random.default_rng(1).integers(0, 128, size=size, dtype=np.uint8)
        if np.dtype(dtype) == np.bool_:
            raw %= 2
        if np.dtype(dtype).kind == "U":
            raw[:] = 0
            raw[::4] = 65
        array = np.empty(shape, dtype)
        if size:
            array = np.frombuffer(raw.tobytes(), dtype).reshape(shape)
        assert alike(read(written({"a": array}))["a"], array)

    def test_order_and_slices(self):
        import numpy as np

        grid = np.arange(24.0).reshape(4, 6)
        tree = {"f": np.asfortranarray(grid), "slice": grid[::2, 1::3], "back": grid[::-1], "one": grid[1:2, 2:3]}
        loaded = read(written(tree))
        assert all(alike(loaded[key], tree[key]) for key in tree)
        assert loaded["f"].flags.f_contiguous
        loaded["slice"][0, 0] = 7  # can be written to, and is nobody else's
        assert grid[0, 1] == 1

    def test_the_same_array_twice_is_written_once_and_shared_again(self):
        import numpy as np

        array = np.zeros(100_000)
        data = written([array, {"again": array}])
        assert len(data) < 1.1 * array.nbytes
        first, second = (loaded := read(data))[0], loaded[1]["again"]
        first[5] = 3.0
        assert second[5] == 3.0

    def test_scalars_keep_their_type(self):
        import numpy as np

        tree = [np.float32(1.1), np.int64(-3), np.bool_(True), np.str_("ab"), np.str_(""), np.datetime64("2020-01-01")]
        assert all(alike(*pair) for pair in zip(read(written(tree)), tree, strict=True))

    def test_generator_states_come_back(self):
        import numpy as np

        generator = np.random.default_rng(5)
        tree = {"new": generator.bit_generator.state, "old": np.random.RandomState(4).get_state()}
        expected = generator.random(3)
        loaded = read(written(tree))
        again = np.random.default_rng(0)
        again.bit_generator.state = loaded["new"]
        assert again.random(3).tolist() == expected.tolist()
        np.random.RandomState().set_state(loaded["old"])

    def test_extended_floats_come_back(self):
        needs("ml_dtypes")
        import ml_dtypes
        import numpy as np

        array = np.arange(8).astype(ml_dtypes.bfloat16)
        assert alike(read(written([array]))[0], array)

    @pytest.mark.filterwarnings("ignore:the matrix subclass")
    @pytest.mark.parametrize("what", ["objects", "matrix", "masked"])
    def test_arrays_that_are_no_plain_memory_are_refused(self, what):
        import numpy as np

        array: Any = {
            "objects": np.array([object()]), "matrix": np.matrix([[1]]), "masked": np.ma.array([1], mask=[True]),
        }[what]  # fmt: skip
        with pytest.raises(CheckpointProblem, match=r"\['w'\]"):
            written({"w": array})


class TestTorch:
    @pytest.fixture(autouse=True)
    def _torch(self) -> None:
        needs("torch")

    @pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
    def test_every_dtype_comes_back(self):
        import torch

        names = sorted(name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype))
        plain = [name for name in names if not name.startswith(("q", "bits"))]
        raw = torch.arange(0, 96, dtype=torch.uint8) % 2
        tree = {}
        for name in plain:
            dtype = getattr(torch, name)
            try:
                tree[name] = raw.view(dtype).reshape(2, -1).clone()
            except (RuntimeError, TypeError):
                continue  # this torch knows the name and little else
        assert {"float32", "bfloat16", "float8_e4m3fn", "complex64", "bool", "int64", "float16"} <= set(tree)
        loaded = read(written(tree))
        assert all(alike(loaded[name], tree[name]) for name in tree)

    @pytest.mark.parametrize(
        "make",
        [
            pytest.param(lambda t: t.tensor(3.5), id="a scalar"),
            pytest.param(lambda t: t.empty(0, 3), id="no elements"),
            pytest.param(lambda t: t.arange(12.0).reshape(3, 4).t(), id="transposed"),
            pytest.param(lambda t: t.arange(120.0).reshape(10, 12)[::3, 2:9:2], id="a slice with steps"),
            pytest.param(lambda t: t.arange(60.0).reshape(3, 20)[:, 3], id="a column"),
            pytest.param(lambda t: t.arange(3.0).expand(1000, 3), id="expanded"),
            pytest.param(lambda t: t.randn(2, 3, 4, 5).to(memory_format=t.channels_last), id="channels last"),
            pytest.param(lambda t: t.nn.Parameter(t.randn(5)), id="a parameter"),
            pytest.param(lambda t: t.randn(4, dtype=t.complex64).conj(), id="conjugated"),
            pytest.param(lambda t: t.randn(4, dtype=t.complex64).conj().imag, id="negated"),
            pytest.param(lambda t: t.get_rng_state(), id="the state of torch's random numbers"),
        ],
    )
    def test_every_layout_of_memory_comes_back(self, make):
        import torch

        value = make(torch)
        loaded = read(written({"v": value}))["v"]
        assert type(loaded) is torch.Tensor
        assert loaded.shape == value.shape
        assert torch.equal(loaded, value.detach())

    def test_channels_last_stays_channels_last(self):
        import torch

        value = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
        assert read(written([value]))[0].is_contiguous(memory_format=torch.channels_last)

    def test_a_thin_slice_does_not_drag_the_whole_storage_along(self):
        import torch

        assert len(written([torch.zeros(1000, 1000)[:, 5]])) < 10_000
        assert len(written([torch.zeros(1_000_000)[10:20]])) < 10_000
        assert len(written([torch.zeros(1).expand(10**9)])) < 10_000

    def test_tensors_that_shared_memory_share_it_again(self):
        import torch

        base = torch.arange(10_000, dtype=torch.float32)
        tied = {
            "whole": base,
            "again": base,
            "view": base[100:200].reshape(10, 10),
            "bits": base[4:8].view(torch.int16),
        }
        data = written(tied)
        assert len(data) < 1.3 * base.nbytes
        loaded = read(data)
        assert all(alike(loaded[key], tied[key]) for key in tied)
        loaded["whole"].zero_()
        assert not any(loaded[key].any() for key in tied)

    def test_state_dicts_of_model_and_optimizer_come_back(self):
        import torch

        torch.manual_seed(2)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(16, 4)).square().sum().backward()
            optimizer.step()
            schedule.step()
        tree = {"m": model.state_dict(), "o": optimizer.state_dict(), "s": schedule.state_dict()}
        loaded = read(written(tree))
        assert isinstance(loaded["m"], OrderedDict)
        assert loaded["m"]._metadata == tree["m"]._metadata  # type: ignore[attr-defined]
        assert alike(loaded["o"], tree["o"])
        model.load_state_dict(loaded["m"])
        optimizer.load_state_dict(loaded["o"])
        schedule.load_state_dict(loaded["s"])
        assert alike(model.state_dict(), tree["m"])

    @pytest.mark.parametrize(
        ("make", "word"),
        [
            pytest.param(lambda t: t.eye(3).to_sparse(), "sparse", id="sparse"),
            pytest.param(lambda t: t.empty(3, device="meta"), "meta", id="without values"),
            pytest.param(lambda t: t.quantize_per_tensor(t.randn(3), 0.1, 0, t.qint8), "quantized", id="quantized"),
        ],
    )
    @pytest.mark.filterwarnings("ignore")  # torch announces the end of quantized tensors
    def test_tensors_that_are_no_plain_memory_are_refused(self, make, word):
        import torch

        with pytest.raises(CheckpointProblem, match=word) as problem:
            written({"w": [make(torch)]})
        assert "['w'][0]" in str(problem.value)


def test_saving_plain_values_imports_neither_numpy_nor_torch(tmp_path):
    import subprocess

    program = (
        "import sys; from pathlib import Path; from sterna.training.checkpoint import CheckpointStore\n"
        "store = CheckpointStore(Path(sys.argv[1]), incarnation=1)\n"
        "store.save({'a': [1, 2.0, b'3' * 999]}, {}, step=1, about={})\n"
        "assert store.load(store.newest()).shared == {'a': [1, 2.0, b'3' * 999]}\n"
        "print(sorted({'numpy', 'torch', 'tensorflow'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
