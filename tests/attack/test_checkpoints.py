"""Whatever is wrong with a checkpoint generation, the next older one is loaded, and the job's status says why.

Only `CheckpointProblem` leaves a store and only `TrainingError` leaves `restore()`; memory is bounded by what the files
hold. See `checkpoint_corpus` for the attacks.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.training.checkpoint import CheckpointProblem, CheckpointStore
from sterna.training.errors import RestoreFailed
from tests.attack import checkpoint_corpus as corpus
from tests.attack.checkpoint_corpus import (
    BOMBS,
    GOOD,
    NEWEST_STEP,
    ODD_VALUES,
    OLDER_STEP,
    attacks,
    generation,
    resumed,
)
from tests.needs import needs, seeds

PER_HEADER_BYTE = 60  # what a byte of JSON may cost at most: "[]," is a list of 56 bytes and a pointer, twice
BASE_BYTES = 48 << 20  # threads, buffers for digests, what the allocators keep


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """With a good generation that is not the newest."""
    generation(tmp_path, seq=1)
    return tmp_path


@pytest.mark.parametrize("tamper", [pytest.param(tamper, id=what) for what, tamper in attacks().items()])
def test_the_older_generation_is_loaded_and_the_reason_is_kept(directory, tamper):
    needs("torch")
    needs("ml_dtypes")
    path = generation(directory)
    tamper(path)
    outcome = resumed(directory)
    assert outcome.step == OLDER_STEP
    assert f"{path.name}: " in outcome.problem
    assert len(outcome.problem) <= 1000, "a reason is for people to read"


def test_a_good_generation_is_loaded_without_a_word(directory):
    generation(directory)
    assert resumed(directory) == (NEWEST_STEP, "")


def test_generations_that_are_all_bad_end_the_job_and_nothing_is_overwritten(tmp_path):
    """From nothing would be the worst answer: weeks of training, silently begun anew."""
    for seq in (1, 2):
        corpus.MORE_MANIFESTS["with a step of infinity"](generation(tmp_path, seq=seq))
    before = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("gen-*/*"))
    with pytest.raises(RestoreFailed, match=r"gen-000002-i1.*gen-000001-i1"):
        resumed(tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("gen-*/*")) == before


def test_generations_that_were_never_finished_are_no_reason_to_stop(tmp_path):
    (generation(tmp_path) / "manifest.json").unlink()
    assert resumed(tmp_path).step is None


@pytest.mark.parametrize("make", [pytest.param(make, id=what) for what, make in BOMBS.items()])
def test_memory_is_bounded_by_what_the_files_hold(directory, make):
    needs("torch")
    path = generation(directory)
    corpus.rewrite_shard(path, make())
    size = sum(file.stat().st_size for file in path.iterdir())
    assert size < 2 << 20
    grown = resumed_in_a_child(directory)["grown_bytes"]
    assert grown <= BASE_BYTES + PER_HEADER_BYTE * size, f"{size} bytes on disk became {grown} in memory"


def test_a_long_manifest_costs_a_bounded_amount_of_memory(directory):
    needs("torch")
    path = generation(directory)
    text = b'{"manifest":[' + b"[]," * 4_000_000 + b'[]],"sha256":"0"}'
    (path / "manifest.json").write_bytes(text)
    found = resumed_in_a_child(directory)
    assert found["step"] == OLDER_STEP
    assert found["grown_bytes"] <= BASE_BYTES + PER_HEADER_BYTE * len(text)


def resumed_in_a_child(directory: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.attack.checkpoint_corpus", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# -- a real checkpoint, changed in every place ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An archive with every kind of value, as the store writes it."""
    numpy, torch = needs("numpy"), needs("torch")
    directory = tmp_path_factory.mktemp("real")
    store = CheckpointStore(directory, incarnation=1)
    weights = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    shared = {
        "model": {
            "weight": weights,
            "tied": weights[1:],
            "turned": weights.t().contiguous().t(),
            "none": torch.empty(0),
        },
        "arrays": [numpy.arange(6, dtype="<i8").reshape(2, 3), numpy.float32(0.5), numpy.zeros(2, [("a", "<f4")])],
        "plain": {"big": 1 << 80, "nan": float("nan"), "pair": (1, 2.5), "set": {1, 2}, "text": "\ud800", 3: b"abc"},
        "bytes": [bytes(1000), bytearray(1000), complex(1, 2)],
    }
    saved = store.save(shared, {"chance": {"words": bytes(300)}}, step=NEWEST_STEP, about=corpus.ABOUT)
    store.close()
    return (saved.generation.path / "rank-0.sterna").read_bytes()


def loads_something_or_says_why(directory: Path) -> None:
    """Either the changed one is a checkpoint all the same, or the older one is loaded and the reason told."""
    outcome = resumed(directory)
    assert outcome.step is not None
    assert outcome.step == OLDER_STEP or outcome.problem == ""
    if outcome.step == OLDER_STEP:
        assert "gen-000002-i1: " in outcome.problem


def test_any_value_of_a_manifest_may_be_any_other(directory, real):
    path = generation(directory, real)
    good = json.loads((path / "manifest.json").read_text())["manifest"]
    for where in corpus.leaves(good):
        for odd in ODD_VALUES.values():
            (path / "manifest.json").write_text(json.dumps({"manifest": good}))
            changed = corpus.replaced(good, where, odd)
            corpus.rewrite_manifest(path, lambda _, changed=changed: changed)  # type: ignore[misc]
            loads_something_or_says_why(directory)


