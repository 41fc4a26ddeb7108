"""What rebalancers looked at is told by events and written down in SpeCon's columns, before a real API server."""

import csv
from pathlib import Path

from tests.cluster.requests import Body
from tests.kubernetes.jobs import tfjob
from tests.kubernetes.lab import Lab


def rows_in(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def moved(lab: Lab, worker: str, node: str) -> Body | None:
    return next((pod for pod in lab.pods() if _is_elsewhere(pod, worker, node)), None)


def _is_elsewhere(pod: Body, worker: str, node: str) -> bool:
    return bool(pod["metadata"]["name"] == worker and pod["spec"]["nodeName"] != node)


def test_voda_37_a_rebalancer_s_moves_are_in_the_file_and_in_events(lab: Lab, tmp_path: Path):
    """Server and worker are put on one node, which is then loaded far above the mean: the worker leaves it."""
    path = tmp_path / "distribution.csv"
    lab.nodes.add(3, gpus=0, cpu="8")
    lab.start(rebalance=("imbalance",), distribution_file=path)
    lab.submit(tfjob("job1", gpus=0, cpu="1"))
    lab.until(lambda: any(row["to_node"] for row in rows_in(path)), "a move is written down")
    row = next(row for row in rows_in(path) if row["to_node"])
    assert list(row) == ["time", "job", "orginal_node", "to_node"]
    assert row["job"] == f"{lab.namespace}/job1"
    assert float(row["time"]) > 1e9
    pod = lab.until(lambda: moved(lab, "job1-worker-0", row["orginal_node"]), "the worker is elsewhere")
    assert pod["spec"]["nodeName"] == row["to_node"]
    lab.until(lambda: "MigrationConsidered" in lab.reasons("job1"), "an event tells of it")
    lab.until(lambda: "Migrated" in lab.reasons("job1"), "and the move tells of itself")


def test_voda_37_who_stays_is_in_the_file_with_an_empty_target_and_told_once(lab: Lab, tmp_path: Path):
    """Nobody may go elsewhere: the rebalancer looks again and again, and says what it found once."""
    path = tmp_path / "distribution.csv"
    lab.nodes.add(3, gpus=0, cpu="8")
    first, *others = lab.nodes.names
    for node in others:
        lab.nodes.cordon(node)
    lab.start(rebalance=("imbalance",), rebalance_settings={"check-s": "0.2"}, distribution_file=path)
    lab.submit(tfjob("job1", gpus=0, cpu="1"))
    lab.until(lambda: bool(rows_in(path)), "a round is written down")
    assert {(row["orginal_node"], row["to_node"]) for row in rows_in(path)} == {(first, "")}
    lab.until(lambda: "MigrationConsidered" in lab.reasons("job1"), "an event tells of it")
    told = [event for event in lab.events("job1") if event["reason"] == "MigrationConsidered"]
    assert [event["count"] for event in told] == [1]
    assert "stay" in told[0]["message"]
