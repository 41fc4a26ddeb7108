"""A stop that cannot be whole is given up in time: the process ends by itself, and its last word is honest."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from sterna import training
from sterna.protocol import Order, Orders, WorkerPhase
from sterna.training.checkpoint import CheckpointProblem, CheckpointStore
from sterna.training.orders.stopping import Stopping
from sterna.training.ranks.agreement import Chief, Member
from sterna.training.ranks.board import Board
from sterna.training.ranks.cut import Kind
from tests.needs import needs
from tests.training.kubernetes.pods import trainer
from tests.training.run.gang import Gang
from tests.waiting import paced


def test_ranks_whose_neighbour_stands_still_give_up_before_they_are_killed(pods):
    needs("numpy")
    gang = pods.start(trainer("toy", "--steps", 100_000, "--step-s", 0.02), ranks=3, grace_s=5)
    for rank in range(3):
        pods.until_step(10, rank=rank)
    gang[2].process.send_signal(signal.SIGSTOP)  # as good as lost with its node
    for pod in gang[:2]:
        pod.terminate()
    assert [pod.ended() for pod in gang[:2]] == [0, 0]
    for pod in gang[:2]:
        word = pod.last_word()
        assert word.phase is WorkerPhase.COMMITTED
        assert "came to no common step in time" in (word.problem or "")
        assert word.checkpoint is None or word.checkpoint.step < word.step  # what there is, not what was hoped for


def some_end_sooner(steps: dict[int, int]) -> dict[str, Any]:
    """A program whose ranks do not have the same number of steps to do."""
    run = training.attach(save_every_s=None)
    for _ in run.steps(steps.get(run.rank, 100_000)):
        paced(0.005)
    run.finish()
    return {"step": run.step, "stopped": run.should_stop()}


def test_a_rank_that_has_ended_already_is_not_waited_for_by_those_who_stop(tmp_path):
    gang = Gang.started(tmp_path, some_end_sooner, {1: 5}, ranks=3)
    gang.until(lambda status: status.phase is WorkerPhase.FINISHED, ranks=[1])
    gang.order(Order.STOP, ranks=[0, 2])
    results = gang.results()
    assert [result["stopped"] for result in results] == [True, False, True]
    for status in (gang.statuses()[0], gang.statuses()[2]):
        assert status is not None
        assert "rank 1 had ended and brings no part of the checkpoint" in (status.problem or "")
        assert status.checkpoint is None


@pytest.mark.parametrize("role", ["chief", "member"])
def test_a_rank_in_a_hurry_leaves_a_cut_that_does_not_come_about(tmp_path, role):
    path = tmp_path / "board"
    Board.create(path, world_size=2, step=0)
    chief = Chief(Board(path, rank=0, world_size=2), patience_s=3600)
    member = Member(Board(path, rank=1, world_size=2), patience_s=3600)
    assert chief.at_boundary(0, Kind.STOP) is None  # opened at 1
    rank = chief if role == "chief" else member
    assert rank.at_boundary(1, Kind.STOP, time.monotonic() + 0.1) is None


def test_a_save_can_be_told_to_wait_for_others_no_longer_than_there_is_time(tmp_path):
    chief = CheckpointStore(tmp_path, incarnation=1, rank=0, world_size=2)
    member = CheckpointStore(tmp_path, incarnation=1, rank=1, world_size=2)
    for store, said in ((chief, "nothing came from rank 1"), (member, "rank 0 could not save")):
        with pytest.raises(CheckpointProblem, match=said):
            store.save({}, {}, step=3, about={}, meet_s=0.1)
    with pytest.raises(CheckpointProblem, match="no part of it"):
        chief.refuse("rank 1 brings no part of it", step=4)
    with pytest.raises(CheckpointProblem, match="no part of it"):  # and rank 1 need not wait to learn it
        member.save({}, {}, step=4, about={})


def stop_by(deadline_s: float | None) -> Orders:
    return Orders(seq=1, order=Order.STOP, deadline_mono_s=deadline_s)


@pytest.mark.parametrize(
    ("deadlines_s", "give_up_s"),
    [
        pytest.param([], None, id="not told: no hurry"),
        pytest.param([None], None, id="told, with no deadline: no hurry"),
        pytest.param([200.0], 180.0, id="at four fifths of the time there is"),
        pytest.param([200.0, 150.0], 140.0, id="the earlier deadline counts"),
        pytest.param([150.0, 200.0], 140.0, id="whichever was named first"),
        pytest.param([50.0], 100.0, id="a deadline that has passed: at once"),
    ],
)
def test_how_long_to_wait_follows_from_the_deadline(deadlines_s, give_up_s):
    stopping = Stopping(grace_s=None)
    for deadline_s in deadlines_s:
        stopping.heed(stop_by(deadline_s), 100.0)
    stopping.heed(Orders(seq=2, order=Order.RUN, deadline_mono_s=1.0), 100.0)  # not an order to stop
    assert stopping.give_up_s == give_up_s
    assert stopping.too_late(1e9) == (give_up_s is not None)


def in_a_thread() -> dict[str, Any]:
    """Attaches where no signal handler can be set."""
    import threading

    found: list[training.Run] = []
    thread = threading.Thread(target=lambda: found.append(training.attach()))
    thread.start()
    thread.join()
    (run,) = found
    for _ in run.steps(5):
        paced(0.001)
    run.finish()
    return {"step": run.step}


def test_a_program_that_cannot_hear_signals_trains_and_says_so(tmp_path: Path) -> None:
    gang = Gang.started(tmp_path, in_a_thread, signals=True, also={"STERNA_CHECKPOINT_DIR": ""})
    assert gang.results() == [{"step": 5}]
