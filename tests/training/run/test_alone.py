"""One process under orders: what it does at step boundaries, what it says, and what it does when saving fails."""

import os
import select
import signal
from pathlib import Path

import pytest

from sterna.protocol import Order, Status, WakeSocket, WorkerPhase
from sterna.training.checkpoint import raise_fence
from tests.needs import seeds
from tests.training.run.gang import Gang
from tests.training.run.programs import (
    committing,
    counting,
    own_loop,
    with_a_broken_callable,
    with_jumping_clock,
    without_room,
)


def test_the_engine_is_woken_for_what_matters(tmp_path):
    engine = WakeSocket(tmp_path / "engine.sock")
    gang = Gang.started(tmp_path, counting, 100_000, 0.005)
    for condition, order in [
        (lambda status: status.phase is WorkerPhase.TRAINING, None),
        (lambda status: status.ack == 1, Order.COMMIT),
        (lambda status: status.phase is WorkerPhase.COMMITTED, Order.STOP),
    ]:
        if order is not None:
            gang.order(order)
        while not condition(gang.statuses()[0] or Status(pid=0, phase=WorkerPhase.ATTACHED)):
            assert select.select([engine], [], [], 60)[0], "nobody woke the engine"
            assert set(engine.received()) == {"test-worker-0-0"}
    gang.results()
    engine.close()


def test_a_run_that_reaches_its_end_says_so_and_tells_its_progress(tmp_path):
    gang = Gang.started(tmp_path, counting, 30)
    (result,) = gang.results()
    assert (result["step"], result["stopped"], result["restored"]) == (30, False, None)
    (status,) = gang.until_phase(WorkerPhase.FINISHED)
    assert (status.step, status.units_done, status.units_total) == (30, 30.0, 30.0)
    assert status.metrics == {"drawn": result["drawn"][-1]}
    assert status.first_step_mono_s is not None
    assert status.last_step_mono_s is not None
    assert status.last_step_mono_s > status.first_step_mono_s
    assert status.step_s is not None
    assert 0.002 <= status.step_s < 5
    assert status.problem is None


def test_periodic_checkpoints_are_made_without_anybody_asking(tmp_path):
    gang = Gang.started(tmp_path, counting, 100_000, 0.005, {"save_every_s": (0.05, 0.1)})
    (status,) = gang.until(lambda status: status.checkpoint is not None and status.checkpoint.generation >= 3)
    gang.kill()
    (result,) = Gang.started(tmp_path, counting, 5, incarnation=1).results()
    assert status.checkpoint is not None
    assert result["restored"] >= status.checkpoint.step
    assert len(result["drawn"]) == result["restored"]  # five steps are long behind it, and nothing is repeated


@pytest.mark.parametrize("seed", seeds(3))
def test_r5_what_a_killed_run_draws_again_is_what_it_drew_before(tmp_path, seed):
    """Killed at a random moment: it goes on from its newest complete checkpoint as if nothing had happened."""
    straight = Gang.started(tmp_path / "straight", seeded, seed)
    (expected,) = straight.results()
    for incarnation in range(3):
        gang = Gang.started(tmp_path / "killed", seeded, seed, incarnation=incarnation)
        gang.until_phase(WorkerPhase.TRAINING)
        gang.processes[0].join(0.03 * (incarnation + 1) + 0.01 * (seed % 10))
        gang.kill()
    (result,) = Gang.started(tmp_path / "killed", seeded, seed, incarnation=3).results()
    assert result["drawn"] == expected["drawn"], f"seed {seed}"


def seeded(seed: int) -> dict[str, object]:
    import random

    random.seed(seed)
    return counting(150, 0.002, {"save_every_s": (0.02, 0.05)})


def test_a_loop_of_the_programs_own_is_stopped_and_resumed(tmp_path):
    gang = Gang.started(tmp_path, own_loop, 100_000, ranks=2)
    gang.until(lambda status: status.step > 10)
    results = gang.stopped()
    assert {result["stopped"] for result in results} == {True}
    (step,) = {result["step"] for result in results}
    assert {result["count"] for result in results} == {step}
    results = Gang.started(tmp_path, own_loop, step + 7, ranks=2, incarnation=1).results()
    assert {(result["count"], result["step"], result["stopped"]) for result in results} == {(step + 7, step + 7, False)}


@pytest.mark.parametrize("ranks", [1, 3])
def test_commit_means_the_end_of_the_step_in_a_loop_and_now_outside(tmp_path, ranks):
    results = Gang.started(tmp_path, committing, ranks=ranks).results()
    assert {result["count"] for result in results} == {1020}
    steps = sorted(path.name for path in (tmp_path / "checkpoints").glob("gen-*"))
    assert len(steps) == 2
    results = Gang.started(tmp_path, committing, ranks=ranks, incarnation=1).results()
    assert {(result["restored"], result["count"]) for result in results} == {(20, 2020)}


