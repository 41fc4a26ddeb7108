"""S5: a checkpoint that somebody prepared runs nothing, reads nothing outside its directory and fills no memory.

Whoever can write to the directory can also make the digests fit, so most of these do: what is tested then is that
reading itself trusts nothing.
"""

import io
import json
import os
import pickle
import resource
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from sterna.training.checkpoint import CheckpointProblem, CheckpointStore
from sterna.training.checkpoint.archive import MAGIC
from sterna.training.checkpoint.generations import manifest_content
from tests.needs import needs
from tests.training.checkpoint.disks import forge, sha256

BODY = bytes(range(256)) * 4  # what the nodes below may speak of as buffers 0 and 1
BUFFERS = [[0, 512], [512, 512]]


class Payload:
    """Unpickling it leaves a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def archive(header: object, *, length: int | None = None, body: bytes = BODY) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return MAGIC + struct.pack("<Q", len(text) if length is None else length) + text + body


def holding(node: object, *, buffers: object = BUFFERS) -> bytes:
    return archive({"format": 1, "trees": {"shared": {"dict": [["x", node]]}, "own": {"dict": []}}, "buffers": buffers})


def load(directory: Path) -> Any:
    store = CheckpointStore(directory, incarnation=9)
    return store.load(store.generations()[0])


TENSORS = {
    "beyond its memory": [0, "float32", [129]],
    "an offset beyond its memory": [0, "float32", [1], [1], 128],
    "strides beyond its memory": [0, "float32", [2], [1 << 40], 0],
    "strides that overflow": [0, "float32", [2, 2], [1 << 61, 1 << 61], 0],
    "a negative stride": [0, "float32", [2], [-1], 1],
    "a negative offset": [0, "float32", [1], [1], -1],
    "a negative size": [0, "float32", [-1]],
    "two negative sizes": [0, "float32", [-4, -4]],
    "a size that is no integer": [0, "float32", [1.5]],
    "a size that is a truth value": [0, "float32", [True]],
    "too many dimensions": [0, "float32", [1] * 5000],
    "sizes that overflow": [0, "float32", [1 << 40, 1 << 40]],
    "elements without memory": [-1, "float32", [1 << 40]],
    "a dtype that is a function": [0, "load", [1]],
    "a dtype that is a module": [0, "nn", [1]],
    "a dtype that is private": [0, "__builtins__", [1]],
    "a dtype that is no name": [0, ["float32"], [1]],
    "a buffer that is not there": [2, "float32", [1]],
    "a buffer of a negative number": [-2, "float32", [1]],
    "a buffer that is a truth value": [True, "float32", [1]],
    "a buffer that is a text": ["0", "float32", [1]],
    "too few parts": [0],
    "parts that are none": {"a": 1},
    "one part too many": [0, "float32", [1], [1]],
    "no parts": None,
}

ARRAYS = {
    "Python objects": [0, "|O", [64], "C"],
    "Python objects by letter": [0, "O", [64], "C"],
    "Python objects in a field": [0, [["a", "|O"]], [64], "C"],
    "Python objects in a field of a field": [0, [["a", [["b", "|O"]]]], [64], "C"],
    "more than its memory": [0, "<f8", [65], "C"],
    "less than its memory": [0, "<f8", [63], "C"],
    "elements of enormous size": [0, "V999999999999", [1], "C"],
    "elements without size": [0, "V0", [1 << 60], "C"],
    "a negative size": [0, "<f8", [-64], "C"],
    "elements without memory": [-1, "<f8", [1 << 40], "C"],
    "an order that is none": [0, "<f8", [64], "K"],
    "a dtype that is none": [0, "import os", [64], "C"],
    "a dtype that is a number": [0, 8, [64], "C"],
    "a dtype from nowhere": [0, "ml_dtypes.__builtins__", [64], "C"],
    "a dtype that is a module": [0, "ml_dtypes.sys", [64], "C"],
}

NODES: dict[str, object] = {
    **{f"a tensor with {what}": {"tensor": node} for what, node in TENSORS.items()},
    **{f"an array with {what}": {"array": node} for what, node in ARRAYS.items()},
    "a scalar that is a Python object": {"scalar": ["|O", "AAAAAAAAAAA="]},
    "a scalar that is too short": {"scalar": ["<f8", "AAAA"]},
    "a kind nobody knows": {"pickle": "gASVCgAAAAAAAACMBG1haW6UjAFmlJOULg=="},
    "a kind that names a class": {"object": ["os", "system", ["true"]]},
    "two kinds at once": {"tuple": [], "list": []},
    "no kind at all": {},
    "bytes that are no base64": {"bytes": "!!!"},
    "bytes of a buffer that is not there": {"bytes": 7},
    "bytes of a negative buffer": {"bytes": -1},
    "a number that is none": {"int": "__import__('os')"},
    "a float of the wrong length": {"float": "00"},
    "a dict whose key is a list": {"dict": [[[1], 2]]},
    "a dict whose pair is none": {"dict": [[1, 2, 3]]},
    "a dict that is none": {"dict": 5},
    "a set of lists": {"set": [[1]]},
    "a deque with a limit that is none": {"deque": ["x", []]},
    "a counter that is none": {"counter": "abc"},
    "a file above its directory": {"files": [0, "../../../secret"]},
    "a file that is a parent": {"files": [0, ".."]},
    "a file by an absolute name": {"files": [0, "/etc/passwd"]},
    "a file in a directory of its own": {"files": [0, "a/b"]},
    "a file with a NUL in its name": {"files": [0, "a\x00b"]},
    "a hidden file": {"files": [0, ".ssh"]},
    "a file without a name": {"files": [0, ""]},
    "a file whose name is none": {"files": [0, None]},
    "a file of a negative number": {"files": [-1, "data"]},
    "a file of a number that is a path": {"files": ["../..", "secret"]},
    "a file that is not there": {"files": [0, "data"]},
}


@pytest.mark.parametrize("node", [pytest.param(node, id=what) for what, node in NODES.items()])
def test_s5_a_skeleton_that_asks_for_more_than_there_is_gets_nothing(tmp_path, node):
    needs("torch")
    needs("ml_dtypes")
    (tmp_path / "secret").write_text("nothing to see")
    forge(tmp_path / "checkpoints", {0: holding(node)})
    with pytest.raises(CheckpointProblem):
        load(tmp_path / "checkpoints")


HEADERS: dict[str, bytes] = {
    "nothing": b"",
    "half a beginning": MAGIC[:5],
    "a beginning and no length": MAGIC + b"\x00\x00",
    "another beginning": b"PK\x03\x04" + bytes(100),
    "a header beyond its end": archive({}, length=1 << 20),
    "a header as long as addresses go": archive({}, length=(1 << 64) - 1),
    "a header of length 0": archive(b"", length=0),
    "a header that is no JSON": archive(b"{'a': 1}"),
    "a header of bytes that are no text": archive(b"\xff\xfe\x00"),
    "a header that is a list": archive([1, 2]),
    "a header that is a number": archive(5),
    "a header nested without end": archive(b"[" * 200_000),
    "a skeleton nested without end": archive(
        b'{"format":1,"buffers":[],"trees":{"own":[],"shared":' + b'{"tuple":[' * 50_000 + b"]}" * 50_000 + b"}}"
    ),
    "a number of a million digits": archive(b'{"format":1,"buffers":[],"trees":' + b"9" * 1_000_000 + b"}"),
    "another format": archive({"format": 2, "trees": {}, "buffers": []}),
    "no trees": archive({"format": 1, "buffers": []}),
    "trees that are a list": archive({"format": 1, "trees": [1], "buffers": []}),
    "none of the trees": archive({"format": 1, "trees": {}, "buffers": []}),
    "buffers that overlap": holding(None, buffers=[[0, 512], [100, 512]]),
    "buffers all over the same bytes": holding(None, buffers=[[0, 1024]] * 1000),
    "buffers out of order": holding(None, buffers=[[512, 512], [0, 512]]),
    "a buffer beyond the end": holding(None, buffers=[[0, 1025]]),
    "a buffer at a negative place": holding(None, buffers=[[-8, 16]]),
    "a buffer of negative length": holding(None, buffers=[[8, -8]]),
    "a buffer of a fraction": holding(None, buffers=[[0, 1.5]]),
    "a buffer that is a truth value": holding(None, buffers=[[False, True]]),
    "a buffer of three": holding(None, buffers=[[0, 1, 2]]),
}


@pytest.mark.parametrize("data", [pytest.param(data, id=what) for what, data in HEADERS.items()])
def test_s5_an_archive_that_is_none_is_refused(tmp_path, data):
    forge(tmp_path, {0: data})
    with pytest.raises(CheckpointProblem):
        load(tmp_path)


def pickled(mark: Path) -> bytes:
    return pickle.dumps(Payload(mark))


def saved_by_torch(mark: Path) -> bytes:
    torch = needs("torch")
    buffer = io.BytesIO()
    torch.save({"model": Payload(mark)}, buffer)
    return buffer.getvalue()


def saved_by_numpy(mark: Path) -> bytes:
    numpy = needs("numpy")
    buffer = io.BytesIO()
    numpy.save(buffer, numpy.array([Payload(mark)], dtype=object), allow_pickle=True)
    return buffer.getvalue()


@pytest.mark.parametrize("make", [pickled, saved_by_torch, saved_by_numpy])
@pytest.mark.parametrize("wrapped", [False, True], ids=["as the archive", "inside of one"])
def test_s5_a_pickle_is_never_unpickled(tmp_path, make, wrapped):
    mark = tmp_path / "it ran"
    data = make(mark)
    shard = archive({"format": 1, "trees": {"shared": {"bytes": 0}}, "buffers": [[0, len(data)]]}, body=data)
    forge(tmp_path / "checkpoints", {0: shard if wrapped else data})
    if wrapped:  # bytes are bytes, whatever they would do to somebody else
        assert CheckpointStore(tmp_path / "checkpoints", incarnation=9).newest() is not None
    with pytest.raises(CheckpointProblem):
        load(tmp_path / "checkpoints")
    assert not mark.exists()


def test_s5_a_small_archive_cannot_fill_the_memory(tmp_path):
    needs("torch")
    wide = {"tensor": [0, "uint8", [1 << 40], [0], 0]}  # one byte, seen a million million times: costs one byte
    forge(tmp_path, {0: holding([wide, *[{"bytes": 1}] * 20_000])})
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loaded = load(tmp_path).shared["x"]
    assert loaded[0].numel() == 1 << 40
    assert loaded[-1] is not None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 200_000


GOOD = holding(1)


def make_good(directory: Path) -> Path:
    return forge(directory, {0: GOOD}, files={0: {"0/data": b"content"}})


def shard_is_a_link(path: Path, outside: Path) -> None:
    (outside / "shard").write_bytes(GOOD)
    (path / "rank-0.sterna").unlink()
    (path / "rank-0.sterna").symlink_to(outside / "shard")


def shard_is_a_pipe(path: Path, outside: Path) -> None:
    (path / "rank-0.sterna").unlink()
    os.mkfifo(path / "rank-0.sterna")


def shard_is_a_directory(path: Path, outside: Path) -> None:
    (path / "rank-0.sterna").unlink()
    (path / "rank-0.sterna").mkdir()


def files_are_a_link(path: Path, outside: Path) -> None:
    shutil.move(path / "rank-0.files", outside / "files")
    (path / "rank-0.files").symlink_to(outside / "files")


def a_file_is_a_link(path: Path, outside: Path) -> None:
    (outside / "data").write_bytes(b"content")
    (path / "rank-0.files/0/data").unlink()
    (path / "rank-0.files/0/data").symlink_to(outside / "data")


def a_file_is_a_pipe(path: Path, outside: Path) -> None:
    (path / "rank-0.files/0/data").unlink()
    os.mkfifo(path / "rank-0.files/0/data")


def a_directory_of_files_is_a_link(path: Path, outside: Path) -> None:
    shutil.move(path / "rank-0.files/0", outside / "0")
    (path / "rank-0.files/0").symlink_to(outside / "0")


def a_file_too_many(path: Path, outside: Path) -> None:
    (path / "rank-0.files/0/more").write_text("import me")


def a_file_is_missing(path: Path, outside: Path) -> None:
    (path / "rank-0.files/0/data").unlink()


def a_file_was_changed(path: Path, outside: Path) -> None:
    (path / "rank-0.files/0/data").write_bytes(b"CONTENT")


def files_nobody_spoke_of(path: Path, outside: Path) -> None:
    shutil.rmtree(path / "rank-0.files")
    (path / "rank-0.files").symlink_to(outside)


@pytest.mark.parametrize(
    "tamper",
    [shard_is_a_link, shard_is_a_pipe, shard_is_a_directory, files_are_a_link, a_file_is_a_link, a_file_is_a_pipe,
     a_directory_of_files_is_a_link, a_file_too_many, a_file_is_missing, a_file_was_changed, files_nobody_spoke_of],
)  # fmt: skip
def test_s5_links_pipes_and_strangers_are_refused(tmp_path, tamper):
    (tmp_path / "outside").mkdir()
    path = make_good(tmp_path / "checkpoints")
    assert load(tmp_path / "checkpoints").shared == {"x": 1}
    tamper(path, tmp_path / "outside")
    with pytest.raises(CheckpointProblem):
        load(tmp_path / "checkpoints")
    store = CheckpointStore(tmp_path / "checkpoints", incarnation=9)
    assert store.newest() is None
    assert path.name in {skipped.name for skipped in store.skipped}


def manifest_of(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((path / "manifest.json").read_text())["manifest"]
    return content


def rewritten(path: Path, **changes: object) -> None:
    content = {**manifest_of(path), **changes}
    (path / "manifest.json").write_text(json.dumps(manifest_content(content)))


def shards_of(*ranks: int) -> list[dict[str, object]]:
    return [{"rank": rank, "bytes": len(GOOD), "sha256": sha256(GOOD), "files": {}} for rank in ranks]


def make_pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


MANIFESTS: dict[str, Any] = {
    "that is a link": lambda path: (
        path.joinpath("manifest.json").rename(path.parent / "elsewhere"),
        path.joinpath("manifest.json").symlink_to(path.parent / "elsewhere"),
    ),
    "that is a pipe": lambda path: (path.joinpath("manifest.json").unlink(), make_pipe(path / "manifest.json")),
    "that is a directory": lambda path: (
        path.joinpath("manifest.json").unlink(),
        path.joinpath("manifest.json").mkdir(),
    ),
    "without end": lambda path: os.truncate(path / "manifest.json", 1 << 30),
    "that is empty": lambda path: os.truncate(path / "manifest.json", 0),
    "nested without end": lambda path: path.joinpath("manifest.json").write_text("[" * 100_000),
    "with another digest": lambda path: path.joinpath("manifest.json").write_text(
        json.dumps({"manifest": manifest_of(path), "sha256": "0" * 64})
    ),
    "of another generation": lambda path: rewritten(path, seq=2),
    "of another incarnation": lambda path: rewritten(path, incarnation=2),
    "of another format": lambda path: rewritten(path, format=99),
    "with a rank twice": lambda path: rewritten(path, world_size=2, shards=shards_of(0, 0)),
    "without rank 0": lambda path: rewritten(path, world_size=1, shards=shards_of(1)),
    "with a rank by a path": lambda path: rewritten(path, shards=[{**shards_of(0)[0], "rank": "../0"}]),
    "of too many ranks": lambda path: rewritten(path, world_size=1 << 60),
    "of a negative size": lambda path: rewritten(path, world_size=-1, shards=[]),
    "with a list for what it is about": lambda path: rewritten(path, about=[]),
    "with shards that are none": lambda path: rewritten(path, shards="abc"),
    "with files that are none": lambda path: rewritten(path, shards=[{**shards_of(0)[0], "files": []}]),
    "with a file above": lambda path: rewritten(path, shards=[{**shards_of(0)[0], "files": {"../../x": [1, "0"]}}]),
    "with a step that is none": lambda path: rewritten(path, step="now"),
}


@pytest.mark.parametrize("tamper", [pytest.param(tamper, id=what) for what, tamper in MANIFESTS.items()])
def test_s5_a_manifest_is_believed_nothing_that_cannot_be_checked(tmp_path, tamper):
    path = forge(tmp_path, {0: GOOD})
    tamper(path)
    store = CheckpointStore(tmp_path, incarnation=9)
    assert store.newest() is None
    assert path.name in {skipped.name for skipped in store.skipped}


def test_s5_a_generation_that_is_a_link_is_refused(tmp_path):
    real = forge(tmp_path / "other job", {0: GOOD})
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / real.name).symlink_to(real)
    store = CheckpointStore(tmp_path / "checkpoints", incarnation=9)
    assert store.newest() is None


@pytest.mark.parametrize("name", ["../other job/gen-000001-i1", "gen-000001-i1/../../x", "", ".", "/", "gen-1-i1"])
def test_s5_a_generation_is_asked_for_by_its_name_and_not_by_a_path(tmp_path, name):
    forge(tmp_path / "other job", {0: GOOD})
    store = CheckpointStore(tmp_path / "checkpoints", incarnation=9)
    with pytest.raises(CheckpointProblem):
        store.named(name)


def test_s5_the_digest_is_looked_at_before_the_archive_is(tmp_path):
    path = forge(tmp_path, {0: GOOD})
    (path / "rank-0.sterna").write_bytes(archive(b"[" * 1000))
    with pytest.raises(CheckpointProblem, match="does not match its digest"):
        load(tmp_path)
