"""The operator as its command line starts it, before a real API server: what it is told there, it does."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kubernetes.jobs import elasticjob
from tests.kubernetes.lab import Lab
from tests.kubernetes.rights import USER
from tests.storm.operator_process import OperatorProcess


@pytest.fixture
def started(lab: Lab, tmp_path: Path) -> Iterator[Callable[..., OperatorProcess]]:
    running: list[OperatorProcess] = []

    def start(*options: str) -> OperatorProcess:
        operator = OperatorProcess(lab.plane.kubeconfig(USER), [lab.namespace], tmp_path / "operator.log", *options)
        operator.start()
        running.append(operator)
        return operator

    yield start
    for operator in running:
        operator.stop()


@pytest.mark.parametrize("binding", ["node-name", "binding"])
def test_pods_get_onto_their_node_as_the_command_line_says(
    lab: Lab, started: Callable[..., OperatorProcess], binding: str
):
    lab.nodes.add(1, gpus=2)
    started("--binding", binding, "--rate-limit", "0s")
    lab.submit(elasticjob("gang", workers=(2, 2)))
    lab.until(lambda: len(_running(lab)) == 2, "both workers run")
    bound = [event for event in lab.plane.audited() if _binds(event, lab.namespace)]
    assert len(bound) == (2 if binding == "binding" else 0)


def _running(lab: Lab) -> list[str]:
    return [pod["metadata"]["name"] for pod in lab.pods("gang") if pod["status"].get("phase") == "Running"]


def _binds(event: dict[str, object], namespace: str) -> bool:
    about = event.get("objectRef")
    return isinstance(about, dict) and (about.get("subresource"), about.get("namespace")) == ("binding", namespace)
