"""The events and the golden lines that follow from a decision."""

import pytest

from sterna.journal.facts import events_of
from sterna.journal.golden import golden_lines
from sterna.model.events import JobMigrated, JobPreempted, JobResized, JobStarted, JobWaits
from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.layout import Layout
from sterna.model.phases import Phase
from sterna.model.plan import Decision, Grow, Shrink, Step
from sterna.model.target import PolicyMemory, Target
from sterna.model.why import NEXT_IN_ORDER, NO_ROOM, SPARE_ROOM, Because, Why
from tests.worlds import cluster, job, node

A = JobId("a")
MADE_ROOM, MOVED = Because(Why.MADE_ROOM), Because(Why.REPACKED)


def on(*nodes: str) -> tuple[Worker, ...]:
    return tuple(Worker(Role.WORKER, ordinal, NodeId(name)) for ordinal, name in enumerate(nodes))


def planned(*steps: Step, **more) -> Decision:
    return Decision(0, Target({}), Layout({}), steps, PolicyMemory(), None, **more)


def step(*actions, after_release: bool = False) -> Step:
    return Step(actions, after_release)


def world(*holds: str, **more):
    return cluster(
        nodes=[node("n1", gpus=4), node("n2", gpus=4)], jobs=[job("a", at_most=4, on=holds, **more)], now_s=120.0
    )


@pytest.mark.parametrize(
    ("view", "decision", "expected"),
    [
        pytest.param(
            world(), planned(step(Grow(A, on("n1"), NEXT_IN_ORDER))), [JobStarted(120.0, A, on("n1"), NEXT_IN_ORDER)],
            id="from nothing to something is a start",
        ),
        pytest.param(
            world("n1", "n1"), planned(step(Shrink(A, (), NO_ROOM))), [JobPreempted(120.0, A, on("n1", "n1"), NO_ROOM)],
            id="from something to nothing is a preemption",
        ),
        pytest.param(
            world("n1"), planned(step(Grow(A, on("n1", "n2"), SPARE_ROOM))),
            [JobResized(120.0, A, on("n1"), on("n1", "n2"), SPARE_ROOM)],
            id="more workers are a resize",
        ),
        pytest.param(
            world("n1", "n1"), planned(step(Shrink(A, on("n1"), MADE_ROOM))),
            [JobResized(120.0, A, on("n1", "n1"), on("n1"), MADE_ROOM)],
            id="so are fewer",
        ),
        pytest.param(
            world("n1"),
            planned(step(Shrink(A, (), MOVED)), step(Grow(A, on("n2"), MOVED), after_release=True)),
            [JobMigrated(120.0, A, on("n1"), on("n2"), MOVED)],
            id="let go and taken up elsewhere is one migration",
        ),
        pytest.param(
            world("n1"),
            planned(step(Shrink(A, (), MOVED)), step(Grow(A, on("n1"), MOVED), after_release=True)),
            [],
            id="back where it was is nothing to tell",
        ),
        pytest.param(world(), planned(), [JobWaits(120.0, A, NO_ROOM)], id="nothing decided: it waits"),
        pytest.param(
            world(), planned(verdicts={A: Because(Why.NEVER_FITS)}), [JobWaits(120.0, A, Because(Why.NEVER_FITS))],
            id="a verdict is the better reason",
        ),
        pytest.param(world("n1"), planned(), [], id="nothing decided: it keeps what it has"),
        pytest.param(world(phase=Phase.SUSPENDED), planned(), [], id="a suspended job does not wait"),
    ],
)  # fmt: skip
def test_events_follow_from_snapshot_and_decision(view, decision, expected):
    assert list(events_of(view, decision)) == expected


def test_golden_lines_tell_each_action_in_the_order_of_the_plan():
    view = world("n1", "n1")
    ps = Worker(Role.PS, 0, NodeId("n1"))
    card = Worker(Role.WORKER, 0, NodeId("n2"), (DeviceId("0"), DeviceId("1")))
    decision = planned(
        step(Shrink(A, on("n1"), MADE_ROOM)),
        step(Grow(A, (ps, card), MOVED), Grow(JobId("b"), on("n1"), SPARE_ROOM), after_release=True),
    )
    assert list(golden_lines(view, decision)) == [
        "t=120 shrink a 2->1 [n1] MadeRoom",
        "t=120 grow a 1->1 [ps:n1 n2/0+1] Repacked after release",
        "t=120 grow b 0->1 [n1] SpareRoom after release",
    ]


@pytest.mark.parametrize(
    ("now_s", "shown"), [(0.0, "t=0"), (100.0, "t=100"), (0.1 + 0.2, "t=0.3"), (1e9, "t=1000000000")]
)
def test_golden_times_are_short(now_s, shown):
    view = cluster(gpus=1, jobs=[job("a")], now_s=now_s)
    (line,) = golden_lines(view, planned(step(Grow(A, on("n1"), SPARE_ROOM))))
    assert line.startswith(shown + " ")
