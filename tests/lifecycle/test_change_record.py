"""The record of one change of a job."""

from typing import Any

import pytest

from sterna.lifecycle.change_record import ChangeFacts, change_record, only_mover
from sterna.model.ids import NodeId
from sterna.model.jobs import Role, Worker


def at(*nodes: str, role: Role = Role.WORKER) -> tuple[Worker, ...]:
    return tuple(Worker(role, ordinal, NodeId(node)) for ordinal, node in enumerate(nodes))


def shown(**known: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"id": 7, "job_id": "default/a", "kind": "migration", "phase": "Succeeded"}
    facts |= {"reason": "Repacked", "message": "", "requested": False, "requested_s": 5.0}
    return change_record(ChangeFacts(**{**facts, **known}), moment=lambda at_s: None if at_s is None else f"{at_s:g} s")


def test_where_from_and_where_to():
    found = shown(before=at("n2", "n1"), after=at("n2", "n3"), finished_s=9.0)
    assert (found["from"], found["to"], found["worker"]) == ("n1,n2", "n2,n3", 1)
    assert (found["workersBefore"], found["workersAfter"]) == (2, 2)
    assert (found["requestedAt"], found["finishedAt"], found["rebalancer"]) == ("5 s", "9 s", None)


def test_a_request_that_nothing_has_come_of_yet():
    found = shown(worker=3, asked_from="n1", asked_to="n2", requested=True)
    assert (found["worker"], found["from"], found["to"]) == (3, "n1", "n2")
    assert (found["workersBefore"], found["workersAfter"]) == (None, None)


@pytest.mark.parametrize(
    ("before", "after", "worker"),
    [
        pytest.param(at("n1"), at("n2"), 0, id="a single worker"),
        pytest.param(at("n1", "n1"), at("n1", "n2"), 1, id="one of a gang"),
        pytest.param(at("n1", "n1"), at("n2", "n2"), None, id="all of them"),
        pytest.param(at("n1", "n1"), at("n1"), None, id="one left, which is no move"),
        pytest.param(at("n1", role=Role.PS), at("n2", role=Role.PS), None, id="a fixed role has no worker's ordinal"),
        pytest.param((), at("n1"), None, id="a start"),
    ],
)
def test_which_worker_moved(before, after, worker):
    assert only_mover(before, after) == worker
