"""Two jobs train on one node of a real cluster; one stops improving and makes room for the other.

Loss curves, monitor, kubelets and processors are real: each node's pods together have a part of a processor, so that
two trainings on one node slow each other down. Operator and monitor are killed in the middle of it.
"""

import json
import secrets
import sys
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

import pytest

from tests.cluster.ports import free_port
from tests.cluster.requests import Body
from tests.e2e.kubernetes.monitors import PORT, Monitors
from tests.e2e.kubernetes.stage import TRAINERS, Stage, seen

CPUS = 0.3  # of this machine, for all pods of a node
BLOCK = 10  # steps whose time is one measurement


@pytest.fixture
def narrow(stage: Stage) -> Iterator[Stage]:
    """Two nodes with little of a processor each; the others take nobody."""
    for name in stage.cluster.names:
        stage.cluster.limit_cpu(name, CPUS)
    _cordon(stage, *stage.cluster.names[1:])
    yield stage
    for name in stage.cluster.names:
        stage.cluster.limit_cpu(name, None)
    _cordon(stage, *stage.cluster.names, on=False)


def test_a_converged_job_is_moved_trains_on_where_it_stopped_and_the_other_gets_faster(narrow: Stage):
    stage, (home, other, *_) = narrow, narrow.cluster.names
    secret, port = secrets.token_hex(16), free_port()
    token = stage.shared / "token"
    token.write_text(secret)
    door = ("--door-address", "0.0.0.0", "--door-port", str(port), "--token-file", str(token))
    monitors = Monitors(stage, door=f"http://{stage.cluster.address}:{port}")
    known = ("--monitor-port", str(PORT), "--monitor-account", monitors.account)
    patient = ("--node-lost-after", "30s")  # kubelets of a busy machine are silent for a moment, and none dies here
    options = (*door, *known, *patient, "--rebalance", "specon", "--rebalance-set", "specon.round-s=1")
    monitors.start(home, other)
    stage.start_operator(*options)
    stage.put(job(stage, "keen", "absolute"))
    stage.put(job(stage, "done", "squares"))
    before = stage.until_pods("done", "done-worker-0")["done-worker-0"]
    keen = stage.until_pods("keen", "keen-worker-0")["keen-worker-0"]
    assert {before["spec"]["nodeName"], keen["spec"]["nodeName"]} == {home}
    stage.until(lambda: len(seen(trace_of(stage, "done"), "step")) > 2 * BLOCK, "both train")
    monitors.kill(home)
    stage.until(lambda: category(stage, "done") == "Converged", "done has converged")
    stage.until(lambda: monitors.restarts(home) > 0, "the monitor was started again")
    stage.restart_operator(*options)  # which finds the category in the job's status
    _cordon(stage, other, on=False)
    after = stage.until(lambda: _successor(stage, before), f"done has a pod on {other}")
    stage.restart_operator(*options)  # in the middle of the move
    assert after["spec"]["nodeName"] == other
    stage.until(lambda: seen(trace_of(stage, "done"), "began")[1:], "done trains again")
    resumed_us = seen(_line(trace_of(stage, "done"), "began", 1), "at_us")[0]
    stage.until(lambda: len(_steps_after(stage, "keen", resumed_us)) > 12 * BLOCK, "keen has it for itself for a while")
    stage.until(lambda: scheduling(stage, "done").get("migrations") == 1, "the move is over")

    trace = trace_of(stage, "done")
    stopped = seen(trace, "stopped")[0]
    assert seen(trace, "began")[:2] == [0, stopped], "it goes on where it stopped"
    assert seen(trace, "step") == list(range(1, len(seen(trace, "step")) + 1)), "a step was lost or made twice"
    assert stage.pods("keen")[0]["metadata"]["uid"] == keen["metadata"]["uid"], "keen was left alone"
    stopped_us = seen(_line(trace, "stopped", 0), "at_us")[0]
    began_us = seen(_line(trace, "step", 0), "at_us")[0]
    together = _blocks([at_us for at_us in _moments(stage, "keen") if began_us <= at_us <= stopped_us])
    alone = _blocks(_steps_after(stage, "keen", resumed_us))
    assert len(together) >= 2
    assert median(alone) < 0.75 * median(together), f"{median(together):.4f} s a step, then {median(alone):.4f} s"
    assert category(stage, "keen") in (None, "Progressing")

    (past,) = [past for past in scheduling(stage, "done")["history"] if past["kind"] == "migration"]
    assert (past["reason"], past["result"], past["committedStep"]) == ("Converged", "Succeeded", stopped)
    assert (past["before"], past["after"]) == ([f"worker/0/{home}"], [f"worker/0/{other}"])
    assert past["downtimeSeconds"] >= 0
    (move,) = json.loads(stage.sterna("get", "migrations", "-n", stage.namespace, "-o", "json"))
    assert (move["from"], move["to"], move["phase"], move["step"]) == (home, other, "Succeeded", stopped)
    stage.until(lambda: {"Converged", "Migrated"} <= stage.reasons("done"), "events say so")
    (stage.shared / "enough").touch()
    stage.until_true("ElasticJob", "done", "Succeeded")
    stage.until_true("ElasticJob", "keen", "Succeeded")


