"""Hostile checkpoint generations: each is what an attacker who can write the directory puts there as the newest.

The digests fit wherever the attacker can make them fit, so that what is attacked is the reading itself.

    python -m tests.attack.checkpoint_corpus DIRECTORY

resumes a job from the directory as a training process would, and prints as JSON which step it found, what it says of
the others, and how much memory that took.
"""

import json
import resource
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sterna.protocol import WorkerIdentity, read_status
from sterna.training.checkpoint.archive import MAGIC
from sterna.training.ranks.worker import Settings
from sterna.training.run import Run
from tests.training.checkpoint.disks import forge, sha256
from tests.training.checkpoint.test_s5_malicious import HEADERS, MANIFESTS, NODES, archive, holding

OLDER_STEP, NEWEST_STEP = 10, 20
ABOUT: dict[str, Any] = {"epoch": 0, "batches": 0, "samples": 0, "samples_total": None, "order": {}}
GOOD = holding(1)
INFINITY, NAN = float("inf"), float("nan")


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


# what stands in place of a value: one of each kind that a careless reader trips over
ODD_VALUES: dict[str, Any] = {
    "nothing": None,
    "a truth value": True,
    "a negative number": -1,
    "a fraction": 0.5,
    "infinity": INFINITY,
    "no number": NAN,
    "beyond 63 bits": 1 << 63,
    "beyond every float": 10**400,
    "a number of 4000 digits": 10**4000,
    "an empty text": "",
    "a text": "x",
    "a text of 64 letters that is no hex": "z" * 64,
    "hex that is too short": "0" * 63,
    "hex in capitals": "A" * 64,
    "half a character": "\ud800",
    "a long text": "A" * 100_000,
    "a path": "../../etc/passwd",
    "a text with a NUL": "a\0b",
    "an empty list": [],
    "a list of lists": [[1, 2], [3]],
    "an object": {"a": 1},
    "a nest": nested(300),
}


class Outcome(NamedTuple):
    step: int | None  # None: from nothing
    problem: str  # what the job's status says


def resumed(directory: Path) -> Outcome:
    """What a training process finds, by the way that every training process takes."""
    with tempfile.TemporaryDirectory() as mailbox:
        identity = WorkerIdentity(mailbox=Path(mailbox), checkpoint_dir=directory, incarnation=9, job="default/victim")
        settings = Settings(save_every_s=None, keep=2, patience_s=5.0, metric="", every_rank_reports=False)
        run = Run(identity, settings, rng=False)
        restored = run.restore()
        status = read_status(mailbox)
        assert status is not None
        said = status.problem or ""
        run.finish()
    return Outcome(None if restored is None else restored.step, said)


def generation(directory: Path, shard: bytes = GOOD, *, seq: int = 2) -> Path:
    path = forge(directory, {0: shard}, seq=seq)
    rewrite_manifest(path, lambda manifest: {**manifest, "about": ABOUT})
    return path


