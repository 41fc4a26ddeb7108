"""When a container's last word is written, and by whom: however it ends, it says what an operator should know."""

import os
import sys
from pathlib import Path

import pytest

from sterna.protocol import Status, WorkerPhase
from sterna.training.orders.outbox import dated
from tests.training.kubernetes.pods import Pods, waited_for

PROGRAM = """
import os, sys, time
from sterna import training
run = training.attach(save_every_s=None)
run.restore()
for _, number in run.steps(20):
    if number == 9:
        run.commit()
    if number == 15:
        {at_15}
if not run.should_stop():
    {at_end}
"""


def program(*, at_15: str = "pass", at_end: str = "run.finish()") -> list[str]:
    return [sys.executable, "-c", PROGRAM.format(at_15=at_15, at_end=at_end)]


@pytest.mark.parametrize(
    ("command", "code", "phase", "step", "problem"),
    [
        pytest.param(program(), 0, WorkerPhase.FINISHED, 20, None, id="it finishes"),
        pytest.param(program(at_end="pass"), 0, WorkerPhase.TRAINING, 20, None, id="it ends without saying so"),
        pytest.param(
            program(at_15="raise ValueError('no such sample')"),
            1,
            WorkerPhase.TRAINING,
            15,
            "ValueError: no such sample",
            id="it fails",
        ),
        pytest.param(program(at_15="sys.exit(3)"), 3, WorkerPhase.TRAINING, 15, None, id="it exits on its own"),
        pytest.param(program(at_15="os.kill(os.getpid(), 9)"), -9, WorkerPhase.TRAINING, 10, None, id="it is killed"),
    ],
)
def test_however_a_container_ends_its_last_word_tells_what_is_durable(pods, command, code, phase, step, problem):
    (pod,) = pods.start(command)
    assert pod.ended() == code, pod.said()
    word = pod.last_word()
    assert (word.phase, word.step, word.problem) == (phase, step, problem)
    assert word.checkpoint is not None
    assert word.checkpoint.step == 10


def test_a_container_in_the_same_pod_begins_with_a_clean_word(pods):
    (pod,) = pods.start(program())
    assert pod.ended() == 0
    again = pods.again(
        pod, [sys.executable, "-c", "from sterna import training; import os; training.attach(); os._exit(4)"]
    )
    assert again.ended() == 4
    assert (again.last_word().phase, again.last_word().step) == (WorkerPhase.ATTACHED, 0)


def test_only_the_process_that_speaks_for_the_pod_leaves_a_word(pods: Pods) -> None:
    (pod,) = pods.start(program(), also={"LOCAL_RANK": "1"})
    assert pod.ended() == 0, pod.said()
    assert (pod.mailbox.parent / "termination-log").read_bytes() == b""


def test_a_file_that_cannot_be_written_costs_nothing(pods: Pods, tmp_path: Path) -> None:
    (pod,) = pods.start(program(), also={"STERNA_TERMINATION_LOG": str(tmp_path / "none" / "log")})
    assert pod.ended() == 0, pod.said()
    status = waited_for(pod.status)
    assert status.phase is WorkerPhase.FINISHED


def test_r8_dates_are_made_once_from_what_the_monotonic_clock_knows():
    """A wall clock that leapt during training moves both dates, and the time between them stays what it was."""
    status = Status(pid=os.getpid(), phase=WorkerPhase.COMMITTED, first_step_mono_s=50.0, last_step_mono_s=80.0)
    word = dated(status, wall_s=1_700_000_000.0, mono_s=100.0)
    assert (word.first_step_wall_s, word.stopped_wall_s) == (1_699_999_950.0, 1_699_999_980.0)
    assert dated(Status(pid=1, phase=WorkerPhase.ATTACHED), wall_s=1.0, mono_s=2.0).stopped_wall_s is None