def job(stage: Stage, name: str, problem: str) -> Body:
    """One worker that could use a whole node."""
    checkpoints = stage.shared / "checkpoints"
    checkpoints.mkdir(exist_ok=True)
    trainer = (sys.executable, "-u", str(TRAINERS / "growth_trainer.py"), "--problem", problem)
    template = stage.template(
        "main", *trainer, "--until", str(stage.shared / "enough"), terminationGracePeriodSeconds=60
    )
    container = template["spec"]["containers"][0]
    container["env"] = [
        {"name": "PYTHONPATH", "value": f"{container['env'][0]['value']}:{TRAINERS.parents[2]}"},
        {"name": "OMP_NUM_THREADS", "value": "1"},
        {"name": "OPENBLAS_NUM_THREADS", "value": "1"},
    ]
    told = {"sterna.dev/checkpoint-dir": str(checkpoints), "sterna.dev/judge": "check-interval-s=1,confirmations=2"}
    return {
        "apiVersion": "sterna.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name, "annotations": told},
        "spec": {"workers": {"min": 1, "max": 1}, "template": template},
    }


def trace_of(stage: Stage, name: str) -> str:
    found = [*(stage.shared / "checkpoints").glob(f"*/{name}/*/trace.txt")]
    return found[0].read_text() if found else ""


def scheduling(stage: Stage, name: str) -> Body:
    found: Body = stage.job("ElasticJob", name).get("status", {}).get("scheduling", {})
    return found


def category(stage: Stage, name: str) -> str | None:
    growth = scheduling(stage, name).get("growth")
    return None if growth is None else str(growth.get("category", "Progressing"))


def _line(trace: str, key: str, number: int) -> str:
    return [line for line in trace.splitlines() if line.startswith(f"{key}=")][number]


def _moments(stage: Stage, name: str) -> list[int]:
    steps = [line for line in trace_of(stage, name).splitlines() if line.startswith("step=")]
    return seen("\n".join(steps), "at_us")


def _steps_after(stage: Stage, name: str, moment_us: int) -> list[int]:
    return [at_us for at_us in _moments(stage, name) if at_us > moment_us]


def _blocks(moments: list[int]) -> list[float]:
    """Seconds a step took, of one block of steps after the other: one step alone waits for its share or does not."""
    marks = moments[::BLOCK]
    return [(later - earlier) / BLOCK / 1e6 for earlier, later in pairwise(marks)]


def _successor(stage: Stage, before: Body) -> Body | None:
    return next((pod for pod in stage.pods("done") if pod["metadata"]["uid"] != before["metadata"]["uid"]), None)


def _cordon(stage: Stage, *nodes: str, on: bool = True) -> None:
    for node in nodes:
        stage.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": on or None}})
