"""Decisions as data: everything a reader asks for, the same bytes for the same decision."""

import json

import pytest

from sterna.model.events import (
    JobFinished,
    JobMigrated,
    JobPreempted,
    JobResized,
    JobStarted,
    JobSubmitted,
    JobWaits,
    NodeDrained,
    NodeJoined,
    NodeLost,
)
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase
from sterna.model.plan import Grow, Held, Outcome
from sterna.model.snapshot import Snapshot
from sterna.model.why import KEPT, NO_ROOM, SPARE_ROOM, Because, Why
from sterna.placement.packed import packed
from sterna.planner.decide import decide
from sterna.policies.registry import policy
from sterna.wire.decision_file import because_record, decision_record, event_record, outcome_record
from tests.worlds import cluster, job, node

A, N1 = JobId("a"), NodeId("n1")
W0 = Worker(Role.WORKER, 0, N1)
W1 = Worker(Role.WORKER, 1, NodeId("n2"))


def two_jobs_for_four_gpus() -> Snapshot:
    jobs = [job("a", needs=3, submitted_s=1.0, ps=1), job("b", needs=2, submitted_s=2.0), job("c", needs=9)]
    return cluster(nodes=[node("n1", gpus=4)], jobs=jobs, now_s=10.0)


def test_a_decision_tells_target_layout_plan_and_the_why_of_every_job():
    view = two_jobs_for_four_gpus()
    record = decision_record(view, decide(view, policy("fifo"), packed))
    assert (record["kind"], record["nowSeconds"], record["wakeSeconds"]) == ("Decision", 10.0, None)
    assert [(grant["job"], grant["workers"], grant["why"]) for grant in record["target"]] == [("a", 3, "NextInOrder")]
    assert [worker.get("role", "worker") for worker in record["layout"]["a"]] == ["ps", "worker", "worker", "worker"]
    ((action,),) = [step["actions"] for step in record["plan"]]
    assert (action["do"], action["job"], len(action["to"])) == ("grow", "a", 4)
    verdicts = {entry["job"]: (entry["workersNow"], entry["workersNext"], entry["why"]) for entry in record["jobs"]}
    assert verdicts == {"a": (0, 3, "NextInOrder"), "b": (0, 0, "NoRoom"), "c": (0, 0, "NeverFits")}
    assert all(entry["sentence"] for entry in record["jobs"])
    assert record["memory"]["lastActionSeconds"] == 10.0


def test_the_text_is_json_and_the_same_for_the_same_decision():
    view = two_jobs_for_four_gpus()
    texts = {json.dumps(decision_record(view, decide(view, policy("fifo"), packed)), allow_nan=False) for _ in range(3)}
    (text,) = texts
    assert json.loads(text)["apiVersion"] == "sterna.dev/v1alpha1"


def test_a_reason_is_a_word_numbers_and_a_sentence():
    because = Because(Why.NO_NODE_FITS, (("needs_gpus", 8), ("best_node", "n3")))
    record = because_record(because)
    assert record == {
        "why": "NoNodeFits",
        "numbers": {"needs_gpus": 8, "best_node": "n3"},
        "sentence": because.sentence,
    }
    assert because_record(KEPT) == {"why": "Kept", "sentence": KEPT.sentence}


def test_an_outcome_names_its_action():
    record = outcome_record(Outcome(Grow(A, (W0,), SPARE_ROOM), Held.TRY_AGAIN, "the API is away", 5.0))
    assert (record["action"]["job"], record["held"], record["afterSeconds"]) == ("a", "try again", 5.0)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        pytest.param(JobSubmitted(1.0, A), {"job": "a"}, id="submitted"),
        pytest.param(JobStarted(1.0, A, (W0,), SPARE_ROOM), {"job": "a", "why": "SpareRoom"}, id="started"),
        pytest.param(JobResized(1.0, A, (W0,), (W0, W1), SPARE_ROOM), {"why": "SpareRoom"}, id="resized"),
        pytest.param(JobMigrated(1.0, A, (W0,), (W1,), KEPT), {"before": [{"ordinal": 0, "node": "n1"}]}, id="moved"),
        pytest.param(JobPreempted(1.0, A, (W0,), NO_ROOM), {"why": "NoRoom"}, id="preempted"),
        pytest.param(JobWaits(1.0, A, NO_ROOM), {"sentence": NO_ROOM.sentence}, id="waits"),
        pytest.param(JobFinished(1.0, A, Phase.FAILED, "exit code 1"), {"phase": "Failed"}, id="finished"),
        pytest.param(NodeJoined(1.0, N1), {"node": "n1"}, id="joined"),
        pytest.param(NodeLost(1.0, N1), {"node": "n1"}, id="lost"),
        pytest.param(NodeDrained(1.0, N1), {"node": "n1"}, id="drained"),
    ],
)
def test_every_event_has_its_name_its_time_and_what_it_is_about(event, expected):
    record = event_record(event)
    assert record["event"] == type(event).__name__
    assert record["atSeconds"] == 1.0
    assert record.items() >= expected.items()
