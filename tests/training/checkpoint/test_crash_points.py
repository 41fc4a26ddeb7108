"""R6 at every call: a save that dies, loses power or is refused at any single thing it asks of the disk.

The killed processes are next door; here no moment is left to chance, because the disk itself counts.
"""

import errno
import random
from pathlib import Path
from typing import Any

import pytest

from sterna.training.checkpoint import CheckpointProblem, CheckpointStore, FilesToSave
from sterna.training.checkpoint.capture import Capture
from sterna.training.checkpoint.disk import Disk
from sterna.training.checkpoint.memory import Region
from tests.needs import seeds
from tests.training.checkpoint.disks import Counting, Crash, Crashing, Failing, Forgetful


def state(step: int) -> dict[str, Any]:
    return {
        "step": step,
        "weights": random.Random(step).randbytes(3000),
        "files": FilesToSave(lambda path: path.write_bytes(b"%d" % step)),
    }


def save(directory: Path, step: int, disk: Disk, durable: list[int] | None = None) -> None:
    """As a process does that was just started: find the newest, load it, save the next, tell so, tidy up."""
    store = CheckpointStore(directory, incarnation=1, disk=disk)
    found = store.newest()
    if found is not None:
        store.load(found)
    task = store._task(step, {})
    draft = task.draft(store._trees(state(step), {}), ())
    task.finish(draft, Capture(draft, Region(draft.body_bytes + 64)) if step % 2 else None)  # both ways in turn
    if durable is not None:
        durable.append(step)
    task.tidy()  # in this thread, so that a crash in it is a crash of everything


def dies(directory: Path, step: int, disk: Disk, durable: list[int]) -> bool:
    try:
        save(directory, step, disk, durable)
    except Crash:
        return True
    return False


def require_loadable(directory: Path, *, at_least: int, at_most: int, what: str) -> int:
    store = CheckpointStore(directory, incarnation=1)
    found = store.newest()
    assert found is not None, what
    assert at_least <= found.step <= at_most, f"{what}: {found.step}"
    loaded = store.load(found).shared
    assert loaded["weights"] == state(found.step)["weights"], what
    assert loaded["files"].path.read_bytes() == b"%d" % found.step, what
    return found.step


def calls_of_a_save(directory: Path) -> int:
    for step in (1, 2, 3):  # two to keep and one to let go
        save(directory, step, Disk())
    disk = Counting()
    save(directory, 4, disk)
    assert disk.calls > 15
    return disk.calls


def test_r6_a_process_that_dies_at_any_call_leaves_something_to_load(quick_path):
    calls = calls_of_a_save(quick_path / "counted")
    directory = quick_path / "checkpoints"
    for step in (1, 2, 3):
        save(directory, step, Disk())
    durable, crashed, at = [3], True, -1
    while crashed:  # until one gets through: then every call was tried
        at += 1
        assert at < 5 * calls, "what the dead leave behind makes saves ever longer"
        step = durable[-1] + 1
        crashed = dies(directory, step, Crashing(at), durable)
        durable.append(require_loadable(directory, at_least=durable[-1], at_most=step, what=f"crash at call {at}"))
    assert at >= calls
    assert len(list(directory.iterdir())) < 8  # and what the dead left behind does not pile up


@pytest.mark.parametrize("seed", seeds(2))
def test_r6_a_machine_that_loses_power_at_any_call_has_something_to_load(quick_path, seed):
    chance = random.Random(seed)
    calls = calls_of_a_save(quick_path / "counted")
    directory = quick_path / "checkpoints"
    for step in (1, 2, 3):
        save(directory, step, Disk())
    durable, crashed, at = [3], True, -1
    while crashed:
        at += 1
        assert at < 5 * calls, "what is lost makes saves ever longer"
        disk = Forgetful(directory, at, quick_path / "safe")
        step = durable[-1] + 1
        crashed = dies(directory, step, disk, durable)
        disk.come_back(chance)
        what = f"seed {seed}, power lost at call {at}"
        durable.append(require_loadable(directory, at_least=durable[-1], at_most=step, what=what))
    assert at >= calls


@pytest.mark.parametrize(
    "error",
    [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT, errno.ESTALE],
    ids=lambda number: errno.errorcode[number],
)
def test_r6_an_error_at_any_call_fails_one_save_and_nothing_else(quick_path, error):
    calls = calls_of_a_save(quick_path / "counted")
    directory = quick_path / "checkpoints"
    for step in (1, 2, 3):
        save(directory, step, Disk())
    acknowledged = 3
    failures = 0
    for at in range(calls + 3):
        step = acknowledged + 1
        try:
            save(directory, step, Failing(at, error))
            acknowledged = step
        except CheckpointProblem:
            failures += 1
        acknowledged = require_loadable(directory, at_least=acknowledged, at_most=step, what=f"error at call {at}")
    assert failures > 10
