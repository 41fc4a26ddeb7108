"""What is on disk after saves, which generation is chosen, what a rank finds in it, and what is let go."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sterna.training.checkpoint import CheckpointProblem, CheckpointStore, FilesToSave, Generation, SavedFiles
from tests.needs import needs, seeds


def saved(directory: Path, steps: range, *, incarnation: int = 1, keep: int = 2) -> CheckpointStore:
    store = CheckpointStore(directory, incarnation=incarnation, keep=keep)
    for step in steps:
        store.save({"step": step, "data": bytes([step]) * 5000}, {"rank": 0}, step=step, about={"epoch": step // 10})
    store.close()
    return store


def newest(directory: Path, *, incarnation: int = 1) -> tuple[Generation | None, dict[str, str]]:
    store = CheckpointStore(directory, incarnation=incarnation)
    found = store.newest()
    return found, {skipped.name: skipped.why for skipped in store.skipped}


def names(directory: Path) -> list[str]:
    return sorted(name for name in os.listdir(directory) if not name.startswith("."))


def test_a_save_can_be_found_and_loaded(tmp_path):
    store = CheckpointStore(tmp_path / "made" / "when needed", incarnation=4)
    assert store.newest() is None
    done = store.save({"model": [1.5, None]}, {"rng": (1, 2)}, step=30, about={"epoch": 2, "position": [0, 5]})
    found = CheckpointStore(tmp_path / "made" / "when needed", incarnation=5).newest()
    assert found == done.generation
    assert (found.step, found.seq, found.incarnation, found.world_size) == (30, 1, 4, 1)
    assert found.about == {"epoch": 2, "position": [0, 5]}
    assert found.bytes == sum(path.stat().st_size for path in found.path.glob("*.sterna"))
    loaded = store.load(found)
    assert (loaded.shared, loaded.own) == ({"model": [1.5, None]}, {"rng": (1, 2)})


def test_the_newest_ones_are_kept_and_no_others(tmp_path):
    saved(tmp_path, range(1, 8))
    assert names(tmp_path) == ["gen-000006-i1", "gen-000007-i1"]
    saved(tmp_path, range(8, 10), keep=4)
    assert names(tmp_path) == ["gen-000006-i1", "gen-000007-i1", "gen-000008-i1", "gen-000009-i1"]
    saved(tmp_path, range(10, 11), keep=1)
    assert names(tmp_path) == ["gen-000010-i1"]


def test_the_same_step_can_be_saved_again_with_something_else_to_keep(tmp_path):
    store = CheckpointStore(tmp_path, incarnation=1)
    for best in (0.5, 0.7):
        store.save({"best": best}, {}, step=100, about={})
    assert store.load(store.generations()[0]).shared == {"best": 0.7}


def test_numbers_go_on_after_a_restart_and_after_loading(tmp_path):
    saved(tmp_path, range(1, 4))
    again = CheckpointStore(tmp_path, incarnation=1)
    assert again.save({}, {}, step=9, about={}).generation.name == "gen-000004-i1"
    other = CheckpointStore(tmp_path, incarnation=2)
    other.load(other.generations()[0])
    assert other.save({}, {}, step=10, about={}).generation.name == "gen-000005-i2"


def test_leftovers_of_saves_that_died_are_removed(tmp_path):
    saved(tmp_path, range(1, 3))
    for name in ("gen-000001-i1", "gen-000003-i1"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / ".rank-0.sterna.0123.part").write_bytes(b"half")
    shutil.move(tmp_path / "gen-000002-i1", tmp_path / "trash-gen-000002-i1")
    (tmp_path / ".session-i0-r0.json").write_text("{}")
    (tmp_path / "..session-i0-r1.json.99.part").write_text("{")
    store = saved(tmp_path, range(5, 7), incarnation=2)
    assert len(store.generations()) == 2
    assert names(tmp_path) == ["gen-000001-i2", "gen-000002-i2"]
    assert not list(tmp_path.glob(".*session-i0*"))


def test_voda_45_an_incomplete_generation_is_passed_over(tmp_path):
    saved(tmp_path, range(1, 3))
    (tmp_path / "gen-000002-i1" / "manifest.json").unlink()
    found, why = newest(tmp_path, incarnation=2)
    assert found is not None
    assert found.name == "gen-000001-i1"
    assert "no manifest" in why["gen-000002-i1"]


@pytest.mark.parametrize("what", ["rank-0.sterna", "manifest.json"])
def test_voda_45_a_truncated_file_is_passed_over(tmp_path, what):
    saved(tmp_path, range(1, 3))
    path = tmp_path / "gen-000002-i1" / what
    size = path.stat().st_size
    for length in sorted({0, 1, 8, 15, 16, 17, size // 2, size - 1}, reverse=True):
        os.truncate(path, length)
        found, why = newest(tmp_path, incarnation=2)
        assert found is not None
        assert found.name == "gen-000001-i1"
        assert list(why)
        if not path.exists():  # rank 0 has set it aside by now
            path = tmp_path / "bad-gen-000002-i1" / what
            shutil.move(path.parent, tmp_path / "gen-000002-i1")
            path = tmp_path / "gen-000002-i1" / what


def test_r6_a_flipped_bit_anywhere_is_noticed_and_the_generation_before_is_taken(tmp_path):
    saved(tmp_path / "whole", range(1, 3))
    for seed in seeds(60):
        chance = random.Random(seed)
        directory = tmp_path / f"seed-{seed}"
        shutil.copytree(tmp_path / "whole", directory)
        damaged = chance.choice(["rank-0.sterna", "rank-0.sterna", "manifest.json"])
        path = directory / "gen-000002-i1" / damaged
        data = bytearray(path.read_bytes())
        place = chance.randrange(len(data))
        data[place] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        store = CheckpointStore(directory, incarnation=2)
        found = store.newest()
        assert found is not None, f"seed {seed}"
        loaded = store.load(found)
        if found.step == 2:  # only where nothing was lost: white space of the manifest
            assert damaged == "manifest.json", f"seed {seed}"
        else:
            assert "gen-000002-i1" in {skipped.name for skipped in store.skipped}, f"seed {seed}"
        assert loaded.shared == {"step": found.step, "data": bytes([found.step]) * 5000}, f"seed {seed}"
        shutil.rmtree(directory)


def test_r6_a_damaged_generation_is_set_aside_and_one_of_them_is_kept_to_look_at(tmp_path):
    saved(tmp_path, range(1, 4), keep=3)
    for name in ("gen-000003-i1", "gen-000002-i1"):
        (tmp_path / name / "rank-0.sterna").write_bytes(b"rubbish")
    store = CheckpointStore(tmp_path, incarnation=1)
    found = store.newest()
    assert found is not None
    assert found.step == 1
    assert [skipped.name for skipped in store.skipped] == ["gen-000003-i1", "gen-000002-i1"]
    assert names(tmp_path) == ["bad-gen-000002-i1", "bad-gen-000003-i1", "gen-000001-i1"]
    store.load(found)
    assert store.save({}, {}, step=2, about={}).generation.seq == 4  # a number is never used twice
    store.close()
    assert names(tmp_path) == ["bad-gen-000003-i1", "gen-000001-i1", "gen-000004-i1"]


def test_nothing_loadable_is_an_answer(tmp_path):
    saved(tmp_path, range(1, 2))
    (tmp_path / "gen-000001-i1" / "rank-0.sterna").write_bytes(b"")
    assert newest(tmp_path)[0] is None


def test_loading_a_damaged_generation_by_name_is_refused(tmp_path):
    store = saved(tmp_path, range(1, 3))
    generation = store.generations()[0]
    path = generation.path / "rank-0.sterna"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(CheckpointProblem, match=r"rank-0\.sterna of gen-000002-i1 does not match"):
        store.load(generation)


def test_a_generation_that_is_being_read_is_not_removed(tmp_path):
    saved(tmp_path, range(1, 2))
    program = (
        "import sys; from pathlib import Path\n"
        "from sterna.training.checkpoint.generations import being_read\n"
        "with being_read(Path(sys.argv[1])):\n    print('reading', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "gen-000001-i1")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reading\n"
        saved(tmp_path, range(2, 5), keep=1)
        assert names(tmp_path) == ["gen-000001-i1", "gen-000004-i1"]
        reader.kill()  # its claim dies with it
        reader.wait(timeout=30)
    saved(tmp_path, range(5, 6), keep=1)
    assert names(tmp_path) == ["gen-000005-i1"]


def test_files_that_callables_write_come_back(tmp_path):
    def write_directory(path: Path) -> None:
        (path / "deep").mkdir(parents=True)
        (path / "deep" / "weights.h5").write_bytes(b"w" * 1000)
        (path / "config.json").write_text("{}")

    store = CheckpointStore(tmp_path, incarnation=1)
    shared = {
        "keras": FilesToSave(lambda path: path.write_bytes(b"k" * 10), name="model.keras"),
        "tree": {"inside": [FilesToSave(write_directory)]},
        "empty": FilesToSave(lambda path: path.mkdir()),
    }
    store.begin_save(shared, {}, step=1, about={}).result(30)
    generation = store.newest()
    assert generation is not None
    assert generation.bytes > 1010
    loaded = store.load(generation).shared
    assert isinstance(loaded["keras"], SavedFiles)
    assert loaded["keras"].path.name == "model.keras"
    assert loaded["keras"].path.read_bytes() == b"k" * 10
    inside = loaded["tree"]["inside"][0].path
    assert (inside / "deep" / "weights.h5").read_bytes() == b"w" * 1000
    assert (inside / "config.json").read_text() == "{}"
    assert loaded["empty"].path.is_dir()


def fail(path: Path) -> None:
    path.write_text("half")
    raise ArithmeticError("loss is NaN")


@pytest.mark.parametrize(
    ("shared", "words"),
    [
        pytest.param({"a": FilesToSave(fail)}, "ArithmeticError: loss is NaN", id="a callable that fails"),
        pytest.param({"a": FilesToSave(lambda path: None)}, "wrote nothing", id="a callable that writes nothing"),
        pytest.param({"a": FilesToSave(lambda path: path.symlink_to("/etc/passwd"))}, "", id="one that makes a link"),
        pytest.param({"a": FilesToSave(fail, name="../up")}, "no name for a file", id="a name that leads elsewhere"),
        pytest.param({"a": object()}, "['a']", id="a value that cannot be restored"),
    ],
)
@pytest.mark.parametrize("background", [False, True], ids=["waiting", "in the background"])
def test_a_save_that_cannot_be_leaves_the_one_before_and_no_traces(tmp_path, shared, words, background):
    store = saved(tmp_path, range(1, 2))
    problem: Exception
    try:
        if background:
            store.begin_save(shared, {}, step=2, about={}).result(30)
        else:
            store.save(shared, {}, step=2, about={})
    except CheckpointProblem as raised:
        problem = raised
    assert words in str(problem)
    assert names(tmp_path) == ["gen-000001-i1"]
    assert store.save({}, {}, step=3, about={}).generation.step == 3  # and the next one works


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        pytest.param({"incarnation": -1}, "incarnation", id="a negative incarnation"),
        pytest.param({"incarnation": 1, "rank": 1}, "rank", id="a rank beyond the world"),
        pytest.param({"incarnation": 1, "world_size": 0}, "world_size", id="an empty world"),
        pytest.param({"incarnation": 1, "keep": 0}, "keep", id="keeping nothing"),
        pytest.param({"incarnation": "2"}, "incarnation", id="a number as text"),
    ],
)
def test_a_store_that_makes_no_sense_is_refused_by_the_name_of_its_field(tmp_path, arguments: Any, word):
    with pytest.raises(CheckpointProblem, match=f"^{word} is "):
        CheckpointStore(tmp_path, **arguments)


def test_what_a_checkpoint_is_about_must_be_json(tmp_path):
    store = CheckpointStore(tmp_path, incarnation=1)
    with pytest.raises(CheckpointProblem, match="plain JSON"):
        store.save({}, {}, step=1, about={"when": object()})  # type: ignore[dict-item]
    with pytest.raises(CheckpointProblem, match="step is"):
        store.save({}, {}, step=-1, about={})
    assert store.save({}, {}, step=1, about={"loss": float("nan")}).generation.step == 1


def test_two_who_read_and_one_who_writes_do_not_disturb_each_other(tmp_path):
    needs("numpy")
    import numpy as np

    writer = CheckpointStore(tmp_path, incarnation=1)
    reader = CheckpointStore(tmp_path, incarnation=2)
    for step in range(1, 30):
        writer.save({"a": np.full(1000, step)}, {}, step=step, about={})
        found = reader.newest()
        assert found is not None
        assert found.step == step
        assert reader.load(found).shared["a"].tolist() == [step] * 1000


def test_manifests_say_what_is_in_a_generation_to_whoever_looks(tmp_path):
    saved(tmp_path, range(20, 21))
    manifest = json.loads((tmp_path / "gen-000001-i1" / "manifest.json").read_text())["manifest"]
    assert (manifest["step"], manifest["about"], manifest["world_size"]) == (20, {"epoch": 2}, 1)
    note = json.loads((tmp_path / "gen-000001-i1" / "rank-0.json").read_text())
    assert note["sha256"] == manifest["shards"][0]["sha256"]
