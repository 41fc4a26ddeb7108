"""A writer of an older incarnation is refused, and what it completes behind the fence is never loaded."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sterna.training.checkpoint import CheckpointProblem, CheckpointStore, Fenced, raise_fence
from sterna.training.checkpoint.disk import Disk
from sterna.training.checkpoint.fence import Fence, Raise, read_fence
from tests.training.checkpoint.disks import forge
from tests.training.checkpoint.test_s5_malicious import holding


def steps_found(directory: Path) -> list[int]:
    return [generation.step for generation in CheckpointStore(directory, incarnation=10**6).generations()]


def test_the_fence_only_goes_up_and_remembers_what_was_there(tmp_path):
    directory = tmp_path / "made when needed"
    raise_fence(directory, 2)
    assert read_fence(directory) == Fence((Raise(2, None),))
    CheckpointStore(directory, incarnation=2).save({}, {}, step=5, about={})
    for incarnation in (3, 3, 1, 2, 0):
        raise_fence(directory, incarnation)
    assert read_fence(directory) == Fence((Raise(2, None), Raise(3, (2, 1))))
    assert json.loads((directory / "fence.json").read_text())["lowest_incarnation"] == 3


def test_r5_a_zombie_is_refused_when_it_begins_to_save(tmp_path):
    zombie = CheckpointStore(tmp_path, incarnation=1)
    zombie.save({"who": "old"}, {}, step=10, about={})
    raise_fence(tmp_path, 2)
    for save in (zombie.save, zombie.begin_save):
        with pytest.raises(Fenced, match=r"incarnation 1 may no longer write.*incarnation 2"):
            save({"who": "zombie"}, {}, step=11, about={})
    assert steps_found(tmp_path) == [10]


class Interrupting(Disk):
    """Calls back just before the file of this name is put in place."""

    def __init__(self, name: str, callback: Any) -> None:
        self._name, self._callback = name, callback

    def rename(self, source: Path, target: Path) -> None:
        if target.name == self._name:
            self._callback()
        super().rename(source, target)


@pytest.mark.parametrize("late", ["rank-0.sterna", "rank-0.json"])
def test_r5_a_zombie_that_was_saving_when_the_fence_went_up_finds_out_before_the_manifest(tmp_path, late):
    CheckpointStore(tmp_path, incarnation=1).save({"who": "old"}, {}, step=10, about={})
    zombie = CheckpointStore(tmp_path, incarnation=1, disk=Interrupting(late, lambda: raise_fence(tmp_path, 2)))
    with pytest.raises(Fenced):
        zombie.save({"who": "zombie"}, {}, step=11, about={})
    assert steps_found(tmp_path) == [10]


def test_r5_what_a_zombie_completes_all_the_same_is_ignored(tmp_path):
    """It looked just before the fence went up, and wrote its manifest just after."""
    CheckpointStore(tmp_path, incarnation=1).save({"who": "old"}, {}, step=10, about={})
    disk = Interrupting("manifest.json", lambda: raise_fence(tmp_path, 2))
    CheckpointStore(tmp_path, incarnation=1, disk=disk).save({"who": "zombie"}, {}, step=99, about={})
    new = CheckpointStore(tmp_path, incarnation=2)
    found = new.newest()
    assert found is not None
    assert found.step == 10
    assert [(one.name, "taken over" in one.why) for one in new.skipped] == [("gen-000002-i1", True)]
    new.load(found)
    new.save({}, {}, step=11, about={})
    new.close()
    assert steps_found(tmp_path) == [11, 10]
    assert not (tmp_path / "gen-000002-i1").exists()  # tidied away, as it takes room and serves nobody


def test_a_job_that_started_from_nothing_never_loads_what_a_zombie_adds(tmp_path):
    raise_fence(tmp_path, 2)
    forge(tmp_path, {0: holding("late")}, seq=7, incarnation=1)
    assert steps_found(tmp_path) == []


def test_what_one_fence_shut_out_a_later_one_does_not_let_in_again(tmp_path):
    forge(tmp_path, {0: holding(1)}, seq=1, incarnation=3)
    raise_fence(tmp_path, 4)
    forge(tmp_path, {0: holding(9)}, seq=9, incarnation=3)  # behind the fence
    forge(tmp_path, {0: holding(2)}, seq=2, incarnation=4)
    raise_fence(tmp_path, 5)
    assert steps_found(tmp_path) == [20, 10]


def test_an_incarnation_that_nobody_announced_still_shuts_out_older_ones(tmp_path):
    old = CheckpointStore(tmp_path, incarnation=3)
    CheckpointStore(tmp_path, incarnation=4).save({}, {}, step=1, about={})
    with pytest.raises(Fenced, match="incarnation 4 has saved here"):
        old.save({}, {}, step=2, about={})


def test_of_two_processes_with_the_same_rank_the_last_one_writes(tmp_path):
    first = CheckpointStore(tmp_path, incarnation=1)
    second = CheckpointStore(tmp_path, incarnation=1)
    with pytest.raises(Fenced, match="another process has taken over rank 0 of incarnation 1"):
        first.save({}, {}, step=1, about={})
    second.save({}, {}, step=1, about={})


def test_raising_it_from_many_sides_at_once_loses_nothing(tmp_path):
    start = threading.Barrier(8)

    def climb(first: int) -> None:
        start.wait(timeout=30)
        for incarnation in range(first, 80, 8):
            raise_fence(tmp_path, incarnation)
            assert read_fence(tmp_path).lowest >= incarnation

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(climb, range(1, 9)))
    raises = [one.incarnation for one in read_fence(tmp_path).raises]
    assert raises == sorted(set(raises))
    assert raises[-1] == 79


@pytest.mark.parametrize("content", ["", "{", "[]", '{"raises": 5}', '{"raises": [{"incarnation": "x"}]}'])
def test_a_fence_that_cannot_be_read_stops_writers_but_not_readers(tmp_path, content):
    store = CheckpointStore(tmp_path, incarnation=1)
    store.save({"a": 1}, {}, step=1, about={})
    (tmp_path / "fence.json").write_text(content)
    with pytest.raises(CheckpointProblem, match=r"fence\.json"):
        store.save({"a": 2}, {}, step=2, about={})
    found = store.newest()
    assert found is not None
    assert store.load(found).shared == {"a": 1}
    assert store.skipped[0].name == "fence.json"
    raise_fence(tmp_path, 2)  # whoever raises it puts it right again
    CheckpointStore(tmp_path, incarnation=2).save({"a": 3}, {}, step=3, about={})
    assert steps_found(tmp_path) == [3, 1]


def test_a_fence_that_cannot_be_raised_says_so(tmp_path):
    (tmp_path / "checkpoints").write_text("a file where a directory should be")
    with pytest.raises(CheckpointProblem, match="cannot be raised"):
        raise_fence(tmp_path / "checkpoints", 1)
    assert os.listdir(tmp_path) == ["checkpoints"]