def test_sigterm_stops_only_a_program_that_listens_for_it(tmp_path):
    listens = Gang.started(tmp_path / "listens", counting, 100_000, 0.005, signals=True)
    (status,) = listens.until_phase(WorkerPhase.TRAINING)
    os.kill(status.pid, signal.SIGTERM)
    (result,) = listens.results()
    assert result["stopped"]
    (status,) = listens.until_phase(WorkerPhase.COMMITTED)
    assert status.checkpoint is not None
    assert status.checkpoint.step == result["step"]

    does_not = Gang.started(tmp_path / "does not", counting, 100_000, 0.005)
    (status,) = does_not.until_phase(WorkerPhase.TRAINING)
    os.kill(status.pid, signal.SIGTERM)
    does_not.join()
    assert does_not.processes[0].exitcode == -signal.SIGTERM


@pytest.mark.parametrize("ranks", [1, 2])
def test_r6_when_there_is_no_room_training_goes_on_and_the_stop_is_honest_about_the_older_step(tmp_path, ranks):
    gang = Gang.started(tmp_path, without_room, 100_000, 60, ranks=ranks)
    (first, *_) = gang.until(lambda status: status.problem is not None)
    assert first.phase is WorkerPhase.TRAINING
    assert "not saved" in (first.problem or "")
    gang.until(lambda later: later.step > first.step + 20)
    seq = gang.order(Order.STOP)
    results = gang.results()
    assert {result["stopped"] for result in results} == {True}
    (step,) = {result["step"] for result in results}
    kept = set()
    for status in gang.until_acked(seq):
        assert status.phase is WorkerPhase.COMMITTED
        assert status.problem is not None
        assert status.checkpoint is not None
        assert 0 < status.checkpoint.step <= 62 < status.step == step
        kept.add(status.checkpoint.step)
    results = Gang.started(tmp_path, without_room, 100, 1000, ranks=ranks, incarnation=1).results()
    assert {result["restored"] for result in results} == kept


def test_r5_a_zombie_of_an_older_incarnation_is_fenced_and_told_why(tmp_path):
    gang = Gang.started(tmp_path, counting, 100_000, 0.005, {"save_every_s": (0.05, 0.1)})
    gang.until(lambda status: status.checkpoint is not None)
    raise_fence(tmp_path / "checkpoints", 1)
    gang.join()
    assert gang.processes[0].exitcode == 1
    assert "Superseded" in gang.output()
    (status,) = gang.statuses()
    assert status is not None
    assert "incarnation 0 may no longer write" in (status.problem or "")


def test_what_the_programs_own_callable_raises_is_a_problem_and_not_the_end(tmp_path):
    gang = Gang.started(tmp_path, with_a_broken_callable)
    (result,) = gang.results()
    assert result["step"] == 6
    assert [problem is not None for problem in result["problems"]] == [False, False, False, True, False, False]
    assert "ZeroDivisionError" in result["problems"][3]
    (status,) = gang.until_phase(WorkerPhase.FINISHED)
    assert status.problem is None
    assert status.checkpoint is not None
    assert status.checkpoint.step == 6


def test_r8_a_wall_clock_that_leaps_changes_nothing(tmp_path):
    gang = Gang.started(tmp_path, with_jumping_clock, 100_000)
    gang.until(lambda status: status.checkpoint is not None and status.checkpoint.generation >= 3)
    (result,) = gang.stopped()
    (status,) = gang.until_phase(WorkerPhase.COMMITTED)
    assert status.step_s is not None
    assert 0.001 < status.step_s < 5
    assert status.save_s is not None
    assert 0 < status.save_s < 60
    (again,) = Gang.started(tmp_path, with_jumping_clock, 10, incarnation=1).results()
    assert again["restored"] == result["step"]


def test_r8_the_sdk_never_asks_what_time_it_is():
    """But for dates that others read: in a last word, and in the log of epochs."""
    training = Path(__file__).resolve().parents[3] / "src" / "sterna" / "training"
    asks = {training / "lastword.py", training / "epoch_log.py"}
    for path in sorted({*training.glob("*.py"), *(training.parent / "protocol").glob("*.py")} - asks):
        text = path.read_text(encoding="utf-8")
        assert "time.time" not in text, path
        assert "datetime" not in text, path


def test_ranks_that_train_independently_come_and_go_alone(tmp_path):
    gang = Gang.started(tmp_path, counting, 100_000, 0.005, ranks=3, gang=False)
    gang.until_phase(WorkerPhase.TRAINING)
    gang.order(Order.STOP, ranks=[1])
    gang.processes[1].join(60)
    (status,) = gang.until(lambda status: status.phase is WorkerPhase.COMMITTED, ranks=[1])
    for rank in (0, 2):
        gang.until(lambda other: other.phase is WorkerPhase.TRAINING and other.step > status.step, ranks=[rank])
    gang.restart(1, counting, 100_000, 0.005)
    (again,) = gang.until(
        lambda status: status.phase is WorkerPhase.COMMITTED and status.restored_step is not None, ranks=[1]
    )
    assert again.restored_step == status.step
    gang.stopped()


def test_a_worker_without_a_place_for_checkpoints_trains_and_says_so(tmp_path):
    gang = Gang.started(tmp_path, counting, 100_000, 0.005, also={"STERNA_CHECKPOINT_DIR": ""})
    (status,) = gang.until_phase(WorkerPhase.TRAINING)
    assert "no checkpoint directory" in (status.problem or "")
    (result,) = gang.stopped()
    assert result["stopped"]
    (status,) = gang.until_phase(WorkerPhase.COMMITTED)
    assert status.checkpoint is None
