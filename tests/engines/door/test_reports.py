"""`POST /reports`: who is heard, who is asked to begin again, and what is refused."""

import asyncio
import json
from typing import Any

import pytest

from sterna.engines.door import Answer
from sterna.protocol import reports
from sterna.protocol.reports import Batch, Report
from tests.engines.door.rooms import Rooms, asked


def send(household: Rooms, body: bytes) -> Answer:
    return asyncio.run(asked(household, body, path="/reports"))


def batch(*pods: str, **more: Any) -> bytes:
    said = tuple(Report(pod, seq=index + 1, at_s=1000.0, value=0.5) for index, pod in enumerate(pods))
    return Batch(said, monitor="m1", node="n1", **more).to_json()


def test_a_batch_is_taken_and_the_answer_names_the_instance_and_what_to_follow():
    household = Rooms()
    answer = send(household, batch("default/job1-worker-0", "default/nobody-worker-0"))
    said = reports.Answer.from_json(answer.body)
    assert (answer.status, said.instance, said.passed_over) == (200, "first", 1)
    assert said.follow == {"default/job1-worker-0": "loss=(.*)"}
    assert [report.value for report in household.batches[0].reports] == [0.5, 0.5]


def test_a_batch_for_another_instance_is_not_taken_but_answered():
    household = Rooms()
    said = reports.Answer.from_json(send(household, batch("default/job1-worker-0", instance="one-of-before")).body)
    assert (said.instance, said.passed_over, household.batches) == ("first", 1, [])
    send(household, batch("default/job1-worker-0", instance="first"))
    assert len(household.batches) == 1


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{}", id="no reports"),
        pytest.param(b'{"reports": [{"pod": "a/b", "seq": 1, "at_s": 1, "value": NaN}]}', id="not a number"),
        pytest.param(b'{"reports": [{"pod": "a/b", "seq": 1, "at_s": 1, "value": 1e999}]}', id="endless"),
        pytest.param(b'{"reports": [{"pod": "../x", "seq": 1, "at_s": 1}]}', id="no name"),
        pytest.param(b'{"reports": [{"pod": "a/b", "seq": -1, "at_s": 1}]}', id="a number below nothing"),
        pytest.param(json.dumps({"reports": [{}] * 1001}).encode(), id="too many"),
    ],
)
def test_a_bad_batch_is_refused_and_costs_nothing(body: bytes):
    household = Rooms()
    answer = send(household, body)
    assert (answer.status, household.batches) == (400, [])
    assert json.loads(answer.body)["field"]
    assert send(household, batch("default/job1-worker-0")).status == 200


def test_an_enormous_batch_is_refused():
    assert send(Rooms(), b" " * ((1 << 20) + 1)).status == 413


def test_a_standby_takes_no_reports():
    household = Rooms()
    household.away = "other leads"
    assert send(household, batch("default/job1-worker-0")).status == 503
    assert household.batches == []