def test_any_value_of_an_archive_header_may_be_any_other(directory, real):
    """Read by the store itself, since there are thousands of them: each is loaded, or is a CheckpointProblem."""
    path = generation(directory, real)
    header = corpus.header_of(real)
    store = CheckpointStore(directory, incarnation=9)
    for where in corpus.leaves(header):
        for odd in ODD_VALUES.values():
            corpus.rewrite_shard(path, corpus.with_header(real, corpus.replaced(header, where, odd)))
            assert loads_or_says_why(store, path.name) <= 500


def loads_or_says_why(store: CheckpointStore, name: str) -> int:
    """How long the reason is, if there is one."""
    try:
        store.load(store.named(name))
    except CheckpointProblem as problem:
        return len(str(problem))
    return 0


EXAMPLES = 60 if len(seeds(0)) == 0 else 100 * len(seeds(0))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes_are_noticed_whether_or_not_the_digests_fit(tmp_path_factory, real, data):
    directory = tmp_path_factory.mktemp("flipped")
    generation(directory, seq=1)
    path = generation(directory, real)
    manifest = (path / "manifest.json").read_bytes()
    in_manifest = data.draw(st.booleans())
    target = bytearray(manifest if in_manifest else real)
    reach = len(target) if in_manifest else min(len(target), 8192)  # where the header is: the rest are plain numbers
    for _ in range(data.draw(st.integers(1, 8))):
        target[data.draw(st.integers(0, reach - 1))] = data.draw(st.integers(0, 255))
    if in_manifest:
        (path / "manifest.json").write_bytes(bytes(target))
    elif data.draw(st.booleans()):
        corpus.rewrite_shard(path, bytes(target))
    else:
        (path / "rank-0.sterna").write_bytes(bytes(target))
    loads_something_or_says_why(directory)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_values_that_nobody_thought_of(tmp_path_factory, real, data):
    directory = tmp_path_factory.mktemp("odd")
    generation(directory, seq=1)
    path = generation(directory, real)
    odd = data.draw(JSON_VALUES)
    if data.draw(st.booleans()):
        good = json.loads((path / "manifest.json").read_text())["manifest"]
        where = data.draw(st.sampled_from(list(corpus.leaves(good))))
        corpus.rewrite_manifest(path, lambda _: corpus.replaced(good, where, odd))
    else:
        header = corpus.header_of(real)
        where = data.draw(st.sampled_from(list(corpus.leaves(header))))
        corpus.rewrite_shard(path, corpus.with_header(real, corpus.replaced(header, where, odd)))
    loads_something_or_says_why(directory)


# -- what stands beside the generations -------------------------------------------------------------------------------

FENCES = {
    "raises of infinity": {"raises": [{"incarnation": corpus.INFINITY, "started_from": None}]},
    "raises that are a number": {"raises": 5},
    "raises that are a text": {"raises": "abc"},
    "raises of a text": {"raises": [{"incarnation": "9", "started_from": None}]},
    "a start at infinity": {"raises": [{"incarnation": 1, "started_from": [corpus.INFINITY, 1]}]},
    "a start of one": {"raises": [{"incarnation": 1, "started_from": [1]}]},
    "a start that is an object": {"raises": [{"incarnation": 1, "started_from": {"0": 1}}]},
    "a list": [1],
    "a number": 5,
    "nothing": None,
}


@pytest.mark.parametrize("content", [pytest.param(content, id=what) for what, content in FENCES.items()])
def test_a_fence_that_is_none_neither_hides_what_can_be_loaded_nor_stays(directory, content):
    (directory / "fence.json").write_text(json.dumps(content))
    assert resumed(directory).step == OLDER_STEP
    assert json.loads((directory / "fence.json").read_text())["lowest_incarnation"] == 9


NOTES = {
    "without anything": {},
    "of infinity": {"step": 1, "world_size": 2, "rank": 1, "bytes": corpus.INFINITY, "sha256": "0" * 64, "files": {}},
    "of a digest that is none": {"step": 1, "world_size": 2, "rank": 1, "bytes": 1, "sha256": "zz", "files": {}},
    "of files that are none": {"step": 1, "world_size": 2, "rank": 1, "bytes": 1, "sha256": "0" * 64, "files": [1]},
    "of another rank": {"step": 1, "world_size": 2, "rank": 0, "bytes": 1, "sha256": "0" * 64, "files": {}},
    "with a step that is none": {"step": [1], "world_size": 2},
}


@pytest.mark.parametrize("note", [pytest.param(note, id=what) for what, note in NOTES.items()])
def test_a_note_of_another_rank_that_is_none_fails_the_save_and_nothing_else(tmp_path, note):
    first = CheckpointStore(tmp_path, incarnation=1, rank=0, world_size=2, meet_s=0.2)
    CheckpointStore(tmp_path, incarnation=1, rank=1, world_size=2)  # claims its rank, and so its session
    session = json.loads((tmp_path / ".session-i1-r1.json").read_text())["session"]
    (tmp_path / "gen-000001-i1").mkdir()
    (tmp_path / "gen-000001-i1" / "rank-1.json").write_text(json.dumps({**note, "session": session}))
    with pytest.raises(CheckpointProblem):
        first.save({"x": 1}, {}, step=1, about={})
    assert first.generations() == ()


def test_good_is_good() -> None:
    """The corpus would show nothing if what it starts from could not be loaded."""
    assert corpus.header_of(GOOD)["format"] == 1
