"""Ranks restore one step and stop at one step, however skewed they are, and whoever dies on the way."""

import random
from pathlib import Path

import pytest

from sterna.protocol import Order, WorkerPhase
from sterna.training import Shards
from tests.needs import needs, seeds
from tests.training.run.gang import Gang
from tests.training.run.programs import counting, torch_ddp, walking
from tests.waiting import stays, until

RANKS = 4
SKEW_S = 0.25  # between the first and the last to start, where a step takes milliseconds


def test_voda_44_four_gloo_ranks_with_random_start_skew_restore_one_step_and_end_alike(tmp_path):
    """A chain of launches: each restores what the one before has committed, at a moment chosen by chance."""
    needs("torch")
    committed, hashes = None, None
    for seed in seeds(20):
        chance = random.Random(seed)
        delays_s = [chance.uniform(0, SKEW_S) for _ in range(RANKS)]
        about = f"seed {seed}, delays {delays_s}"
        meeting = str(tmp_path / f"meeting-{seed}")
        gang = Gang.started(tmp_path, torch_ddp, 10_000, meeting, ranks=RANKS, incarnation=seed, delays_s=delays_s)
        gang.until_phase(WorkerPhase.TRAINING)
        gang.processes[0].join(chance.uniform(0, 0.1))
        results = gang.stopped()
        assert {result["restored"] for result in results} == {committed}, about
        assert hashes is None or {result["begins_with"] for result in results} == hashes, about
        hashes = {result["hash"] for result in results}
        assert len(hashes) == 1, about
        (committed,) = {result["step"] for result in results}
        statuses = [status for status in gang.statuses() if status is not None]
        assert all(status.phase is WorkerPhase.COMMITTED for status in statuses), about
        assert {status.checkpoint.step for status in statuses if status.checkpoint} == {committed}, about


@pytest.mark.parametrize("seed", seeds(3))
def test_r7_resizing_in_mid_epoch_skips_no_sample_and_repeats_none(tmp_path, seed):
    """4, 2, then 3 ranks; the last ones also with another batch size. Ranks here never wait for each other."""
    chance = random.Random(seed)
    samples, epochs = 230, 2
    given = []
    for incarnation, (ranks, batch, last) in enumerate([(4, 8, False), (2, 8, False), (3, 6, True)]):
        step_s = 0 if last else 0.03
        gang = Gang.started(tmp_path, walking, samples, batch, epochs, step_s, ranks=ranks, incarnation=incarnation)
        if not last:
            gang.until_phase(WorkerPhase.TRAINING)
            gang.processes[0].join(chance.uniform(0, 0.25))
            gang.order(Order.STOP)
        results = gang.results()
        assert len({result["step"] for result in results}) == 1, f"seed {seed}"
        assert {result["stopped"] for result in results} == {not last}, f"seed {seed}"
        given += [entry for result in results for entry in result["given"]]
    given.sort()  # by epoch, step and rank: the order in which one process would have been given them
    for epoch in range(epochs):
        trained = [sample for each, _, _, mine in given if each == epoch for sample in mine]
        assert trained == list(Shards(samples=samples, batch=8, seed=7).order(epoch)), f"seed {seed}, epoch {epoch}"


@pytest.mark.parametrize(
    "ranks", [[0], [2], [0, 1, 2]], ids=["only rank 0 hears of it", "only rank 2 hears of it", "all hear of it"]
)
def test_a_stop_that_reaches_any_rank_stops_all_at_one_committed_step(tmp_path, ranks):
    gang = Gang.started(tmp_path, counting, 100_000, 0.005, ranks=3)
    gang.until_phase(WorkerPhase.TRAINING)
    seq = gang.order(Order.STOP, ranks=ranks)
    results = gang.results()
    assert {result["stopped"] for result in results} == {True}
    assert len({result["step"] for result in results}) == 1
    statuses = gang.until(lambda status: status.phase is WorkerPhase.COMMITTED)
    assert {status.checkpoint.step for status in statuses if status.checkpoint} == {results[0]["step"]}
    assert all(statuses[rank].ack == seq for rank in ranks)


def test_a_commit_is_acknowledged_while_training_goes_on(tmp_path):
    gang = Gang.started(tmp_path, counting, 100_000, 0.005, ranks=2)
    gang.until_phase(WorkerPhase.TRAINING)
    statuses = gang.until_acked(gang.order(Order.COMMIT))
    (step,) = {status.checkpoint.step for status in statuses if status.checkpoint}
    assert all(status.phase is WorkerPhase.TRAINING for status in statuses)
    gang.until(lambda status: status.step > step + 20)
    assert {result["step"] > step for result in gang.stopped()} == {True}


def test_a_hold_while_training_commits_and_stands_still_until_released(tmp_path):
    gang = Gang.started(tmp_path, counting, 100_000, 0.005, ranks=3)
    gang.until_phase(WorkerPhase.TRAINING)
    statuses = gang.until_acked(gang.order(Order.HOLD))
    (step,) = {status.step for status in statuses}
    assert {status.checkpoint.step for status in statuses if status.checkpoint} == {step}
    assert {status.phase for status in statuses} == {WorkerPhase.COMMITTED}
    stood = lambda: {status.step for status in gang.statuses() if status} == {step}  # noqa: E731
    stays(stood, "it stands still", for_s=1.5)  # status files are rewritten every second, should a step be made
    gang.order(Order.RUN)
    gang.until(lambda status: status.phase is WorkerPhase.TRAINING and status.step > step)
    results = gang.stopped()
    assert len({result["step"] for result in results}) == 1


