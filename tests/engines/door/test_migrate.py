"""`POST /migrate`: what is done, what is passed over, and what is refused in which words."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.engines.door import Answer
from sterna.model.errors import EngineRefused, EngineUnavailable, NotFound, StaleView
from sterna.model.ids import NodeId
from sterna.model.jobs import Role, Worker
from sterna.protocol.tokens import bearer, job_token
from tests.engines.door.rooms import KEY, SECRET, Rooms, asked, limited, pod_of, server_of


def post(household: Rooms, body: Any, **more: Any) -> Answer:
    text = body if isinstance(body, bytes) else json.dumps(body)
    return asyncio.run(asked(household, text, **more))


def refusal(answer: Answer) -> dict[str, Any]:
    assert answer.media_type == "application/problem+json"
    record: dict[str, Any] = json.loads(answer.body)
    assert record["status"] == answer.status
    assert record["detail"]
    return record


WORKER = {"node": "n1", "pod": "job1-worker-0"}


def test_dragon_39_a_worker_is_asked_away_to_the_least_crowded_node_and_the_answer_is_ok():
    household = Rooms()
    household.jobs.append(limited("job4", on=["n2"]))
    answer = post(household, WORKER)
    assert (answer.status, answer.body) == (200, b"Ok")
    assert household.asked == [("uid-job1-worker-0-n1", "n3")]
    assert answer.headers["sterna-outcome"] == "asked"


def test_dragon_39_a_double_post_is_one_migration():
    household = Rooms()

    async def both() -> list[Answer]:
        return list(await asyncio.gather(asked(household, json.dumps(WORKER)), asked(household, json.dumps(WORKER))))

    answers = asyncio.run(both())
    assert [(answer.status, answer.body) for answer in answers] == [(200, b"Ok")] * 2
    assert len(household.asked) == 1
    assert sorted(answer.headers["sterna-outcome"] for answer in answers) == ["asked", "duplicate"]


def test_a_worker_that_somebody_asked_away_already_is_not_asked_again():
    household = Rooms()
    household.know("job1-worker-0", asked=True, moved_s=household.time_s)
    answer = post(household, WORKER)
    assert (answer.status, answer.body, household.asked) == (200, b"Ok", [])
    assert answer.headers["sterna-outcome"] == "duplicate"


def test_dragon_39_a_worker_that_is_best_where_it_is_stays_and_the_answer_is_ok():
    household = Rooms(limited("job1", on=["n1"]), limited("job2", on=["n2"]))
    answer = post(household, WORKER)
    assert (answer.status, answer.body, household.asked) == (200, b"Ok", [])
    assert answer.headers["sterna-outcome"] == "ignored"


def test_a_full_node_is_passed_over_however_low_its_score_is():
    """n2 promises nothing beyond what it gives, but all of it is given away."""
    household = Rooms(nodes=3, cpus=4)
    household.jobs += [limited("full", on=["n2"] * 16, cpus=0), limited("job4", on=["n3"])]
    assert post(household, WORKER).status == 200
    assert household.asked == [("uid-job1-worker-0-n1", "n3")]


BODIES = [
    pytest.param(b"", "JSON", id="nothing"),
    pytest.param(b"{", "JSON", id="half an object"),
    pytest.param(b"\xff\xfe", "JSON", id="no text at all"),
    pytest.param(b"[" * 3000, "JSON", id="a deep hole"),
    pytest.param(b"[]", "object", id="a list"),
    pytest.param(b'"job1-worker-0"', "object", id="bare text"),
    pytest.param(b'{"node": NaN, "pod": "job1-worker-0"}', "JSON", id="what is no number"),
    pytest.param(b"{}", "node", id="no node"),
    pytest.param(b'{"node": "n1"}', "pod", id="no pod"),
    pytest.param(b'{"node": "n1", "pod": 7}', "pod", id="a number"),
    pytest.param(b'{"node": "n1", "pod": null}', "pod", id="null"),
    pytest.param(b'{"node": ["n1"], "pod": "job1-worker-0"}', "node", id="a list of nodes"),
    pytest.param(b'{"node": "", "pod": "job1-worker-0"}', "node", id="an empty node"),
    pytest.param(b'{"node": "../n1", "pod": "job1-worker-0"}', "node", id="a path"),
    pytest.param(b'{"node": "n1", "pod": "job1-worker-0", "x": 1}', "x", id="a key that nobody knows"),
    pytest.param(b'{"node": "n1", "pod": "default/job1-worker-0", "namespace": "default"}', "pod", id="both"),
    pytest.param(b'{"node": "n1", "pod": "JOB1-worker-0"}', "pod", id="capitals"),
    pytest.param(b'{"node": "n1", "pod": "' + b"x" * 300 + b'"}', "pod", id="a name that is too long"),
    pytest.param(b'{"node": "n1", "pod": "job1-worker-0", "namespace": "a b"}', "namespace", id="no namespace"),
]


@pytest.mark.parametrize(("body", "told"), BODIES)
def test_what_makes_no_sense_gets_a_400_that_says_why_and_harms_nobody(body: bytes, told: str):
    household = Rooms()
    answer = post(household, body)
    assert answer.status == 400
    assert told in refusal(answer)["detail"]
    assert post(household, WORKER).body == b"Ok"


@pytest.mark.parametrize("pod", ["", "a", "ab12", "-0"])
def test_dragon_39_a_short_pod_name_gets_a_400_and_the_controller_lives(pod: str):
    household = Rooms()
    answer = post(household, {"node": "n1", "pod": pod})
    assert answer.status == 400
    assert "5" in refusal(answer)["expected"]
    assert post(household, WORKER).body == b"Ok"
    assert len(household.asked) == 1


@pytest.mark.parametrize(
    ("request_", "facts", "status", "told"),
    [
        pytest.param(WORKER | {"pod": "nobody-worker-0"}, {}, 404, "nobody-worker-0", id="a pod that nobody knows"),
        pytest.param(WORKER | {"node": "n9"}, {}, 404, "n9", id="a node that nobody knows"),
        pytest.param(WORKER | {"node": "n2"}, {}, 409, "n1", id="a pod that is elsewhere"),
        pytest.param(WORKER | {"namespace": "other"}, {}, 404, "job1-worker-0", id="another namespace"),
        pytest.param(WORKER, {"finished": True}, 409, "ended", id="a job that has ended"),
        pytest.param(WORKER, {"moves": 3}, 409, "3", id="a fourth move"),
        pytest.param(WORKER, {"moved_s": 998.0}, 429, "2.0 s ago", id="within the cool-down"),
        pytest.param({"node": "n1", "pod": "served-ps-0"}, {}, 409, "only workers", id="a parameter server"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(request_: Any, facts: dict[str, Any], status: int, told: str):
    household = Rooms()
    household.jobs.append(server_of("served", on="n1"))
    if facts:
        household.know("job1-worker-0", **facts)
    answer = post(household, request_)
    assert answer.status == status
    assert told in refusal(answer)["detail"]
    assert household.asked == []


def test_the_cool_down_says_when_to_come_back_and_then_lets_the_worker_go():
    household = Rooms()
    household.know("job1-worker-0", moved_s=household.time_s - 1.0)
    answer = post(household, WORKER)
    assert (answer.status, answer.headers["retry-after"]) == (429, "2")
    household.time_s += 2.0
    assert post(household, WORKER).body == b"Ok"
    assert len(household.asked) == 1


def test_a_chief_is_not_moved():
    chief = Worker(Role.CHIEF, 0, NodeId("n1"))
    household = Rooms(limited("job1", on=["n1"], holds=(chief,)))
    answer = post(household, {"node": "n1", "pod": "job1-chief-0"})
    assert (answer.status, household.asked) == (409, [])
    assert "chief" in refusal(answer)["detail"]


def test_a_name_that_two_namespaces_have_must_be_told_apart():
    household = Rooms()
    twin = pod_of(household.jobs[0], household.jobs[0].workers[0])._replace(namespace="other", uid="twin")
    household.strangers.append(twin)
    answer = post(household, WORKER)
    assert answer.status == 409
    assert "other/job1-worker-0" in refusal(answer)["detail"]
    assert post(household, {"node": "n1", "pod": "other/job1-worker-0"}).body == b"Ok"
    assert household.asked == [("twin", "n2")]


def test_a_job_that_is_being_changed_is_left_alone():
    household = Rooms()
    household.know("job1-worker-0")  # its pod is where it was
    away = household.jobs[0].workers[0]._replace(node=NodeId("n2"))
    household.jobs[0] = household.jobs[0].but(workers=(away,))
    answer = post(household, WORKER)
    assert (answer.status, household.asked) == (409, [])
    assert "being changed" in refusal(answer)["detail"]


def test_a_standby_says_so_and_when_to_ask_again():
    household = Rooms()
    household.away = "this replica does not lead: other leads"
    answer = post(household, WORKER)
    assert (answer.status, household.asked) == (503, [])
    assert "other leads" in refusal(answer)["detail"]
    assert "retry-after" in answer.headers


@pytest.mark.parametrize(
    ("trouble", "status"),
    [
        pytest.param(RuntimeError("a bug"), 500, id="our own mistake"),
        pytest.param(EngineUnavailable("no answer", retry_after_s=7.0), 503, id="a cluster that does not answer"),
        pytest.param(StaleView("not the leader any more"), 503, id="a lease that was lost"),
        pytest.param(EngineRefused("not allowed"), 409, id="a cluster that says no"),
        pytest.param(NotFound("migration", "x"), 404, id="a cluster without such a kind"),
    ],
)
def test_trouble_of_the_engine_is_told_and_the_door_stays_open(trouble: Exception, status: int):
    household = Rooms()
    household.trouble = trouble
    answer = post(household, WORKER)
    assert answer.status == status
    assert "a bug" not in refusal(answer)["detail"]
    household.trouble = None
    assert post(household, WORKER).body == b"Ok"


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(None, id="nothing"),
        pytest.param("", id="empty"),
        pytest.param("Bearer", id="no token"),
        pytest.param("Bearer wrong", id="a wrong one"),
        pytest.param(KEY[:-1], id="one letter short"),
        pytest.param(KEY + "x", id="one letter more"),
        pytest.param(KEY.replace("Bearer", "Basic"), id="another scheme"),
        pytest.param("Bearer \u00fc\u00fc\u00fc", id="letters that are not ASCII"),
    ],
)
@pytest.mark.parametrize("path", ["/migrate", "/reports", "/cluster-info", "/nowhere"])
def test_s3_whoever_has_no_token_learns_nothing_and_moves_nothing(key: str | None, path: str):
    household = Rooms()
    method = "GET" if path == "/cluster-info" else "POST"
    answer = post(household, WORKER, key=key, path=path, method=method)
    assert answer.status == 401
    assert "www-authenticate" in answer.headers
    assert (household.asked, household.batches) == ([], [])


def test_s3_a_job_s_own_token_does_not_open_the_door():
    household = Rooms()
    token = job_token(SECRET, namespace="default", job="job1", uid="uid-1")
    assert post(household, WORKER, key=bearer(token)).status == 401
    assert household.asked == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/migrate", 405), ("POST", "/cluster-info", 405), ("GET", "/reports", 405), ("GET", "/", 404)],
)
def test_other_questions_are_answered_too(method: str, path: str, status: int):
    assert post(Rooms(), b"", method=method, path=path).status == status


def test_a_body_that_is_far_too_long_is_not_read():
    assert post(Rooms(), b" " * 5000).status == 413


@given(body=st.binary(max_size=200))
def test_no_body_breaks_the_door(body: bytes):
    assert post(Rooms(), body).status in (200, 400)


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
        max_leaves=8,
    ),
    key=st.sampled_from(["node", "pod", "namespace"]),
)
def test_no_value_of_any_key_breaks_the_door(value: Any, key: str):
    assert post(Rooms(), WORKER | {key: value}).status in (200, 400, 404, 409)