def rewrite_manifest(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """With a digest that fits."""
    content = change(json.loads((path / "manifest.json").read_text())["manifest"])
    digest = sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
    (path / "manifest.json").write_text(json.dumps({"manifest": content, "sha256": digest}))


def rewrite_shard(path: Path, shard: bytes) -> None:
    (path / "rank-0.sterna").write_bytes(shard)
    entry = {"rank": 0, "bytes": len(shard), "sha256": sha256(shard), "files": {}}
    rewrite_manifest(path, lambda manifest: {**manifest, "shards": [entry]})


# -- every leaf of a real file, replaced by every odd value -----------------------------------------------------------


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a JSON value, containers too."""
    yield path
    entries: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from leaves(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = replaced(value[path[0]], path[1:], new)
    return copied


def header_of(shard: bytes) -> Any:
    (length,) = struct.unpack_from("<Q", shard, len(MAGIC))
    return json.loads(shard[len(MAGIC) + 8 :][:length])


def with_header(shard: bytes, header: Any) -> bytes:
    (length,) = struct.unpack_from("<Q", shard, len(MAGIC))
    return archive(header, body=shard[len(MAGIC) + 8 + length :])


# -- named attacks ----------------------------------------------------------------------------------------------------

Tamper = Callable[[Path], object]


def _manifest(**changes: Any) -> Tamper:
    return lambda path: rewrite_manifest(path, lambda manifest: {**manifest, **changes})


def _shard_entry(**changes: Any) -> Tamper:
    def tamper(path: Path) -> None:
        rewrite_manifest(path, lambda manifest: {**manifest, "shards": [{**manifest["shards"][0], **changes}]})

    return tamper


def _manifest_text(text: str | bytes) -> Tamper:
    content = text.encode() if isinstance(text, str) else text
    return lambda path: (path / "manifest.json").write_bytes(content)


def _duplicated(path: Path) -> None:
    """Two values under one key: which one counts must not depend on who reads."""
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace('"step": 20', '"step": 30, "step": 20'))


def _shard(data: bytes) -> Tamper:
    return lambda path: rewrite_shard(path, data)


MORE_NODES: dict[str, Any] = {
    "a dtype that Python would parse": {"array": [0, "(1,", [1], "C"]},
    "a dtype that is an expression": {"array": [0, "(" * 5000, [1], "C"]},
    "a dtype with commas": {"array": [0, "f8,O", [1], "C"]},
    "a dtype of enormous fields": {"array": [0, "2147483647f8", [1], "C"]},
    "a dtype with a shape that is none": {"array": [0, ["<f8", [INFINITY]], [64], "C"]},
    "a dtype with a shape beyond everything": {"array": [0, ["<f8", [1 << 62, 1 << 62]], [64], "C"]},
    "a dtype with a negative shape": {"array": [0, ["<f8", [-1]], [64], "C"]},
    "a dtype nested without end": {"array": [0, nested(900), [64], "C"]},
    "a dtype with a field twice": {"array": [0, [["a", "<f8"], ["a", "<f8"]], [32], "C"]},
    "a dtype of a moment in no unit": {"array": [0, "<M8[xx]", [64], "C"]},
    "a dtype of a moment in 10^99 units": {"array": [0, f"<M8[{10**99}s]", [64], "C"]},
    "a shape whose product overflows": {"array": [0, "<f8", [1 << 32, 1 << 32, 0], "C"]},
    "a shape of infinity": {"array": [0, "<f8", [INFINITY], "C"]},
    "a tensor of a shape that overflows with no elements": {"tensor": [-1, "float32", [0, 1 << 61, 1 << 61]]},
    "a tensor of infinity": {"tensor": [0, "float32", [INFINITY]]},
    "a tensor at infinity": {"tensor": [0, "float32", [1], [1], INFINITY]},
    "a tensor of a quantized dtype": {"tensor": [0, "qint8", [1]]},
    "a tensor of bits": {"tensor": [0, "bits16", [1], [1], 0.0]},
    "a scalar of a text that is none": {"scalar": ["<f8", 7]},
    "a scalar of half a character": {"scalar": ["<f8", "\ud800"]},
    "a number too long": {"int": 5},
    "a float that is no hex": {"float": "zz" * 8},
    "a float that is a number": {"float": 1},
    "a complex of one": {"complex": ["0" * 16]},
    "a text that is no base64": {"str": "\ud800"},
    "a deque of infinity": {"deque": [INFINITY, []]},
    "a deque of a negative length": {"deque": [-1, []]},
    "a deque longer than memory": {"deque": [10**30, []]},
    "a file of infinity": {"files": [INFINITY, "data"]},
    "a file of 4000 digits": {"files": [10**4000, "data"]},
    "a file of three": {"files": [0, "data", 1]},
    "a dict in a dict's key": {"dict": [[{"dict": []}, 1]]},
    "a buffer as two kinds": [{"array": [0, "|u1", [512], "C"]}, {"bytes": 0}],
    "a buffer twice as bytes that can be changed": [{"bytearray": 0}, {"bytearray": 0}],
    "a set of arrays": {"set": [{"array": [0, "|u1", [512], "C"]}]},
    "no number": NAN,
    "infinity": INFINITY,
}

MORE_HEADERS: dict[str, bytes] = {
    "a buffer at infinity": holding(None, buffers=[[INFINITY, 1]]),
    "a buffer of infinity": holding(None, buffers=[[0, INFINITY]]),
    "a buffer of 4000 digits": holding(None, buffers=[[0, 10**4000]]),
    "buffers that are a text": holding(None, buffers="abc"),
    "buffers that are an object": holding(None, buffers={"a": 1}),
    "trees of pairs": archive({"format": 1, "trees": [["shared", {"dict": []}], ["own", {"dict": []}]], "buffers": []}),
    "a tree that is a number": archive({"format": 1, "trees": {"shared": 5, "own": {"dict": []}}, "buffers": []}),
    "a tree that is a list": archive({"format": 1, "trees": {"shared": [1], "own": {"dict": []}}, "buffers": []}),
    "an own tree that is a text": archive({"format": 1, "trees": {"shared": {"dict": []}, "own": "x"}, "buffers": []}),
    "keys that are no texts": archive(
        {"format": 1, "trees": {"shared": {"dict": [[1, 2]]}, "own": {"dict": []}}, "buffers": []}
    ),
    "a format that is a truth value": archive({"format": True, "trees": {}, "buffers": []}),
    "bytes after bytes that are no text": archive(b"\x80" * 1000),
}

MORE_MANIFESTS: dict[str, Tamper] = {
    "of another generation": _manifest(seq=1),
    "with a step of infinity": _manifest(step=INFINITY),
    "with a step that is no number": _manifest(step=NAN),
    "with a step of 400 digits": _manifest(step=10**400),
    "with a negative step": _manifest(step=-1),
    "with a step that is a truth value": _manifest(step=True),
    "with a step of a half": _manifest(step=19.5),
    "with a world of infinity": _manifest(world_size=INFINITY),
    "with a world that is a text": _manifest(world_size="1"),
    "with a rank of infinity": _shard_entry(rank=INFINITY),
    "with a size of infinity": _shard_entry(bytes=INFINITY),
    "with a negative size": _shard_entry(bytes=-1),
    "with a digest that is no hex": _shard_entry(sha256="z" * 64),
    "with a digest that is a number": _shard_entry(sha256=5),
    "with a digest that is empty": _shard_entry(sha256=""),
    "with a digest of half a character": _shard_entry(sha256="\ud800" * 64),
    "with files of infinity": _shard_entry(files={"0/data": [INFINITY, "0" * 64]}),
    "with files of three": _shard_entry(files={"0/data": [1, "0" * 64, 3]}),
    "with files that are a text": _shard_entry(files="abc"),
    "with an epoch of infinity": _manifest(about={**ABOUT, "epoch": INFINITY}),
    "with an epoch that is a text": _manifest(about={**ABOUT, "epoch": "one"}),
    "with an order that is a number": _manifest(about={**ABOUT, "order": 5}),
    "with samples that are a list": _manifest(about={**ABOUT, "samples_total": [1]}),
    "about nothing": _manifest(about={}),
    "with a key twice": _duplicated,
    "that is a number": _manifest_text("5"),
    "that is a text": _manifest_text('"manifest"'),
    "that is infinity": _manifest_text("Infinity"),
    "in a manifest that is a list": _manifest_text(json.dumps({"manifest": [], "sha256": "0" * 64})),
    "in a manifest that is infinity": lambda path: rewrite_manifest(path, lambda _: INFINITY),
    "nested deeper than can be written": _manifest_text('{"manifest":' + "[" * 990 + "]" * 990 + ',"sha256":"0"}'),
    "with a number of a million digits": _manifest_text('{"manifest":' + "9" * 1_000_000 + ',"sha256":"0"}'),
    "in another encoding": _manifest_text('{"manifest": {}, "sha256": "0"}'.encode("utf-16")),
}


def attacks() -> Mapping[str, Tamper]:
    """By name: what is done to a good generation. None of the results may be loaded."""
    found: dict[str, Tamper] = {}
    for what, node in {**NODES, **MORE_NODES}.items():
        found[f"skeleton: {what}"] = _shard(holding(node))
    for what, data in {**HEADERS, **MORE_HEADERS}.items():
        found[f"archive: {what}"] = _shard(data)
    for what, tamper in {**MANIFESTS, **MORE_MANIFESTS}.items():
        found[f"manifest: {what}"] = tamper
    return found


# -- little on disk, much in memory -----------------------------------------------------------------------------------

_LARGE = bytes(16 << 10)


def _filled_with(node: Any, count: int) -> bytes:
    header = {"format": 1, "trees": {"shared": {"dict": [["x", [node] * count]]}, "own": {"dict": []}}}
    return archive({**header, "buffers": [[0, len(_LARGE)]]}, body=_LARGE)


BOMBS: dict[str, Callable[[], bytes]] = {
    "bytes of one buffer": lambda: _filled_with({"bytes": 0}, 90_000),
    "changeable bytes of one buffer": lambda: _filled_with({"bytearray": 0}, 70_000),
    "arrays of one buffer": lambda: _filled_with({"array": [0, "|u1", [len(_LARGE)], "C"]}, 25_000),
    "tensors of one buffer": lambda: _filled_with({"tensor": [0, "uint8", [len(_LARGE)]]}, 25_000),
    "deques": lambda: _filled_with({"deque": [None, []]}, 45_000),
    "sets": lambda: _filled_with({"set": []}, 90_000),
    "lists": lambda: _filled_with([], 300_000),
    "a tensor seen a million million times": lambda: _filled_with({"tensor": [0, "uint8", [1 << 40], [0], 0]}, 1),
}


def main(directory: Path) -> None:
    import numpy  # noqa: F401  their own memory is not the checkpoint's
    import torch  # noqa: F401

    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = resumed(directory)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    sys.stdout.write(json.dumps({**outcome._asdict(), "grown_bytes": grown_kb << 10}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
