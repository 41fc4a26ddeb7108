"""The record of a job that every interface shows: the same from the facts of either engine."""

from typing import Any

import pytest

from sterna.lifecycle.job_record import Checkpoint, Evaluated, RecordFacts, gpus_of, job_record, nodes_of
from sterna.lifecycle.job_value import TrainingFacts, job_value
from sterna.model.curves import SpeedupCurve
from sterna.model.growth import Category, Growth
from sterna.model.jobs import JobSpec
from sterna.model.phases import Phase
from sterna.model.resources import Resources
from tests.lifecycle.test_job_value import HELD, MEASURED, RUNNING, SPEC, kept_by

NOW_S = 120.0


def clock(at_s: float | None) -> str | None:
    return None if at_s is None else f"{at_s:g} s"


def record(engine: str = "local", *, spec: JobSpec | None = SPEC, state: Any = None, **known: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"phase": Phase.RUNNING, "reason": "NextInOrder", "message": "it was next", **known}
    kept: Any = kept_by(engine, **RUNNING) if state is None else state
    one = RecordFacts(
        name="a", namespace="default", uid="u", kind="ElasticJob", submitted_s=1.0, spec=spec, state=kept, **facts
    )
    return job_record(one, now_s=NOW_S, policy="fifo", moment=clock)


def test_one_state_makes_one_record_whichever_engine_keeps_it():
    assert record("local") == record("kubernetes")


def test_what_a_running_job_holds_and_how_long_it_ran():
    found = record()
    assert (found["id"], found["phase"], found["policy"]) == ("default/a", "Running", "fifo")
    assert found["workers"] == {"current": 2, "min": 1, "max": 4, "step": 1}
    assert (found["gpus"], found["nodes"]) == (2, ["n1", "n2"])
    assert (found["submittedAt"], found["startedAt"], found["finishedAt"]) == ("1 s", "10 s", None)
    assert (found["runningSeconds"], found["totalSeconds"], found["waitingSeconds"]) == (60.0, 119.0, 59.0)


def test_time_stands_still_once_it_is_over():
    over = kept_by("local", held=(), **{**RUNNING, "phase": Phase.SUCCEEDED, "finished_s": 100.0})
    found = record(state=over, phase=Phase.SUCCEEDED)
    assert (found["finishedAt"], found["runningSeconds"], found["totalSeconds"]) == ("100 s", 40.0, 99.0)


def test_a_job_whose_spec_makes_no_sense_is_shown_as_far_as_it_goes():
    found = record(spec=None)
    assert (found["workers"]["max"], found["gpus"], found["priority"], found["runningSeconds"]) == (0, 0, 0, 40.0)


@pytest.mark.parametrize(
    ("training", "share"),
    [
        pytest.param(None, None, id="it did not tell anything"),
        pytest.param(TrainingFacts(units_done=5.0), None, id="nothing says how much work there is"),
        pytest.param(TrainingFacts(units_done=5.0, units_total=20.0), 0.25, id="as its program counts"),
        pytest.param(TrainingFacts(units_done=5.0, epoch=5, epochs_declared=10.0), 0.5, id="of the declared epochs"),
        pytest.param(TrainingFacts(units_done=30.0, units_total=20.0), 1.0, id="never more than all of it"),
    ],
)
def test_the_share_that_is_done(training, share):
    assert record(training=training)["progress"] == share


def test_time_left_with_the_workers_it_has():
    training = TrainingFacts(curve=SpeedupCurve((2.0, 1.0)), units_done=40.0, units_total=100.0, points=MEASURED)
    value = job_value(SPEC, kept_by("local", **RUNNING), training)
    assert record(value=value)["remainingSeconds"] == 40.0  # 60 units at the moment of 100 s
    unknown = job_value(SPEC, kept_by("local", **RUNNING), TrainingFacts())
    assert (record(value=unknown)["remainingSeconds"], record()["remainingSeconds"]) == (None, None)


def test_growth_checkpoint_and_metrics():
    seen = Evaluated(Growth(Category.WATCHING, 0.1, None, 7.0), "loss", 0.5, 3)
    found = record(evaluated=seen, checkpoint=Checkpoint(50, None, 2.0, 90.0), metrics={"a": 1.0, "b": float("nan")})
    assert found["growth"] == {
        "category": "Watching",
        "since": "7 s",
        "metric": "loss",
        "value": 0.5,
        "score": 0.1,
        "efficiency": None,
        "evaluations": 3,
    }
    assert found["checkpoint"] == {"step": 50, "bytes": None, "saveSeconds": 2.0, "at": "90 s"}
    assert found["metrics"] == {"a": 1.0, "b": "nan"}
    assert (record()["growth"], record()["checkpoint"]) == (None, None)


@pytest.mark.parametrize(("milli", "shown"), [(0, 0), (2000, 2), (500, 0.5), (2500, 2.5)])
def test_whole_cards_are_counted_and_shares_are_fractions(milli, shown):
    assert gpus_of(Resources(gpu_milli=milli)) == shown
    assert nodes_of(HELD) == ["n1", "n2"]
