"""A job as the scheduling core sees it: the same from the state of either engine."""

from typing import Any

import pytest

from sterna.engines.kubernetes.status import standing as cluster
from sterna.engines.local.store import rows
from sterna.lifecycle.job_value import TrainingFacts, ValuedState, job_value
from sterna.model.curves import SpeedupCurve
from sterna.model.growth import Category, Growth
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Disruption, Job, JobSpec, ProgressPoint, Role, Worker
from sterna.model.phases import Phase
from sterna.model.resources import Resources

SPEC = JobSpec(id=JobId("default/a"), submitted_s=1.0, request=Resources(gpu_milli=1000), workers_max=4)
HELD = (Worker(Role.PS, 0, NodeId("n1")), Worker(Role.WORKER, 1, NodeId("n2")), Worker(Role.WORKER, 0, NodeId("n1")))
MEASURED = (ProgressPoint(5.0, 10.0, 2, 4.0), ProgressPoint(9.0, 20.0, 2, 2.0))
RUNNING: dict[str, Any] = {
    "phase": Phase.RUNNING,
    "as_of_s": 100.0,
    "resumes_s": 90.0,
    "first_started_s": 10.0,
    "started_s": 80.0,
    "gpu_s": 50.0,
    "ran_s": 40.0,
    "gpu_s_since_start": 30.0,
    "last_ran_s": 20.0,
}


def kept_by(engine: str, held: tuple[Worker, ...] = HELD, **values: Any) -> ValuedState:
    """The same state, as either engine keeps it."""
    costs: dict[str, Any] = {"save_s": 3.0, "restart_s": None}
    if engine == "kubernetes":
        seats = tuple(cluster.Seat(worker, "abcde") for worker in held)
        return cluster.Standing(**{"seats": seats, "progress": cluster.Progress(**costs), **values})
    row = {"uid": "u", "id": SPEC.id, "manifest": "", "cwd": "/", "submitted_s": 1.0}
    return rows.JobRow(**{**row, "assigned": held, "progress": rows.Progress(at_s=0.0, **costs), **values})


@pytest.fixture(params=["kubernetes", "local"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_all_that_an_engine_keeps_reaches_the_core(engine):
    curve, growth = SpeedupCurve((2.0, 1.0)), Growth(Category.WATCHING, 0.1)
    disruptions = (Disruption(80.0, "resize", 2.0),)
    facts = TrainingFacts(curve=curve, units_done=20.0, units_total=100.0, points=MEASURED, growth=growth)
    value = job_value(SPEC, kept_by(engine, **RUNNING), facts, leaving=HELD[:1], disruptions=disruptions)
    assert value == Job(
        spec=SPEC,
        workers=HELD,
        leaving=HELD[:1],
        units_left=80.0,
        curve=curve,
        checkpoint_s=3.0,
        restart_s=0.0,
        progress=MEASURED,
        growth=growth,
        disruptions=disruptions,
        **RUNNING,
    )


def test_seats_are_shown_in_the_order_of_the_decision_since_plans_compare_them_as_they_are(engine):
    assert job_value(SPEC, kept_by(engine), TrainingFacts()).workers == HELD


@pytest.mark.parametrize(
    ("told_s", "expected"),
    [
        pytest.param(0.0, (100.0, 50.0, 30.0, 40.0), id="nothing was told: exact since what it holds last changed"),
        pytest.param(99.0, (100.0, 50.0, 30.0, 40.0), id="told before it got what it holds"),
        pytest.param(
            104.0, (104.0, 58.0, 38.0, 44.0), id="told later: service and time are brought to that moment as well"
        ),
    ],
)
def test_counters_are_exact_at_the_moment_that_work_left_is_told_for(engine, told_s, expected):
    value = job_value(SPEC, kept_by(engine, **RUNNING), TrainingFacts(units_done=1.0, told_s=told_s))
    assert (value.as_of_s, value.gpu_s, value.gpu_s_since_start, value.ran_s) == expected
    assert value.attained_gpu_s(110.0) == 70.0  # attained service does not depend on when progress was told


@pytest.mark.parametrize(
    ("facts", "left"),
    [
        pytest.param(TrainingFacts(), None, id="nothing is known"),
        pytest.param(TrainingFacts(epochs_declared=20.0, units_usual=100.0), 20.0, id="declared goes before usual"),
        pytest.param(TrainingFacts(units_done=30.0, units_usual=100.0), 70.0, id="jobs like it took 100"),
        pytest.param(
            TrainingFacts(units_done=30.0, units_total=50.0, epochs_declared=9.0), 20.0, id="the program knows"
        ),
        pytest.param(
            TrainingFacts(remaining_s=60.0, points=MEASURED), 30.0, id="a minute is left, and a unit took two seconds"
        ),
        pytest.param(TrainingFacts(remaining_s=60.0), None, id="a minute is left, and no speed was measured"),
        pytest.param(
            TrainingFacts(remaining_s=60.0, points=MEASURED, units_total=5.0), 5.0, id="work goes before time, if told"
        ),
    ],
)
def test_work_left(facts, left):
    assert job_value(SPEC, kept_by("local"), facts).units_left == left
