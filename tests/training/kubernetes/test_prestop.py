"""The preStop hook beside a real trainer: it stops through its mailbox, whoever the container's first process is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sterna.protocol import Order, WorkerPhase, read_orders
from sterna.training.prestop import order_and_wait
from tests.needs import needs
from tests.training.kubernetes.pods import REPOSITORY, Pod, trainer, waited_for

HOOK = [sys.executable, "-m", "sterna.training.prestop"]
TOY = trainer("toy", "--steps", 100_000, "--step-s", 0.02)


def hook(pod: Pod, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, **pod.environment, "PYTHONPATH": str(REPOSITORY / "src")}
    return subprocess.Popen([*HOOK, *arguments], env=environment, stdout=subprocess.PIPE, text=True)


def answer(hook: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = hook.communicate(timeout=120)
    return hook.returncode, said


def test_voda_43_the_hook_stops_a_trainer_whose_shell_passes_no_signal_on(pods):
    needs("numpy")
    shell = ["sh", "-c", '"$@"; exit $?', "sh", *TOY]  # a child, not exec: the shell keeps SIGTERM for itself
    (pod,) = pods.start(shell, also={"STERNA_SIGNALS": ""})
    pods.until_step(5)
    code, said = answer(hook(pod))
    assert pod.ended() == 0
    word = pod.last_word()
    assert word.checkpoint is not None
    assert word.checkpoint.step == word.step == len(pods.steps(rank=0, incarnation=1))
    assert (code, said) == (0, f"the trainer has stopped at step {word.step}, saved at step {word.step}\n")


def test_one_hook_of_a_gang_is_enough_and_two_are_not_too_many(pods):
    needs("numpy")
    gang = pods.start(TOY, ranks=2)
    pods.until_step(5)
    hooks = [hook(pod) for pod in gang]
    assert [answer(each)[0] for each in hooks] == [0, 0]
    assert [pod.ended() for pod in gang] == [0, 0]
    assert len({pod.last_word().step for pod in gang}) == 1


def test_a_trainer_that_attaches_after_the_hook_has_begun_finds_the_order(pods, tmp_path):
    needs("numpy")
    gate = tmp_path / "gate"
    waiting = ["sh", "-c", f'while [ ! -e "{gate}" ]; do sleep 0.05; done; exec "$@"', "sh", *TOY]
    (pod,) = pods.start(waiting)
    asked = hook(pod)
    waited_for(lambda: read_orders(pod.mailbox))
    gate.touch()
    assert answer(asked)[0] == 0
    assert pod.ended() == 0
    assert (pod.last_word().phase, pod.last_word().step) == (WorkerPhase.COMMITTED, 0)


def test_voda_43_the_hook_waits_neither_for_the_dead_nor_for_ever(pods):
    needs("numpy")
    (pod,) = pods.start(TOY)
    pods.until_step(5)
    pod.process.send_signal(signal.SIGSTOP)
    assert answer(hook(pod, "--deadline-s", "0.5")) == (
        1,
        "the trainer did not stop in time: it may still save before it is killed\n",
    )
    pod.process.kill()
    pod.process.wait(60)
    code, said = answer(hook(pod))
    assert code == 0
    assert said.startswith("the trainer is gone, ")


def test_a_container_that_is_started_again_in_its_pod_does_not_obey_the_order_of_the_one_before(pods):
    """A liveness probe has failed: the hook runs, and the pod goes on with another container."""
    needs("numpy")
    (pod,) = pods.start(TOY)
    pods.until_step(5)
    assert answer(hook(pod))[0] == 0
    assert pod.ended() == 0
    stopped_at = pod.last_word().step
    again = pods.again(pod, TOY)
    pods.until_step(stopped_at + 5)
    assert again.last_word().phase is not WorkerPhase.COMMITTED  # what it says is about itself
    assert answer(hook(again))[0] == 0
    assert again.ended() == 0
    assert again.last_word().step > stopped_at


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        pytest.param({}, "not a worker of Sterna's", id="outside"),
        pytest.param({"STERNA_MAILBOX": "{}", "STERNA_WAKE": "/w"}, "the engine gives its orders", id="with an engine"),
    ],
)
def test_where_there_is_nothing_to_do_the_hook_does_nothing(tmp_path: Path, capsys, environment, says):
    given = {name: value.format(tmp_path) for name, value in environment.items()}
    assert order_and_wait(given) == 0
    assert says in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_mailbox_that_cannot_be_written_is_said_in_one_line(tmp_path):
    environment = {**os.environ, "STERNA_MAILBOX": str(tmp_path / "none"), "PYTHONPATH": str(REPOSITORY / "src")}
    done = subprocess.run(HOOK, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stdout.startswith("the trainer could not be told to stop: ")
    assert done.stderr == ""


def test_the_order_is_an_order_like_any_other(pods):
    needs("numpy")
    (pod,) = pods.start(TOY, grace_s=40)
    pods.until_step(3)
    assert answer(hook(pod))[0] == 0
    orders = read_orders(pod.mailbox)
    assert orders is not None
    assert (orders.seq, orders.order) == (1, Order.STOP)
    assert orders.deadline_mono_s is not None
    status = pod.status()
    assert status is not None
    assert status.ack == 1
