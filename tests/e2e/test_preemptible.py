"""The preemptible TensorFlow job: workers hold nothing, so that they can be killed and moved as one likes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sterna.model.errors import NotFound
from sterna.model.workload import Contract
from sterna.wire.manifests import read_manifests
from tests.e2e.test_frameworks import EXAMPLES, example, has_gone, members, moves, servers, submit
from tests.e2e.up import ROOT, Up, running
from tests.needs import needs
from tests.waiting import until

HERE = EXAMPLES / "tensorflow-preemptible"
FOR_A_BUSY_MACHINE_S = 400.0  # TensorFlow takes five seconds of a core to import, in each of five processes


@pytest.mark.slow
def test_dragon_42_workers_beside_two_servers_are_killed_and_moved_five_times(tmp_path):
    """The global step never falls, only the workers are started again, and the model ends as good as undisturbed."""
    needs("tensorflow")
    args = ("--steps", "450", "--pace", "0.3")
    with ExitStack() as stack:
        alone = stack.enter_context(started(tmp_path / "alone.log", *args[:2]))
        home = tmp_path / "home"
        engine = stack.enter_context(running(home, "--nodes", "2", "--gpus-per-node", "2", "--rate-limit", "0.5s"))
        hurry = tmp_path / "hurry"
        name = submit(engine, example("tensorflow-preemptible/job.yaml", args=args, hurry=hurry), tmp_path)
        sees = partial(engine.until, patience_s=FOR_A_BUSY_MACHINE_S)
        sees(lambda: steps_seen(engine, name)[-1:] > [10], "it trains")
        first_servers = servers(engine, name)
        for round_ in range(5):
            sees(lambda: len(workers(engine, name)) == 2, "both workers are there")
            (worker,) = [one for one in workers(engine, name) if one["ordinal"] == round_ % 2]
            if round_ % 2:
                os.kill(worker["pid"], signal.SIGKILL)
            else:
                moves(engine, name, "node-1" if worker["node"] == "node-2" else "node-2", worker=worker["ordinal"])
            sees(partial(has_gone, engine, name, worker["pid"]), "the old process has gone")
            sees(partial(trains_past, engine, name, steps_seen(engine, name)[-1]), "training goes on")
        hurry.touch()
        (job,) = engine.finished(name, patience_s=FOR_A_BUSY_MACHINE_S)
        seen, log = steps_seen(engine, name), engine.log_of(name)
        assert (job["phase"], job["migrations"]) == ("Succeeded", 3), job["message"]
        assert servers(engine, name) == first_servers
        assert len(first_servers) == 2
        assert alone.wait(FOR_A_BUSY_MACHINE_S) == 0
    assert seen == sorted(seen)
    assert seen[-1] >= 450
    undisturbed = right_in((tmp_path / "alone.log").read_text())
    assert abs(right_in(log) - undisturbed) < 12.0, f"undisturbed {undisturbed} % right"
    assert undisturbed > 40.0, "there was something to learn"


@pytest.mark.slow
def test_dragon_42_servers_that_are_told_to_stop_have_the_chief_save_first(tmp_path):
    """And come back with what was on both of them."""
    needs("tensorflow")
    cluster = {"ps": [address(), address()], "worker": [address(), address(), address()]}
    args = ("--steps", "100000", "--pace", "0.05")
    sterna = {"STERNA_CHECKPOINT_DIR": str(tmp_path / "checkpoints")}
    log = tmp_path / "ps-0.log"

    def server(index: int) -> Any:
        chief = {"TF_CONFIG_CHIEF": task(cluster, "worker", index)}
        return started(tmp_path / f"ps-{index}.log", *args, TF_CONFIG=task(cluster, "ps", index), **chief, **sterna)

    with ExitStack() as stack:
        both = [stack.enter_context(server(index)) for index in range(2)]
        stack.enter_context(started(tmp_path / "worker.log", *args, TF_CONFIG=task(cluster, "worker", 2)))
        wait(lambda: steps_in(log)[-1:] > [30], "the worker trains", log)
        for process in reversed(both):  # the one without a chief is told first
            process.send_signal(signal.SIGTERM)
        assert [process.wait(FOR_A_BUSY_MACHINE_S) for process in both] == [0, 0]
    before = steps_in(log)
    assert list((tmp_path / "checkpoints" / "tensorflow").glob("model.ckpt-*.index"))
    with ExitStack() as stack:
        for index in range(2):
            stack.enter_context(server(index))
        wait(lambda: len(steps_in(log)) > len(before), "the chief is back", log)
    assert steps_in(log) == sorted(steps_in(log)), "not a step of what was trained is lost"


@pytest.mark.parametrize("name", ["job.yaml", "kubernetes.yaml"])
def test_dragon_42_the_manifests_say_what_they_are_said_to(name):
    (document,) = read_manifests((HERE / name).read_text())
    workload = document.workload
    assert document.warnings == ()
    assert (workload.contract, dict(workload.details)) == (Contract.PARAMETER_SERVER, {"chiefInPs": "true"})
    assert [template.replicas for template in workload.roles if template.word == "ps"] == [2]


@contextmanager
def started(log: Path, *args: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The program as a process of its own, which does not outlive the block. What it prints is added to `log`."""
    env: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", **environment}
    with log.open("ab") as out:
        command = [sys.executable, str(HERE / "preemptible.py"), *args]
        process = subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with the chief
        process.wait()


def wait(holds: Callable[[], bool], what: str, log: Path) -> None:
    until(holds, what, patience_s=FOR_A_BUSY_MACHINE_S, every_s=0.1, story=lambda: log.read_text()[-2000:])


def address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


def task(cluster: Mapping[str, Any], kind: str, index: int) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


def workers(engine: Up, name: str) -> list[dict[str, Any]]:
    return [one for one in members(engine, name) if one["role"] == "worker"]


def trains_past(engine: Up, name: str, step: int) -> bool:
    return steps_seen(engine, name)[-1] > step


def steps_seen(engine: Up, name: str) -> list[int]:
    """The global step as the chief beside the first server saw it, time after time."""
    try:
        log = b"".join(engine.insist(lambda: list(engine.client.logs(name, worker="ps-0", every=True))))
    except NotFound:  # not started yet
        return []
    return _steps(log.decode())


def steps_in(log: Path) -> list[int]:
    return _steps(log.read_text())


def _steps(log: str) -> list[int]:
    return [int(step) for step in re.findall(r"^step (\d+):", log, re.MULTILINE)]


def right_in(log: str) -> float:
    (percent,) = re.findall(r"^trained for \d+ steps: ([\d.]+)% right", log, re.MULTILINE)
    return float(percent)
