"""Moves that people asked for: granted as a whole, or refused with a reason, and then nothing is touched."""

from typing import Any

import pytest

from sterna.lifecycle.asked_moves import Ask, Denied, Granted, ask_of_job, cannot_move, tried
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import FixedRole, Job, JobSpec, Role, Worker
from sterna.model.layout import Layout
from sterna.model.nodes import Node
from sterna.model.phases import Phase
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.why import Because, Why
from sterna.placement.moving import Moving

BECAUSE = Because(Why.REBALANCED)
ONE = Resources(cpu_milli=1000)
A, B = JobId("team/a"), JobId("other/b")
PS = Worker(Role.PS, 0, NodeId("n1"))


def at(node: str, *ordinals: int) -> tuple[Worker, ...]:
    return tuple(Worker(Role.WORKER, ordinal, NodeId(node)) for ordinal in ordinals)


def room(held: dict[JobId, tuple[Worker, ...]], cordoned: str = "", **cpus: int) -> Moving:
    nodes = [
        Node(id=NodeId(name), allocatable=Resources(cpu_milli=1000 * count), cordoned=name == cordoned)
        for name, count in cpus.items()
    ]
    jobs = [
        Job(
            spec=JobSpec(
                id=job_id,
                submitted_s=0.0,
                request=ONE,
                workers_max=4,
                fixed=(FixedRole(Role.PS, 1, ONE),) if PS in workers else (),
            ),
            phase=Phase.RUNNING,
            workers=workers,
        )
        for job_id, workers in held.items()
    ]
    return Moving(Snapshot.of(now_s=0.0, nodes=nodes, jobs=jobs), Layout(held))


def ask(**values: Any) -> Ask:
    for name in ("to", "avoid"):
        if name in values:
            values[name] = frozenset(map(NodeId, values[name]))
    return Ask(key="1", **values)


@pytest.mark.parametrize(
    ("held", "cpus", "asked", "then"),
    [
        pytest.param(at("n1", 0, 1), {"n1": 2, "n2": 2}, ask(job=A, to=["n2"]), at("n2", 0, 1), id="a whole job"),
        pytest.param(
            at("n1", 0, 1),
            {"n1": 2, "n2": 2},
            ask(job=A, worker=1, to=["n2"]),
            (*at("n1", 0), *at("n2", 1)),
            id="one worker of it",
        ),
        pytest.param(
            at("n1", 0, 1),
            {"n1": 2, "n2": 1, "n3": 2},
            ask(job=A, avoid=["n1"]),
            at("n3", 0, 1),
            id="where there is room for all of it, if no node is named",
        ),
        pytest.param(
            at("n1", 0, 1),
            {"n1": 2, "n2": 1, "n3": 1},
            ask(job=A, avoid=["n1"]),
            (*at("n2", 0), *at("n3", 1)),
            id="to several nodes where no one has room for all",
        ),
        pytest.param(
            (PS, *at("n1", 0)),
            {"n1": 2, "n2": 2},
            ask(job=A, worker=0, to=["n2"]),
            (PS, *at("n2", 0)),
            id="worker 0 is not parameter server 0",
        ),
    ],
)
def test_a_move_that_fits_is_made(held, cpus, asked, then):
    moving = room({A: held}, **cpus)
    assert isinstance(tried(moving, asked, BECAUSE), Granted)
    assert moving.layout.workers_of(A) == then
    assert moving.layout.because_of(A) is BECAUSE


@pytest.mark.parametrize(
    ("cordoned", "cpus", "asked", "refusal", "told"),
    [
        pytest.param("", {"n1": 2, "n2": 2}, ask(job=A, to=["n1"]), "SameNode", "on n1 already", id="it is there"),
        pytest.param("", {"n1": 2, "n2": 1}, ask(job=A, to=["n2"]), "NoRoom", "1 CPU free", id="half of it would fit"),
        pytest.param("", {"n1": 2, "n2": 1}, ask(job=A, avoid=["n1"]), "NoRoom", "no other node", id="nor anywhere"),
        pytest.param("n2", {"n1": 2, "n2": 2}, ask(job=A, to=["n2"]), "NodeNotUsable", "drained", id="it is drained"),
        pytest.param("", {"n1": 2}, ask(job=A, to=["n9"]), "NodeNotUsable", "pool", id="it is not among the nodes"),
        pytest.param("", {"n1": 2}, ask(job=A, avoid=["n1"]), "NoRoom", "no other node", id="there is but one node"),
    ],
)
def test_a_move_that_cannot_be_is_refused_as_a_whole(cordoned, cpus, asked, refusal, told):
    moving = room({A: at("n1", 0, 1)}, cordoned, **cpus)
    before = moving.layout
    answer = tried(moving, asked, BECAUSE)
    assert isinstance(answer, Denied)
    assert answer.refusal == refusal
    assert told in answer.message
    assert moving.layout is before


def test_a_node_is_emptied_of_all_jobs_or_of_those_of_a_namespace():
    held = {A: at("n1", 0), B: at("n1", 0)}
    moving = room(held, n1=2, n2=2)
    assert isinstance(tried(moving, ask(node=NodeId("n1"), namespace="team", avoid=["n1"]), BECAUSE), Granted)
    assert (moving.layout.workers_of(A), moving.layout.workers_of(B)) == (at("n2", 0), at("n1", 0))
    assert isinstance(tried(moving, ask(node=NodeId("n1"), avoid=["n1"]), BECAUSE), Granted)
    assert moving.layout.workers_of(B) == at("n2", 0)
    assert tried(moving, ask(node=NodeId("n1"), avoid=["n1"]), BECAUSE) is None


@pytest.mark.parametrize(
    ("held", "worker", "to", "told"),
    [
        pytest.param((), None, "n2", "holds no workers", id="a job that waits has nothing to move"),
        pytest.param(at("n1", 0, 2), 1, "n2", "has no worker 1; it has: 0, 2", id="there is no such worker"),
        pytest.param(at("n1", 0, 1), None, "n1", "is on n1 already", id="it is there"),
        pytest.param(at("n1", 0, 1), None, None, "", id="anywhere else may do"),
        pytest.param((*at("n1", 0), *at("n2", 1)), None, "n1", "", id="a part of it is elsewhere"),
    ],
)
def test_what_can_be_told_without_looking_for_room(held, worker, to, told):
    denied = cannot_move("a", held, worker=worker, to=to)
    assert (told in denied.message and bool(told)) if denied is not None else not told


@pytest.mark.parametrize(
    ("to", "begun", "asked"),
    [
        pytest.param(None, None, ask(job=A, avoid=["n1"]), id="away from where it is, if no node is named"),
        pytest.param(NodeId("n2"), None, ask(job=A, to=["n2"]), id="to the node that is named"),
        pytest.param(
            None,
            at("n3", 0, 1),
            ask(job=A, to=["n3"]),
            id="a move that was begun goes on where it was to go, although its scheduler was killed meanwhile",
        ),
    ],
)
def test_what_is_tried_for_a_request_about_a_job(to, begun, asked):
    assert ask_of_job("1", A, at("n1", 0, 1), worker=None, to=to, begun=begun) == asked
