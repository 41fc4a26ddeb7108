"""Real frameworks on the real engine: PyTorch, torchrun and TensorFlow, moved, resized and killed while they train."""

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from sterna.model.errors import Conflict, NotFound
from tests.e2e.up import HURRIED, PATIENCE_S, ROOT, Up, running
from tests.needs import needs

EXAMPLES = ROOT / "examples"
CALLED = {"python": [sys.executable], "torchrun": [sys.executable, "-m", "torch.distributed.run"]}


def example(name: str, *, args: tuple[str, ...], hurry: Path) -> dict[str, Any]:
    """A manifest of ours, with this interpreter and other arguments for its program. A `--pace` among them holds until
    the file `hurry` is there.
    """
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    for replicas in next(value for key, value in document["spec"].items() if key.endswith("ReplicaSpecs")).values():
        (container,) = replicas["template"]["spec"]["containers"]
        program, script = container["command"][:2]
        if program in CALLED:  # and not what only holds a place
            container["command"] = [*CALLED[program], str(HURRIED), str(hurry), str(ROOT / script), *args]
        container.setdefault("env", []).append({"name": "PYTHONPATH", "value": str(ROOT / "src")})
    return document


def submit(engine: Up, document: dict[str, Any], where: Path) -> str:
    engine.insist(lambda: engine.client.submit(yaml.safe_dump(document), cwd=str(where)))
    return str(document["metadata"]["name"])


def only_worker(name: str, *args: str, hurry: Path) -> dict[str, Any]:
    """The PyTorch example as a job of one process."""
    document = example("pytorch.yaml", args=args, hurry=hurry)
    document["metadata"] = {"name": name}
    del document["spec"]["pytorchReplicaSpecs"]["Worker"]
    return document


