"""Why a job gets fewer workers, as the plan says it: its owner, or the others. Parameter servers are no workers."""

import pytest
from tests.planner.lives import ELASTIC, decided, named
from tests.worlds import cluster, job, node

from sterna.engines.action_log import log_outcome
from sterna.journal.facts import events_of
from sterna.model.events import JobMigrated, JobResized
from sterna.model.ids import NodeId
from sterna.model.jobs import Job, Role, Worker
from sterna.model.layout import Layout
from sterna.model.plan import Decision, Grow, Held, Outcome, Shrink, Step
from sterna.model.target import Grant, PolicyMemory, Target
from sterna.model.why import KEPT, SPARE_ROOM, Because, Why
from sterna.planner.reasons import Reasons
from sterna.planner.steps import changes

SERVER = Worker(Role.PS, 0, NodeId("n1"))
REPACKED = Because(Why.REPACKED, (("moved", 1),))


def seats(count: int, *fixed: Worker) -> tuple[Worker, ...]:
    return (*fixed, *(Worker(Role.WORKER, ordinal, NodeId("n1")) for ordinal in range(count)))


def told(one: Job, wanted: tuple[Worker, ...], because: Because) -> Because:
    view = cluster(gpus=8, jobs=[one])
    size = sum(worker.role is Role.WORKER for worker in wanted)
    target, layout = Target({one.id: Grant(size, size, SPARE_ROOM)}), Layout({one.id: wanted}, {one.id: because})
    (shrink,) = changes(view, target, layout).shrinks
    return shrink.because


@pytest.mark.parametrize(
    ("largest", "size", "because", "why"),
    [
        pytest.param(2, 2, SPARE_ROOM, Why.SCALED_BY_OWNER, id="its owner lowered the maximum to what it gets"),
        pytest.param(2, 2, KEPT, Why.SCALED_BY_OWNER, id="also where the policy keeps what there is"),
        pytest.param(2, 2, REPACKED, Why.SCALED_BY_OWNER, id="also where those that stay are moved on the way"),
        pytest.param(3, 2, SPARE_ROOM, Why.GAVE_WAY, id="its owner lowered the maximum and others took more still"),
        pytest.param(4, 2, SPARE_ROOM, Why.GAVE_WAY, id="its owner wrote nothing: others came or grew"),
        pytest.param(2, 2, Because(Why.NODE_LOST), Why.NODE_LOST, id="a reason that names a cause stays"),
    ],
)
@pytest.mark.parametrize("fixed", [(), (SERVER,)], ids=["workers alone", "beside a parameter server"])
def test_11_what_made_it_fewer(fixed, largest, size, because, why):
    one = job("a", at_most=largest, ps=len(fixed), holds=seats(4, *fixed))
    found = told(one, seats(size, *fixed), because)
    assert found.why is why
    if why in (Why.SCALED_BY_OWNER, Why.GAVE_WAY):
        assert dict(found.numbers) == {"workers_before": 4, "workers_now": 2}


@pytest.mark.parametrize("case", ELASTIC, ids=named)
def test_11_every_elastic_policy_says_that_the_owner_lowered_the_maximum(case):
    one = job("a", at_most=2, initial=2, holds=seats(4, SERVER), ps=1, ps_cpus=1, left=100.0)
    view = cluster(nodes=[node("n1", gpus=4)], jobs=[one])
    decision = decided(view, case)
    (action,) = {action for step in decision.steps for action in step.actions if len(action.to) == 3}
    expected = Because(Why.SCALED_BY_OWNER, (("workers_before", 4), ("workers_now", 2)))
    assert action.because == Reasons(view, decision).of(one) == expected


@pytest.mark.parametrize(
    ("now", "kind"),
    [
        pytest.param(seats(1, SERVER), JobResized, id="one worker fewer is another size"),
        pytest.param(seats(2), JobMigrated, id="one parameter server fewer is none"),
    ],
)
def test_11_a_decision_is_told_by_the_number_of_workers(now, kind):
    one = job("a", at_most=2, ps=1, holds=seats(2, SERVER))
    view = cluster(gpus=8, jobs=[one])
    steps = (Step((Shrink(one.id, now, KEPT),), after_release=False),)
    decision = Decision(view.revision, Target({}), Layout({one.id: now}), steps, PolicyMemory(), None)
    (event,) = events_of(view, decision)
    assert isinstance(event, kind)


def test_11_the_log_counts_workers(caplog):
    one = job("a", at_most=2, ps=1)
    with caplog.at_level("INFO"):
        outcome = Outcome(Grow(one.id, seats(2, SERVER), SPARE_ROOM), Held.DONE)
        log_outcome(outcome, before=(), decision_id="d-1", took_s=0.0)
    (line,) = caplog.records
    assert line.workers == 2
