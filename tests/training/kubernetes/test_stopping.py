"""Pods that are told to stop by SIGTERM: one step for all, nothing lost, and a last word that says so."""

import random
import time

import pytest

from sterna.protocol import WorkerPhase
from tests.needs import needs, seeds
from tests.training.kubernetes.pods import Pods, trainer
from tests.waiting import until

KINDS = [
    pytest.param("toy", id="NumPy"),
    pytest.param("torch", id="PyTorch", marks=pytest.mark.slow),  # a gang takes half a minute to import it
]


def needed(kind: str) -> None:
    needs("numpy")
    if kind == "torch":
        needs("torch")


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_r5_a_terminated_pod_commits_its_step_and_the_next_incarnation_goes_on_from_there(pods, kind, ranks):
    needed(kind)
    began_s = time.time()
    command = trainer(kind, "--steps", 100_000, "--step-s", 0.02)
    first = pods.start(command, ranks=ranks)
    pods.until_step(10)
    for pod in first:
        pod.terminate()
    assert [pod.ended() for pod in first] == [0] * ranks
    (stopped,) = {tuple(pods.steps(rank=rank, incarnation=1)) for rank in range(ranks)}
    assert stopped == tuple(range(1, len(stopped) + 1))
    committed = len(stopped)
    for pod in first:
        word = pod.last_word()
        assert (word.phase, word.step, word.units_done, word.world_size) == (
            WorkerPhase.COMMITTED,
            committed,
            float(committed),
            ranks,
        )
        assert word.checkpoint is not None
        assert word.checkpoint.step == committed
        assert word.checkpoint.bytes > 0
        assert word.save_s is not None
        assert word.problem is None
        assert word.metrics.keys() == {"loss"}
        assert word.first_step_wall_s is not None
        assert word.stopped_wall_s is not None
        assert began_s - 60 < word.first_step_wall_s <= word.stopped_wall_s < time.time() + 60

    second = pods.start(command, ranks=ranks, incarnation=2)
    for rank in range(ranks):
        pods.until_step(committed + 5, rank=rank, incarnation=2)
        assert pods.steps(rank=rank, incarnation=2)[0] == committed + 1
    for pod in second:
        pod.terminate()
    assert [pod.ended() for pod in second] == [0] * ranks
    assert {pod.last_word().restored_step for pod in second} == {committed}


@pytest.mark.parametrize("kind", KINDS)
def test_r7_what_was_stopped_and_resumed_ends_with_the_bits_of_what_was_not(pods, tmp_path, kind):
    needed(kind)
    straight = Pods(tmp_path / "straight")
    try:
        for pod in straight.start(trainer(kind, "--steps", 96, "--step-s", 0), ranks=2):
            assert pod.ended() == 0, pod.said()
    finally:
        straight.kill()
    for incarnation in (1, 2):
        gang = pods.start(trainer(kind, "--steps", 96, "--step-s", 0.03), ranks=2, incarnation=incarnation)
        pods.until_step(20 * incarnation, incarnation=incarnation)
        for pod in gang:
            pod.terminate()
        assert [pod.ended() for pod in gang] == [0, 0]
    last = pods.start(trainer(kind, "--steps", 96, "--step-s", 0), ranks=2, incarnation=3)
    assert [pod.ended() for pod in last] == [0, 0], last[0].said()
    (expected,) = {line["hash"] for line in straight.trace() if "hash" in line}
    assert {line["hash"] for line in pods.trace() if "hash" in line} == {expected}
    for pod in last:
        assert (pod.last_word().phase, pod.last_word().step) == (WorkerPhase.FINISHED, 96)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(3))
def test_voda_44_a_stop_that_reaches_some_ranks_first_or_alone_stops_all_at_one_step(pods, kind, seed):
    """The others are told when everything is over, or when the first has gone, or never: in every order."""
    needed(kind)
    chance = random.Random(seed)
    gang = pods.start(trainer(kind, "--steps", 100_000, "--step-s", 0.01), ranks=3)
    pods.until_step(chance.randint(3, 30))
    order = chance.sample(range(3), k=3)
    gang[order[0]].terminate()
    for rank in order[1:]:
        moment = chance.choice(["at once", "after the first has ended", "never"])
        if moment == "after the first has ended":
            assert gang[order[0]].ended() == 0, f"seed {seed}\n{gang[order[0]].said()}"
        if moment != "never" and gang[rank].process.poll() is None:
            gang[rank].terminate()
    assert [pod.ended() for pod in gang] == [0, 0, 0], f"seed {seed}"
    words = [pod.last_word() for pod in gang]
    assert {word.phase for word in words} == {WorkerPhase.COMMITTED}, f"seed {seed}"
    (step,) = {word.step for word in words}
    assert {word.checkpoint.step for word in words if word.checkpoint} == {step}
    assert {len(pods.steps(rank=rank, incarnation=1)) for rank in range(3)} == {step}


def test_a_pod_told_to_stop_while_it_waits_for_others_leaves_and_says_that_nothing_was_lost(pods):
    """Two of three have started; the third never comes. Patience would be ten minutes."""
    needs("numpy")
    gang = pods.start(trainer("toy"), ranks=3, only=[0, 2])
    for rank in (0, 2):
        until((pods.volume / "agreement" / "i1" / f"rank-{rank}.json").exists, f"rank {rank} is announced")
    for pod in gang:
        pod.terminate()
    assert [pod.ended() for pod in gang] == [0, 0]
    for pod in gang:
        assert (pod.last_word().phase, pod.last_word().step) == (WorkerPhase.COMMITTED, 0)


def test_a_pod_without_a_place_for_checkpoints_stops_all_the_same_and_says_that_nothing_is_saved(pods, tmp_path):
    needs("numpy")
    trace = tmp_path / "trace"
    (pod,) = pods.start(trainer("toy", "--trace", trace), also={"STERNA_CHECKPOINT_DIR": ""})
    until(lambda: trace.exists() and "step=5 " in trace.read_text(), "it trains", story=pod.said)
    pod.terminate()
    assert pod.ended() == 0
    word = pod.last_word()
    assert (word.phase, word.checkpoint) == (WorkerPhase.COMMITTED, None)
    assert "no checkpoint directory" in (word.problem or "")
