"""The answer of `explain`: one sentence, and what would have to change, in the same words in every engine."""

from typing import Any

import pytest

from sterna.lifecycle.explanation import Decided, ExplainFacts, Reason, explanation, summary, would_change
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import JobSpec, Role, Worker
from sterna.model.phases import Phase
from sterna.model.resources import Resources
from sterna.model.why import Because, Why
from tests.worlds import node

SPEC = JobSpec(id=JobId("default/a"), submitted_s=0.0, request=Resources(gpu_milli=1000))
HELD = (Worker(Role.PS, 0, NodeId("n1")), Worker(Role.WORKER, 0, NodeId("n2")), Worker(Role.WORKER, 1, NodeId("n1")))
NO_ROOM = Reason.of(Because(Why.NO_ROOM, (("gpus_free", 1.0),)))
SENTENCE = "jobs ahead of it in the policy's order take all the room (gpus free 1.0)"
SILENT = "the operator has not renewed its lease for 60 s"


def known(**facts: Any) -> ExplainFacts:
    waits = {"phase": Phase.WAITING, "message": "", "assigned": (), "suspended": False, "decided": True}
    return ExplainFacts(job_id="default/a", **{"reason": NO_ROOM, **waits, **facts})


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(known(), f"it waits: {SENTENCE}", id="a decision"),
        pytest.param(known(message="its image is not there"), "it waits: its image is not there", id="more pressing"),
        pytest.param(known(reason=None), "it waits: no reason is known", id="nothing was said"),
        pytest.param(known(decided=False, reason=None), "it waits for its first decision", id="not looked at yet"),
        pytest.param(
            known(decided=False, reason=None, absent=SILENT),
            f"it waits for its first decision; {SILENT}",
            id="not looked at, and no scheduler is there",
        ),
        pytest.param(
            known(message="no room", absent=SILENT),
            f"it waits: no room; {SILENT}, so this is how things stood then",
            id="looked at, and no scheduler is there any more",
        ),
        pytest.param(
            known(phase=Phase.RUNNING, assigned=HELD, message="it was next"),
            "it runs with 2 workers on n1, n2: it was next",
            id="it runs; fixed roles are not counted",
        ),
        pytest.param(
            known(phase=Phase.RESIZING, assigned=HELD[:2], message="it was next"),
            "it is being moved or resized with 1 worker on n1, n2: it was next",
            id="it is being resized",
        ),
        pytest.param(
            known(phase=Phase.RUNNING, assigned=HELD, suspended=True, message="it was next"),
            "it runs with 2 workers on n1, n2: it was next",
            id="suspended a moment ago, and it still holds what it has",
        ),
        pytest.param(
            known(phase=Phase.SUSPENDED, suspended=True, decided=False),
            "it is suspended: its owner suspended it",
            id="suspended",
        ),
        pytest.param(
            known(phase=Phase.FAILED, message="worker 0 exited with 1", absent=SILENT),
            "it failed: worker 0 exited with 1",
            id="it is over, whether or not a scheduler is there",
        ),
        pytest.param(
            known(phase=Phase.RUNNING, assigned=HELD, left_alone=True, message="it is being deleted"),
            "it is being deleted",
            id="no scheduler has a say",
        ),
    ],
)
def test_the_summary(facts, expected):
    assert summary(facts) == expected


LACKS = "it needs 1 worker of 1 GPU each; of all nodes n1 has most free: 2 GPU"
ROOMS = [(node("n1", gpus=4), Resources(gpu_milli=2000))]


@pytest.mark.parametrize(
    ("facts", "more", "expected"),
    [
        pytest.param(
            known(), {}, ["a job ahead of it ends or gets fewer workers", LACKS], id="by its reason and what it lacks"
        ),
        pytest.param(known(decided=False), {}, ["the next cycle looks at it"], id="not looked at yet"),
        pytest.param(known(suspended=True, reason=None), {}, [], id="a suspended job lacks nothing"),
        pytest.param(known(assigned=HELD, reason=Reason("Kept", {}, "")), {}, [], id="it has what it wants"),
        pytest.param(
            known(assigned=HELD, reason=Reason("ImagePullBackOff", {}, "")),
            {"troubles": ["a-worker-0 comes up: no such image"]},
            ["a-worker-0 comes up: no such image"],
            id="its workers do not come up",
        ),
    ],
)
def test_what_would_have_to_change(facts, more, expected):
    assert would_change(facts, SPEC, ROOMS, **more) == expected


def test_what_is_free_may_not_be_known():
    assert would_change(known(reason=None), SPEC, None) == []


def test_all_of_the_answer():
    decision = Decided(3, "12:00", 0, 0, [], changes_something=False)
    answer = explanation(known(), would_change=["more"], decision=decision)
    assert answer["because"] == {
        "why": "NoRoom",
        "numbers": {"gpus_free": 1.0},
        "sentence": SENTENCE,
    }
    assert (answer["job"], answer["phase"], answer["wouldChange"]) == ("default/a", "Waiting", ["more"])
    assert answer["decision"]["workersGranted"] == 0
    over = explanation(known(phase=Phase.SUCCEEDED, reason=None), would_change=["more"], decision=None)
    assert (over["wouldChange"], over["because"], over["decision"]) == ([], None, None)
