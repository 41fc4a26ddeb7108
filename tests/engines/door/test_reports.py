"""`POST /reports`: who is heard, who is asked to begin again, and what is refused."""

import asyncio
import json
from typing import Any

import pytest

from sterna.engines.door import Answer, Door
from sterna.protocol import reports
from sterna.protocol.reports import Batch, Report
from sterna.protocol.tokens import bearer, digest_of, job_token, node_token
from tests.engines.door.rooms import KEY, SECRET, Rooms, asked

MONITOR = bearer(node_token(SECRET, node="n1"))


def send(household: Rooms, body: bytes, key: str = KEY) -> Answer:
    return asyncio.run(asked(household, body, path="/reports", key=key))


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
        pytest.param(json.dumps({"reports": [{}] * 1001}).encode(), id="too many"),
    ],
)
def test_a_bad_batch_is_refused_and_costs_nothing(body: bytes):
    household = Rooms()
    answer = send(household, body)
    assert (answer.status, household.batches) == (400, [])
    assert json.loads(answer.body)["field"]
    assert send(household, batch("default/job1-worker-0")).status == 200


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"pod": "a/b", "seq": 1, "at_s": 1, "value": 10**40}, id="endless"),
        pytest.param({"pod": "../x", "seq": 1, "at_s": 1}, id="no name"),
        pytest.param({"pod": "a/b", "seq": -1, "at_s": 1}, id="a number below nothing"),
        pytest.param({"pod": "a/b", "seq": 2**63, "at_s": 1}, id="a number that no counter holds"),
        pytest.param({"pod": "a/b", "seq": 1, "at_s": 1, "workers": 10**9}, id="a million nodes full of workers"),
        pytest.param([], id="no object"),
    ],
)
def test_a_bad_report_is_refused_by_its_place_and_its_neighbours_are_taken(bad: Any):
    household = Rooms()
    good = json.loads(batch("default/job1-worker-0"))["reports"][0]
    answer = send(household, json.dumps({"reports": [bad, good, bad]}).encode())
    said = reports.Answer.from_json(answer.body)
    assert (answer.status, said.passed_over, sorted(said.refused)) == (200, 0, [0, 2])
    assert [report.pod for report in household.batches[0].reports] == ["default/job1-worker-0"]


def test_what_the_engine_itself_refuses_is_named_by_its_place_in_the_body():
    household = Rooms()
    household.odd = "default/job1-worker-0"
    rows = json.loads(batch("default/nobody-worker-0", "default/job1-worker-0"))["reports"]
    said = reports.Answer.from_json(send(household, json.dumps({"reports": [{}, *rows]}).encode()).body)
    assert (said.passed_over, said.refused[2], sorted(said.refused)) == (1, "odd", [0, 2])


def test_a_batch_for_another_instance_is_refused_nothing():
    body = json.loads(batch("default/job1-worker-0", instance="one-of-before"))
    said = reports.Answer.from_json(send(Rooms(), json.dumps({**body, "reports": [{}]}).encode()).body)
    assert said.refused == {}, "it will all be told again"


def test_an_enormous_batch_is_refused():
    assert send(Rooms(), b" " * ((1 << 20) + 1)).status == 413


def test_a_standby_takes_no_reports():
    household = Rooms()
    household.away = "other leads"
    assert send(household, batch("default/job1-worker-0")).status == 503
    assert household.batches == []


def test_s1_the_monitor_of_a_node_reports_what_happens_there_and_nowhere_else():
    household = Rooms()
    assert send(household, batch("default/job1-worker-0"), MONITOR).status == 200
    assert household.bound == [True], "its word counts for jobs on its own node only"
    for other in ("n2", ""):
        refusal = send(household, batch("default/job1-worker-0").replace(b'"n1"', f'"{other}"'.encode()), MONITOR)
        assert (refusal.status, json.loads(refusal.body)["expected"]) == (403, "n1")
    assert len(household.batches) == 1
    send(household, batch("default/job1-worker-0"))
    assert household.bound == [True, False], "the installation's word counts everywhere"


@pytest.mark.parametrize(("method", "path"), [("POST", "/migrate"), ("GET", "/cluster-info"), ("GET", "/nowhere")])
def test_s1_the_monitor_of_a_node_moves_nothing_and_sees_nothing_else(method: str, path: str):
    household = Rooms()
    body = json.dumps({"node": "n1", "pod": "job1-worker-0"})
    answer = asyncio.run(asked(household, body, method=method, path=path, key=MONITOR))
    assert (answer.status, household.asked) == (403, [])


def test_the_monitor_is_told_the_digests_of_tokens_on_its_node_when_it_asks_and_no_token():
    household = Rooms()
    silent = reports.Answer.from_json(send(household, batch(), MONITOR).body)
    assert silent.tokens is None
    answer = send(household, batch(asks_tokens=True), MONITOR)
    tokens = {
        job: job_token(SECRET, namespace="default", job=job, uid=f"uid-{job}") for job in ("job1", "job2", "job3")
    }
    expected = {digest_of(token): f"default/{job}/uid-{job}" for job, token in tokens.items()}
    assert reports.Answer.from_json(answer.body).tokens == expected
    assert not [token for token in (SECRET, *tokens.values()) if token.encode() in answer.body]
    elsewhere = send(
        household, batch(asks_tokens=True).replace(b'"n1"', b'"n2"'), bearer(node_token(SECRET, node="n2"))
    )
    assert reports.Answer.from_json(elsewhere.body).tokens == {}


def test_whoever_somebody_else_vouches_for_is_the_monitor_of_that_node():
    async def vouch(token: str) -> str | None:
        return "n1" if token == "signed-by-the-cluster" else None

    household = Rooms()
    door = Door(household, lambda: [SECRET], vouch=vouch)

    def status(token: str, path: str = "/reports") -> int:
        return asyncio.run(door.answer("POST", path, authorization=bearer(token), body=batch())).status

    assert [status("signed-by-the-cluster"), status("signed-by-nobody")] == [200, 401]
    assert status("signed-by-the-cluster", "/migrate") == 403
    assert status(job_token(SECRET, namespace="default", job="job1", uid="u")) == 401