@pytest.mark.slow
def test_voda_46_three_moves_change_no_bit_of_the_result(tmp_path):
    """The engine's own moves, warm where it can, of a program with dropout, momentum and a schedule."""
    needs("torch")
    args = ("--epochs", "2", "--samples", "1024", "--batch", "16", "--pace", "0.7")
    alone = subprocess.run(
        [sys.executable, str(EXAMPLES / "pytorch_ddp.py"), *args[:-2]],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    with running(tmp_path / "home", "--nodes", "2", "--gpus-per-node", "1", "--rate-limit", "0.2s") as engine:
        hurry = tmp_path / "hurry"
        name = submit(engine, only_worker("exact", *args, hurry=hurry), tmp_path)
        for move, target in enumerate(("node-2", "node-1", "node-2"), start=1):
            trains_past(engine, name, 4 * move)
            moves(engine, name, target)
            engine.until(partial(all_moved, engine, name, move), f"move {move} has succeeded")
        hurry.touch()
        (job,) = engine.finished(name)
        assert (job["phase"], job["migrations"], job["stepsLost"], job["restarts"]) == ("Succeeded", 3, 0, 0)
        assert hashes(engine.log_of(name)) == hashes(alone.stdout)


def trains_past(engine: Up, name: str, step: int, *, patience_s: float = PATIENCE_S) -> None:
    engine.until(lambda: step_of(engine, name) > step, f"it trains past step {step}", patience_s=patience_s)


def moves(engine: Up, name: str, target: str, *, worker: int | None = None) -> None:
    """A node that the process before has not quite left refuses, and is asked again."""

    def asked() -> bool:
        try:
            return bool(engine.client.migrate(name, worker=worker, to=target))
        except Conflict:
            return False

    engine.until(asked, f"{name} may move to {target}")


def all_moved(engine: Up, name: str, count: int) -> bool:
    return [move["phase"] for move in engine.client.migrations(name)] == ["Succeeded"] * count


def hashes(log: str) -> list[str]:
    return re.findall(r"^hash (\w+)$", log, re.MULTILINE)


@pytest.mark.slow
def test_torchrun_members_come_and_go_and_the_state_carries_over(tmp_path):
    needs("torch")
    with running(tmp_path / "home", "--nodes", "1", "--gpus-per-node", "3", "--rate-limit", "0.5s") as engine:
        hurry = tmp_path / "hurry"
        args = ("--epochs", "6", "--samples", "1024", "--pace", "0.5")
        document = example("torchrun.yaml", args=args, hurry=hurry)
        name = submit(engine, document, tmp_path)
        engine.until(lambda: step_of(engine, name) > 5, "it trains")
        first = lives(engine, name)
        assert len(first) == 3
        engine.insist(lambda: engine.client.scale(name, minimum=1, maximum=2))
        engine.until(lambda: len(lives(engine, name)) == 2, "one member has gone")
        stayed = lives(engine, name)
        assert stayed < first
        step = step_of(engine, name)
        engine.until(lambda: step_of(engine, name) > step + 3, "the others train on", patience_s=180)
        engine.insist(lambda: engine.client.scale(name, minimum=1, maximum=3))
        engine.until(lambda: len(lives(engine, name)) == 3, "a member has come")
        assert stayed < lives(engine, name)
        hurry.touch()
        (job,) = engine.finished(name, patience_s=300)
        assert (job["phase"], job["step"], job["restarts"]) == ("Succeeded", 96, 0)
        assert "trained for 6 epochs" in engine.log_of(name)


def step_of(engine: Up, name: str) -> int:
    return engine.client.job(name)["step"] or 0  # None: no process has told yet


def lives(engine: Up, name: str) -> set[int]:
    """Processes of the job that run."""
    return {worker["pid"] for worker in engine.client.job(name)["workerDetails"] if worker["pid"] is not None}


@pytest.mark.slow
def test_dragon_42_workers_of_a_parameter_server_job_are_killed_and_moved_five_times(tmp_path):
    """State is on the parameter server: the global step never falls, and the model ends as good as undisturbed."""
    needs("tensorflow")
    args = ("--steps", "600", "--pace", "0.15", "--samples", "1024")
    with running(tmp_path / "home", "--nodes", "2", "--gpus-per-node", "2", "--rate-limit", "0.5s") as engine:
        hurry = tmp_path / "hurry"
        name = submit(engine, example("tensorflow.yaml", args=args, hurry=hurry), tmp_path)
        engine.until(lambda: steps_seen(engine, name)[-1:] > [20], "it trains", patience_s=240)
        first_servers = servers(engine, name)
        for round_ in range(5):
            (worker, *_) = [one for one in members(engine, name) if one["role"] == "worker"]
            if round_ % 2:
                os.kill(worker["pid"], signal.SIGKILL)
            else:
                to = "node-1" if worker["node"] == "node-2" else "node-2"
                moves(engine, name, to, worker=worker["ordinal"])
            engine.until(partial(has_gone, engine, name, worker["pid"]), "the old process has gone")
            reached = steps_seen(engine, name)[-1]
            engine.until(partial(steps_past, engine, name, reached + 10), "training goes on")
        hurry.touch()
        (job,) = engine.finished(name, patience_s=300)
        seen = steps_seen(engine, name)
        assert job["phase"] == "Succeeded", job["message"]
        assert seen == sorted(seen)
        assert servers(engine, name) == first_servers, "parameter server and chief are never started again"
        right = float(re.findall(r"trained for \d+ steps: ([\d.]+)% right", engine.log_of(name))[0])
        assert right > 60, f"{right} % right"


def has_gone(engine: Up, name: str, pid: int) -> bool:
    return pid not in lives(engine, name)


def steps_past(engine: Up, name: str, step: int) -> bool:
    return steps_seen(engine, name)[-1] > step


def members(engine: Up, name: str) -> list[dict[str, Any]]:
    return [one for one in engine.job(name)["workerDetails"] if one["pid"] is not None]


def servers(engine: Up, name: str) -> list[str]:
    """Every process of parameter servers and chief that the job ever had."""
    return sorted(one["name"] for one in engine.job(name)["workerDetails"] if one["role"] != "worker")


def steps_seen(engine: Up, name: str) -> list[int]:
    """The global step as the chief saw it, time after time."""
    try:
        log = b"".join(engine.insist(lambda: list(engine.client.logs(name, worker="chief-0", every=True)))).decode()
    except NotFound:  # not started yet
        return []
    return [int(step) for step in re.findall(r"^step (\d+):", log, re.MULTILINE)]