def test_a_hold_can_end_in_a_stop_without_another_step(tmp_path):
    gang = Gang.started(tmp_path, counting, 100_000, 0.005, ranks=2)
    gang.until_phase(WorkerPhase.TRAINING)
    (step,) = {status.step for status in gang.until_acked(gang.order(Order.HOLD))}
    assert {result["step"] for result in gang.stopped()} == {step}


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_standby_is_ready_then_goes_with_what_the_old_gang_committed(tmp_path, ranks):
    old = Gang.started(tmp_path, counting, 100_000, 0.005, ranks=ranks)
    old.until_phase(WorkerPhase.TRAINING)
    new = Gang.started(tmp_path, counting, 100_000, 0.005, ranks=ranks, incarnation=1, standby=True)
    new.until_phase(WorkerPhase.READY)
    old.order(Order.STOP)
    committed = old.until_phase(WorkerPhase.COMMITTED)
    assert all(status is not None and status.phase is WorkerPhase.READY for status in new.statuses())
    new.order(Order.RUN)
    trains = new.until_phase(WorkerPhase.TRAINING)
    assert {status.restored_step for status in trains} == {committed[0].step}
    for before, after in zip(committed, trains, strict=True):
        assert after.first_step_mono_s is not None
        assert before.last_step_mono_s is not None
        assert after.first_step_mono_s > before.last_step_mono_s
    results = new.stopped()
    assert {result["restored"] for result in results} == {committed[0].step}
    assert len(results[0]["drawn"]) == results[0]["step"]
    old.results()


def test_a_standby_that_is_no_longer_needed_goes_without_a_trace(tmp_path):
    new = Gang.started(tmp_path, counting, 10, ranks=2, standby=True)
    new.until_phase(WorkerPhase.READY)
    assert {(result["step"], result["stopped"]) for result in new.stopped()} == {(0, True)}
    assert not list((tmp_path / "checkpoints").glob("gen-*"))


def committed_twice(tmp_path: Path, ranks: int) -> list[int]:
    """Steps of two checkpoints, older first."""
    steps = []
    for incarnation in range(2):
        gang = Gang.started(tmp_path, counting, 100_000, 0.005, ranks=ranks, incarnation=incarnation)
        gang.until_phase(WorkerPhase.TRAINING)
        steps.append(gang.stopped()[0]["step"])
    assert len(list((tmp_path / "checkpoints").glob("gen-*"))) == 2
    return steps


@pytest.mark.parametrize("rank", [0, 2])
def test_what_one_rank_cannot_load_is_loaded_by_none_and_the_user_sees_why(tmp_path, rank):
    older, _ = committed_twice(tmp_path, ranks=3)
    newest = max((tmp_path / "checkpoints").glob("gen-*-i1"))
    shard = newest / f"rank-{rank}.sterna"
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    gang = Gang.started(tmp_path, counting, 100_000, 0.005, ranks=3, incarnation=2)
    chief = gang.until_phase(WorkerPhase.TRAINING)[0]
    assert chief.problem is not None
    assert newest.name in chief.problem
    assert "digest" in chief.problem
    results = gang.stopped()
    assert {result["restored"] for result in results} == {older}
    assert {len(result["drawn"]) - result["step"] for result in results} == {0}
    for status in gang.statuses():  # and the next save works, although the ranks have seen different generations
        assert status is not None
        assert status.problem is None
        assert status.checkpoint is not None
        assert status.checkpoint.step == results[0]["step"]


def test_if_nothing_can_be_loaded_nobody_starts_from_nothing(tmp_path):
    committed_twice(tmp_path, ranks=2)
    for shard in (tmp_path / "checkpoints").glob("gen-*/rank-0.sterna"):
        shard.write_bytes(b"gone")
    gang = Gang.started(tmp_path, counting, 10, 0.0, {"patience_s": 5.0}, ranks=2, incarnation=2)
    gang.join()
    assert gang.processes[0].exitcode == 1
    status = gang.statuses()[0]
    assert status is not None
    assert status.problem is not None
    assert "none that every rank can load" in status.problem
    assert len(list((tmp_path / "checkpoints").glob("gen-*"))) == 2
    gang.kill()


@pytest.mark.parametrize("victim", [0, 1], ids=["the chief dies", "a member dies"])
def test_a_rank_that_dies_on_the_way_in_can_be_replaced(tmp_path, victim):
    """Killed when it has announced itself, loaded and answered; the last rank is late, so nobody has gone yet."""
    committed_twice(tmp_path, ranks=3)
    gang = Gang.started(tmp_path, counting, 100_000, 0.005, ranks=3, incarnation=2, delays_s=[0, 0, 3600])
    meeting = tmp_path / "checkpoints" / "agreement" / "i2"
    until(lambda: (meeting / "rank-1.json").exists() and gang.statuses()[0] is not None, "two of them are there")
    gang.kill(rank=victim)
    gang.kill(rank=2)
    gang.restart(victim, counting, 100_000, 0.005)
    gang.restart(2, counting, 100_000, 0.005)
    gang.until_phase(WorkerPhase.TRAINING)
    results = gang.stopped()
    assert len({result["restored"] for result in results}) == 1
    assert len({result["step"] for result in results}) == 1
    assert results[0]["restored"] is not None
